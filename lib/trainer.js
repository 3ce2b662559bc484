"use strict";

const { AmvTrainError } = require("./errors.js");
const { train } = require("./train.js");

/** Names of the published trainer class, and the options of `train` they stand for. */
const PUBLISHED_NAMES = {
  dataPath: "data",
  outputPath: "output",
  learningRate: "lr",
};

const MODEL_TYPES = ["lora"];

/** The published trainer class: settings of the adapter first, then `fit` with data and output. */
class TermuxTrainer {
  #options;

  constructor({ modelType = "lora", ...options } = {}) {
    if (!MODEL_TYPES.includes(modelType)) {
      throw new AmvTrainError(
        "UNSUPPORTED_MODEL",
        `modelType "${modelType}" is not in this version`,
        `use ${MODEL_TYPES.map((type) => `"${type}"`).join(" or ")}`,
      );
    }
    this.#options = rename(options);
  }

  /** Trains, and resolves to the result; its `finalLoss` is the metric. */
  fit(options = {}) {
    return train({ ...this.#options, ...rename(options) });
  }
}

function rename(options) {
  const renamed = Object.entries(options).map(([name, value]) => [
    PUBLISHED_NAMES[name] ?? name,
    value,
  ]);
  return Object.fromEntries(renamed);
}

module.exports = { TermuxTrainer };
