"use strict";

// What becomes of an adapter, through the SDK and the command line, with the built-in model.

const assert = require("node:assert/strict");
const { spawnSync } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { after, before, describe, test } = require("node:test");
const amv = require("../index.js");

const BIN = path.join(__dirname, "..", "bin", "amv-train.js");
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "amv-train-"));
const adapter = path.join(folder, "adapter/");
const merged = path.join(folder, "merged.gguf");
const data = path.join(folder, "data.txt");
after(() => fs.rmSync(folder, { recursive: true }));

before(async () => {
  fs.writeFileSync(data, "the quick brown fox jumps over the lazy dog ");
  await amv.train({ data, output: adapter, maxSteps: 3, epochs: 3, lr: 0.02 });
  await amv.merge({ adapter, output: merged, type: "f16" });
});

function run(...words) {
  const options = { cwd: folder, encoding: "utf8" };
  return spawnSync(process.execPath, [BIN, ...words], options);
}

describe("generate", () => {
  const prompt = "the quick";

  test("tells the text as it comes and returns all of it", async () => {
    const pieces = [];
    const onEvent = (event) => pieces.push(event.text);
    const options = { adapter, prompt, maxTokens: 10, onEvent };
    const { text, tokens, reason } = await amv.generate(options);
    assert.equal(pieces.join(""), text);
    assert.ok(tokens === 10 || reason === "end");
    const again = await amv.generate({ adapter, prompt, maxTokens: 10 });
    assert.equal(again.text, text, "the same seed gives the same text");
  });

  test("ends when it is stopped, with what it has", async () => {
    const asked = amv.generate({ prompt, maxTokens: 100_000, temperature: 1 });
    for await (const event of asked) {
      assert.equal(event.type, "token");
      asked.stop();
    }
    assert.ok(["stopped", "end"].includes((await asked).reason));
  });

  test("prints the text and nothing else on standard output", () => {
    const words = ["--prompt", prompt, "--max-tokens", "5", "--seed", "3"];
    const { status, stdout, stderr } = run("generate", ...words);
    assert.equal(status, 0, stderr);
    assert.match(stderr, /tokens\/s/);
    const json = run("generate", ...words, "--json")
      .stdout.trim()
      .split("\n");
    assert.equal(`${JSON.parse(json.at(-1)).text}\n`, stdout);
  });
});

test("options of another command are refused by name", async () => {
  await assert.rejects(amv.generate({ prompt: "a", rank: 8 }), {
    code: "USAGE",
    message: /rank: no such option/,
  });
  await assert.rejects(amv.verify({ adapter }), /exported: is required/);
});

test("eval measures base and adapter", async () => {
  const {
    base,
    adapter: with_,
    tokens,
  } = await amv.evaluate({ adapter, data });
  assert.ok(with_.loss < base.loss);
  assert.ok(tokens > 5);
  const { stdout } = run("eval", "--adapter", adapter, "--data", data);
  assert.match(stdout, /^base: loss \d/m);
  assert.match(stdout, /^with the adapter: loss \d/m);
});

test("verify passes what was merged and exits with 1 for what was not", () => {
  const words = ["verify", "--adapter", adapter, "--exported"];
  const right = run(...words, merged);
  assert.equal(right.status, 0, right.stderr);
  assert.match(right.stdout, /^passed: .* for F16$/m);
  const base = path.join(__dirname, "../builtin/tiny-transformer.gguf");
  const wrong = run(...words, base);
  assert.equal(wrong.status, 1);
  assert.match(wrong.stdout, /^failed: /m);
});

test("export writes what llama.cpp loads, and never over a file", async () => {
  const output = path.join(folder, "exported.gguf");
  const { files } = await amv.exportAdapter({ adapter, output });
  assert.deepEqual(files, [output]);
  assert.equal(fs.readFileSync(output).toString("latin1", 0, 4), "GGUF");
  await assert.rejects(amv.exportAdapter({ adapter, output }), {
    code: "USAGE",
    message: /exists already/,
  });
});

test("export and verify end when they are stopped, and leave nothing", async () => {
  const output = path.join(folder, "stopped/");
  await assert.rejects(amv.exportAdapter({ adapter, output }).stop(), {
    code: "ABORTED",
  });
  assert.ok(!fs.existsSync(output));
  await assert.rejects(amv.verify({ adapter, exported: merged }).stop(), {
    code: "ABORTED",
  });
  const aborting = new AbortController();
  const { signal } = aborting;
  const run = amv.exportAdapter({ adapter, output, signal });
  aborting.abort(new Error("enough"));
  await assert.rejects(run, /enough/);
  assert.ok(!fs.existsSync(output));
});
