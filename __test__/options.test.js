"use strict";

const assert = require("node:assert/strict");
const { describe, test } = require("node:test");
const { checkOptions, optionsOf, parseValue } = require("../lib/options.js");
const { TermuxTrainer } = require("../lib/trainer.js");
const { train } = require("../index.js");

const usage = (pattern) => ({ code: "USAGE", message: pattern });
const check = (options) => checkOptions("train", { output: "x/", ...options });
const spec = (name) =>
  optionsOf("train").find((option) => option.name === name);

describe("options in JavaScript", () => {
  test("keep their values", () => {
    const given = {
      model: "m.gguf",
      rank: 4,
      lr: 1e-3,
      noShuffle: true,
      target: ["q_proj"],
      warmup: "3%",
    };
    assert.deepEqual(check(given), { output: "x/", ...given });
  });

  test("have two published names for rank and alpha", () => {
    assert.equal(check({ loraRank: 4, loraAlpha: 2 }).rank, 4);
    assert.equal(check({ loraRank: 4, rank: 4 }).rank, 4);
    assert.throws(
      () => check({ loraRank: 4, rank: 8 }),
      usage(/8 contradicts|4 contradicts/),
    );
  });

  test("that are undefined count as not given", () => {
    assert.deepEqual(check({ model: undefined }), { output: "x/" });
    assert.throws(
      () => check({ output: undefined }),
      usage(/output: is required/),
    );
  });

  test("that are wrong are all named at once", () => {
    const wrong = { epochs: 0, lr: "fast", optimzer: "sgd", loraDropout: 1 };
    assert.throws(
      () => check(wrong),
      (error) => {
        assert.match(
          error.message,
          /epochs: must be a whole number of at least 1, not 0/,
        );
        assert.match(error.message, /lr: must be a number above 0, not "fast"/);
        assert.match(
          error.message,
          /optimzer: no such option; did you mean optimizer\?/,
        );
        assert.match(
          error.message,
          /loraDropout: must be a number of at least 0 and below 1, not 1/,
        );
        return error.code === "USAGE";
      },
    );
  });

  for (const bad of [
    { lr: NaN },
    { lr: Infinity },
    { seed: -1 },
    { seed: 2 ** 53 },
    { rank: 1.5 },
    { model: "" },
    { target: [] },
    { target: ["q_proj", 1] },
    { warmup: "101%" },
    { warmup: -1 },
    { warmup: ["3%"] },
    { noShuffle: 1 },
    { backend: "cuda" },
    { json: true },
    { layers: [] },
    { layers: [-1] },
    { layers: "first:2" },
    { rankPattern: {} },
    { rankPattern: { q_proj: 1.5 } },
    { rankPattern: [4] },
    { alphaPattern: { q_proj: 0 } },
    { dora: "yes" },
  ]) {
    test(`refuse ${JSON.stringify(bad)}`, () =>
      assert.throws(() => check(bad), { code: "USAGE" }));
  }

  test("without JSON are refused like others", () => {
    const endless = {};
    endless.self = endless;
    for (const value of [3n, Symbol("x"), () => {}, endless]) {
      for (const name of ["epochs", "warmup", "model", "target", "lr"]) {
        assert.throws(() => check({ [name]: value }), { code: "USAGE" });
      }
    }
    assert.throws(
      () => check({ epochs: 2 ** 40 }),
      usage(/at most 4294967295/),
    );
  });

  test("reject the run instead of throwing", async () => {
    await assert.rejects(train({ output: "x/", epochs: -1 }), usage(/epochs/));
    for (const nothing of [undefined, null, 7, "x", []]) {
      await assert.rejects(train(nothing), usage(/takes one options object/));
    }
  });
});

describe("values on the command line", () => {
  test("become layers and patterns", () => {
    assert.equal(parseValue(spec("layers"), "0-7,12"), "0-7,12");
    assert.equal(parseValue(spec("layers"), "last:8"), "last:8");
    const pattern = (text) => parseValue(spec("rank-pattern"), text);
    assert.deepEqual(pattern("q_proj=16,v_proj=4"), { q_proj: 16, v_proj: 4 });
    assert.deepEqual(pattern("layers.[0-9]{1,2}.*(?=q)q_proj=16"), {
      "layers.[0-9]{1,2}.*(?=q)q_proj": 16,
    });
    assert.deepEqual(
      Object.keys(pattern(".*v_proj=4,q_proj=16")),
      [".*v_proj", "q_proj"],
      "the order is kept",
    );
    assert.deepEqual(parseValue(spec("alpha-pattern"), "v_proj=0.5"), {
      v_proj: 0.5,
    });
    for (const wrong of [
      "q_proj",
      "q_proj=",
      "q_proj=1.5",
      "q=0",
      "=4",
      "a=1,a=2",
    ]) {
      assert.throws(() => pattern(wrong), usage(/--rank-pattern must give/));
    }
    for (const wrong of ["all", "last:", "1-", "-3", ""]) {
      assert.throws(() => parseValue(spec("layers"), wrong), usage(/--layers/));
    }
  });

  test("become numbers, lists and percentages", () => {
    assert.equal(parseValue(spec("lr"), "2e-4"), 2e-4);
    assert.equal(parseValue(spec("epochs"), "5"), 5);
    assert.equal(parseValue(spec("warmup"), "10"), 10);
    assert.equal(parseValue(spec("warmup"), "2.5%"), "2.5%");
    assert.deepEqual(parseValue(spec("target"), "q_proj, v_proj"), [
      "q_proj",
      "v_proj",
    ]);
  });

  test("that are wrong name their flag", () => {
    for (const [name, text] of [
      ["epochs", "1.5"],
      ["epochs", ""],
      ["lr", "-1"],
      ["rank", "x"],
      ["target", "a,,b"],
      ["warmup", "3 %"],
    ]) {
      assert.throws(
        () => parseValue(spec(name), text),
        usage(new RegExp(`^--${name} must be`)),
      );
    }
  });

  test("of a later version pass, for the engine to refuse by name", () => {
    assert.equal(parseValue(spec("backend"), "vulkan"), "vulkan");
  });
});

describe("TermuxTrainer", () => {
  test("refuses what is not in this version", () => {
    assert.throws(() => new TermuxTrainer({ modelType: "bitnet" }), {
      code: "UNSUPPORTED_MODEL",
      message: /bitnet/,
    });
  });

  test("refuses a modelType that contradicts dora", () => {
    for (const [modelType, dora] of [
      ["lora", true],
      ["dora", false],
    ]) {
      assert.throws(
        () => new TermuxTrainer({ modelType, dora }),
        usage(/contradicts dora/),
      );
    }
    new TermuxTrainer({ modelType: "dora", dora: true });
  });

  test("checks the options of constructor and fit together", async () => {
    const trainer = new TermuxTrainer({ modelType: "lora", loraRank: 0 });
    await assert.rejects(trainer.fit({ dataPath: 7 }), (error) => {
      assert.match(error.message, /loraRank: .*data: .*output: is required/);
      return true;
    });
  });
});
