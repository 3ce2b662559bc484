"use strict";

// The `train` command: starts the run, shows its events, stops it on a signal, prints the result.

const { AmvTrainError } = require("../../lib/errors.js");
const { AS_FLAGS } = require("../../lib/words.js");
const { Progress } = require("./progress.js");
const { bytes, duration, loss } = require("./quantities.js");
const { follow } = require("./follow.js");
const { printable } = require("./terminal.js");

/** Trains with the options given on the command line. */
async function train(given) {
  const { json = false, quiet = false, ...options } = given;
  requireOutput(options);
  const { train: start } = require("../../index.js");

  const progress = new Progress(process.stderr, { quiet: quiet || json });
  for (const notice of noticesFor(options)) progress.note(notice);

  let firstLoss;
  let planned;
  const run = start({
    ...options,
    ...AS_FLAGS,
    onEvent(event) {
      if (event.type === "start") planned = event.plan.total;
      if (event.type === "step") firstLoss ??= event.loss;
      if (json) process.stdout.write(`${JSON.stringify(event)}\n`);
      else progress.event(event);
    },
  });
  const result = await follow(
    run,
    progress,
    "finishing this step, then saving",
  );
  if (!json)
    process.stdout.write(resultText(result, { firstLoss, planned }, options));
}

function requireOutput(options) {
  if (options.output !== undefined) return;
  const words = Object.keys(options).length > 0 ? " ..." : "";
  throw new AmvTrainError(
    "USAGE",
    "--output is missing: where should the adapter go?",
    `for example: amv-train train${words} --output my-adapter/`,
  );
}

/** What the defaults mean for this run. */
function noticesFor({ model, data }) {
  const notices = [];
  if (model === undefined) {
    notices.push("no --model given: using the built-in tiny-transformer");
    if (data === undefined) {
      notices.push("no --data given: using the bundled sample corpus");
    }
  }
  return notices;
}

function resultText(result, { firstLoss, planned }, options) {
  if (result.steps === 0) {
    return `${result.status} before the first step: nothing was learned, so nothing was saved\n`;
  }
  const change =
    firstLoss === undefined ? "" : ` (first step ${loss(firstLoss)})`;
  const lines = [
    `${result.status}: ${result.steps} steps in ${duration(result.durationMs)}`,
    `final loss ${loss(result.finalLoss)}${change}`,
    `memory: ${bytes(result.peakBytes)} at most, ${bytes(planned)} planned`,
    ...result.files.map((file) => `wrote ${printable(file)}`),
    ...nextCommand(result, options),
  ];
  return `${lines.join("\n")}\n`;
}

/** How to try the adapter. */
function nextCommand({ adapter }, { model }) {
  const base = model === undefined ? "" : `--model ${printable(model)} `;
  return [
    `next: amv-train generate ${base}--adapter ${printable(adapter)} --prompt "..."`,
  ];
}

module.exports = { train };
