"use strict";

// What every command shares of the terminal: colours, errors, pipes that close, text that is safe to show.

const { AmvTrainError } = require("../../lib/errors.js");

const STYLES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33 };

/** `text` in a style where `stream` shows styles; Node.js knows about NO_COLOR and about dumb terminals. */
function styled(stream, style, text) {
  const shows = stream.isTTY && stream.hasColors();
  return shows ? `\x1b[${STYLES[style]}m${text}\x1b[0m` : text;
}

/** Text from a file or a model without control characters, which could steer the terminal. Line ends stay. */
function printable(text) {
  return String(text).replace(/[\x00-\x09\x0b-\x1f\x7f-\x9f]/g, " ");
}

/** `error: ...` and `hint: ...` on standard error; an error that is not ours shows where it came from. */
function printError(error) {
  const ours = error instanceof AmvTrainError;
  const text = ours ? error.message : (error?.stack ?? String(error));
  const { stderr } = process;
  stderr.write(`${styled(stderr, "red", "error:")} ${printable(text)}\n`);
  const hint = ours
    ? error.hint
    : "this is a bug in amv-train; please report it";
  if (hint)
    stderr.write(`${styled(stderr, "bold", "hint:")} ${printable(hint)}\n`);
}

const whenClosed = [];

/** A reader that goes away, as `head` does, is no error: what is written afterwards is lost, and `listener` may end the work. */
function onClosedOutput(listener) {
  whenClosed.push(listener);
}

function surviveClosedPipes() {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on("error", (error) => {
      if (error.code !== "EPIPE") throw error;
      if (stream === process.stdout)
        whenClosed.forEach((listener) => listener());
    });
  }
}

module.exports = {
  onClosedOutput,
  printError,
  printable,
  styled,
  surviveClosedPipes,
};
