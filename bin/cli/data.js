"use strict";

// The `data` command: what training data holds, how long its samples are, and how the first of them are trained.

const { AS_FLAGS } = require("../../lib/words.js");
const { follow } = require("./follow.js");
const { masked } = require("./mask.js");
const { Progress } = require("./progress.js");
const { count } = require("./quantities.js");
const { printable, styled } = require("./terminal.js");

const BAR = 30;

async function data({ json = false, ...options }, path) {
  const { data: start } = require("../../index.js");
  const progress = new Progress(process.stderr, {});
  const run = start({
    ...AS_FLAGS,
    ...options,
    data: path,
    onEvent: (event) => progress.event(event),
  });
  const report = await follow(run, progress, "stopping");
  const text = json ? JSON.stringify(report, null, 2) : reportText(report);
  process.stdout.write(`${text}\n`);
}

function reportText(report) {
  const lines = [
    ["formats", formats(report.formats)],
    ["records", count(report.records)],
    ["left out", leftOut(report.skipped)],
    ["cut", count(report.truncated)],
    ["samples", count(report.samples)],
    [
      "tokens",
      `${count(report.tokens)}, ${count(report.targets)} of them learned`,
    ],
    ["longest", `${count(report.longest)} tokens`],
  ];
  const bold = (text) => styled(process.stdout, "bold", text);
  return [
    ...lines.map(([name, value]) => `${bold(name)}: ${value}`),
    `${bold("samples by tokens")}:`,
    ...histogram(report.lengths),
    ...report.shown.flatMap(({ place, tokens, pieces }) => [
      "",
      `${bold(printable(place))}, ${count(tokens)} tokens, ${legend()}:`,
      masked(pieces, process.stdout),
    ]),
  ].join("\n");
}

function formats(byName) {
  const names = Object.entries(byName);
  return names
    .map(([name, records]) => `${name} (${count(records)})`)
    .join(", ");
}

function leftOut(skipped) {
  const reasons = new Map();
  for (const { place, reason } of skipped) {
    const first = reasons.get(reason);
    reasons.set(reason, {
      place: first?.place ?? place,
      records: (first?.records ?? 0) + 1,
    });
  }
  const lines = [...reasons].map(
    ([reason, { place, records }]) =>
      `\n  ${count(records)}: ${printable(reason)}, ${printable(place)} first`,
  );
  return `${count(skipped.length)}${lines.join("")}`;
}

function histogram(lengths) {
  const most = Math.max(...lengths.map(({ samples }) => samples));
  return lengths.map(({ from, to, samples }) => {
    const range = from === to ? `${from}` : `${from}-${to}`;
    const bar = "#".repeat(Math.ceil((samples / most) * BAR));
    return `  ${range.padStart(13)} ${bar.padEnd(BAR)} ${count(samples)}`;
  });
}

function legend() {
  return styled(process.stdout, "green", "[what is learned]");
}

module.exports = { data };
