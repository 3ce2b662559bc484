"use strict";

// One file of the hub on the disk: its content goes into `HASH.incomplete`, as far as it comes, and is moved to `HASH` once
// all of it is there and has that hash.

const crypto = require("node:crypto");
const fs = require("node:fs");
const { AmvTrainError } = require("../errors.js");
const { Transient } = require("./requests.js");

const SILENCE_MS = 60_000;
const RANGE_NOT_SATISFIABLE = 416;

/**
 * Fetches `file` (`{ path, size, hash, kind }`) from `url` to `blob`, which must not exist. `onBytes(count)` is told how
 * many bytes there are by now. The caller has the lock of `blob`.
 */
async function fetchBlob(file, url, blob, requests, onBytes) {
  const partial = `${blob}.incomplete`;
  for (let attempt = 1; ; attempt++) {
    const came = await fillAndHash(file, url, partial, requests, onBytes);
    if (came === file.hash) break;
    await fs.promises.rm(partial);
    onBytes(0);
    if (attempt === 2) throw wrongContent(file, came, requests);
  }
  await fs.promises.rename(partial, blob);
}

/** Fills the partial file from where it ends to the size that `file` has, and returns the hash of all of it. */
async function fillAndHash(file, url, partial, requests, onBytes) {
  const flags = fs.constants.O_RDWR | fs.constants.O_CREAT;
  const target = new Target(await fs.promises.open(partial, flags), file);
  try {
    await target.begin();
    onBytes(target.length);
    let failures = 0;
    while (target.length < file.size) {
      try {
        for await (const chunk of contentOf(url, target, requests)) {
          await target.append(chunk);
          onBytes(target.length);
          failures = 0;
        }
        if (target.length < file.size) {
          throw new Transient("the connection ended early");
        }
      } catch (error) {
        if (!(error instanceof Transient)) throw error;
        await requests.breathe(error, ++failures);
      }
    }
    await target.handle.sync();
    return target.hash();
  } catch (error) {
    throw error.code === "ENOSPC" ? noRoom(file, partial) : error;
  } finally {
    await target.handle.close();
  }
}

/** The content from the end of `target` on, as it comes; a server that cannot go on from there begins anew. */
async function* contentOf(url, target, requests) {
  const from = target.length;
  const response = await requests.once(url, {
    headers: from > 0 ? { range: `bytes=${from}-` } : {},
    accept: [RANGE_NOT_SATISFIABLE],
  });
  if (response.status === RANGE_NOT_SATISFIABLE) {
    await target.clear();
    throw new Transient("it has no such part of the file");
  }
  const range = response.headers.get("content-range");
  const begins = response.status === 206 ? /bytes (\d+)-/.exec(range)?.[1] : 0;
  if (Number(begins) !== from) await target.clear();
  if (Number(begins) !== target.length) {
    await response.body.cancel();
    throw new Transient("it sends another part of the file");
  }
  const reader = response.body.getReader();
  try {
    for (;;) {
      const { done, value } = await withinSilence(reader.read());
      if (done) return;
      yield value;
    }
  } catch (error) {
    throw requests.failure(error);
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** What `reading` answers, or `Transient` when nothing comes for a minute. */
async function withinSilence(reading) {
  let timer;
  const silence = new Promise((_, reject) => {
    const error = new Transient(`nothing came for ${SILENCE_MS / 1000} s`);
    timer = setTimeout(reject, SILENCE_MS, error);
  });
  try {
    return await Promise.race([reading, silence]);
  } finally {
    clearTimeout(timer);
  }
}

/** The partial file: its length, and the hash of what is in it. */
class Target {
  length = 0;
  #file;
  #hash;

  constructor(handle, file) {
    this.handle = handle;
    this.#file = file;
    this.#hash = beginHash(file);
  }

  /** Takes what an earlier attempt left. */
  async begin() {
    const { size } = await this.handle.stat();
    if (size > this.#file.size) return this.clear();
    const options = { autoClose: false, start: 0, end: size - 1 };
    if (size === 0) return;
    for await (const chunk of this.handle.createReadStream(options)) {
      this.#hash.update(chunk);
    }
    this.length = size;
  }

  async append(chunk) {
    if (this.length + chunk.length > this.#file.size) {
      await this.clear();
      throw new Transient("it sends more than the file has");
    }
    let written = 0;
    while (written < chunk.length) {
      const { bytesWritten } = await this.handle.write(
        chunk,
        written,
        chunk.length - written,
        this.length + written,
      );
      written += bytesWritten;
    }
    this.#hash.update(chunk);
    this.length += chunk.length;
  }

  async clear() {
    await this.handle.truncate(0);
    this.length = 0;
    this.#hash = beginHash(this.#file);
  }

  hash() {
    return this.#hash.digest("hex");
  }
}

function beginHash({ kind, size }) {
  if (kind === "sha256") return crypto.createHash("sha256");
  return crypto.createHash("sha1").update(`blob ${size}\0`);
}

function wrongContent({ path, hash }, came, { host }) {
  return new AmvTrainError(
    "NETWORK",
    `${path} came from ${host} twice with other content than it should have: hash ${came}, expected ${hash}`,
    "something on the way changes it: try another network, or check HF_ENDPOINT",
  );
}

function noRoom({ path }, partial) {
  return new AmvTrainError(
    "IO",
    `no room left on the disk while ${path} was fetched to ${partial}`,
    "free some and run the same command again: it goes on where it stopped; HF_HOME moves the cache elsewhere",
  );
}

module.exports = { fetchBlob };
