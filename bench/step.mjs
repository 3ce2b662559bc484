// A training step of amv-train beside one of PEFT, both sides alternating in one run, and the goals they are measured by.
//
//   node bench/step.mjs [--rounds N] [--quick] [--without-peft]
//
// SmolLM2-135M Q4_1 (fetched by __test__/reference/fetch-smollm2.sh), rank 8 on all linear layers, 512 tokens a step, two threads.
// PEFT takes the same weights, dequantised beforehand, and 6 GB of Python packages, which are installed in target/bench-venv.

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import {
  ROOT,
  ROUNDS,
  SMOLLM2,
  STEPS,
  TEXT,
  alternate,
  given,
  megabytes,
  run,
  table,
  train,
} from "./measure.mjs";

const THREADS = 2;
const TOKENS = 512;
const VOCAB_SLICE = 1024;
/** Floating-point operations of a step, without and with replay. */
const GFLOP = { off: 274, on: 411 };

/** Samples by tokens of each. */
const LONG = { batch: 1, length: TOKENS };
const SHORT = { batch: 8, length: TOKENS / 8 };

/** What the inner loop of an f32 product reaches on two cores: as bench/kernels has measured it, or on the first machine. */
function peakGflops() {
  const file = path.join(ROOT, "target/bench/peaks.json");
  if (!existsSync(file)) return 210;
  const { threads, f32 } = JSON.parse(readFileSync(file, "utf8"));
  return threads === THREADS ? f32 : 210;
}

function ours(precision, checkpointing, { batch, length }, more = []) {
  const options = ["--model", SMOLLM2, "--max-steps", STEPS];
  options.push("--seq-len", length, "--batch-size", batch);
  options.push("--precision", precision, "--checkpointing", checkpointing);
  options.push("--threads", THREADS, ...more);
  return train(options);
}

async function peft(dtype, checkpointing, { batch, length }) {
  const script = path.join(ROOT, "bench/peft_step.py");
  const args = [peftBase(dtype), TEXT, dtype, batch, length, STEPS, THREADS];
  const { lines, peak } = await run(python(), [script, ...args, checkpointing]);
  const told = lines.map(({ text }) => JSON.parse(text));
  const { cudaBytes } = told.pop();
  const seconds = told.slice(1).map((step) => step.seconds);
  return {
    seconds: Math.min(...seconds),
    first: lines[0].seconds,
    peak: peak - cudaBytes,
  };
}

/** The folder of the base as PEFT loads it fastest; writes it when it is not there. */
function peftBase(dtype) {
  const folder = path.join(ROOT, `target/bench/SmolLM2-135M-${dtype}`);
  if (!existsSync(folder)) {
    const script = path.join(ROOT, "bench/peft_base.py");
    execFileSync(python(), [script, SMOLLM2, folder, dtype], {
      stdio: "inherit",
    });
  }
  return folder;
}

/** The Python that has PEFT; installs it when it is not there. */
function python() {
  const venv = path.join(ROOT, "target/bench-venv");
  const python = path.join(venv, "bin/python");
  if (!existsSync(python)) {
    execFileSync("python3", ["-m", "venv", venv], { stdio: "inherit" });
    const requirements = path.join(ROOT, "bench/requirements.txt");
    const install = ["-m", "pip", "install", "--quiet", "-r", requirements];
    execFileSync(python, install, { stdio: "inherit" });
  }
  return python;
}

const AUTO = "amv-train auto";
const F32 = "amv-train f32";
const SMALL = "amv-train auto, replaying, sliced";
const STREAMED = `${SMALL}, streamed`;
const BATCH = "amv-train auto, 8 x 64";
const PEFT = ["PEFT f32", "PEFT bf16"];
const PEFT_BATCH = ["PEFT f32, 8 x 64", "PEFT bf16, 8 x 64"];

const slice = ["--vocab-slice", VOCAB_SLICE];
const sides = [
  [AUTO, () => ours("auto", "off", LONG)],
  [F32, () => ours("f32", "off", LONG)],
  [SMALL, () => ours("auto", "on", LONG, slice)],
  [STREAMED, () => ours("auto", "on", LONG, [...slice, "--stream-layers"])],
  [BATCH, () => ours("auto", "off", SHORT)],
];
if (!given("--without-peft")) {
  sides.push(
    [PEFT[0], () => peft("float32", "off", LONG)],
    [PEFT[1], () => peft("bfloat16", "off", LONG)],
    ["PEFT bf16, replaying", () => peft("bfloat16", "on", LONG)],
    [PEFT_BATCH[0], () => peft("float32", "off", SHORT)],
    [PEFT_BATCH[1], () => peft("bfloat16", "off", SHORT)],
  );
}

execFileSync(path.join(ROOT, "__test__/reference/fetch-smollm2.sh"));
const best = await alternate(ROUNDS, sides);

const peak = peakGflops();
const rows = [...best].map(([name, { seconds, peak: bytes, first }]) => {
  const gflop = name.includes("replaying") ? GFLOP.on : GFLOP.off;
  return [
    name,
    `${seconds.toFixed(2)} s`,
    (TOKENS / seconds).toFixed(0),
    megabytes(bytes),
    `${((seconds * peak) / gflop).toFixed(2)} x`,
    `${first.toFixed(1)} s`,
  ];
});
const titles = ["who", "step", "tokens/s", "peak RSS"];
titles.push(`over the floor at ${peak} GFLOP/s`, "start to first step");
table(titles, rows);

if (!given("--without-peft")) {
  /** The side that takes the least of `kind`. */
  const least = (kind, names) =>
    names.reduce((a, b) => (best.get(a)[kind] <= best.get(b)[kind] ? a : b));
  const rival = least("seconds", PEFT);
  const batchRival = least("seconds", PEFT_BATCH);
  const soonest = least("first", PEFT);
  /** How many times less of `kind` ours takes: more is better for speed, memory and waiting alike. */
  const times = (kind, ours, theirs) =>
    best.get(theirs)[kind] / best.get(ours)[kind];
  const goals = [
    [`${AUTO}: speed beside ${rival}`, times("seconds", AUTO, rival), 2.5],
    [`${AUTO}: memory beside ${rival}`, times("peak", AUTO, rival), 3],
    [`${F32}: speed beside ${PEFT[0]}`, times("seconds", F32, PEFT[0]), 1.6],
    ...[SMALL, STREAMED].flatMap((small) => [
      [`${small}: memory beside ${rival}`, times("peak", small, rival), 8],
      [`${small}: speed beside ${rival}`, times("seconds", small, rival), 1.5],
    ]),
    [
      `${BATCH}: speed beside ${batchRival}`,
      times("seconds", BATCH, batchRival),
      2,
    ],
    [
      `${AUTO}: start to first step beside ${soonest}`,
      times("first", AUTO, soonest),
      5,
    ],
  ];
  console.log("");
  table(
    ["goal: times less time or memory", "measured", "goal", "of goal", ""],
    goals.map(([name, measured, goal]) => [
      name,
      `${measured.toFixed(2)} x`,
      `${goal} x`,
      (measured / goal).toFixed(2),
      measured >= goal ? "met" : "missed",
    ]),
  );
}
