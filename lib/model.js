"use strict";

// The one place where a name on the hub becomes a path: models and adapters are fetched before the engine is asked.

const { AmvTrainError } = require("./errors.js");
const { hubName } = require("./hub/name.js");

/** What loading a model of the hub needs is loaded with the first one. */
function fetchFromHub(name, listeners) {
  return require("./hub/fetch.js").fetchModel(name, listeners);
}

/**
 * Starts work with `options`, and returns its handle: `next(paths)` at once when what they name is on this machine; else
 * after it was fetched. `paths` has `model`, `adapter` and `initAdapter` as far as they were. What happens until then goes
 * to `onMessage` as from the addon.
 */
function withFetched(options, onMessage, next) {
  const named = [
    ["model", hubName(options.model)],
    ["adapter", hubAdapter(options.adapter)],
    ["initAdapter", hubAdapter(options.initAdapter)],
  ].filter(([, name]) => name);
  if (named.length === 0) return next({});
  const stopping = new AbortController();
  const [, first] = named[0];
  let handle = { stop: () => stopping.abort(stopped(first)) };
  const onEvent = (event) => onMessage("event", JSON.stringify(event));
  const fetchAll = async () => {
    const paths = {};
    for (const [option, name] of named) {
      handle = { stop: () => stopping.abort(stopped(name)) };
      const { signal } = stopping;
      paths[option] = (await fetchFromHub(name, { signal, onEvent })).path;
      signal.throwIfAborted();
    }
    handle = next(paths);
  };
  fetchAll().catch((error) => onMessage("error", error));
  return { stop: () => handle.stop() };
}

function hubAdapter(adapter) {
  const name = hubName(adapter);
  return name && { ...name, kind: "adapter" };
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

module.exports = { fetchFromHub, resolveModel, stopped, withFetched };
