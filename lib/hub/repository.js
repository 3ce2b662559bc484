"use strict";

// What a repository of the hub holds, asked of its API through @huggingface/hub.

const { AmvTrainError } = require("../errors.js");
const { Transient } = require("./requests.js");

const COMMIT = /^[0-9a-f]{40}$/;
const HASH = /^[0-9a-f]{40}([0-9a-f]{24})?$/;

/**
 * The commit that `name` stands for, and its files as `{ path, size, hash, kind }`: `kind` is `sha256` for large files and
 * `git` for small ones, whose hash is the one of git's blob.
 */
async function readRepository(name, requests, { endpoint }, attempts) {
  // Loaded here: a model that is in the cache needs none of it.
  const { listFiles, modelInfo } = require("@huggingface/hub");
  const common = { hubUrl: endpoint, fetch: (url) => requests.once(url) };
  return requests.patiently(async () => {
    try {
      const { sha: commit } = await modelInfo({
        ...common,
        name: name.repo,
        revision: name.revision ?? "main",
        additionalFields: ["sha"],
      });
      if (!COMMIT.test(commit)) throw strange(name, `a commit "${commit}"`);
      const files = [];
      const listing = listFiles({
        ...common,
        repo: name.repo,
        revision: commit,
        recursive: true,
      });
      for await (const entry of listing) {
        if (entry.type === "file") files.push(fileOf(entry, name));
      }
      return { commit, files };
    } catch (error) {
      if (error instanceof AmvTrainError || error instanceof Transient) {
        throw error;
      }
      throw requests.failure(error); // a connection that broke inside an answer
    }
  }, attempts);
}

function fileOf({ path, size, oid, lfs }, name) {
  const file = {
    path,
    size: lfs?.size ?? size,
    hash: lfs?.oid ?? oid,
    kind: lfs ? "sha256" : "git",
  };
  const parts = String(path).split("/");
  const leadsOut = parts.some((part) => ["", ".", ".."].includes(part));
  if (leadsOut || !HASH.test(file.hash) || !(file.size >= 0)) {
    throw strange(name, `the file ${JSON.stringify(file)}`);
  }
  return file;
}

/** An answer that no hub gives; nothing of it may name a place on the disk. */
function strange({ model }, what) {
  return new AmvTrainError(
    "NETWORK",
    `the hub's answer about ${model} names ${what}, which cannot be`,
    "check HF_ENDPOINT",
  );
}

/** The path below the endpoint that a file of a commit has. */
function filePath(repo, commit, file) {
  const parts = file.split("/").map(encodeURIComponent).join("/");
  return `${repo}/resolve/${commit}/${parts}`;
}

module.exports = { COMMIT, filePath, readRepository };
