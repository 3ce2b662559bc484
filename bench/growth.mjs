// How a step grows: its time with the number of samples and of threads, its memory with the number of layers.
//
//   node bench/growth.mjs [--rounds N] [--quick]
//
// Time: SmolLM2-135M Q4_1, samples of 128 tokens. Memory: generated models whose layers are streamed.

import { execFileSync } from "node:child_process";
import path from "node:path";
import {
  ROOT,
  ROUNDS,
  SMOLLM2,
  STEPS,
  alternate,
  given,
  megabytes,
  table,
  train,
} from "./measure.mjs";
import { model } from "./model.mjs";

const LENGTH = 128;
const BATCHES = [1, 2, 4];
const THREADS = [1, 2];
const LAYERS = given("--quick") ? [2, 4] : [4, 8, 16];
const SHAPE = { width: 1536, hidden: 4096, heads: 12, vocab: 4096 };
const RANK = 8;

execFileSync(path.join(ROOT, "__test__/reference/fetch-smollm2.sh"));
await time();
await memory();

async function time() {
  const name = (threads, batch) => `${threads} threads, batch ${batch}`;
  const sides = THREADS.flatMap((threads) =>
    BATCHES.map((batch) => {
      const options = ["--model", SMOLLM2, "--max-steps", STEPS];
      options.push("--seq-len", LENGTH, "--batch-size", batch);
      options.push("--checkpointing", "off", "--threads", threads);
      return [name(threads, batch), () => train(options)];
    }),
  );
  const best = await alternate(ROUNDS, sides);
  const seconds = (threads, batch) => best.get(name(threads, batch)).seconds;
  const rows = THREADS.flatMap((threads) =>
    BATCHES.map((batch) => {
      const step = seconds(threads, batch);
      const linear = (batch / BATCHES[0]) * seconds(threads, BATCHES[0]);
      return [
        `${threads}`,
        `${batch} x ${LENGTH}`,
        `${step.toFixed(2)} s`,
        `${((step * 1000) / (batch * LENGTH)).toFixed(2)} ms`,
        (step / linear).toFixed(2),
        (seconds(THREADS[0], batch) / step).toFixed(2),
      ];
    }),
  );
  const titles = ["threads", "batch", "step", "per token"];
  titles.push("of linear growth", "times as fast as one thread");
  table(titles, rows);
  console.log("");
}

async function memory() {
  const models = LAYERS.map((layers) => ({
    layers,
    ...model({ ...SHAPE, layers }),
  }));
  const sides = models.map(({ layers, file }) => {
    const options = ["--model", file, "--max-steps", 2, "--rank", RANK];
    options.push("--seq-len", LENGTH, "--threads", THREADS.at(-1));
    options.push("--stream-layers", "--checkpointing", "on");
    return [layers, () => train(options)];
  });
  const best = await alternate(given("--quick") ? 1 : ROUNDS, sides);
  const rows = models.map(({ layers, size }) => {
    const { seconds, peak } = best.get(layers);
    const step = `${seconds.toFixed(2)} s`;
    return [`${layers}`, megabytes(size), step, megabytes(peak)];
  });
  table(["layers", "model", "step", "peak RSS"], rows);

  const [fewest, most] = [models[0], models.at(-1)];
  const more = best.get(most.layers).peak - best.get(fewest.layers).peak;
  const perLayer = more / (most.layers - fewest.layers);
  // A layer's factors, their gradients and two moments must stay, and so must its input.
  const { width, hidden } = SHAPE;
  const parameters = RANK * (4 * 2 * width + 3 * (width + hidden));
  const must = 4 * (4 * parameters + LENGTH * width);
  console.log(
    `\nOne more layer: ${megabytes(perLayer)}. Its weights are ${megabytes(most.layer)}; what must stay (adapter, gradients, ` +
      `moments, input) is ${megabytes(must)}.`,
  );
}
