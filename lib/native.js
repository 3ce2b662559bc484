"use strict";

// Finds the native addon: the file built in this folder first, then the package of the platform.

const fs = require("node:fs");
const path = require("node:path");
const { version } = require("../package.json");
const { AmvTrainError } = require("./errors.js");
const { currentPlatform, libcName } = require("./platform.js");

const ROOT = path.join(__dirname, "..");
const RUST =
  process.platform === "android" ? "`pkg install rust`" : "https://rustup.rs";

/** Where the package keeps its built-in model and sample corpus. */
const BUILT_IN_FOLDER = path.join(ROOT, "builtin");

/** The addon, or an `AmvTrainError` that lists what was looked for and the command that helps. */
function loadNative() {
  return findNative().native;
}

/** Which addon was loaded, and the interfaces it was loaded through: for reports of what does not work. */
function describeNative() {
  const { file } = findNative();
  const node = { version: process.version, api: Number(process.versions.napi) };
  return { addon: file, libc: libcName(), node };
}

function findNative() {
  const platform = currentPlatform();
  const built = path.join(ROOT, platform.file);
  const candidates = [];
  if (fs.existsSync(built)) candidates.push(built);
  if (platform.platformPackage) candidates.push(platform.platformPackage);

  const tried = fs.existsSync(built) ? [] : [`${built}: no such file`];
  for (const candidate of candidates) {
    try {
      const native = checked(require(candidate), candidate);
      return { native, file: require.resolve(candidate) };
    } catch (error) {
      tried.push(`${candidate}: ${reason(error, candidate)}`);
    }
  }
  throw loadError(platform, tried);
}

function checked(native, candidate) {
  if (native.version() === version) return native;
  throw new Error(
    `is version ${native.version()}, but amv-train is ${version}${candidate.endsWith(".node") ? "; build it again" : ""}`,
  );
}

function reason(error, candidate) {
  const missing =
    error.code === "MODULE_NOT_FOUND" && error.message.includes(candidate);
  return missing ? "not installed" : error.message.split("\n")[0];
}

function loadError(platform, tried) {
  const lines = tried.map((line) => `  - ${line}`).join("\n");
  const message = `amv-train has no native addon for ${platform.name} (Node.js ${process.versions.node}). Looked for:\n${lines}`;
  return new AmvTrainError("NOT_FOUND", message, hint(platform));
}

function hint(platform) {
  const build = `run \`npm run build\` in ${ROOT}; it needs Rust: ${RUST}`;
  const inClone = !ROOT.split(path.sep).includes("node_modules");
  if (inClone) return build;
  if (!platform.platformPackage) {
    return `there is no prebuilt addon for ${platform.name}; ${build}`;
  }
  const install = `npm install ${platform.platformPackage}@${version}`;
  return `run \`${install}\`, or build it: ${build}`;
}

module.exports = { BUILT_IN_FOLDER, describeNative, loadNative };
