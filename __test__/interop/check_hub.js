// Python's huggingface_hub and amv-train share one cache: each finds offline what the other fetched from a local hub.
// node check_hub.js PYTHON FOLDER

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import hubs from "../fake-hub.js";

const [python, folder] = process.argv.slice(2);
const run = promisify(execFile);
const BIN = path.join(import.meta.dirname, "../../bin/amv-train.js");
const FILES = {
  "config.json": '{"model_type":"llama"}',
  "tokenizer.json": "{}",
  "model.safetensors": Buffer.alloc(100_000, 3),
};

fs.rmSync(folder, { recursive: true, force: true });
fs.mkdirSync(folder, { recursive: true });
const hub = await new hubs.FakeHub().start();
const env = {
  ...process.env,
  HF_HOME: folder,
  HF_ENDPOINT: hub.endpoint,
  HF_HUB_DISABLE_XET: "1",
  HF_HUB_DISABLE_TELEMETRY: "1",
};
delete env.HF_HUB_OFFLINE;
const offline = { ...env, HF_HUB_OFFLINE: "1" };
const script = path.join(import.meta.dirname, "check_hub.py");
const pull = (model, env) =>
  run(process.execPath, [BIN, "pull", model], { env });

hub.add("org/ours", FILES);
const ours = (await pull("org/ours", env)).stdout.trim();
await run(python, [script, "find", "org/ours", ours], { env: offline });

hub.add("org/theirs", FILES);
const fetched = await run(python, [script, "fetch", "org/theirs"], { env });
const theirs = fetched.stdout.trim();
assert.equal((await pull("org/theirs", offline)).stdout.trim(), theirs);

// A file that Python began goes on here.
const commit = hub.add("org/begun", FILES);
const { lfs } = hub.entry("org/begun", commit, "model.safetensors");
const blobs = path.join(folder, "hub/models--org--begun/blobs");
fs.mkdirSync(blobs, { recursive: true });
const begun = FILES["model.safetensors"].subarray(0, 60_000);
fs.writeFileSync(path.join(blobs, `${lfs.oid}.incomplete`), begun);
hub.requests.length = 0;
await pull("org/begun", env);
assert.equal(hub.sent(/far/), 40_000);
hub.stop();
console.log(
  "hub: huggingface_hub finds what amv-train fetched, and amv-train what huggingface_hub fetched",
);
