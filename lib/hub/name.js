"use strict";

// Names of models on the hub: `org/name`, `org/name@revision`, `org/name:file.gguf`, `org/name@revision:file.gguf`.

const fs = require("node:fs");

const PART = "[A-Za-z0-9](?:[\\w.-]*[A-Za-z0-9_])?";
const NAME = new RegExp(
  `^(?<repo>${PART}/${PART})(?:@(?<revision>[^:@\\s]+))?(?::(?<file>.+))?$`,
);
const MODEL_FILE = /\.(gguf|safetensors|bin|ckpt|pth?|json)$/i;

/**
 * The parts `{ model, repo, revision?, file? }` of a name on the hub; undefined for what is none.
 *
 * A path that exists is never one, and neither is `models/base.gguf`, which names a file that is missing.
 */
function hubName(model) {
  if (typeof model !== "string" || fs.existsSync(model)) return undefined;
  const parts = NAME.exec(model)?.groups;
  if (!parts || isStrange(parts)) return undefined;
  const { repo, revision, file } = parts;
  if (!file && !revision && MODEL_FILE.test(repo)) return undefined;
  return { model, repo, revision, file };
}

/** `..` and empty parts are in no name, and would lead out of the cache. */
function isStrange({ repo, revision = "main", file = "file" }) {
  const parts = [repo, revision, file].flatMap((text) => text.split("/"));
  return parts.some((part) => ["", ".", ".."].includes(part));
}

module.exports = { hubName };
