"use strict";

// Training through the SDK, with the built-in model on the bundled corpus.

const assert = require("node:assert/strict");
const { execFileSync } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { after, describe, test } = require("node:test");
const amvTrain = require("amv-train");

const folder = fs.mkdtempSync(path.join(os.tmpdir(), "amv-train-"));
after(() => fs.rmSync(folder, { recursive: true }));
const inFolder = (name) => path.join(folder, name);

/** A short run. */
const short = (name, options) => ({
  output: inFolder(name),
  maxSteps: 3,
  seqLen: 64,
  ...options,
});

describe("train", () => {
  test("resolves to the fields of its end event and leaves the files it names", async () => {
    const events = [];
    const run = amvTrain.train(short("whole/"));
    for await (const event of run) events.push(event);
    const { type, ...end } = events.at(-1);
    assert.equal(type, "end");
    assert.deepEqual(await run, end);
    assert.equal(end.status, "completed");
    assert.equal(end.steps, 3);
    assert.ok(Number.isFinite(end.finalLoss));
    assert.deepEqual(
      events.slice(0, 2).map(({ type }) => type),
      ["data", "start"],
    );
    const steps = events.filter((event) => event.type === "step");
    assert.deepEqual(
      steps.map(({ step, totalSteps }) => [step, totalSteps]),
      [
        [1, 3],
        [2, 3],
        [3, 3],
      ],
    );
    for (const key of [
      "epoch",
      "loss",
      "lr",
      "gradNorm",
      "tokens",
      "tokensPerSecond",
      "etaMs",
      "memoryBytes",
    ]) {
      for (const step of steps) assert.ok(Number.isFinite(step[key]), key);
    }
    for (const name of [
      "adapter_model.safetensors",
      "adapter_config.json",
      "amv_train_config.json",
      "adapter.gguf",
    ]) {
      const file = path.join(folder, "whole", name);
      assert.ok(fs.statSync(file).size > 0, name);
      assert.ok(
        end.files.some((named) => path.resolve(named) === file),
        `${name} is not in ${end.files}`,
      );
    }
  });

  test("saves after stop()", async () => {
    const run = amvTrain.train(
      short("stopped.safetensors", {
        maxSteps: 1000,
        onEvent: ({ type }) => type === "step" && run.stop(),
      }),
    );
    const { status, steps } = await run;
    assert.equal(status, "stopped");
    assert.ok(steps >= 1 && steps < 1000, steps);
    assert.ok(fs.existsSync(inFolder("stopped.safetensors")));
  });

  test("has saved when its loop is left", async () => {
    for await (const { type } of amvTrain.train(
      short("left/", { maxSteps: 1000 }),
    ))
      if (type === "step") break;
    assert.ok(fs.existsSync(inFolder("left/adapter_model.safetensors")));
  });

  test("rejects with the reason of an aborted signal", async () => {
    const controller = new AbortController();
    const onEvent = ({ type }) =>
      type === "step" && controller.abort(new RangeError("enough"));
    const run = amvTrain.train(
      short("aborted/", { maxSteps: 1000, signal: controller.signal, onEvent }),
    );
    await assert.rejects(run, RangeError);
  });

  test("gives the same adapter again, also while another run goes on", async () => {
    const names = ["alone/", "first/", "second/"];
    await amvTrain.train(short(names[0]));
    await Promise.all(
      names.slice(1).map((name) => amvTrain.train(short(name))),
    );
    const [alone, ...together] = names.map((name) =>
      fs.readFileSync(inFolder(`${name}adapter_model.safetensors`)),
    );
    for (const adapter of together) assert.ok(adapter.equals(alone));
  });

  test("is the trainer's fit under its published names", async () => {
    const trainer = new amvTrain.TermuxTrainer({
      modelType: "lora",
      loraRank: 4,
      loraAlpha: 8,
      backend: "cpu",
    });
    const data = inFolder("notes.txt");
    fs.writeFileSync(
      data,
      "The quick brown fox jumps over the lazy dog. ".repeat(20),
    );
    const result = await trainer.fit({
      dataPath: data,
      epochs: 1,
      learningRate: 1e-3,
      outputPath: inFolder("fit/"),
    });
    assert.ok(Number.isFinite(result.finalLoss));
    const config = JSON.parse(
      fs.readFileSync(inFolder("fit/adapter_config.json"), "utf8"),
    );
    assert.equal(config.r, 4);
    assert.equal(config.lora_alpha, 8);
  });
});

describe("a run that cannot begin", () => {
  const refuses = (name, options, expected) =>
    test(name, () =>
      assert.rejects(amvTrain.train(short("refused/", options)), (error) => {
        assert.ok(error instanceof amvTrain.AmvTrainError);
        assert.equal(error.code, expected.code);
        assert.match(error.message, expected.message);
        assert.ok(
          !fs.existsSync(inFolder("refused/adapter_model.safetensors")),
        );
        return true;
      }),
    );

  refuses(
    "for want of a model names it",
    { model: inFolder("nowhere.gguf"), data: __filename },
    { code: "NOT_FOUND", message: /nowhere\.gguf/ },
  );
  refuses(
    "for want of data names it",
    { data: inFolder("nowhere.txt") },
    { code: "NOT_FOUND", message: /nowhere\.txt/ },
  );
  refuses(
    "on a backend of a later version",
    { backend: "vulkan" },
    { code: "BACKEND_UNAVAILABLE", message: /vulkan/ },
  );

  test("because the output exists says how to replace it", async () => {
    const output = inFolder("there.safetensors");
    fs.writeFileSync(output, "mine");
    await assert.rejects(
      amvTrain.train(short("there.safetensors")),
      ({ hint }) => /with overwrite: true/.test(hint) && !/--/.test(hint),
    );
    assert.equal(fs.readFileSync(output, "utf8"), "mine");
    await amvTrain.train(
      short("there.safetensors", { overwrite: true, maxSteps: 1 }),
    );
    assert.notEqual(fs.readFileSync(output, "utf8"), "mine");
  });

  test("leaves the process alive when the model is damaged", async () => {
    const model = inFolder("damaged.gguf");
    fs.writeFileSync(
      model,
      Buffer.concat([Buffer.from("GGUF"), Buffer.alloc(60, 0xff)]),
    );
    await assert.rejects(
      amvTrain.train(short("refused/", { model, data: __filename })),
      { name: "AmvTrainError" },
    );
    await assert.rejects(amvTrain.inspect(model), { name: "AmvTrainError" });
  });

  test("that diverges ends with an error and no adapter", async () => {
    const output = inFolder("diverged/");
    const run = amvTrain.train(
      short("diverged/", {
        lr: 1e30,
        maxGradNorm: 0,
        maxSteps: 20,
        optimizer: "sgd",
      }),
    );
    await assert.rejects(run, { code: "NON_FINITE" });
    assert.ok(!fs.existsSync(path.join(output, "adapter_model.safetensors")));
  });
});

test("a process ends by itself when its run is over, with every event delivered", () => {
  const code = `
    import { train } from "amv-train";
    let steps = 0;
    train({ output: ${JSON.stringify(inFolder("esm/"))}, maxSteps: 3, seqLen: 64,
      onEvent: ({ type }) => { if (type === "step") steps++; if (type === "end") console.log(type, steps); } });`;
  const stdout = execFileSync(
    process.execPath,
    ["--input-type=module", "-e", code],
    { encoding: "utf8", cwd: __dirname, timeout: 120_000 },
  );
  assert.equal(stdout, "end 3\n");
});

describe("questions", () => {
  test("about a model are answered", async () => {
    const report = await amvTrain.inspect("tiny-transformer");
    assert.equal(report.architecture, "llama");
    assert.equal(report.trainable, true);
    await assert.rejects(amvTrain.inspect(inFolder("nowhere")), {
      code: "NOT_FOUND",
    });
    await assert.rejects(amvTrain.inspect(), { code: "USAGE" });
  });

  test("about support and the machine are answered", () => {
    const names = amvTrain.models().architectures.map(({ name }) => name);
    for (const name of ["llama", "qwen2", "qwen3", "gemma2", "gemma3", "phi3"])
      assert.ok(names.includes(name), name);
    assert.ok(amvTrain.devices().some(({ backend }) => backend === "cpu"));
    assert.equal(amvTrain.info().version, amvTrain.version);
  });
});
