"use strict";

// Every function of the SDK that works for a while: checked options in, a run out.

const { BUILT_IN_FOLDER, loadNative } = require("./native.js");
const { withModel } = require("./model.js");
const { checkOptions } = require("./options.js");
const { startRun } = require("./run.js");

/** The function that starts `command` of the addon. It never throws: a wrong option rejects the run. */
function starter(command) {
  return working(command, (checked, onMessage) =>
    withModel(checked.model, onMessage, (modelPath) =>
      loadNative().start(
        command,
        JSON.stringify(checked),
        { builtIn: BUILT_IN_FOLDER, model: modelPath },
        onMessage,
      ),
    ),
  );
}

/** A function of the SDK whose options are those of `command`; `launch(checked, onMessage)` starts its work. */
function working(command, launch) {
  return (options) => {
    const { signal, onEvent, ...given } = options ?? {};
    const isObject = typeof options === "object" && !Array.isArray(options);
    return startRun(
      (onMessage) =>
        launch(
          checkOptions(command, options && isObject ? given : options),
          onMessage,
        ),
      { signal, onEvent },
    );
  };
}

module.exports = { starter, working };
