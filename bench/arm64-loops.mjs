// Instructions in the innermost loops of the ARM64 products, counted in a disassembly: the measure of a kernel where no ARM64
// processor is at hand to time it.
//
//   node bench/arm64-loops.mjs PROGRAM [OBJDUMP]
//
// PROGRAM is a build with symbols, such as the test program that .ci/arm64 leaves in target/arm64/build; OBJDUMP is
// aarch64-linux-gnu-objdump of the package binutils-aarch64-linux-gnu unless it is given.

import { execFileSync } from "node:child_process";

const [program, objdump = "aarch64-linux-gnu-objdump"] = process.argv.slice(2);
if (!program) {
  console.error("usage: node bench/arm64-loops.mjs PROGRAM [OBJDUMP]");
  process.exit(2);
}

/** Multiply-adds of each instruction, and how often its loop runs for the 64 terms that int8 factors are shared by. */
const KERNELS = [
  { name: "f32_tile", multiply: "fmla", each: 4, runs: 64 },
  { name: "bf16_tile", multiply: "bfmmla", each: 16, runs: 16 },
  { name: "dotprod_tile", multiply: "sdot", each: 16, runs: 16 },
  { name: "i8mm_tile", multiply: "smmla", each: 32, runs: 8 },
];
const TILE = 8 * 12; // sums
const TERMS = 64;

/** The functions of neon.rs as lists of [address, mnemonic, operands]. */
function functions() {
  const flags = ["--disassemble", "--demangle", "--no-show-raw-insn"];
  const text = execFileSync(objdump, [...flags, program], {
    encoding: "utf8",
    maxBuffer: 2 ** 31,
  });
  const found = new Map();
  let lines;
  for (const line of text.split("\n")) {
    const name = /^[0-9a-f]+ <(.*)>:$/.exec(line)?.[1];
    if (name !== undefined) {
      lines = /product::neon::/.test(name) ? [] : undefined;
      if (lines) found.set(name, lines);
      continue;
    }
    const parts = /^\s*([0-9a-f]+):\s+(\S+)\s*(.*)$/.exec(line);
    if (parts) lines?.push([parseInt(parts[1], 16), parts[2], parts[3]]);
  }
  return found;
}

/** Stretches of code that a branch at their end goes back to the start of, the shortest first. */
function loops(lines) {
  const first = lines[0]?.[0];
  const found = lines.flatMap(([from, mnemonic, operands], end) => {
    if (!/^(b|b\..*|cbn?z|tbn?z)$/.test(mnemonic)) return [];
    const target = parseInt(/([0-9a-f]+) </.exec(operands)?.[1] ?? "", 16);
    if (!(target <= from && target >= first)) return [];
    const start = lines.findIndex(([address]) => address === target);
    return [{ start, end, body: lines.slice(start, end + 1) }];
  });
  return found.sort((a, b) => a.body.length - b.body.length);
}

const count = (body, pattern) =>
  body.filter(([, mnemonic]) => pattern.test(mnemonic)).length;
const LOADS = /^(ld|prfm)/;

/** Instructions of the vector pipes: all that name a vector register and neither load nor store. */
const vectors = (body) =>
  body.filter(
    ([, mnemonic, operands]) =>
      !/^(ld|st|prfm)/.test(mnemonic) && /\b[vqds]\d+\b/.test(operands),
  ).length;

/** Cycles at the least: two vector instructions, two loads and four instructions a cycle. */
const cycles = (body) =>
  Math.max(vectors(body) / 2, count(body, LOADS) / 2, body.length / 4);

const round = (value) => Math.round(10 * value) / 10;

const found = functions();
const rows = KERNELS.map(({ name, multiply, each, runs }) => {
  const pattern = new RegExp(`^${multiply}$`);
  let best;
  for (const [symbol, lines] of found) {
    if (!symbol.includes(name.replace("_tile", "_"))) continue;
    const all = loops(lines);
    const inner = all.filter(
      (loop) =>
        !all.some(
          (other) =>
            other !== loop &&
            other.start >= loop.start &&
            other.end <= loop.end,
        ),
    );
    // Of the loops for one to eight rows, that of eight.
    for (const loop of inner) {
      const multiplications = count(loop.body, pattern);
      if (multiplications <= (best?.multiplications ?? 0)) continue;
      const outer = all.find(
        (other) => other.start < loop.start && other.end > loop.end,
      );
      best = { ...loop, multiplications, outer };
    }
  }
  if (!best) throw new Error(`no loop of ${multiply} in ${program}`);
  const { body, multiplications, outer } = best;
  // Steps of the sum that one pass makes, when the compiler has unrolled the loop.
  const steps = (multiplications * each * runs) / (TILE * TERMS);
  // What else there is to do for a block of terms: the factors of int8.
  const rest = outer ? outer.body.filter((line) => !body.includes(line)) : [];
  const blockCycles = (runs / steps) * cycles(body) + cycles(rest);
  return {
    kernel: name.replace("_tile", ""),
    multiply,
    instructions: body.length,
    multiplying: multiplications,
    loads: count(body, LOADS),
    stores: count(body, /^st/),
    "per instruction": round((multiplications * each) / body.length),
    "at most": each,
    "per cycle": round((multiplications * each) / cycles(body)),
    "rest of a block": rest.length,
    "per cycle with it": round((TILE * TERMS) / blockCycles),
    "at most per cycle": 2 * each,
  };
});
console.table(rows);
