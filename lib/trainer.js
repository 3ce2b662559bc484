"use strict";

const { AmvTrainError } = require("./errors.js");
const { starter } = require("./command.js");

/** Names of the published trainer class, and the options of `train` they stand for. */
const PUBLISHED_NAMES = {
  dataPath: "data",
  outputPath: "output",
  learningRate: "lr",
};

/** What the published `modelType`s stand for. */
const MODEL_TYPES = { lora: { dora: false }, dora: { dora: true } };

const train = starter("train");

/** The published trainer class: settings of the adapter first, then `fit` with data and output. */
class TermuxTrainer {
  #options;

  constructor({ modelType, ...options } = {}) {
    this.#options = { ...rename(options), ...ofModelType(modelType, options) };
  }

  /** Trains, and resolves to the result; its `finalLoss` is the metric. */
  fit(options = {}) {
    return train({ ...this.#options, ...rename(options) });
  }
}

/** The options that a `modelType` means: none when it is left out, so that `dora` alone decides. */
function ofModelType(modelType, { dora }) {
  if (modelType === undefined) return {};
  if (!Object.hasOwn(MODEL_TYPES, modelType)) {
    const known = Object.keys(MODEL_TYPES).map((type) => `"${type}"`);
    throw new AmvTrainError(
      "UNSUPPORTED_MODEL",
      `modelType "${modelType}" is not in this version`,
      `use ${known.join(" or ")}`,
    );
  }
  const meant = MODEL_TYPES[modelType];
  if (dora !== undefined && dora !== meant.dora) {
    throw new AmvTrainError(
      "USAGE",
      `modelType: "${modelType}" contradicts dora: ${dora}`,
      "leave one of them out",
    );
  }
  return meant;
}

function rename(options) {
  const renamed = Object.entries(options).map(([name, value]) => [
    PUBLISHED_NAMES[name] ?? name,
    value,
  ]);
  return Object.fromEntries(renamed);
}

module.exports = { TermuxTrainer };
