"use strict";

// Every function of the SDK that works for a while: checked options in, a run out.

const { BUILT_IN_FOLDER, loadNative } = require("./native.js");
const { withFetched } = require("./model.js");
const { checkOptions } = require("./options.js");
const { startRun } = require("./run.js");
const { NAMES } = require("./words.js");

/** The function that starts `command` of the addon. It never throws: a wrong option rejects the run. */
function starter(command) {
  return working(command, (checked, onMessage) =>
    withFetched(checked, onMessage, ({ model, ...adapters }) =>
      loadNative().start(
        command,
        JSON.stringify({ ...checked, ...adapters }),
        { builtIn: BUILT_IN_FOLDER, model },
        onMessage,
      ),
    ),
  );
}

/** A function of the SDK whose options are those of `command`; `launch(checked, onMessage)` starts its work. */
function working(command, launch) {
  return (options) => {
    const { signal, onEvent, [NAMES]: nameOf, ...given } = options ?? {};
    const isObject = typeof options === "object" && !Array.isArray(options);
    return startRun(
      (onMessage) =>
        launch(
          checkOptions(command, options && isObject ? given : options),
          onMessage,
        ),
      { signal, onEvent, nameOf },
    );
  };
}

module.exports = { starter, working };
