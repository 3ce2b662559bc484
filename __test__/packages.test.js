"use strict";

// The package and its platform packages, as npm on every platform needs them.

const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const { describe, test } = require("node:test");
const { PACKAGES } = require("../lib/platform.js");

const ROOT = path.join(__dirname, "..");
const read = (file) => fs.readFileSync(path.join(ROOT, file), "utf8");
const main = JSON.parse(read("package.json"));

describe("the main package", () => {
  test("installs on every platform", () => {
    for (const field of ["os", "cpu", "libc"])
      assert.ok(!(field in main), field);
  });

  test("has the version of the addon", () => {
    const [, version] = /^version = "(.+)"$/m.exec(read("Cargo.toml"));
    assert.equal(main.version, version);
  });

  test("names no package that is not published yet", () => {
    assert.equal(
      main.optionalDependencies,
      undefined,
      "scripts/platforms.js adds them when publishing",
    );
  });

  test("ships every file it loads", () => {
    for (const file of main.files)
      assert.ok(fs.existsSync(path.join(ROOT, file)), file);
  });
});

test("the lock file names no host", () => {
  assert.doesNotMatch(
    read("package-lock.json"),
    /"resolved"|https?:\/\/registry/,
  );
});

describe("platform packages", () => {
  const folders = fs.readdirSync(path.join(ROOT, "npm"));

  test("are the ones the loader knows", () => {
    assert.deepEqual(
      folders.map((name) => `amv-train-${name}`).sort(),
      Object.values(PACKAGES).sort(),
    );
  });

  for (const folder of folders) {
    const manifest = JSON.parse(read(`npm/${folder}/package.json`));
    const [os, cpu, libc] = folder.split("-");

    test(`${folder} is for that platform and no other`, () => {
      assert.equal(manifest.name, `amv-train-${folder}`);
      assert.equal(manifest.version, main.version);
      assert.deepEqual(manifest.os, [os]);
      assert.deepEqual(manifest.cpu, [cpu]);
      // npm under Termux cannot tell its C library and would refuse a package that names one.
      assert.deepEqual(manifest.libc, libc === "gnu" ? ["glibc"] : undefined);
      assert.equal(manifest.main, `amv-train.${os}-${cpu}.node`);
      assert.deepEqual(manifest.files, [manifest.main]);
    });
  }
});
