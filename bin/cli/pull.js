"use strict";

// The `pull` command: a model of the hub in the cache. Its path is the result; everything else is progress.

const { AS_FLAGS } = require("../../lib/words.js");
const { follow } = require("./follow.js");
const { Progress } = require("./progress.js");
const { bytes, duration } = require("./quantities.js");

async function pull({ json = false, quiet = false }, model) {
  const onEvent = (event) => {
    if (json) process.stdout.write(`${JSON.stringify(event)}\n`);
  };
  const result = await fetchModel(model, { quiet: quiet || json, onEvent });
  const text = json ? JSON.stringify({ type: "end", ...result }) : result.path;
  process.stdout.write(`${text}\n`);
}

/** Fetches a model and shows how far it has come. Answers what `pull` of the SDK does. */
async function fetchModel(model, { quiet, onEvent = () => {} }) {
  const { pull: start } = require("../../index.js");
  const progress = new Progress(process.stderr, { quiet });
  const run = start({
    model,
    ...AS_FLAGS,
    onEvent(event) {
      progress.event(event);
      onEvent(event);
    },
  });
  const result = await follow(run, progress, "the next pull goes on from here");
  const { commit, files, durationMs } = result;
  progress.note(
    `${model} at ${commit.slice(0, 7)}: ${files.length} files, ${bytes(result.bytes)}, in ${duration(durationMs)}`,
  );
  return result;
}

module.exports = { fetchModel, pull };
