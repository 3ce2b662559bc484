"use strict";

// Loading the addon, in processes that believe to be elsewhere and in a copy of the package without an addon.

const assert = require("node:assert/strict");
const { spawnSync } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { after, describe, test } = require("node:test");

const ROOT = path.join(__dirname, "..");
const { version } = require("../package.json");

/** The package as npm installs it, without an addon. */
const copy = fs.mkdtempSync(path.join(os.tmpdir(), "amv-train-"));
const installed = path.join(copy, "node_modules", "amv-train");
for (const name of ["package.json", "index.js", "index.mjs", "lib", "bin"]) {
  fs.cpSync(path.join(ROOT, name), path.join(installed, name), {
    recursive: true,
  });
}
fs.cpSync(
  path.join(ROOT, "node_modules/commander"),
  path.join(copy, "node_modules/commander"),
  { recursive: true },
);
after(() => fs.rmSync(copy, { recursive: true }));

function platformPackage(name, code) {
  const folder = path.join(copy, "node_modules", name);
  fs.mkdirSync(folder, { recursive: true });
  fs.writeFileSync(path.join(folder, "index.js"), code);
}

function node(code, { platform, arch } = {}) {
  const define = (name, value) =>
    value
      ? `Object.defineProperty(process, "${name}", { value: "${value}" });`
      : "";
  const script = define("platform", platform) + define("arch", arch) + code;
  return spawnSync(process.execPath, ["-e", script], {
    cwd: copy,
    encoding: "utf8",
  });
}

const REPORT = `try { require("amv-train") } catch ({ name, code, message, hint }) { console.log(JSON.stringify({ name, code, message, hint })) }`;
const failure = (where) => JSON.parse(node(REPORT, where).stdout);

describe("an addon that does not load", () => {
  test("under Termux asks for its package, or Rust by pkg", () => {
    const { name, code, message, hint } = failure({
      platform: "android",
      arch: "arm64",
    });
    assert.equal(name, "AmvTrainError");
    assert.equal(code, "NOT_FOUND");
    assert.match(message, /no native addon for android-arm64/);
    assert.match(message, /amv-train\.android-arm64\.node: no such file/);
    assert.match(message, /amv-train-android-arm64: not installed/);
    assert.match(
      hint,
      new RegExp(`npm install amv-train-android-arm64@${version}`),
    );
    assert.match(hint, /pkg install rust/);
  });

  test("on a platform without a package says so", () => {
    const { message, hint } = failure({ platform: "win32", arch: "x64" });
    assert.match(message, /win32-x64/);
    assert.match(
      hint,
      /no prebuilt addon for win32-x64.*npm run build.*rustup/,
    );
  });

  test("leaves help and usage errors of the command line alone", () => {
    const bin = path.join(installed, "bin/amv-train.js");
    const run = (...words) =>
      spawnSync(process.execPath, [bin, ...words], { encoding: "utf8" });
    assert.match(run("train", "--help").stdout, /--lora-rank/);
    assert.equal(run("train", "--rnk").status, 2);
    const { status, stderr } = run("info");
    assert.equal(status, 1);
    assert.match(stderr, /^error: amv-train has no native addon[^]*^hint: /m);
  });

  test("of another version is refused", () => {
    platformPackage(
      "amv-train-linux-x64-gnu",
      `exports.version = () => "1.0.0";`,
    );
    const { message } = failure({ platform: "linux", arch: "x64" });
    assert.match(
      message,
      new RegExp(`is version 1.0.0, but amv-train is ${version}`),
    );
  });

  test("for another C library says what the loader said", () => {
    platformPackage(
      "amv-train-linux-arm64-gnu",
      `throw new Error("dlopen failed: library \\"libc.so.6\\" not found");`,
    );
    const { message } = failure({ platform: "linux", arch: "arm64" });
    assert.match(message, /amv-train-linux-arm64-gnu: dlopen failed/);
  });
});

test("the platform's package is used where nothing was built", () => {
  platformPackage(
    "amv-train-android-arm64",
    `exports.version = () => "${version}";`,
  );
  const { stdout } = node(`console.log(require("amv-train").version)`, {
    platform: "android",
    arch: "arm64",
  });
  assert.equal(stdout.trim(), version);
});
