"use strict";

// The cache that all tools of the hub share: `models--org--name/` with `blobs/` by hash, `snapshots/COMMIT/` of links to
// them, and `refs/` from branches to commits.

const fs = require("node:fs");
const path = require("node:path");
const {
  ADAPTER,
  ADAPTER_WEIGHTS,
  CONFIG,
  INDEX,
  SINGLE,
} = require("./choose.js");
const { COMMIT } = require("./repository.js");
const { partsOf } = require("./split.js");

class Cache {
  #folder;
  #locks;

  constructor(cacheFolder, repo) {
    const name = `models--${repo.replace("/", "--")}`;
    this.#folder = path.join(cacheFolder, name);
    this.#locks = path.join(cacheFolder, ".locks", name);
  }

  /** Where the content with this hash is, or will be. */
  blob(hash) {
    return path.join(this.#folder, "blobs", hash);
  }

  /** The lock that Python's huggingface_hub takes as well. */
  lock(hash) {
    return path.join(this.#locks, `${hash}.lock`);
  }

  snapshot(commit) {
    return path.join(this.#folder, "snapshots", commit);
  }

  /** The commit that a revision was when it was last fetched; undefined when it never was. */
  commitOf(revision = "main") {
    if (COMMIT.test(revision)) return revision;
    const text = read(path.join(this.#folder, "refs", revision))?.trim();
    return text && COMMIT.test(text) ? text : undefined;
  }

  remember(revision = "main", commit) {
    if (COMMIT.test(revision)) return;
    const ref = path.join(this.#folder, "refs", revision);
    fs.mkdirSync(path.dirname(ref), { recursive: true });
    replace(ref, (temporary) => fs.writeFileSync(temporary, commit));
  }

  /** Makes `file` of the commit a link to its content. */
  link(commit, { path: file, hash }) {
    const link = path.join(this.snapshot(commit), file);
    const blob = this.blob(hash);
    if (sameFile(link, blob)) return;
    fs.mkdirSync(path.dirname(link), { recursive: true });
    try {
      const target = path.relative(path.dirname(link), blob);
      replace(link, (temporary) => fs.symlinkSync(target, temporary));
    } catch (error) {
      // Android's shared storage has no links: the snapshot then holds the content itself, as in Python.
      if (!["EPERM", "EACCES", "ENOSYS", "ENOTSUP"].includes(error.code)) {
        throw error;
      }
      fs.renameSync(blob, link);
    }
  }

  /** Whether `file` of the commit is there, whole. */
  has(commit, { path: file, size, hash }) {
    const found = path.join(this.snapshot(commit), file);
    const about = fs.statSync(found, { throwIfNoEntry: false });
    if (about?.size !== size) return false;
    return (
      !fs.lstatSync(found).isSymbolicLink() || sameFile(found, this.blob(hash))
    );
  }

  /** Where the model `name` is, when all of it is in the cache: `{ commit, path }`. */
  find({ revision, file, kind }) {
    const commit = this.commitOf(revision);
    if (!commit) return undefined;
    const snapshot = this.snapshot(commit);
    if (file) {
      const parts = partsOf(file).map((part) => path.join(snapshot, part));
      const whole = parts.every((part) => fs.existsSync(part));
      return whole
        ? { commit, path: parts[0], gguf: partsOf(file)[0] }
        : undefined;
    }
    const isWhole =
      (kind !== "adapter" && isWholeModel(snapshot)) ||
      (kind !== undefined && isWholeAdapter(snapshot));
    if (isWhole) return { commit, path: snapshot };
    const gguf = onlyGguf(snapshot);
    return gguf && { commit, path: path.join(snapshot, gguf), gguf };
  }
}

function isWholeModel(snapshot) {
  const has = (file) => fs.existsSync(path.join(snapshot, file));
  if (!has(CONFIG) || !has("tokenizer.json")) return false;
  const index = read(path.join(snapshot, INDEX));
  if (index === undefined) return has(SINGLE);
  try {
    return Object.values(JSON.parse(index).weight_map).every(has);
  } catch {
    return false;
  }
}

function isWholeAdapter(snapshot) {
  const has = (file) => fs.existsSync(path.join(snapshot, file));
  return has(ADAPTER) && ADAPTER_WEIGHTS.some(has);
}

function onlyGguf(snapshot) {
  if (!fs.existsSync(snapshot)) return undefined;
  const files = fs.readdirSync(snapshot);
  const ggufs = files.filter((file) => file.endsWith(".gguf"));
  const whole = ggufs.length === 1 && !files.includes(CONFIG);
  return whole && fs.existsSync(path.join(snapshot, ggufs[0]))
    ? ggufs[0]
    : undefined;
}

/** Puts what `make` makes under a temporary name at `place`, at once. */
function replace(place, make) {
  const temporary = `${place}.${process.pid}.tmp`;
  fs.rmSync(temporary, { force: true });
  make(temporary);
  fs.renameSync(temporary, place);
}

function sameFile(one, other) {
  try {
    return fs.realpathSync(one) === fs.realpathSync(other);
  } catch {
    return false;
  }
}

function read(file) {
  try {
    return fs.readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
}

module.exports = { Cache };
