"use strict";

// Whether the disk has room for what is to be fetched.

const fs = require("node:fs");
const path = require("node:path");
const { AmvTrainError } = require("../errors.js");

/** Throws IO when `files` do not fit on the disk of `folder`; `there(file)` is how many bytes of one are there already. */
function checkRoom({ model }, files, folder, there) {
  const need = files.reduce(
    (sum, file) => sum + file.size - (there(file) ?? 0),
    0,
  );
  const free = freeBytes(folder);
  if (need <= free) return;
  const megabytes = (bytes) => `${Math.ceil(bytes / 2 ** 20)} MB`;
  throw new AmvTrainError(
    "IO",
    `not enough room: ${model} needs ${megabytes(need)} more, and ${folder} has ${megabytes(free)}`,
    "free some, move the cache with HF_HOME, or take a smaller file such as one in Q4_0",
  );
}

/** Free bytes where `folder` is or will be; a file system that does not say has room. */
function freeBytes(folder) {
  const existing = fs.existsSync(folder);
  if (!existing && folder !== path.dirname(folder)) {
    return freeBytes(path.dirname(folder));
  }
  try {
    const { bavail, bsize } = fs.statfsSync(folder);
    return bavail * bsize;
  } catch {
    return Infinity;
  }
}

module.exports = { checkRoom };
