"use strict";

// The `data` command and the function behind it, on the built-in model.

const assert = require("node:assert/strict");
const { spawnSync } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { after, describe, test } = require("node:test");
const { data } = require("../index.js");
const { masked, shortened } = require("../bin/cli/mask.js");

const BIN = path.join(__dirname, "..", "bin", "amv-train.js");
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "amv-data-"));
after(() => fs.rmSync(folder, { recursive: true }));

const user = { role: "user", content: "one" };
const assistant = { role: "assistant", content: "two" };
const LINES = [
  { messages: [user, assistant] },
  { prompt: "three ", completion: "four" },
  { text: "" },
  { messages: [user] },
];
const FILE = path.join(folder, "lines.jsonl");
fs.writeFileSync(FILE, LINES.map((line) => JSON.stringify(line)).join("\n"));

function learned({ pieces }) {
  const texts = pieces.filter((piece) => piece.learned);
  return texts.map(({ text }) => text).join("|");
}

describe("data", () => {
  test("counts records, and shows what is learned of each", async () => {
    const warnings = [];
    const report = await data({
      data: FILE,
      onEvent: (event) => warnings.push(event.code),
    });
    assert.equal(report.records, 2);
    assert.deepEqual(report.formats, {
      messages: 2,
      "prompt and completion": 1,
    });
    assert.deepEqual(
      report.skipped.map(({ place }) => place),
      ["lines.jsonl line 3", "lines.jsonl line 4"],
    );
    assert.match(learned(report.shown[0]), /^two/);
    // The space of the prompt is in the token of "four".
    assert.match(learned(report.shown[1]), /^ four/);
    assert.ok(report.targets < report.tokens);
    assert.ok(warnings.includes("SKIPPED"), warnings.join());
  });

  test("follows the options of train", async () => {
    const all = await data({ data: FILE, trainOn: "all", show: 1 });
    assert.equal(all.records, 3);
    assert.equal(all.shown.length, 1);
    await assert.rejects(data({ data: FILE, strict: true }), {
      code: "BAD_DATA",
      message: /^2 of 4 records are left out: lines.jsonl line 3/,
    });
    await assert.rejects(data({}), { code: "USAGE", message: /data/ });
  });

  test("on the command line marks what is learned", () => {
    const words = [BIN, "data", FILE];
    const { status, stdout } = spawnSync(process.execPath, words, {
      encoding: "utf8",
    });
    assert.equal(status, 0);
    assert.match(stdout, /records: 2\n/);
    assert.match(stdout, /three\[ four/);
    assert.match(stdout, /2: .*lines.jsonl line|1: /);
    const json = spawnSync(process.execPath, [...words, "--json"], {
      encoding: "utf8",
    });
    assert.equal(JSON.parse(json.stdout).samples, 2);
  });
});

describe("a sample", () => {
  const pieces = [
    { text: "a".repeat(500), learned: false },
    { text: "b\x1b[2J", learned: true },
  ];

  test("has brackets where there are no colours, and cannot steer the terminal", () => {
    const plain = masked(pieces, {});
    assert.ok(plain.endsWith("[b [2J]"));
    const colours = { isTTY: true, hasColors: () => true };
    assert.ok(masked(pieces, colours).endsWith("\x1b[32mb [2J\x1b[0m"));
  });

  test("that is too long loses the middle of its long parts", () => {
    const [first, second] = shortened(pieces, 100);
    assert.equal(first.text.length, 55);
    assert.equal(second.text, pieces[1].text);
  });
});
