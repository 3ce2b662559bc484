"use strict";

// The `plan` command: the memory a run would occupy, part by part, and whether it is free.

const { AS_FLAGS } = require("../../lib/words.js");
const { follow } = require("./follow.js");
const { Progress } = require("./progress.js");
const { bytes } = require("./quantities.js");
const { styled } = require("./terminal.js");

const PARTS = [
  ["baseMapped", "base, mapped"],
  ["baseResident", "base, resident"],
  ["activations", "activations"],
  ["logits", "logits"],
  ["adapter", "adapter"],
  ["gradients", "gradients"],
  ["optimizer", "optimizer"],
  ["workspace", "workspace"],
  ["allocator", "allocator"],
  ["data", "tokenizer and data"],
  ["saving", "saving"],
  ["program", "program"],
];

async function plan({ json = false, quiet = false, ...options }) {
  const { plan: start } = require("../../index.js");
  const progress = new Progress(process.stderr, { quiet });
  const run = start({
    ...options,
    ...AS_FLAGS,
    onEvent: (event) => progress.event(event),
  });
  const report = await follow(run, progress, "stopping");
  const text = json ? JSON.stringify(report, null, 2) : reportText(report);
  process.stdout.write(`${text}\n`);
}

function reportText(report) {
  const row = (name, size) => `${name.padEnd(20)}${bytes(size).padStart(10)}`;
  return [
    ...PARTS.map(([part, name]) => row(name, report[part])),
    styled(process.stdout, "bold", row("total", report.total)),
    "(activations, logits and saving come one after another; the total has the largest)",
    verdict(report),
  ].join("\n");
}

function verdict({ free, fits, guardBand, wouldFit }) {
  if (free === null) return "the system does not say how much memory is free";
  const band = `${bytes(free)} are free, ${bytes(guardBand)} of them stay so (--guard-band)`;
  if (fits) return `fits: ${band}`;
  const advice = wouldFit
    ? `this would fit, with ${bytes(wouldFit.total)}: ${wouldFit.flags}`
    : "no batch size, length or rank makes it fit";
  return `does not fit: ${band}\n${advice}`;
}

module.exports = { plan };
