"use strict";

// The `generate` command: the text as it is written on standard output, its speed on standard error.

const { AS_FLAGS } = require("../../lib/words.js");
const { follow } = require("./follow.js");
const { Progress } = require("./progress.js");
const { printable } = require("./terminal.js");

/** Continues the prompt with the options given on the command line. */
async function generate(given) {
  const { json = false, quiet = false, ...options } = given;
  const { generate: start } = require("../../index.js");
  const progress = new Progress(process.stderr, { quiet: quiet || json });
  const run = start({
    ...AS_FLAGS,
    ...options,
    onEvent(event) {
      if (json) process.stdout.write(`${JSON.stringify(event)}\n`);
      else if (event.type === "token")
        process.stdout.write(printable(event.text));
      else progress.event(event);
    },
  });
  const result = await follow(run, progress, "ending the text here");
  if (json) {
    process.stdout.write(`${JSON.stringify({ type: "end", ...result })}\n`);
    return;
  }
  process.stdout.write("\n");
  progress.note(speed(result));
}

function speed({ tokens, firstTokenMs, tokensPerSecond, reason }) {
  const why = {
    end: "the model ended its text",
    stopString: "a stop string came",
    length: "--max-tokens are reached",
    stopped: "stopped",
  }[reason];
  return `${tokens} tokens, first after ${(firstTokenMs / 1000).toFixed(2)} s, then ${tokensPerSecond.toFixed(1)} tokens/s; ${why}`;
}

module.exports = { generate };
