// Seconds per training step and peak memory, amv-train beside PEFT, alternating in one run:
//
//   node bench/step.mjs                 SmolLM2-135M Q4_1, rank 8, all linear, batch 1 x 512, 2 threads
//   node bench/step.mjs --without-peft  our side alone; PEFT needs 6 GB of Python packages
//
// The base is fetched by __test__/reference/fetch-smollm2.sh. Peak memory is the child's VmHWM, mapped pages included.

import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

const root = path.join(path.dirname(fileURLToPath(import.meta.url)), "..");
const MODEL = path.join(root, "target/parity/SmolLM2-135M-Instruct.Q4_1.gguf");
const TEXT = "/usr/share/common-licenses/GPL-3";
const ROUNDS = 3;
const STEPS = 4; // the first one warms up and is not counted
const THREADS = 2;
const TOKENS = 512;
/** Floating-point operations of a step, without and with replay, and what the inner loop of an f32 product reaches on two cores. */
const GFLOP = { off: 274, on: 411 };
const PEAK_GFLOPS = 210;

/** Runs a command; resolves to the lines it printed and its peak resident memory in bytes. */
function run(command, args) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      stdio: ["ignore", "pipe", "inherit"],
    });
    let output = "";
    let peak = 0;
    const watch = setInterval(() => {
      try {
        const status = readFileSync(`/proc/${child.pid}/status`, "utf8");
        peak = 1024 * Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) || peak;
      } catch {
        // The child has ended.
      }
    }, 20);
    child.stdout.on("data", (text) => (output += text));
    child.on("error", reject);
    child.on("close", (code) => {
      clearInterval(watch);
      if (code === 0) resolve({ lines: output.trim().split("\n"), peak });
      else reject(new Error(`${command} ended with code ${code}`));
    });
  });
}

async function ours(precision, checkpointing) {
  const folder = mkdtempSync(path.join(tmpdir(), "amv-bench-"));
  try {
    const args = ["train", "--model", MODEL, "--data", TEXT, "--json"];
    args.push("--seq-len", TOKENS, "--max-steps", STEPS, "--no-shuffle");
    args.push("--precision", precision, "--checkpointing", checkpointing);
    args.push("--threads", THREADS, "--output", `${folder}/adapter/`);
    const bin = path.join(root, "bin/amv-train.js");
    const { lines, peak } = await run(process.execPath, [bin, ...args]);
    const steps = lines.map((line) => JSON.parse(line));
    const counted = steps.filter(({ type }) => type === "step").slice(1);
    const seconds = counted.map((step) => step.tokens / step.tokensPerSecond);
    return { seconds: Math.min(...seconds), peak };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function peft(dtype) {
  const python = path.join(root, "target/bench-venv/bin/python");
  if (!existsSync(python)) {
    const venv = path.join(root, "target/bench-venv");
    execFileSync("python3", ["-m", "venv", venv], { stdio: "inherit" });
    const requirements = path.join(root, "bench/requirements.txt");
    const install = ["-m", "pip", "install", "--quiet", "-r", requirements];
    execFileSync(python, install, { stdio: "inherit" });
  }
  const script = path.join(root, "bench/peft_step.py");
  const args = [MODEL, TEXT, dtype, TOKENS, STEPS, THREADS].map(String);
  const { lines, peak } = await run(python, [script, ...args]);
  return { seconds: Math.min(...lines.slice(1).map(Number)), peak };
}

const sides = [
  ["amv-train auto", () => ours("auto", "off"), GFLOP.off],
  ["amv-train f32", () => ours("f32", "off"), GFLOP.off],
  ["amv-train auto, replaying", () => ours("auto", "on"), GFLOP.on],
  ["amv-train f32, replaying", () => ours("f32", "on"), GFLOP.on],
];
if (!process.argv.includes("--without-peft")) {
  sides.push(["PEFT f32", () => peft("float32")]);
  sides.push(["PEFT bf16", () => peft("bfloat16")]);
}
execFileSync(path.join(root, "__test__/reference/fetch-smollm2.sh"));
const best = new Map();
for (let round = 0; round < ROUNDS; round++) {
  for (const [name, measure, gflop] of sides) {
    const { seconds, peak } = await measure();
    const known = best.get(name) ?? { seconds: Infinity, peak: 0, gflop };
    best.set(name, {
      ...known,
      seconds: Math.min(known.seconds, seconds),
      peak: Math.max(known.peak, peak),
    });
  }
}
console.log("| who | step | tokens/s | peak RSS | over the f32 floor |");
console.log("|---|---|---|---|---|");
for (const [name, { seconds, peak, gflop }] of best) {
  const cells = [
    name,
    `${seconds.toFixed(2)} s`,
    (TOKENS / seconds).toFixed(0),
    `${(peak / 1e6).toFixed(0)} MB`,
    gflop ? `${((seconds * PEAK_GFLOPS) / gflop).toFixed(2)} x` : "",
  ];
  console.log(`| ${cells.join(" | ")} |`);
}
