"use strict";

// The direction of imports: a folder of src/ may use only those listed above it in src/lib.rs.

const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const { test } = require("node:test");

const SRC = path.join(__dirname, "..", "src");
const EVERYWHERE = ["error", "shape"];

const modules = fs
  .readFileSync(path.join(SRC, "lib.rs"), "utf8")
  .matchAll(/^pub mod (\w+);/gm);
const folders = Array.from(modules, ([, name]) => name);

/** Every Rust file as [path from src/, code without comments and without the tests at its end]. */
const files = fs
  .readdirSync(SRC, { recursive: true })
  .filter((name) => name.endsWith(".rs") && name !== "lib.rs")
  .map((name) => {
    const text = fs.readFileSync(path.join(SRC, name), "utf8");
    const code = text.split(/^#\[cfg\(test\)\]$/m)[0];
    return [name, code.replace(/^\s*\/\/.*$/gm, "")];
  });

/** The top-level modules that code imports, also from `use crate::{a, b::c}`. */
function imports(code) {
  const names = [...code.matchAll(/\bcrate::(\w+)\b(?!!)/g)].map((m) => m[1]);
  for (const [, list] of code.matchAll(/\bcrate::\{([^;]*)\};/g)) {
    const outer = list.replace(/\{[^{}]*(\{[^{}]*\}[^{}]*)*\}/g, "");
    names.push(...outer.split(",").map((item) => item.trim().split("::")[0]));
  }
  return names.filter((name) => name !== "" && name !== "self");
}

test("every folder imports only from those above it", () => {
  const wrong = [];
  for (const [file, code] of files) {
    const own = file.split(/[/\\.]/)[0];
    const place = folders.indexOf(own);
    for (const name of imports(code)) {
      const above = folders.indexOf(name) < place && folders.includes(name);
      if (name === own || above || EVERYWHERE.includes(name)) continue;
      if (/^(bail|error)$/.test(name)) continue; // the macros
      wrong.push(`src/${file} imports crate::${name}`);
    }
  }
  assert.deepEqual(wrong, []);
});

test("only src/node knows about napi", () => {
  const wrong = files.filter(
    ([file, code]) => /\bnapi\b/.test(code) && !file.startsWith("node"),
  );
  assert.deepEqual(
    wrong.map(([file]) => file),
    [],
  );
});

test("models and layers do not ask where they run", () => {
  const wrong = files.filter(
    ([file, code]) =>
      /^(models|nn)\b/.test(file) &&
      /\bif\b[^{;]*\b(gpu|vulkan|opencl)\b/i.test(code),
  );
  assert.deepEqual(
    wrong.map(([file]) => file),
    [],
  );
});

test("no file is longer than 400 lines", () => {
  const long = files.filter(
    ([file]) =>
      fs.readFileSync(path.join(SRC, file), "utf8").split("\n").length > 401,
  );
  assert.deepEqual(
    long.map(([file]) => file),
    [],
  );
});
