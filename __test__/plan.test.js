"use strict";

// The memory plan from the command line and the SDK, with the built-in model on the bundled corpus.

const assert = require("node:assert/strict");
const { spawnSync } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { after, test } = require("node:test");
const { plan } = require("..");

const BIN = path.join(__dirname, "..", "bin", "amv-train.js");
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "amv-plan-"));
after(() => fs.rmSync(folder, { recursive: true }));

/** More than any machine has, in MiB. */
const ENDLESS = "4000000000";

function run(...words) {
  const options = { cwd: folder, encoding: "utf8", timeout: 120_000 };
  return spawnSync(process.execPath, [BIN, ...words], options);
}

test("plan shows every part, the total and a verdict, and writes nothing", () => {
  const { status, stdout, stderr } = run("plan", "--seq-len", "64");
  assert.equal(status, 0, stderr);
  for (const part of ["base, mapped", "activations", "optimizer", "total"]) {
    assert.match(stdout, new RegExp(`^${part} +[\\d.]+ [KM]iB$`, "m"));
  }
  assert.match(stdout, /^fits: /m);
  assert.deepEqual(fs.readdirSync(folder), []);
});

test("plan takes the command line of a run and answers as the SDK does", async () => {
  const given = ["--json", "--seq-len", "64", "--output", "x/"];
  const shown = JSON.parse(run("plan", ...given).stdout);
  const told = await plan({ seqLen: 64, maxSteps: 1 });
  assert.deepEqual(Object.keys(shown), Object.keys(told));
  assert.equal(shown.activations, told.activations);
  assert.equal(shown.longestSample, 64);
});

test("a larger batch is planned with more, and what never fits is refused before any work", () => {
  const activations = (batch) => {
    const { stdout } = run("plan", "--json", "--batch-size", batch);
    return JSON.parse(stdout).activations;
  };
  assert.ok(activations("4") > 2 * activations("1"));
  const refused = run("train", "--output", "x/", "--guard-band", ENDLESS);
  assert.equal(refused.status, 1);
  assert.match(refused.stderr, /^error: not enough memory: this run needs/m);
  assert.match(refused.stderr, /^hint: /m);
  const planned = run("plan", "--guard-band", ENDLESS);
  assert.match(planned.stdout, /^does not fit: /m);
});

test("a run tells its plan first and its peak last", () => {
  const { stdout, status, stderr } = run(
    ...["train", "--json", "--max-steps", "2", "--output", "told/"],
  );
  assert.equal(status, 0, stderr);
  const events = stdout.trim().split("\n").map(JSON.parse);
  const { plan } = events.find(({ type }) => type === "start");
  const { peakBytes } = events.at(-1);
  assert.ok(plan.total > plan.required && plan.fits);
  assert.ok(peakBytes > plan.program / 2);
});
