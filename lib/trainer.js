"use strict";

const { AmvTrainError } = require("./errors.js");
const { starter } = require("./command.js");
const { property } = require("./options.js");
const { NAMES } = require("./words.js");

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
    const all = { ...this.#options, ...rename(options) };
    return train({ ...all, [NAMES]: publishedName });
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

/** What users of this class call the option of a flag. */
function publishedName(flag) {
  const name = property(flag);
  const names = Object.entries(PUBLISHED_NAMES);
  const published = names.find(([, option]) => option === name);
  return published ? published[0] : name;
}

function rename(options) {
  const renamed = Object.entries(options).map(([name, value]) => [
    PUBLISHED_NAMES[name] ?? name,
    value,
  ]);
  return Object.fromEntries(renamed);
}

module.exports = { TermuxTrainer };
