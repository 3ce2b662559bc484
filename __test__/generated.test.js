"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const { test } = require("node:test");
const { generated } = require("../scripts/generate.js");

test("options.json, index.d.ts and the README agree with the table of options", async () => {
  for (const [file, text] of Object.entries(await generated())) {
    const found = fs.readFileSync(path.join(__dirname, "..", file), "utf8");
    assert.equal(found, text, `${file} is behind: run \`npm run generate\``);
  }
});
