"use strict";

// The command line, before any training.

const assert = require("node:assert/strict");
const { spawnSync } = require("node:child_process");
const path = require("node:path");
const { describe, test } = require("node:test");
const { optionsOf } = require("../lib/options.js");
const { nearest } = require("../lib/suggest.js");
const { version } = require("../package.json");

const BIN = path.join(__dirname, "..", "bin", "amv-train.js");

function run(line, options) {
  const words = line.split(" ").filter(Boolean);
  return spawnSync(process.execPath, [BIN, ...words], {
    encoding: "utf8",
    ...options,
  });
}

describe("help", () => {
  test("of train lists every option with its default", () => {
    const { status, stdout, stderr } = run("train --help");
    assert.equal(status, 0);
    assert.equal(stderr, "");
    const text = stdout.replace(/\s+/g, " ");
    for (const option of optionsOf("train")) {
      for (const name of [option.name, ...(option.aliases ?? [])])
        assert.ok(text.includes(`--${name}`), name);
      if (option.default)
        assert.ok(text.includes(`(default: ${option.default})`), option.name);
      assert.ok(text.includes(option.doc), option.name);
    }
    assert.match(stdout, /Examples:/);
  });

  test("fits eighty columns, or those of a phone", () => {
    for (const columns of [80, 45]) {
      const code = `process.stdout.isTTY = true; process.stdout.columns = ${columns}; require(${JSON.stringify(path.join(path.dirname(BIN), "cli/main.js"))}).main(["train", "--help"])`;
      const { stdout } = spawnSync(process.execPath, ["-e", code], {
        encoding: "utf8",
      });
      const [options] = stdout.split("Examples:");
      for (const line of options.split("\n")) {
        const isName = /^ {2}--?\w/.test(line);
        assert.ok(isName || line.length <= columns, line);
      }
    }
  });

  test("is what amv-train alone prints", () => {
    const { status, stdout } = run("");
    assert.equal(status, 0);
    assert.match(stdout, /amv-train train --output my-adapter\//);
  });

  test("of a command is also what `help` prints", () => {
    assert.equal(run("help train").stdout, run("train --help").stdout);
    assert.equal(run("help").stdout, run("--help").stdout);
    const { status, stderr } = run("help trane");
    assert.equal(status, 2);
    assert.match(stderr, /^error: there is no command "trane" .*\n.*train/);
  });

  test("has the version", () =>
    assert.equal(run("--version").stdout, `${version}\n`));
});

describe("a usage error", () => {
  for (const [line, error, hint] of [
    [
      "trian",
      /no command "trian" in this version/,
      /did you mean `amv-train train`/,
    ],
    [
      "diffusion-train --resolution 512",
      /no command "diffusion-train" in this version/,
      /train, peft, data, generate/,
    ],
    ["--verbose", /no option --verbose in this version/, /--help/],
    [
      "train --rnk 3",
      /no option --rnk of train in this version/,
      /did you mean --rank\?/,
    ],
    [
      "train --lora-rnk=3",
      /no option --lora-rnk=3/,
      /did you mean --lora-rank\?/,
    ],
    [
      "train --output x/ --rank 4 --lora-rank 8",
      /--rank or --lora-rank is given twice, as 4 and as 8/,
      /give it once/,
    ],
    ["train --epochs", /--epochs <N>.*missing/, /amv-train train --help/],
    [
      "train extra --output x/",
      /too many arguments for 'train'/,
      /amv-train train --help/,
    ],
    ["train", /--output is missing/, /amv-train train --output my-adapter\//],
    [
      "inspect",
      /missing required argument 'model'/,
      /amv-train inspect --help/,
    ],
  ]) {
    test(`in \`amv-train ${line}\` says what to do`, () => {
      const { status, stdout, stderr } = run(line);
      const [first, second] = stderr.split("\n");
      assert.equal(status, 2);
      assert.equal(stdout, "");
      assert.match(first, /^error: /);
      assert.match(first, error);
      assert.match(second, /^hint: /);
      assert.match(second, hint);
    });
  }

  test("in a value names the flag and what it takes", () => {
    const { status, stderr } = run("train --output x/ --epochs 0");
    assert.equal(status, 2);
    assert.equal(
      stderr,
      'error: --epochs must be a whole number of at least 1, not "0"\n',
    );
  });
});

test("a misspelt word finds its neighbour, and a strange one none", () => {
  assert.equal(nearest("bacth-size", ["batch-size", "beta"]), "batch-size");
  assert.equal(nearest("zzz", ["lr", "seed"]), undefined);
});
