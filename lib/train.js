"use strict";

const { BUILT_IN_FOLDER, loadNative } = require("./native.js");
const { checkOptions } = require("./options.js");
const { startRun } = require("./run.js");

/** Trains a LoRA adapter; see index.d.ts. Never throws: a wrong option rejects the run. */
function train(options) {
  const { signal, onEvent, ...given } = options ?? {};
  const isObject = typeof options === "object" && !Array.isArray(options);
  return startRun(
    (onMessage) => {
      const checked = checkOptions(
        "train",
        options && isObject ? given : options,
      );
      return loadNative().startTrain(
        JSON.stringify(checked),
        BUILT_IN_FOLDER,
        onMessage,
      );
    },
    { signal, onEvent },
  );
}

module.exports = { train };
