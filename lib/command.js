"use strict";

// Every function of the SDK that works for a while: checked options in, a run out.

const { BUILT_IN_FOLDER, loadNative } = require("./native.js");
const { checkOptions } = require("./options.js");
const { startRun } = require("./run.js");

/** The function that starts `command` of the addon. It never throws: a wrong option rejects the run. */
function starter(command) {
  return (options) => {
    const { signal, onEvent, ...given } = options ?? {};
    const isObject = typeof options === "object" && !Array.isArray(options);
    return startRun(
      (onMessage) => {
        const checked = checkOptions(
          command,
          options && isObject ? given : options,
        );
        return loadNative().start(
          command,
          JSON.stringify(checked),
          BUILT_IN_FOLDER,
          onMessage,
        );
      },
      { signal, onEvent },
    );
  };
}

module.exports = { starter };
