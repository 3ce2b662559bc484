"use strict";

// Which files of a repository make the model that was named: only those that are read.

const { AmvTrainError } = require("../errors.js");
const { nearest } = require("../suggest.js");
const { partsOf } = require("./split.js");

const CONFIG = "config.json";
const SINGLE = "model.safetensors";
const INDEX = "model.safetensors.index.json";
const ADAPTER = "adapter_config.json";
/** Weights of an adapter as PEFT and as MLX call them. */
const ADAPTER_WEIGHTS = ["adapter_model.safetensors", "adapters.safetensors"];
/** Beside them, what says how it was trained. */
const SIDECAR = "amv_train_config.json";

/** Beside the weights, those of them that there are. */
const SMALL = [
  CONFIG,
  "generation_config.json",
  "tokenizer.json",
  "tokenizer_config.json",
  "special_tokens_map.json",
  "added_tokens.json",
  "tokenizer.model",
  "vocab.json",
  "merges.txt",
  "chat_template.jinja",
  "chat_template.json",
];

const PICKLE = /\.(bin|ckpt|pth?)$/i;

/**
 * The files of the model, or of the adapter where `name.kind` says so, that `name` names: `{ files, gguf? }`, with `gguf` the path of its (first) file where it is one.
 * When an index is among them, the shards that it names are still to be added: `shardsOf`.
 */
function chooseFiles(name, all) {
  const byPath = new Map(all.map((file) => [file.path, file]));
  if (name.file) return ggufFiles(name, name.file, byPath);
  if (name.kind === "adapter") return adapterFiles(name, byPath);
  const weights = byPath.get(INDEX) ?? byPath.get(SINGLE);
  if (weights && byPath.has(CONFIG)) {
    const small = SMALL.flatMap((path) => byPath.get(path) ?? []);
    return { files: [...small, weights] };
  }
  const ggufs = ggufModels(all);
  if (ggufs.length === 1) return ggufFiles(name, ggufs[0].path, byPath);
  if (ggufs.length > 1) throw severalGgufs(name, ggufs);
  throw noModel(name, byPath);
}

function adapterFiles(name, byPath) {
  const weights = ADAPTER_WEIGHTS.find((path) => byPath.has(path));
  if (weights && byPath.has(ADAPTER)) {
    const paths = [ADAPTER, SIDECAR, weights];
    return { files: paths.flatMap((path) => byPath.get(path) ?? []) };
  }
  const paths = [...byPath.keys()];
  const ggufs = paths.filter((path) => /\.gguf$/i.test(path));
  if (ggufs.length === 1 && !byPath.has(CONFIG)) {
    return ggufFiles(name, ggufs[0], byPath);
  }
  if (byPath.has("adapter_model.bin")) throw pickle(name, "adapter_model.bin");
  throw new AmvTrainError(
    "BAD_ADAPTER",
    `${name.repo} is no adapter: it has no ${ADAPTER} with ${ADAPTER_WEIGHTS.join(" or ")}`,
    ggufs.length > 0
      ? `of its .gguf files name one: ${name.repo}:${ggufs[0]}`
      : "name the repository of a LoRA adapter, as PEFT or MLX writes it",
  );
}

/** Whether the repository is an adapter and no model. */
function isAdapter(all) {
  const paths = all.map(({ path }) => path);
  return paths.includes(ADAPTER) && !paths.includes(CONFIG);
}

function adapterError({ repo }, base) {
  return new AmvTrainError(
    "UNSUPPORTED_MODEL",
    `${repo} is a LoRA adapter${base ? ` of ${base}` : ""}, not a model`,
    base
      ? `name the model it was trained on: ${base}`
      : "name the model it was trained on",
  );
}

/** The files that an index names, of those of the repository. */
function shardsOf(name, index, all) {
  const byPath = new Map(all.map((file) => [file.path, file]));
  const paths = new Set(Object.values(index.weight_map ?? {}));
  return [...paths].sort().map((path) => {
    const file = byPath.get(path);
    if (file) return file;
    throw new AmvTrainError(
      "NOT_FOUND",
      `${name.repo} lacks ${path}, which its ${INDEX} names`,
      "its upload is not complete: try another revision, or a GGUF version",
    );
  });
}

function ggufFiles(name, wanted, byPath) {
  if (PICKLE.test(wanted)) throw pickle(name, wanted);
  const file = byPath.get(wanted);
  if (!file) throw noSuchFile(name, [...byPath.values()]);
  if (!/\.gguf$/i.test(wanted)) {
    throw new AmvTrainError(
      "UNSUPPORTED_FORMAT",
      `${wanted} of ${name.repo} is no .gguf file`,
      `name a .gguf file, or the whole of a model in safetensors: ${name.repo}`,
    );
  }
  const files = partsOf(wanted).map((path) => {
    const part = byPath.get(path);
    if (part) return part;
    throw new AmvTrainError(
      "NOT_FOUND",
      `${name.repo} lacks ${path}, a part of ${wanted}`,
      "its upload is not complete: try another file or revision",
    );
  });
  return { files, gguf: files[0].path };
}

/** The models among the .gguf files, parts of one taken together: `[{ path, size }]`. Projectors of images are none. */
function ggufModels(all) {
  const models = new Map();
  for (const { path, size } of all) {
    if (!/\.gguf$/i.test(path) || /(^|\/)mmproj/i.test(path)) continue;
    const [first] = partsOf(path);
    models.set(first, {
      path: first,
      size: (models.get(first)?.size ?? 0) + size,
    });
  }
  return [...models.values()];
}

function severalGgufs({ repo, revision }, ggufs) {
  const at = revision ? `@${revision}` : "";
  const list = ggufs.map(({ path, size }) => `${path} (${megabytes(size)})`);
  return new AmvTrainError(
    "USAGE",
    `${repo} has ${ggufs.length} GGUF models: ${list.join(", ")}`,
    `name one, such as ${repo}${at}:${ggufs[0].path}`,
  );
}

const megabytes = (bytes) => `${Math.ceil(bytes / 2 ** 20)} MB`;

function noSuchFile({ repo, file }, all) {
  const ggufs = ggufModels(all);
  const meant = nearest(
    file,
    ggufs.map(({ path }) => path),
  );
  const list = ggufs.map(({ path, size }) => `${path} (${megabytes(size)})`);
  const others =
    list.length > 0
      ? `its GGUF models are ${list.join(", ")}`
      : "it has no .gguf file";
  return new AmvTrainError(
    "NOT_FOUND",
    `${repo} has no file ${file}`,
    meant ? `did you mean ${repo}:${meant}? ${others}` : others,
  );
}

/** Why a repository holds nothing that can be read. */
function noModel(name, byPath) {
  const { repo } = name;
  const paths = [...byPath.keys()];
  const pickled = paths.find((path) => PICKLE.test(path));
  if (pickled) return pickle(name, pickled);
  const lacks = byPath.has(CONFIG)
    ? `no ${SINGLE} or .gguf file`
    : `no ${CONFIG} with a ${SINGLE}, and no .gguf file`;
  const shown = paths.slice(0, 20).join(", ");
  return new AmvTrainError(
    "NOT_FOUND",
    `${repo} has ${lacks}; its files: ${shown}${paths.length > 20 ? ", ..." : ""}`,
    "look for the same model in safetensors or GGUF",
  );
}

function pickle({ repo, kind }, path) {
  const otherwise =
    kind === "adapter"
      ? "look for the adapter in safetensors, or load it and save it again with PEFT"
      : `look for the model in safetensors or GGUF, or convert it with Python: AutoModelForCausalLM.from_pretrained("${repo}").save_pretrained(DIR)`;
  return new AmvTrainError(
    "UNSUPPORTED_FORMAT",
    `${path} of ${repo} is a pickle file, which can run any program when it is opened, so it is never read`,
    otherwise,
  );
}

module.exports = {
  ADAPTER,
  ADAPTER_WEIGHTS,
  CONFIG,
  INDEX,
  SINGLE,
  adapterError,
  chooseFiles,
  isAdapter,
  shardsOf,
};
