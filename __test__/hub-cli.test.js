"use strict";

// Models of the hub from the command line and the SDK, end to end: fetched over a bad line, trained, used offline.

const assert = require("node:assert/strict");
const { spawn } = require("node:child_process");
const { once } = require("node:events");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { after, before, describe, test } = require("node:test");
const { FakeHub } = require("./fake-hub.js");

const ROOT = path.join(__dirname, "..");
const BIN = path.join(ROOT, "bin", "amv-train.js");
const TINY = fs.readFileSync(path.join(ROOT, "builtin/tiny-transformer.gguf"));
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "amv-train-hub-cli-"));
const environment = { ...process.env, HF_HOME: path.join(folder, "hf") };
delete environment.HF_TOKEN;
delete environment.HF_HUB_OFFLINE;
const hub = new FakeHub();

before(async () => {
  await hub.start();
  environment.HF_ENDPOINT = hub.endpoint;
  fs.writeFileSync(path.join(folder, "data.txt"), "Once upon a time\n");
  hub.add("tiny/stories", { "tiny.gguf": TINY, "README.md": "Stories" });
  hub.add("tiny/directory", directory());
});
after(() => {
  hub.stop();
  fs.rmSync(folder, { recursive: true });
});

/** The Hugging Face directory of a random llama of 72 tokens, with a tokenizer of single characters. */
function directory() {
  const model = path.join(__dirname, "fixtures/models/llama3");
  const letters = [..."abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZĠ."];
  const tokens = ["<s>", "</s>", ...letters];
  const vocab = Object.fromEntries(tokens.map((token, id) => [token, id]));
  const special = { special: true, normalized: false };
  const added = ["<s>", "</s>"].map((content, id) => ({
    id,
    content,
    single_word: false,
    lstrip: false,
    rstrip: false,
    ...special,
  }));
  const byteLevel = {
    type: "ByteLevel",
    add_prefix_space: false,
    trim_offsets: true,
    use_regex: true,
  };
  const tokenizer = {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: added,
    normalizer: null,
    pre_tokenizer: byteLevel,
    post_processor: null,
    decoder: byteLevel,
    model: { type: "BPE", vocab, merges: [] },
  };
  return {
    "config.json": fs.readFileSync(path.join(model, "config.json")),
    "model.safetensors": fs.readFileSync(path.join(model, "model.safetensors")),
    "tokenizer.json": JSON.stringify(tokenizer),
    "tokenizer_config.json": '{"bos_token":"<s>","eos_token":"</s>"}',
  };
}

async function run(words, more = {}, onStart = () => {}) {
  const child = spawn(process.execPath, [BIN, ...words], {
    cwd: folder,
    env: { ...environment, ...more },
    timeout: 120_000,
  });
  const text = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"]) {
    child[name].setEncoding("utf8").on("data", (part) => (text[name] += part));
  }
  onStart(child);
  const [status] = await once(child, "close");
  return { status, ...text };
}

const TRAIN = "--max-steps 2 --seq-len 32 --data data.txt --threads 1".split(
  " ",
);

describe("a model of the hub on the command line", () => {
  test("pull prints the path on standard output, progress elsewhere", async () => {
    hub.fail(/\/far\//, { drop: 1000 }, { drop: 100_000 });
    const { status, stdout, stderr } = await run(["pull", "tiny/stories"]);
    assert.equal(status, 0, stderr);
    assert.match(stderr, /fetching .* of .*tiny\.gguf/);
    assert.match(stderr, /tiny\/stories at [0-9a-f]{7}: 1 files/);
    assert.deepEqual(fs.readFileSync(stdout.trimEnd()), TINY);
    assert.equal(hub.sent(/\/far\//), TINY.length);
  });

  test("is trained as a directory, and events and files keep its name", async () => {
    hub.fail(/far.*safetensors/, { drop: 30_000 });
    const words = ["train", "--model", "tiny/directory", ...TRAIN];
    const { status, stdout, stderr } = await run([
      ...words,
      "--output",
      "trained/",
      "--json",
    ]);
    assert.equal(status, 0, stderr);
    const events = stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    const downloads = events.filter(({ type }) => type === "download");
    assert.ok(downloads.length > 0);
    assert.equal(downloads.at(-1).done, downloads.at(-1).total);
    const start = events.find(({ type }) => type === "start");
    assert.equal(start.model, "tiny/directory");
    assert.equal(events.at(-1).status, "completed");
    const json = (name) =>
      JSON.parse(fs.readFileSync(path.join(folder, "trained", name)));
    for (const file of ["amv_train_config.json", "adapter_config.json"]) {
      assert.equal(json(file).base_model_name_or_path, "tiny/directory", file);
    }
  });

  test("serves every other command offline, under the same name", async () => {
    const offline = { HF_HUB_OFFLINE: "1" };
    const model = ["--model", "tiny/directory"];
    const adapter = [...model, "--adapter", "trained/"];
    hub.requests.length = 0;
    for (const words of [
      ["inspect", "tiny/directory"],
      ["data", "data.txt", ...model],
      ["generate", ...adapter, "--prompt", "Once", "--max-tokens", "3"],
      ["eval", ...adapter, "--data", "data.txt"],
      ["merge", ...adapter, "--output", "merged/"],
      ["verify", ...adapter, "--exported", "merged/"],
      ["export", ...adapter, "--output", "exported.gguf"],
    ]) {
      const { status, stderr } = await run(words, offline);
      assert.equal(status, 0, `${words.join(" ")}: ${stderr}`);
    }
    assert.deepEqual(hub.requests, []);
    // What was merged stands alone: no link into the cache.
    for (const entry of fs.readdirSync(path.join(folder, "merged"), {
      withFileTypes: true,
    })) {
      assert.ok(entry.isFile(), entry.name);
    }
  });

  test("and an adapter of the hub work together, online and then offline", async () => {
    const trained = (file) =>
      fs.readFileSync(path.join(folder, "trained", file));
    const names = ["adapter_config.json", "adapter_model.safetensors"];
    hub.add(
      "tiny/adapter",
      Object.fromEntries(names.map((name) => [name, trained(name)])),
    );
    const model = ["--model", "tiny/directory"];
    const adapter = ["--adapter", "tiny/adapter"];
    const text = ["--prompt", "Once", "--max-tokens", "3"];
    const first = await run(["generate", ...model, ...adapter, ...text]);
    assert.equal(first.status, 0, first.stderr);
    const init = ["--init-adapter", "tiny/adapter"];
    const offline = { HF_HUB_OFFLINE: "1" };
    hub.requests.length = 0;
    for (const words of [
      ["generate", ...model, ...adapter, ...text],
      ["train", ...model, ...init, ...TRAIN, "--output", "continued/"],
      ["export", ...model, ...adapter, "--output", "from-hub.gguf"],
      ["pull", "tiny/adapter"],
    ]) {
      const { status, stderr } = await run(words, offline);
      assert.equal(status, 0, `${words.join(" ")}: ${stderr}`);
    }
    assert.deepEqual(hub.requests, []);
  });

  test("that is not there is one error with a hint", async () => {
    const { status, stdout, stderr } = await run([
      "train",
      "--model",
      "tiny/absent",
      "--output",
      "x/",
    ]);
    assert.equal(status, 1);
    assert.equal(stdout, "");
    assert.match(stderr, /^error: there is no tiny\/absent: .*\nhint: .*\n$/);
    assert.ok(!fs.existsSync(path.join(folder, "x")));
  });

  test("Ctrl-C ends the download, and the next one goes on", async () => {
    const big = Buffer.alloc(300_000, 7);
    hub.add("tiny/big", { "big.gguf": big });
    // The first answer ends early, and the second says to wait for a minute: there comes the signal.
    const busy = { status: 503, headers: { "retry-after": "60" } };
    hub.fail(/\/far\/.*big\.gguf/, { drop: 50_000 }, busy);
    let polling;
    const interrupt = (child) => {
      polling = setInterval(() => {
        if (hub.requests.at(-1)?.status !== 503) return;
        clearInterval(polling);
        setTimeout(() => child.kill("SIGINT"), 50);
      }, 20);
    };
    const words = ["pull", "tiny/big"];
    const { status, stderr } = await run(words, {}, interrupt);
    clearInterval(polling);
    assert.equal(status, 1, stderr);
    assert.match(stderr, /stopped while tiny\/big was fetched/);
    const again = await run(["pull", "tiny/big"]);
    assert.equal(again.status, 0, again.stderr);
    assert.equal(hub.sent(/big\.gguf/), big.length);
  });

  test("what pull does not know is refused", async () => {
    const { status, stderr } = await run(["pull", "tiny-transformer"]);
    assert.equal(status, 2);
    assert.match(stderr, /no name of a model on the hub/);
  });
});
