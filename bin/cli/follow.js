"use strict";

// What every command that works for a while does on the terminal: its progress ends, and signals end it early.

const { onClosedOutput } = require("./terminal.js");

const INTERRUPTED_TWICE = 130;

/** Waits for `run`, whose events the caller draws with `progress`. `ending` says what a first signal leads to. */
async function follow(run, progress, ending) {
  onClosedOutput(() => run.stop());
  const ignoreSignals = stopOnSignals(run, progress, ending);
  try {
    return await run;
  } finally {
    progress.end();
    ignoreSignals();
  }
}

/** The first signal stops the run, which then saves; a second Ctrl-C exits at once. Returns how to undo it. */
function stopOnSignals(run, progress, ending) {
  let interrupted = false;
  function stop(signal) {
    if (signal === "SIGINT" && interrupted) process.exit(INTERRUPTED_TWICE);
    if (!interrupted) {
      progress.note(`${signal}: ${ending}; Ctrl-C exits at once`);
    }
    interrupted = true;
    run.stop();
  }
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"];
  for (const signal of signals) process.on(signal, stop);
  return () => signals.forEach((signal) => process.off(signal, stop));
}

module.exports = { follow };
