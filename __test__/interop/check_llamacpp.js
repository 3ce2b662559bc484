// Loads the GGUF adapters in llama.cpp (node-llama-cpp) and compares every log-probability with ours.
//
//     node check_llamacpp.js OUT        OUT: what `cargo run --example interop -- OUT` wrote
//
// Exits with 1 when a model differs. An F32 base must agree within 1e-3 nats; with a quantised base, llama.cpp also
// quantises activations, so there only the adapter's effect on each token must agree.

import fs from "node:fs";
import path from "node:path";
import { getLlama } from "node-llama-cpp";

/** Largest difference of a log-probability, in nats. */
const EXACT = 1e-3;
/** The same for Gemma: ggml looks its GELU up in a table of f16 values. */
const GELU_TABLE = 1e-2;
/** What the adapter does to the tokens of a text on a quantised base: correlation, and ratio of the sums. */
const EFFECT = { correlation: 0.98, ratio: 0.1 };

/** Correlation of the log-probabilities of a text under a merged model in K-quants, whose activations llama.cpp rounds. */
const PACKED = 0.99;

const out = process.argv[2];
// One thread: waiting for each other costs more than these models compute.
const llama = await getLlama({
  build: "never",
  gpu: false,
  logLevel: "error",
  maxThreads: 1,
});
let failures = 0;

/** Prints a line and counts it when it is a failure. */
function report(name, ok, text) {
  console.log(`${ok ? "ok    " : "DIFFER"} ${name}: ${text}`);
  if (!ok) failures += 1;
}

/** Probabilities of the next token after each of `ids`: one Map of token to probability per position. */
async function probabilities(model, ids, adapter) {
  const context = await model.createContext({
    contextSize: 256,
    sequences: ids.length,
    batchSize: 256,
    flashAttention: false,
    experimentalKvCacheKeyType: "F32",
    experimentalKvCacheValueType: "F32",
    lora: adapter && { adapters: [{ filePath: adapter, scale: 1 }] },
  });
  const rows = [];
  for (const sample of ids) {
    const sequence = context.getSequence();
    const next = { generateNext: { probabilities: true } };
    const results = await sequence.controlledEvaluate(
      sample.map((token) => [token, next]),
    );
    rows.push(results.map((result) => result.next.probabilities));
  }
  await context.dispose();
  return rows;
}

function logSoftmax(logits) {
  const largest = Math.max(...logits);
  const sum = logits.reduce((sum, x) => sum + Math.exp(x - largest), 0);
  return logits.map((x) => x - largest - Math.log(sum));
}

/** The largest difference to `logits` in log-probability, over tokens whose probability f32 still holds well. */
function largestDifference(found, logits) {
  let largest = 0;
  logits.forEach((sample, i) =>
    sample.forEach((row, t) => {
      const expected = logSoftmax(row);
      if (found[i][t].size !== row.length) {
        throw new Error(`${found[i][t].size} of ${row.length} probabilities`);
      }
      for (const [token, p] of found[i][t]) {
        if (expected[token] < -80) continue;
        largest = Math.max(largest, Math.abs(Math.log(p) - expected[token]));
      }
    }),
  );
  return largest;
}

async function checkSmall(name) {
  const folder = path.join(out, name);
  const model = await llama.loadModel({
    modelPath: path.join(folder, "model.gguf"),
  });
  const bound = name.startsWith("gemma") ? GELU_TABLE : EXACT;
  const expected = JSON.parse(
    fs.readFileSync(path.join(folder, "gguf.json"), "utf8"),
  );
  const ids = expected.input_ids;
  const plain = await probabilities(model, ids);
  let difference = largestDifference(plain, expected.base);
  report(name, difference <= bound, `base ${difference.toExponential(1)}`);
  // Trained from either kind of base, the adapter must act the same.
  for (const kind of ["safetensors", "gguf"]) {
    const adapter = path.join(folder, kind, "adapter.gguf");
    const tuned = await probabilities(model, ids, adapter);
    difference = largestDifference(tuned, expected.adapter);
    const moved = (expected.adapter_loss - expected.loss).toFixed(2);
    report(
      `${name}, adapter trained from ${kind}`,
      difference <= bound,
      `${difference.toExponential(1)} (it moves the loss by ${moved})`,
    );
  }
  await model.dispose();
  const merged = await llama.loadModel({
    modelPath: path.join(folder, "merged.gguf"),
  });
  difference = largestDifference(
    await probabilities(merged, ids),
    expected.adapter,
  );
  report(`${name}, merged`, difference <= bound, difference.toExponential(1));
  await merged.dispose();
}

/** Log-probabilities of the tokens 1, 2, … of the only sample. */
function ofTargets([sample], [rows]) {
  return sample.slice(1).map((token, t) => Math.log(rows[t].get(token)));
}

function correlation(a, b) {
  const mean = (x) => x.reduce((sum, y) => sum + y, 0) / x.length;
  const [ma, mb] = [mean(a), mean(b)];
  const product = (x, mx, y, my) =>
    x.reduce((sum, _, i) => sum + (x[i] - mx) * (y[i] - my), 0);
  return (
    product(a, ma, b, mb) /
    Math.sqrt(product(a, ma, a, ma) * product(b, mb, b, mb))
  );
}

async function checkQuantised(name) {
  const folder = path.join(out, name);
  const expected = JSON.parse(
    fs.readFileSync(path.join(folder, "gguf.json"), "utf8"),
  );
  const ids = expected.input_ids;
  const model = await llama.loadModel({ modelPath: expected.model });
  const plain = ofTargets(ids, await probabilities(model, ids));
  const adapter = path.join(folder, "gguf", "adapter.gguf");
  const tuned = ofTargets(ids, await probabilities(model, ids, adapter));
  const theirs = tuned.map((value, i) => value - plain[i]);
  const ours = expected.adapter[0].map((x, i) => x - expected.base[0][i]);
  const sum = (x) => x.reduce((total, value) => total + value, 0);
  const ratio = sum(theirs) / sum(ours);
  const r = correlation(ours, theirs);
  report(
    `${name}, effect on a quantised base`,
    r >= EFFECT.correlation && Math.abs(ratio - 1) <= EFFECT.ratio,
    `correlation ${r.toFixed(4)}, ratio ${ratio.toFixed(3)} over ${ours.length} tokens`,
  );
  await model.dispose();
}

/** A merged model in the types that its base had: what it makes of each token of the text. */
async function checkPacked(name) {
  const folder = path.join(out, name);
  const expected = JSON.parse(
    fs.readFileSync(path.join(folder, "merged.json"), "utf8"),
  );
  const ids = expected.input_ids;
  const model = await llama.loadModel({
    modelPath: path.join(folder, "merged.gguf"),
  });
  const theirs = ofTargets(ids, await probabilities(model, ids));
  const r = correlation(expected.targets, theirs);
  report(
    `${name}, merged in its own types`,
    r >= PACKED,
    `correlation ${r.toFixed(4)} over ${theirs.length} tokens`,
  );
  await model.dispose();
}

for (const name of fs.readdirSync(out).sort()) {
  if (!fs.existsSync(path.join(out, name, "gguf.json"))) continue;
  const isQuantised = name === "smollm2" || name === "packed";
  if (isQuantised) await checkQuantised(name);
  else await checkSmall(name);
  if (name === "packed") await checkPacked(name);
}
await llama.dispose();
process.exitCode = failures > 0 ? 1 : 0;
