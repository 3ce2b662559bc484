// Llama models of any shape with random Q4_0 weights, as GGUF files in target/bench, written piece by piece.

import { randomFillSync } from "node:crypto";
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  renameSync,
  statfsSync,
  writeSync,
} from "node:fs";
import path from "node:path";
import { ROOT, megabytes, progress } from "./measure.mjs";

const FOLDER = path.join(ROOT, "target/bench");
const ALIGNMENT = 32;
/** A block of Q4_0: a scale in f16, then 32 values of 4 bits around 8. */
const BLOCK = { values: 32, bytes: 18 };
/** 0.004 in f16: the values are spread like those of a trained model. */
const SCALE = 0x1c19;
const PIECE = BLOCK.bytes << 16;
const TYPES = { f32: 0, q4_0: 2 };

/**
 * The path of a model of this shape, which is written when it is not there. `heads`: of queries, keys and values alike.
 * Gives also its bytes and those of one layer.
 */
export function model({ width, hidden, heads, layers, vocab }) {
  const shape = { width, hidden, heads, layers, vocab };
  const tensors = place(tensorsOf(shape));
  const last = tensors.at(-1);
  const size = last.offset + last.bytes;
  const inLayer = tensors.filter(({ name }) => name.startsWith("blk.0."));
  const layer = inLayer.reduce((sum, { bytes }) => sum + bytes, 0);
  const name = `llama-${width}-${hidden}-${vocab}-${layers}-layers.gguf`;
  const file = path.join(FOLDER, name);
  if (!existsSync(file)) write(file, header(shape, tensors), tensors, size);
  return { file, size, layer };
}

function tensorsOf({ width, hidden, layers, vocab }) {
  const matrix = (name, rows, columns) => ({ name, shape: [rows, columns] });
  const vector = (name) => ({ name, shape: [width] });
  const layer = (index) => {
    const name = (part) => `blk.${index}.${part}.weight`;
    return [
      vector(name("attn_norm")),
      ...["attn_q", "attn_k", "attn_v", "attn_output"].map((part) =>
        matrix(name(part), width, width),
      ),
      vector(name("ffn_norm")),
      matrix(name("ffn_gate"), hidden, width),
      matrix(name("ffn_up"), hidden, width),
      matrix(name("ffn_down"), width, hidden),
    ];
  };
  return [
    matrix("token_embd.weight", vocab, width),
    ...Array.from({ length: layers }, (_, index) => layer(index)).flat(),
    vector("output_norm.weight"),
    matrix("output.weight", vocab, width),
  ];
}

/** Adds the type, the size and the place of each tensor: norms in F32, matrices in Q4_0. */
function place(tensors) {
  let offset = 0;
  return tensors.map(({ name, shape }) => {
    const type = shape.length === 1 ? TYPES.f32 : TYPES.q4_0;
    const values = shape.reduce((a, b) => a * b);
    const bytes =
      type === TYPES.f32 ? 4 * values : (values / BLOCK.values) * BLOCK.bytes;
    const placed = { name, shape, type, bytes, offset };
    offset = aligned(offset + bytes);
    return placed;
  });
}

const aligned = (at) => Math.ceil(at / ALIGNMENT) * ALIGNMENT;

/** Source: ggml-org/ggml, docs/gguf.md. */
function header({ width, hidden, heads, layers, vocab }, tensors) {
  const u32 = (value) => {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32LE(value);
    return bytes;
  };
  const u64 = (value) => {
    const bytes = Buffer.alloc(8);
    bytes.writeBigUInt64LE(BigInt(value));
    return bytes;
  };
  const f32 = (value) => {
    const bytes = Buffer.alloc(4);
    bytes.writeFloatLE(value);
    return bytes;
  };
  const text = (value) => {
    const bytes = Buffer.from(value);
    return Buffer.concat([u64(bytes.length), bytes]);
  };
  // The number of each type, and how a value is written.
  const kinds = { u32: [4, u32], f32: [6, f32], text: [8, text] };
  const one = (key, kind, value) => {
    const [number, put] = kinds[kind];
    return Buffer.concat([text(key), u32(number), put(value)]);
  };
  const list = (key, kind, values) => {
    const [number, put] = kinds[kind];
    const start = [text(key), u32(9), u32(number), u64(values.length)];
    return Buffer.concat([...start, ...values.map(put)]);
  };
  const words = vocabulary(vocab);
  const entries = [
    one("general.architecture", "text", "llama"),
    one("llama.context_length", "u32", 4096),
    one("llama.embedding_length", "u32", width),
    one("llama.block_count", "u32", layers),
    one("llama.feed_forward_length", "u32", hidden),
    one("llama.attention.head_count", "u32", heads),
    one("llama.attention.layer_norm_rms_epsilon", "f32", 1e-5),
    one("tokenizer.ggml.model", "text", "llama"),
    list(
      "tokenizer.ggml.tokens",
      "text",
      words.map(({ text }) => text),
    ),
    list(
      "tokenizer.ggml.scores",
      "f32",
      words.map((_, id) => -id),
    ),
    list(
      "tokenizer.ggml.token_type",
      "u32",
      words.map(({ kind }) => kind),
    ),
    one("tokenizer.ggml.bos_token_id", "u32", 1),
    one("tokenizer.ggml.eos_token_id", "u32", 2),
    one("tokenizer.ggml.unknown_token_id", "u32", 0),
  ];
  const described = tensors.map(({ name, shape, type, offset }) =>
    Buffer.concat([
      text(name),
      u32(shape.length),
      // The axis that is contiguous comes first.
      ...[...shape].reverse().map(u64),
      u32(type),
      u64(offset),
    ]),
  );
  const counts = [u64(tensors.length), u64(entries.length)];
  const start = [Buffer.from("GGUF"), u32(3), ...counts];
  const whole = Buffer.concat([...start, ...entries, ...described]);
  return Buffer.concat([
    whole,
    Buffer.alloc(aligned(whole.length) - whole.length),
  ]);
}

/** Every byte is a token, so that any text can be written; the rest are words that no text has. */
function vocabulary(size) {
  const [normal, unknown, control, byte] = [1, 2, 3, 6];
  const special = [
    { text: "<unk>", kind: unknown },
    { text: "<s>", kind: control },
    { text: "</s>", kind: control },
  ];
  const hex = (value) => value.toString(16).toUpperCase().padStart(2, "0");
  const bytes = Array.from({ length: 256 }, (_, value) => ({
    text: `<0x${hex(value)}>`,
    kind: byte,
  }));
  const words = Array.from({ length: size - 259 }, (_, index) => ({
    text: `word${index}`,
    kind: normal,
  }));
  return [...special, ...bytes, ...words];
}

function write(file, header, tensors, size) {
  mkdirSync(FOLDER, { recursive: true });
  const { bavail, bsize } = statfsSync(FOLDER);
  const room = bavail * bsize;
  if (room < 1.1 * (header.length + size)) {
    const needs = megabytes(header.length + size);
    throw new Error(`${file} needs ${needs}, the disk has ${megabytes(room)}`);
  }
  progress(`writing ${file}, ${megabytes(size)}`);
  const part = `${file}.part`;
  const target = openSync(part, "w");
  try {
    writeSync(target, header);
    for (const tensor of tensors) {
      for (const piece of pieces(tensor)) writeSync(target, piece);
    }
  } finally {
    closeSync(target);
  }
  renameSync(part, file);
}

/** The data of a tensor up to where the next one starts, a piece at a time. */
function* pieces({ type, bytes }) {
  if (type === TYPES.f32) {
    yield Buffer.from(new Float32Array(bytes / 4).fill(1).buffer);
  } else {
    const piece = Buffer.alloc(PIECE);
    for (let at = 0; at < bytes; at += PIECE) {
      randomFillSync(piece);
      for (let block = 0; block < PIECE; block += BLOCK.bytes) {
        piece.writeUInt16LE(SCALE, block);
      }
      yield piece.subarray(0, Math.min(PIECE, bytes - at));
    }
  }
  yield Buffer.alloc(aligned(bytes) - bytes);
}
