"use strict";

// Models of the Hugging Face hub, from a server that fails in every way networks and hubs do.

const assert = require("node:assert/strict");
const crypto = require("node:crypto");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { after, beforeEach, describe, test } = require("node:test");
const { hubEnvironment } = require("../lib/environment.js");
const { fetchModel } = require("../lib/hub/fetch.js");
const { hubName } = require("../lib/hub/name.js");
const { checkRoom } = require("../lib/hub/room.js");
const { FakeHub } = require("./fake-hub.js");

const folder = fs.mkdtempSync(path.join(os.tmpdir(), "amv-train-hub-"));
after(() => fs.rmSync(folder, { recursive: true }));

const bytes = (count, seed = 1) =>
  Buffer.from(Array.from({ length: count }, (_, i) => (i * seed * 31) % 251));
const WEIGHTS = bytes(100_000);
const DIRECTORY = {
  "README.md": "# A model",
  "config.json": '{"model_type":"llama"}',
  "tokenizer.json": "{}",
  "tokenizer_config.json": "{}",
  "model.safetensors": WEIGHTS,
  "pytorch_model.bin": bytes(50_000),
  "onnx/model.onnx": bytes(50_000),
};

let hub, environment, cases;
const pauses = [];
const hubs = [];
beforeEach(async () => {
  hub = await new FakeHub().start();
  hubs.push(hub);
  cases = (cases ?? 0) + 1;
  environment = {
    cacheFolder: path.join(folder, `${cases}`, "hub"),
    tokenFile: path.join(folder, `${cases}`, "token"),
    endpoint: hub.endpoint,
    offline: false,
  };
  pauses.length = 0;
});
after(() => hubs.forEach((hub) => hub.stop()));

const events = [];
/** Fetches `model` without waiting between attempts; how long it would have waited is in `pauses`. */
function get(model, more = {}) {
  events.length = 0;
  return fetchModel(hubName(model), {
    environment: { ...environment, ...more.environment },
    onEvent: (event) => events.push(event),
    pause: async (ms) => void pauses.push(ms),
    signal: more.signal,
  });
}

/** Paths below the cache, links as `path -> target`. */
function cached() {
  const all = fs.readdirSync(environment.cacheFolder, {
    recursive: true,
    withFileTypes: true,
  });
  return all
    .filter((entry) => !entry.isDirectory())
    .map((entry) => {
      const full = path.join(entry.parentPath ?? entry.path, entry.name);
      const name = path.relative(environment.cacheFolder, full);
      return entry.isSymbolicLink()
        ? `${name} -> ${fs.readlinkSync(full)}`
        : name;
    })
    .filter((name) => !name.startsWith(".locks"))
    .sort();
}

const blobs = () => cached().filter((name) => name.includes("/blobs/"));

describe("a model of the hub", () => {
  test("comes with the files that are read and no other, in the layout of huggingface_hub", async () => {
    const commit = hub.add("org/name", DIRECTORY);
    const found = await get("org/name");
    const base = path.join(environment.cacheFolder, "models--org--name");
    assert.equal(found.path, path.join(base, "snapshots", commit));
    assert.equal(found.commit, commit);
    const read = (name) => fs.readFileSync(path.join(found.path, name));
    assert.deepEqual(read("model.safetensors"), WEIGHTS);
    assert.deepEqual(fs.readdirSync(found.path).sort(), [
      "config.json",
      "model.safetensors",
      "tokenizer.json",
      "tokenizer_config.json",
    ]);
    const hash = crypto.createHash("sha256").update(WEIGHTS).digest("hex");
    assert.ok(cached().includes(`models--org--name/blobs/${hash}`));
    const link = `models--org--name/snapshots/${commit}/model.safetensors`;
    assert.ok(cached().includes(`${link} -> ../../blobs/${hash}`));
    assert.equal(fs.readFileSync(path.join(base, "refs/main"), "utf8"), commit);
    const told = events.filter(({ type }) => type === "download");
    // Two of the files have the same two bytes, which come once.
    assert.equal(told.at(-1).done, found.bytes - 2);
    assert.equal(told.at(-1).total, found.bytes - 2);
  });

  test("is fetched once", async () => {
    hub.add("org/name", DIRECTORY);
    const first = await get("org/name");
    hub.requests.length = 0;
    const second = await get("org/name");
    assert.deepEqual({ ...second }, { ...first });
    assert.equal(hub.sent(/resolve|far/), 0);
    assert.deepEqual(events, []);
  });

  test("of a commit that is there needs no network", async () => {
    const commit = hub.add("org/name", DIRECTORY);
    await get(`org/name@${commit}`);
    hub.requests.length = 0;
    await get(`org/name@${commit}`);
    assert.deepEqual(hub.requests, []);
  });

  test("at a revision is that revision", async () => {
    hub.add("org/name", DIRECTORY);
    const other = { ...DIRECTORY, "model.safetensors": bytes(10, 7) };
    const commit = hub.add("org/name", other, { revision: "v2" });
    const found = await get("org/name@v2");
    assert.equal(found.commit, commit);
    const weights = path.join(found.path, "model.safetensors");
    assert.deepEqual(fs.readFileSync(weights), bytes(10, 7));
  });

  test("changes with its branch, and files that stay are not fetched again", async () => {
    hub.add("org/name", DIRECTORY);
    await get("org/name");
    hub.requests.length = 0;
    const commit = hub.add("org/name", {
      ...DIRECTORY,
      "config.json": '{"model_type":"qwen2"}',
    });
    assert.equal((await get("org/name")).commit, commit);
    assert.equal(hub.sent(/resolve|far/), '{"model_type":"qwen2"}'.length);
  });

  test("in shards has those of its index", async () => {
    const shard = (n) => `model-0000${n}-of-00002.safetensors`;
    const weight_map = { a: shard(1), b: shard(2), c: shard(1) };
    hub.add("org/sharded", {
      ...DIRECTORY,
      "model.safetensors": bytes(9),
      "model.safetensors.index.json": JSON.stringify({ weight_map }),
      [shard(1)]: bytes(1000),
      [shard(2)]: bytes(2000),
      "consolidated.safetensors": bytes(3000),
    });
    const { files } = await get("org/sharded");
    assert.deepEqual(files.slice(-3), [
      "model.safetensors.index.json",
      shard(1),
      shard(2),
    ]);
  });

  test("is one .gguf file when it is named, with all its parts", async () => {
    hub.add("org/many", {
      "a.gguf": bytes(10),
      "b/b-00001-of-00002.gguf": bytes(20),
      "b/b-00002-of-00002.gguf": bytes(30),
    });
    const a = await get("org/many:a.gguf");
    assert.deepEqual(a.files, ["a.gguf"]);
    assert.deepEqual(fs.readFileSync(a.path), bytes(10));
    const b = await get("org/many:b/b-00002-of-00002.gguf");
    assert.match(b.path, /\/b\/b-00001-of-00002\.gguf$/);
    assert.equal(b.bytes, 50);
  });

  test("is the only .gguf file there is; of several one must be named", async () => {
    hub.add("org/one", { "a.gguf": bytes(10), "mmproj-a.gguf": bytes(5) });
    assert.match((await get("org/one")).path, /\/a\.gguf$/);
    hub.add("org/two", { "a.gguf": bytes(10), "b.gguf": bytes(3_000_000) });
    await assert.rejects(get("org/two"), {
      code: "USAGE",
      message: "org/two has 2 GGUF models: a.gguf (1 MB), b.gguf (3 MB)",
      hint: "name one, such as org/two:a.gguf",
    });
  });
});

describe("a download", () => {
  const size = WEIGHTS.length;

  test("goes on after dropped connections where it stopped", async () => {
    hub.add("org/name", DIRECTORY);
    hub.fail(/\/far\//, { drop: 40_000 }, { drop: 25_000 }, { drop: 0 });
    await get("org/name");
    assert.equal(hub.sent(/\/far\//), size);
    const ranges = hub.requests
      .filter(({ url }) => url.includes("/far/"))
      .map(({ range }) => range);
    assert.deepEqual(ranges, [
      undefined,
      "bytes=40000-",
      "bytes=65000-",
      "bytes=65000-",
    ]);
    assert.deepEqual(pauses, [500, 500, 1000]);
  });

  test("goes on from what an earlier process left", async () => {
    hub.add("org/name", DIRECTORY);
    hub.fail(/\/far\//, ...Array(6).fill({ drop: 0 }));
    await assert.rejects(get("org/name"), { code: "NETWORK" });
    const partial = blobs().find((name) => name.endsWith(".incomplete"));
    const place = path.join(environment.cacheFolder, partial);
    fs.writeFileSync(place, WEIGHTS.subarray(0, 30_000));
    await get("org/name");
    assert.equal(hub.sent(/\/far\//), size - 30_000);
    assert.deepEqual(
      blobs().filter((name) => name.endsWith(".incomplete")),
      [],
    );
  });

  test("begins anew where the server cannot go on", async () => {
    hub.add("org/name", DIRECTORY);
    hub.fail(/\/far\//, { drop: 40_000 }, { whole: true });
    const { path: place } = await get("org/name");
    const weights = path.join(place, "model.safetensors");
    assert.deepEqual(fs.readFileSync(weights), WEIGHTS);
    assert.equal(hub.sent(/\/far\//), 40_000 + size);
  });

  test("with other content is made once more, then refused, and nothing of it stays", async () => {
    hub.add("org/name", DIRECTORY);
    hub.fail(/\/far\//, { content: bytes(size, 3) });
    await get("org/name");
    assert.equal(hub.sent(/\/far\//), 2 * size);

    hub.add("org/small", DIRECTORY);
    const wrong = { content: '{"model_type":"LLAMA"}' };
    hub.fail(/org\/small.*config/, wrong, wrong);
    await assert.rejects(get("org/small"), {
      code: "NETWORK",
      message: /config\.json came from .* twice with other content/,
    });
    assert.ok(!blobs().some((name) => name.includes("org--small")));
  });

  test("waits while the hub is busy, as long as it says", async () => {
    hub.add("org/name", DIRECTORY);
    hub.fail(
      /\/api\//,
      { status: 429, headers: { "retry-after": "7" } },
      { status: 503 },
    );
    await get("org/name");
    assert.deepEqual(pauses, [7000, 1000]);
  });

  test("that gets no answer ends with NETWORK", async () => {
    const { endpoint } = hub;
    hub.stop();
    await assert.rejects(get("org/name"), {
      code: "NETWORK",
      message: new RegExp(
        `org/name cannot be fetched from ${new URL(endpoint).host}: ECONNREFUSED`,
      ),
      hint: /same command again/,
    });
    assert.deepEqual(pauses, [500, 1000, 2000, 4000, 8000]);
  });

  test("is not needed while the network is away and a copy is there, with a warning", async () => {
    hub.add("org/name", DIRECTORY);
    const first = await get("org/name");
    hub.stop();
    const second = await get("org/name");
    assert.equal(second.path, first.path);
    assert.deepEqual(
      events.map(({ type, code }) => [type, code]),
      [["warning", "FROM_CACHE"]],
    );
    assert.deepEqual(pauses, [500]);
  });

  test("of two processes is made by one", async () => {
    hub.add("org/name", DIRECTORY);
    const [one, two] = await Promise.all([get("org/name"), get("org/name")]);
    assert.equal(one.path, two.path);
    assert.equal(hub.sent(/\/far\//), size);
  });

  test("ends when it is told to, and keeps what came", async () => {
    hub.add("org/name", DIRECTORY);
    const stop = new AbortController();
    hub.fail(/\/far\//, { drop: 40_000 });
    const reason = new Error("enough");
    const fetching = fetchModel(hubName("org/name"), {
      environment,
      signal: stop.signal,
      pause: async () => {
        stop.abort(reason);
        throw reason;
      },
    });
    await assert.rejects(fetching, reason);
    const partial = blobs().find((name) => name.endsWith(".incomplete"));
    const place = path.join(environment.cacheFolder, partial);
    assert.equal(fs.statSync(place).size, 40_000);
  });

  test("that does not fit is refused before it begins", () => {
    const files = [{ path: "a", size: 2 ** 60 }];
    assert.throws(
      () => checkRoom({ model: "org/name" }, files, folder, () => 0),
      { code: "IO", message: /org\/name needs 1099511627776 MB more/ },
    );
    checkRoom({ model: "org/name" }, files, folder, () => 2 ** 60 - 1);
  });
});

describe("what the hub refuses", () => {
  test("a gated model says where its terms are", async () => {
    hub.add("org/gated", DIRECTORY, { gated: true });
    await assert.rejects(get("org/gated"), {
      code: "AUTH",
      hint: `accept them with your account on ${hub.endpoint}/org/gated, then set HF_TOKEN to a token from ${hub.endpoint}/settings/tokens`,
    });
    await assert.rejects(get("org/gated", { environment: { token: "x" } }), {
      code: "AUTH",
      hint: `accept them with the account of your token on ${hub.endpoint}/org/gated`,
    });
    fs.writeFileSync(environment.tokenFile, "open\n");
    await get("org/gated");
  });

  test("a model, revision or file that is not there is named", async () => {
    hub.add("org/many", { "model-q4_0.gguf": bytes(10) });
    await assert.rejects(get("org/nothing"), {
      code: "NOT_FOUND",
      message: /there is no org\/nothing: no such path here, and no/,
    });
    await assert.rejects(get("org/many@v9"), {
      code: "NOT_FOUND",
      message: "org/many has no revision v9",
    });
    await assert.rejects(get("org/many:model-q4_1.gguf"), {
      code: "NOT_FOUND",
      hint: /^did you mean org\/many:model-q4_0\.gguf\?/,
    });
  });

  test("pickle files are refused by name", async () => {
    const { "model.safetensors": _, ...pickled } = DIRECTORY;
    hub.add("org/pickled", pickled);
    for (const model of [
      "org/pickled",
      "org/pickled:pytorch_model.bin",
      "org/pickled:x.ckpt",
    ]) {
      await assert.rejects(get(model), {
        code: "UNSUPPORTED_FORMAT",
        message: /is a pickle file/,
      });
    }
    assert.equal(hub.sent(/resolve|far/), 0);
  });

  test("an adapter names its base", async () => {
    hub.add("org/lora", {
      "adapter_config.json": '{"base_model_name_or_path":"org/name"}',
      "adapter_model.safetensors": bytes(10),
    });
    await assert.rejects(get("org/lora"), {
      code: "UNSUPPORTED_MODEL",
      message: "org/lora is a LoRA adapter of org/name, not a model",
    });
  });

  test("an adapter is fetched where one is asked for, as PEFT, MLX or llama.cpp wrote it", async () => {
    const other = { "README.md": "x", "optimizer.pt": bytes(9) };
    const config = { "adapter_config.json": "{}" };
    const adapter = (repo, files) => {
      hub.add(repo, { ...other, ...files });
      return fetchAdapter(repo);
    };
    const fetchAdapter = (repo) =>
      fetchModel({ ...hubName(repo), kind: "adapter" }, { environment });
    const peft = { ...config, "adapter_model.safetensors": bytes(10) };
    const sidecar = { "amv_train_config.json": "{}" };
    const found = await adapter("org/peft", { ...peft, ...sidecar });
    assert.deepEqual(fs.readdirSync(found.path), [
      "adapter_config.json",
      "adapter_model.safetensors",
      "amv_train_config.json",
    ]);
    const mlx = { ...config, "adapters.safetensors": bytes(11) };
    const { files } = await adapter("org/mlx", mlx);
    assert.deepEqual(files, ["adapter_config.json", "adapters.safetensors"]);
    const gguf = await adapter("org/gguf", { "lora.gguf": bytes(12) });
    assert.match(gguf.path, /lora\.gguf$/);
    environment.offline = true;
    for (const { path: place, repo } of [
      { ...found, repo: "org/peft" },
      { ...gguf, repo: "org/gguf" },
    ]) {
      assert.equal((await fetchAdapter(repo)).path, place);
    }
    environment.offline = false;
    await assert.rejects(
      adapter("org/pickled", { ...config, "adapter_model.bin": bytes(9) }),
      { code: "UNSUPPORTED_FORMAT", hint: /again with PEFT/ },
    );
    await assert.rejects(adapter("org/model", DIRECTORY), {
      code: "BAD_ADAPTER",
      message: /^org\/model is no adapter: it has no adapter_config\.json/,
    });
  });

  test("an answer that leads out of the cache is no answer", async () => {
    hub.add("org/evil", { ...DIRECTORY, "../../evil.gguf": "x" });
    await assert.rejects(get("org/evil"), {
      code: "NETWORK",
      message: /names the file .* which cannot be/,
    });
  });

  test("offline a model comes from the cache or not at all", async () => {
    hub.add("org/name", DIRECTORY);
    hub.add("org/one", { "a.gguf": bytes(10) });
    const offline = { environment: { offline: true } };
    await assert.rejects(get("org/name", offline), {
      code: "NETWORK",
      message: /HF_HUB_OFFLINE forbids the network/,
      hint: /^run `amv-train pull org\/name` without HF_HUB_OFFLINE/,
    });
    assert.deepEqual(hub.requests, []);
    const { path: place } = await get("org/name");
    const one = await get("org/one");
    hub.requests.length = 0;
    assert.equal((await get("org/name", offline)).path, place);
    assert.equal((await get("org/one:a.gguf", offline)).path, one.path);
    assert.deepEqual(hub.requests, []);
  });
});

describe("names", () => {
  test("are of the hub when they look like it and no such path is there", () => {
    const parts = (model) => {
      const { repo, revision, file } = hubName(model) ?? {};
      return [repo, revision, file];
    };
    assert.deepEqual(parts("org/name"), ["org/name", undefined, undefined]);
    assert.deepEqual(parts("org/na.me-1@v1.0:a/b.gguf"), [
      "org/na.me-1",
      "v1.0",
      "a/b.gguf",
    ]);
    assert.deepEqual(parts("org/name@refs/pr/1"), [
      "org/name",
      "refs/pr/1",
      undefined,
    ]);
    for (const none of [
      "tiny-transformer",
      "./org/name",
      "/org/name",
      "org/name/",
      "org/name/deeper",
      "models/base.gguf",
      "org/name:../x.gguf",
      "org/name@../x",
      "org/..",
      "lib/hub",
      "",
    ]) {
      assert.equal(hubName(none), undefined, none);
    }
  });

  test("the environment is that of the hub's own tools", () => {
    assert.deepEqual(
      hubEnvironment({
        HF_HOME: "/data/hf",
        HF_TOKEN: " secret ",
        HF_ENDPOINT: "http://mirror/",
        HF_HUB_OFFLINE: "1",
      }),
      {
        cacheFolder: "/data/hf/hub",
        tokenFile: "/data/hf/token",
        token: "secret",
        endpoint: "http://mirror",
        offline: true,
      },
    );
    const { cacheFolder, endpoint, offline } = hubEnvironment({});
    const home = path.join(os.homedir(), ".cache/huggingface/hub");
    assert.deepEqual(
      [cacheFolder, endpoint, offline],
      [home, "https://huggingface.co", false],
    );
  });
});
