// One step of 64 tokens on a model of 7 billion random weights, whose layers are streamed. Goal: 1.5 GB of memory.
//
//   node bench/large.mjs [--layers N]
//
// The model is written once, 3.8 GB in target/bench; with fewer layers than 32 it is smaller.

import { cpus } from "node:os";
import { megabytes, option, table, train } from "./measure.mjs";
import { model } from "./model.mjs";

const GOAL = 1.5e9;
const TOKENS = 64;
const layers = option("--layers", 32);
const { file, size } = model({
  width: 4096,
  hidden: 11008,
  heads: 32,
  vocab: 32000,
  layers,
});
const options = ["--model", file, "--max-steps", 1, "--seq-len", TOKENS];
options.push("--stream-layers", "--checkpointing", "on");
options.push("--vocab-slice", 4096);
const { seconds, first, peak } = await train(options);
table(
  ["layers", "model", "threads", "step", "from the start", "peak RSS", "goal"],
  [
    [
      `${layers}`,
      megabytes(size),
      `${cpus().length}`,
      `${seconds.toFixed(1)} s`,
      `${first.toFixed(1)} s`,
      megabytes(peak),
      `${megabytes(GOAL)}: ${peak <= GOAL ? "met" : "missed"}`,
    ],
  ],
);
