"use strict";

/** Platforms with a published package, by the name their file carries. */
const PACKAGES = {
  "linux-x64": "amv-train-linux-x64-gnu",
  "linux-arm64": "amv-train-linux-arm64-gnu",
  "android-arm64": "amv-train-android-arm64",
};

/** Which native file fits this process. `platformPackage` is undefined where none is published. */
function currentPlatform() {
  const name = `${process.platform}-${process.arch}`;
  const musl = process.platform === "linux" && !usesGlibc();
  return {
    name: musl ? `${name}, musl` : name,
    file: `amv-train.${name}.node`,
    platformPackage: musl ? undefined : PACKAGES[name],
  };
}

/** The C library that this process uses, with the version where it says one: `glibc 2.41`. */
function libcName() {
  if (process.platform === "android") return "bionic";
  const version = glibcVersion();
  return version ? `glibc ${version}` : "musl";
}

function usesGlibc() {
  return Boolean(glibcVersion());
}

function glibcVersion() {
  return process.report.getReport().header.glibcVersionRuntime;
}

module.exports = { PACKAGES, currentPlatform, libcName };
