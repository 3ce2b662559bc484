"use strict";

const { version } = require("./package.json");
const { starter } = require("./lib/command.js");
const { AmvTrainError, fromNative } = require("./lib/errors.js");
const {
  BUILT_IN_FOLDER,
  describeNative,
  loadNative,
} = require("./lib/native.js");
const { resolveModel } = require("./lib/model.js");
const { pull } = require("./lib/pull.js");
const { TermuxTrainer } = require("./lib/trainer.js");
const { errorInWords } = require("./lib/words.js");

const native = loadNative();

/** What a model holds and whether it can be trained. */
async function inspect(model) {
  if (typeof model !== "string" || model === "") {
    throw new AmvTrainError(
      "USAGE",
      "inspect takes the path or name of a model",
    );
  }
  try {
    const place = {
      builtIn: BUILT_IN_FOLDER,
      model: await resolveModel(model),
    };
    return JSON.parse(await native.inspect(model, place));
  } catch (error) {
    throw errorInWords(fromNative(error));
  }
}

/** A function of the addon that answers in JSON, as a function that answers in objects. */
function answering(ask) {
  return () => {
    try {
      return JSON.parse(ask());
    } catch (error) {
      throw fromNative(error);
    }
  };
}

module.exports = {
  train: starter("train"),
  data: starter("data"),
  generate: starter("generate"),
  evaluate: starter("eval"),
  exportAdapter: starter("export"),
  merge: starter("merge"),
  verify: starter("verify"),
  pull,
  plan: starter("plan"),
  TermuxTrainer,
  inspect,
  models: answering(native.models),
  devices: answering(native.devices),
  info: () => ({ ...answering(native.info)(), ...describeNative() }),
  AmvTrainError,
  version,
};
