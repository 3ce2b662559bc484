"use strict";

// Messages call options as their reader does: flags on the command line, properties in JavaScript.

const assert = require("node:assert/strict");
const { spawnSync } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { after, describe, test } = require("node:test");
const amv = require("../index.js");
const table = require("../lib/options.json");
const { property } = require("../lib/options.js");
const { inWords } = require("../lib/words.js");

const BIN = path.join(__dirname, "..", "bin", "amv-train.js");
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "amv-words-"));
after(() => fs.rmSync(folder, { recursive: true }));

describe("a message in JavaScript", () => {
  test("has the property of every flag and alias", () => {
    for (const { name, aliases = [] } of table) {
      for (const flag of [name, ...aliases]) {
        assert.equal(inWords(`see --${flag}.`), `see ${property(flag)}.`);
      }
    }
  });

  for (const [text, expected] of [
    ["replace it with --overwrite", "replace it with overwrite: true"],
    ["leave --strict out", "leave strict out"],
    ["go on with --resume auto", 'go on with resume: "auto"'],
    ["try --seq-len 64.", "try seqLen: 64."],
    ["--rank contradicts the adapter", "rank contradicts the adapter"],
    ["(--chat-template FILE)", "(chatTemplate FILE)"],
    ["--train-on all does not fit", 'trainOn: "all" does not fit'],
    ["the cache is models--lr--model", "the cache is models--lr--model"],
    ["--no-such-option stays", "--no-such-option stays"],
  ]) {
    test(`says "${expected}"`, () => assert.equal(inWords(text), expected));
  }
});

describe("errors and hints", () => {
  const output = path.join(folder, "there.safetensors");
  fs.writeFileSync(output, "mine");
  const data = path.join(folder, "chat.jsonl");
  fs.writeFileSync(data, '{"text": "a b c d e f"}');

  test("of the SDK name its options", async () => {
    await assert.rejects(amv.train({ output, maxSteps: 1 }), {
      message: /exists already/,
      hint: /^choose another output, or replace it with overwrite: true/,
    });
    const options = { output: path.join(folder, "new/"), data };
    await assert.rejects(amv.train({ ...options, chatTemplate: "chatml" }), {
      message: /^chatTemplate is for conversations/,
    });
    await assert.rejects(amv.generate({ prompt: "a", system: "b" }), {
      message: /^system is for chats; add chat: true$/,
    });
  });

  test("of the published trainer name those of its own", async () => {
    const trainer = new amv.TermuxTrainer({ modelType: "lora" });
    await assert.rejects(trainer.fit({ outputPath: output }), {
      hint: /^choose another outputPath, /,
    });
  });

  test("of the command line name flags", () => {
    const words = ["train", "--output", output, "--max-steps", "1"];
    const { stderr } = spawnSync(process.execPath, [BIN, ...words], {
      encoding: "utf8",
    });
    assert.match(stderr, /choose another --output, .* with --overwrite/);
  });
});

test("warnings of the SDK name its options", async () => {
  const data = path.join(folder, "long.txt");
  fs.writeFileSync(data, "once upon a time there was a king. ".repeat(40));
  const said = [];
  await amv.data({
    data,
    seqLen: 16,
    truncate: "end",
    onEvent: (event) => said.push(event.message),
  });
  assert.match(said.join(), /see seqLen and truncate/);
});
