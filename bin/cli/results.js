"use strict";

// The commands that measure and carry over what a training has made: eval, export, merge and verify.

const { AS_FLAGS } = require("../../lib/words.js");
const { follow } = require("./follow.js");
const { Progress } = require("./progress.js");
const { duration, loss } = require("./quantities.js");
const { printable } = require("./terminal.js");

const FAILED = 1;

/** A command that calls the function `name` of the SDK and prints what `show` makes of the result. */
function resultOf(name, ending, show) {
  return async (given) => {
    const { json = false, quiet = false, ...options } = given;
    const start = require("../../index.js")[name];
    const progress = new Progress(process.stderr, { quiet: quiet || json });
    const run = start({
      ...AS_FLAGS,
      ...options,
      onEvent(event) {
        if (json) process.stdout.write(`${JSON.stringify(event)}\n`);
        else progress.event(event);
      },
    });
    const result = await follow(run, progress, ending);
    const text = json
      ? JSON.stringify({ type: "end", ...result })
      : show(result, options).join("\n");
    process.stdout.write(`${text}\n`);
    return result;
  };
}

const STOPPING = "stopping; nothing is written";

const evaluate = resultOf("evaluate", "stopping", (result) => {
  const line = (name, score) =>
    `${name}: loss ${loss(score.loss)}, perplexity ${score.perplexity.toFixed(2)}`;
  const { base, adapter, tokens, samples } = result;
  const lines = [line("base", base)];
  if (adapter) lines.push(line("with the adapter", adapter));
  return [...lines, `over ${tokens} tokens of ${samples} samples`];
});

const exportAdapter = resultOf("exportAdapter", STOPPING, (result, options) => [
  ...result.files.map((file) => `wrote ${printable(file)}`),
  verifyCommand(options),
]);

const merge = resultOf("merge", STOPPING, (result, options) => [
  `merged ${result.layers} layers in ${duration(result.durationMs)}`,
  ...result.files.map((file) => `wrote ${printable(file)}`),
  verifyCommand(options),
]);

function verifyCommand({ model, adapter, output }) {
  const base = model === undefined ? "" : `--model ${printable(model)} `;
  return `next: amv-train verify ${base}--adapter ${printable(adapter)} --exported ${printable(output)}`;
}

const check = resultOf("verify", "stopping", (result) => [
  ...result.prompts.map(
    (at) =>
      `${JSON.stringify(at.prompt)}: logits differ by at most ${at.maxDifference.toExponential(1)} (${at.maxRelativeDifference.toExponential(1)} of the largest), KL ${at.kl.toExponential(1)}, same next token ${(100 * at.top1Agreement).toFixed(0)} %`,
  ),
  ...result.changedFiles.map(
    (file) =>
      `${printable(file)} is not the file that was written: another hash`,
  ),
  `${result.passed ? "passed" : "failed"}: KL of at most ${result.tolerance} nats is allowed for ${result.weightType}`,
]);

/** Exits with 1 when what was exported does not compute what was trained. */
async function verify(given) {
  const { passed } = await check(given);
  if (!passed) process.exitCode = FAILED;
}

module.exports = { evaluate, exportAdapter, merge, verify };
