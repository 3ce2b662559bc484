"use strict";

// The one place where the name of a model becomes a path: a model of the hub is fetched before the engine is asked.

const { AmvTrainError } = require("./errors.js");
const { hubName } = require("./hub/name.js");

/** What loading a model of the hub needs is loaded with the first one. */
function fetchFromHub(name, listeners) {
  return require("./hub/fetch.js").fetchModel(name, listeners);
}

/**
 * Starts work that needs `model`, and returns its handle: `next(path)` at once, with no path, when the model is on this
 * machine; else after it was fetched. What happens until then goes to `onMessage` as from the addon.
 */
function withModel(model, onMessage, next) {
  const name = hubName(model);
  if (!name) return next();
  const stopping = new AbortController();
  let handle = { stop: () => stopping.abort(stopped(name)) };
  fetchFromHub(name, {
    signal: stopping.signal,
    onEvent: (event) => onMessage("event", JSON.stringify(event)),
  })
    .then(({ path }) => {
      stopping.signal.throwIfAborted();
      handle = next(path);
    })
    .catch((error) => onMessage("error", error));
  return { stop: () => handle.stop() };
}

/** The path of a model that is fetched for it; none when the model is on this machine. */
async function resolveModel(model) {
  const name = hubName(model);
  return name && (await fetchFromHub(name)).path;
}

function stopped({ model }) {
  return new AmvTrainError(
    "ABORTED",
    `stopped while ${model} was fetched`,
    "the same command goes on where it stopped",
  );
}

module.exports = { fetchFromHub, resolveModel, stopped, withModel };
