// What the benchmarks in JavaScript share: a child's lines and peak memory, the best of several runs, tables.

import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

export const ROOT = path.join(
  path.dirname(fileURLToPath(import.meta.url)),
  "..",
);
/** What steps are measured with; __test__/reference/fetch-smollm2.sh fetches it. */
export const SMOLLM2 = path.join(
  ROOT,
  "target/parity/SmolLM2-135M-Instruct.Q4_1.gguf",
);
/** A text that every Debian system has. */
export const TEXT = "/usr/share/common-licenses/GPL-3";
/** Rounds and steps of each; the first step warms up and is not counted. */
export const ROUNDS = option("--rounds", given("--quick") ? 1 : 3);
export const STEPS = given("--quick") ? 2 : 4;
/** How often a child's memory and time are read; what it takes in its last moments may be missed. */
const WATCH_MS = 20;
/** Other programs may have this share of the processors before a measurement is called into question. */
const OTHERS = 0.05;

/**
 * Runs a command to its end. Gives its lines on standard output with the seconds from the start at which each came, and its peak
 * resident memory in bytes: VmHWM, mapped pages included.
 */
export function run(command, args) {
  return new Promise((resolve, reject) => {
    const start = performance.now();
    const child = spawn(command, args.map(String), {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const lines = [];
    let rest = "";
    let peak = 0;
    let used = 0;
    const before = processors();
    const watch = setInterval(() => {
      peak = Math.max(peak, peakOf(child.pid));
      used = Math.max(used, ticksOf(child.pid));
    }, WATCH_MS);
    child.stdout.setEncoding("utf8").on("data", (data) => {
      const seconds = (performance.now() - start) / 1000;
      const whole = (rest + data).split("\n");
      rest = whole.pop();
      lines.push(...whole.map((text) => ({ text, seconds })));
    });
    child.on("error", reject);
    child.on("close", (code) => {
      clearInterval(watch);
      const { busy, all } = processors();
      const others = (busy - before.busy - used) / (all - before.all);
      if (others > OTHERS) {
        const share = `${(100 * others).toFixed(0)} %`;
        progress(`  other programs had ${share} of the processors meanwhile`);
      }
      if (code === 0) resolve({ lines, peak });
      else reject(new Error(`${command} ended with code ${code}`));
    });
  });
}

function peakOf(pid) {
  const status = read(`/proc/${pid}/status`);
  return 1024 * Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0);
}

/** Ticks of processor time that a process has had. */
function ticksOf(pid) {
  // The name, in brackets, may have blanks; after it user and system time are fields 12 and 13.
  const fields = read(`/proc/${pid}/stat`).split(") ").at(-1).split(" ");
  return Number(fields[11] ?? 0) + Number(fields[12] ?? 0);
}

/** Ticks since the start of the system on all processors: those somebody computed in, and all. */
function processors() {
  const first = /^cpu +(.*)$/m.exec(read("/proc/stat"))?.[1] ?? "";
  // user, nice, system, idle, waiting for disks, and more; the last two, guests, are in the first two already.
  const ticks = first.split(" ").map(Number).slice(0, 8);
  const all = ticks.reduce((sum, number) => sum + number, 0);
  return { busy: all - ticks[3] - ticks[4], all };
}

/** The text of a file of /proc; nothing when the process has ended. */
function read(file) {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}

/**
 * Trains with the addon of this checkout and these options. The first step warms up and does not count unless it is the only one.
 * Gives the seconds of the best step, those from the start of the process to the end of the first step, and the peak in bytes.
 */
export async function train(options) {
  const folder = mkdtempSync(path.join(tmpdir(), "amv-bench-"));
  try {
    const bin = path.join(ROOT, "bin/amv-train.js");
    const args = [bin, "train", "--json", "--no-shuffle", "--data", TEXT];
    args.push("--output", `${folder}/adapter/`, ...options);
    const { lines, peak } = await run(process.execPath, args);
    const steps = lines
      .map(({ text, seconds }) => ({ ...JSON.parse(text), at: seconds }))
      .filter(({ type }) => type === "step");
    const counted = steps.length > 1 ? steps.slice(1) : steps;
    const seconds = counted.map((step) => step.tokens / step.tokensPerSecond);
    return { seconds: Math.min(...seconds), first: steps[0].at, peak };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/**
 * Runs every side in turn, `rounds` times, so that what else the machine does meets all alike. `sides`: pairs of a name and a
 * function that gives numbers; gives the least number of each kind by name, of `peak` the largest.
 */
export async function alternate(rounds, sides) {
  const best = new Map();
  for (let round = 1; round <= rounds; round++) {
    for (const [name, measure] of sides) {
      progress(`round ${round} of ${rounds}: ${name}`);
      const numbers = await measure();
      const known = best.get(name) ?? numbers;
      for (const [kind, number] of Object.entries(numbers)) {
        const better = kind === "peak" ? Math.max : Math.min;
        known[kind] = better(known[kind], number);
      }
      best.set(name, known);
    }
  }
  return best;
}

/** Prints rows of cells below their titles, as a table of Markdown. */
export function table(titles, rows) {
  const widths = titles.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => row[column].length)),
  );
  const line = (cells) =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column])).join(" | ")} |`;
  console.log(line(titles));
  console.log(line(widths.map((width) => "-".repeat(width))));
  for (const row of rows) console.log(line(row));
}

/** Says on standard error what is going on, so that standard output holds the tables alone. */
export const progress = (text) => console.error(text);

/** The number after the option `name` on the command line, or `otherwise`. */
export function option(name, otherwise) {
  const at = process.argv.indexOf(name);
  if (at < 0) return otherwise;
  const number = Number(process.argv[at + 1]);
  if (Number.isInteger(number) && number > 0) return number;
  console.error(`${name} needs a whole number above 0`);
  process.exit(2);
}

export function given(name) {
  return process.argv.includes(name);
}

export const megabytes = (bytes) => `${(bytes / 1e6).toFixed(0)} MB`;
