"use strict";

// Builds the native addon with cargo and puts it where lib/native.js looks: amv-train.<platform>-<arch>.node.

const { spawnSync } = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");
const { currentPlatform } = require("../lib/platform.js");

const ROOT = path.join(__dirname, "..");

/** The version of cargo as [major, minor], or undefined when there is none. */
function cargoVersion() {
  const { stdout } = spawnSync("cargo", ["--version"], {
    cwd: ROOT,
    encoding: "utf8",
  });
  const found = /^cargo (\d+)\.(\d+)/.exec(stdout ?? "");
  return found ? [Number(found[1]), Number(found[2])] : undefined;
}

/** The oldest Rust this source compiles with, from Cargo.toml, as [major, minor]. */
function neededVersion() {
  const manifest = fs.readFileSync(path.join(ROOT, "Cargo.toml"), "utf8");
  const [, major, minor] = /^rust-version = "(\d+)\.(\d+)/m.exec(manifest);
  return [Number(major), Number(minor)];
}

/** Why the addon cannot be built here and what to do, or undefined when it can. */
function whatIsMissing() {
  const onAndroid = process.platform === "android";
  const needed = neededVersion();
  const found = cargoVersion();
  if (!found) {
    const how = onAndroid
      ? "run `pkg install rust`"
      : "install Rust from https://rustup.rs";
    return `cargo was not found; ${how}`;
  }
  if (found[0] === needed[0] && found[1] < needed[1]) {
    const how = onAndroid
      ? "pkg upgrade rust"
      : "rustup update stable && rustup default stable";
    return `cargo is ${found.join(".")}, but ${needed.join(".")} or newer is needed; run \`${how}\``;
  }
  return undefined;
}

/** Builds and returns the path of the addon; throws with the reason when cargo fails. */
function build() {
  const args = "build --release --locked --features node --lib".split(" ");
  const cargo = spawnSync(
    "cargo",
    [...args, "--message-format=json-render-diagnostics"],
    {
      cwd: ROOT,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "inherit"],
      maxBuffer: 1 << 28,
    },
  );
  if (cargo.error) throw cargo.error;
  if (cargo.status !== 0) {
    throw new Error(`cargo ${args.join(" ")} failed (exit ${cargo.status})`);
  }
  const addon = path.join(ROOT, currentPlatform().file);
  // A running process may have the old file mapped: put the new one beside it and rename.
  fs.copyFileSync(libraryIn(cargo.stdout), `${addon}.new`);
  fs.renameSync(`${addon}.new`, addon);
  return addon;
}

/** The library's path from cargo's messages, which know about CARGO_TARGET_DIR. */
function libraryIn(messages) {
  for (const line of messages.split("\n")) {
    if (!line.startsWith("{")) continue;
    const { reason, target, filenames } = JSON.parse(line);
    if (reason !== "compiler-artifact" || target.name !== "amv_train") continue;
    const library = filenames.find((name) => /\.(so|dylib|dll)$/.test(name));
    if (library) return library;
  }
  throw new Error("cargo built no shared library");
}

if (require.main === module) {
  const missing = whatIsMissing();
  if (missing) {
    console.error(`error: cannot build the addon: ${missing}`);
    process.exit(1);
  }
  try {
    console.error(`built ${path.relative(process.cwd(), build())}`);
  } catch (error) {
    console.error(`error: ${error.message}`);
    process.exit(1);
  }
}

module.exports = { build, whatIsMissing };
