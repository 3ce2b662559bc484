"use strict";

// A model of the hub in the shared cache: found there, or fetched into it.

const fs = require("node:fs");
const path = require("node:path");
const { hubEnvironment } = require("../environment.js");
const { AmvTrainError } = require("../errors.js");
const { fetchBlob } = require("./blob.js");
const { Cache } = require("./cache.js");
const choose = require("./choose.js");
const { withLock } = require("./lock.js");
const { COMMIT, filePath, readRepository } = require("./repository.js");
const { Requests } = require("./requests.js");
const { checkRoom } = require("./room.js");
const { partsOf } = require("./split.js");

const TELL_MS = 200;
/** With a copy in the cache a network that does not answer is not waited for. */
const ATTEMPTS_WITH_COPY = 2;

/**
 * The model `name` (see `hubName`), or the adapter where `name.kind` is "adapter" or "any", on this disk: `{ path, commit, files, bytes }`, with `path` a directory or a .gguf
 * file, and `files` what it is made of.
 *
 * `onEvent` gets `download` and `warning` events, `signal` ends it early with its reason. `environment` and `pause` are
 * for tests.
 */
async function fetchModel(name, listeners = {}) {
  const { signal, onEvent = () => {}, pause } = listeners;
  const environment = listeners.environment ?? hubEnvironment();
  const token = environment.token ?? readToken(environment.tokenFile);
  const hub = { ...environment, token };
  const cache = new Cache(hub.cacheFolder, name.repo);
  const copy = cache.find(name);
  const warn = (code, message) => onEvent({ type: "warning", code, message });

  if (copy && COMMIT.test(name.revision)) return found(copy);
  if (hub.offline) {
    if (!copy) throw notHere(name, hub);
    if (copy.gguf && !name.file) {
      const which = `${name.repo}:${copy.gguf}`;
      warn("FROM_CACHE", `${which} is used, the one file of it in the cache`);
    }
    return found(copy);
  }

  const requests = new Requests(name, hub, { signal, pause });
  const transfer = new Transfer(name, hub, cache, requests, {
    signal,
    onEvent,
    warn,
  });
  try {
    const attempts = copy && ATTEMPTS_WITH_COPY;
    const { commit, files } = await readRepository(
      name,
      requests,
      hub,
      attempts,
    );
    return await transfer.model(commit, files);
  } catch (error) {
    if (error.code !== "NETWORK" || !copy || transfer.began) throw error;
    const text = `${error.message}; the copy in the cache is used, of commit ${copy.commit.slice(0, 7)}`;
    warn("FROM_CACHE", text);
    return found(copy);
  }
}

/** What was in the cache, without a look at the hub. */
function found({ path: place, commit, gguf }) {
  const files = gguf ? partsOf(gguf) : fs.readdirSync(place);
  const folder = gguf ? place.slice(0, -gguf.length) : place;
  const size = (file) => fs.statSync(path.join(folder, file)).size;
  const bytes = files.reduce((sum, file) => sum + size(file), 0);
  return { path: place, commit, files, bytes };
}

/** The files of one commit on their way into the cache. */
class Transfer {
  /** Whether anything was fetched: from then on a copy of another commit is no answer. */
  began = false;
  #name;
  #hub;
  #cache;
  #requests;
  #listeners;
  #done = 0;
  #total = 0;
  #toldAt = 0;

  constructor(name, hub, cache, requests, listeners) {
    this.#name = name;
    this.#hub = hub;
    this.#cache = cache;
    this.#requests = requests;
    this.#listeners = listeners;
  }

  async model(commit, all) {
    const isAdapter = !this.#name.file && choose.isAdapter(all);
    const isMeant = ["adapter", "any"].includes(this.#name.kind);
    if (isAdapter && !isMeant) {
      throw choose.adapterError(this.#name, await this.#baseOf(commit));
    }
    const name =
      isAdapter || this.#name.kind === "adapter"
        ? { ...this.#name, kind: "adapter" }
        : this.#name;
    const { files, gguf } = choose.chooseFiles(name, all);
    this.began = true;
    const index = files.find((file) => file.path === choose.INDEX);
    let weights = files;
    if (index) {
      await this.#fetch(commit, [index]);
      const text = this.#read(commit, index);
      weights = [...files, ...choose.shardsOf(name, text, all)];
    }
    await this.#fetch(commit, weights);
    this.#cache.remember(name.revision, commit);
    return {
      path: path.join(this.#cache.snapshot(commit), gguf ?? ""),
      commit,
      files: weights.map((file) => file.path),
      bytes: weights.reduce((sum, { size }) => sum + size, 0),
    };
  }

  /** The model that an adapter says it was trained on; undefined when it does not say. */
  async #baseOf(commit) {
    const url = this.#url(commit, choose.ADAPTER);
    const { base_model_name_or_path: base } = await this.#requests.patiently(
      async () => (await this.#requests.once(url)).json().catch(() => ({})),
    );
    return typeof base === "string" ? base : undefined;
  }

  #read(commit, { path: file }) {
    const place = path.join(this.#cache.snapshot(commit), file);
    try {
      return JSON.parse(fs.readFileSync(place, "utf8"));
    } catch (error) {
      const text = `${file} of ${this.#name.repo}: ${error.message}`;
      throw new AmvTrainError("BAD_MODEL", text);
    }
  }

  #url(commit, file) {
    const { endpoint } = this.#hub;
    return `${endpoint}/${filePath(this.#name.repo, commit, file)}`;
  }

  async #fetch(commit, files) {
    const missing = files.filter((file) => !this.#cache.has(commit, file));
    const hashes = missing.map(({ hash }) => hash);
    // Files with the same content are one blob.
    const absent = missing.filter(
      (file, at) => !this.#hasBlob(file) && hashes.indexOf(file.hash) === at,
    );
    checkRoom(this.#name, absent, this.#hub.cacheFolder, (file) =>
      sizeOf(`${this.#cache.blob(file.hash)}.incomplete`),
    );
    this.#total += absent.reduce((sum, { size }) => sum + size, 0);
    for (const file of missing) {
      await this.#file(commit, file, absent.includes(file));
    }
  }

  #hasBlob({ hash, size }) {
    return sizeOf(this.#cache.blob(hash)) === size;
  }

  /** `counted`: whether it is part of the total. */
  async #file(commit, file, counted) {
    const blob = this.#cache.blob(file.hash);
    fs.mkdirSync(path.dirname(blob), { recursive: true });
    const { signal, warn } = this.#listeners;
    const onWait = () =>
      warn("WAITING", `another process is fetching ${file.path}: waiting`);
    const lock = this.#cache.lock(file.hash);
    await withLock(lock, { signal, onWait }, async () => {
      const there = this.#cache.has(commit, file) || this.#hasBlob(file);
      if (there) {
        if (counted) this.#total -= file.size; // another process fetched it
      } else {
        const before = this.#done;
        const onBytes = (count) => this.#tell(file, before + count);
        const url = this.#url(commit, file.path);
        await fetchBlob(file, url, blob, this.#requests, onBytes);
      }
      this.#cache.link(commit, file);
    });
  }

  /** A `download` event a few times a second, and at the end of all. */
  #tell(file, done) {
    this.#done = done;
    const now = performance.now();
    if (done < this.#total && now - this.#toldAt < TELL_MS) return;
    this.#toldAt = now;
    this.#listeners.onEvent({
      type: "download",
      model: this.#name.model,
      file: file.path,
      done,
      total: this.#total,
    });
  }
}

function sizeOf(file) {
  return fs.statSync(file, { throwIfNoEntry: false })?.size;
}

function readToken(file) {
  try {
    return fs.readFileSync(file, "utf8").trim() || undefined;
  } catch {
    return undefined; // nobody has logged in
  }
}

function notHere({ model, repo, revision }, { cacheFolder, endpoint }) {
  const at = revision ? ` at ${revision}` : "";
  return new AmvTrainError(
    "NETWORK",
    `${model} is not here: no such path, not all of ${repo}${at} in ${cacheFolder}, and HF_HUB_OFFLINE forbids the network`,
    `run \`amv-train pull ${model}\` without HF_HUB_OFFLINE, or download ${endpoint}/${repo} elsewhere and name its directory`,
  );
}

module.exports = { fetchModel };
