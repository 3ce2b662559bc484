"use strict";

// A blob belongs to one process while it is fetched. The system drops the lock when that process ends, however it does.

const fs = require("node:fs");
const path = require("node:path");
const { setTimeout: sleep } = require("node:timers/promises");
const { loadNative } = require("../native.js");

const POLL_MS = 200;

/** What `work` answers, with the lock at `file` held; `onWait()` is called once when another process has it. */
async function withLock(file, { signal, onWait }, work) {
  fs.mkdirSync(path.dirname(file), { recursive: true });
  const { lockFile } = loadNative();
  let lock = lockFile(file);
  if (!lock) onWait();
  while (!lock) {
    signal?.throwIfAborted();
    await sleep(POLL_MS);
    lock = lockFile(file);
  }
  try {
    return await work();
  } finally {
    lock.release();
  }
}

module.exports = { withLock };
