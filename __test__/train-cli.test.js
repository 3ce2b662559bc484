"use strict";

// Training from the command line, with the built-in model on the bundled corpus.

const assert = require("node:assert/strict");
const { spawn } = require("node:child_process");
const { once } = require("node:events");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { after, describe, test } = require("node:test");

const BIN = path.join(__dirname, "..", "bin", "amv-train.js");
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "amv-train-"));
after(() => fs.rmSync(folder, { recursive: true }));

/** Runs a command line; `onOutput(child, stdout, stderr)` is called whenever something was printed. */
async function run(line, onOutput = () => {}) {
  const child = spawn(process.execPath, [BIN, ...line.split(" ")], {
    cwd: folder,
    timeout: 120_000,
  });
  const text = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"]) {
    child[name].setEncoding("utf8").on("data", (chunk) => {
      text[name] += chunk;
      onOutput(child, text);
    });
  }
  const [status, signal] = await once(child, "close");
  return { status, signal, ...text };
}

const SHORT = "--max-steps 3 --seq-len 64";
const LONG = "--max-steps 100000 --seq-len 64 --epochs 100000";
const adapter = (name) => path.join(folder, name, "adapter_model.safetensors");

describe("amv-train train", () => {
  test("shows progress on standard error and the result on standard output", async () => {
    const { status, stdout, stderr } = await run(
      `train ${SHORT} --output shown/`,
    );
    assert.equal(status, 0, stderr);
    assert.match(stderr, /tiny-transformer/);
    assert.match(stderr, /sample corpus/);
    assert.match(stderr, /step 1\/3 {2}loss \d+\.\d+/);
    assert.match(stderr, /step 3\/3/);
    assert.match(stdout, /^completed: 3 steps/);
    assert.match(stdout, /^final loss \d/m);
    assert.match(stdout, /^wrote .*adapter_model\.safetensors$/m);
    assert.match(stdout, /^next: /m);
    assert.ok(fs.existsSync(adapter("shown")));
  });

  test("has an alias", async () => {
    assert.equal((await run(`peft ${SHORT} --output alias/`)).status, 0);
  });

  test("with --json prints events and nothing else", async () => {
    const { status, stdout, stderr } = await run(
      `train ${SHORT} --output json/ --json --log json.jsonl`,
    );
    assert.equal(status, 0, stderr);
    assert.equal(stderr, "");
    const events = stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    assert.deepEqual(
      events.slice(0, 2).map(({ type }) => type),
      ["data", "start"],
    );
    assert.equal(events.at(-1).type, "end");
    assert.equal(events.filter(({ type }) => type === "step").length, 3);
    assert.equal(
      fs.readFileSync(path.join(folder, "json.jsonl"), "utf8"),
      stdout,
    );
  });

  test("with --quiet prints the result only", async () => {
    const { stdout, stderr } = await run(
      `train ${SHORT} --output quiet/ --quiet`,
    );
    assert.equal(stderr, "");
    assert.match(stdout, /^completed/);
  });

  test("says what is wrong, what to do, and exits with 1", async () => {
    const { status, stdout, stderr } = await run(
      "train --data nowhere.txt --output refused/ --quiet",
    );
    assert.equal(status, 1);
    assert.equal(stdout, "");
    assert.match(stderr, /^error: .*nowhere\.txt/);
  });

  test("writes no escape sequences into a file", async () => {
    const { stdout, stderr } = await run(`train ${SHORT} --output plain/`);
    assert.doesNotMatch(stdout + stderr, /[\x1b\r]/);
  });
});

describe("a signal", () => {
  const whenTraining = (act) => {
    let done = false;
    return (child, { stderr }) => {
      if (done || !/step +\d/.test(stderr)) return;
      done = true;
      act(child);
    };
  };

  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
    test(`${signal} finishes the step, saves and exits with 0`, async () => {
      const { status, stdout, stderr } = await run(
        `train ${LONG} --output ${signal}/`,
        whenTraining((child) => child.kill(signal)),
      );
      assert.equal(status, 0, stderr);
      assert.match(stdout, /^stopped: \d+ steps/);
      assert.ok(fs.existsSync(adapter(signal)));
    });
  }

  test("SIGINT twice exits with 130", async () => {
    const twice = (child) => {
      child.kill("SIGINT");
      setTimeout(() => child.kill("SIGINT"), 5);
    };
    const { status } = await run(
      `train ${LONG} --batch-size 8 --output twice/`,
      whenTraining(twice),
    );
    assert.equal(status, 130);
  });
});

test("a run is one process, of which Android has no reason to end others", async () => {
  let children;
  const { status, stderr } = await run(
    `train ${LONG} --output alone/`,
    (child, { stderr }) => {
      if (children !== undefined || !/step +\d/.test(stderr)) return;
      const tasks = `/proc/${child.pid}/task`;
      const of = (task) =>
        fs.readFileSync(path.join(tasks, task, "children"), "utf8");
      children = fs.readdirSync(tasks).map(of).join("").trim();
      child.kill("SIGINT");
    },
  );
  assert.equal(status, 0, stderr);
  assert.equal(children, "");
});

test("a reader that goes away ends the run, saved and without a complaint", async () => {
  const { status, stderr } = await run(
    `train ${LONG} --output pipe/ --json`,
    (child, { stdout }) => {
      if (stdout.includes('"type":"step"')) child.stdout.destroy();
    },
  );
  assert.equal(status, 0);
  assert.equal(stderr, "");
  assert.ok(fs.existsSync(adapter("pipe")));
});

test("info, models and inspect answer, in words and in JSON", async () => {
  for (const line of ["info", "models", "inspect tiny-transformer"]) {
    const { status, stdout } = await run(line);
    assert.equal(status, 0);
    assert.match(stdout, /^ *(- )?\w[\w ]*: \S/m);
    const json = await run(`${line} --json`);
    assert.equal(typeof JSON.parse(json.stdout), "object");
  }
  assert.match((await run("info")).stderr, /^$/);
});

test("info names the addon it loaded, its interfaces and the processor's features", async () => {
  const about = JSON.parse((await run("info --json")).stdout);
  assert.match(about.addon, /\.node$/);
  assert.ok(fs.existsSync(about.addon));
  assert.match(about.libc, /^(glibc \d+\.\d+|musl|bionic)$/);
  assert.equal(about.node.version, process.version);
  assert.equal(about.node.api, Number(process.versions.napi));
  assert.match(about.platform, /^(linux|android)-(x86_64|aarch64)$/);
  const cpu = about.devices.find(({ backend }) => backend === "cpu");
  const flags = fs.readFileSync("/proc/cpuinfo", "utf8");
  for (const feature of cpu.features.filter((name) => name !== "fp16"))
    assert.ok(hasFeature(flags, feature), feature);
  const words = (await run("info")).stdout;
  assert.match(words, /^addon: \/.*\.node$/m);
  assert.match(words, /^ +api: \d+$/m);
});

/** Whether /proc/cpuinfo names the feature; Linux has other words for some on ARM. */
function hasFeature(flags, feature) {
  const names = {
    neon: "asimd",
    dotprod: "asimddp",
    avx512: "avx512f",
  };
  return new RegExp(`\\b${names[feature] ?? feature}\\b`).test(flags);
}
