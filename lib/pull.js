"use strict";

// Fetches a model or an adapter of the hub, without training it.

const { working } = require("./command.js");
const { AmvTrainError } = require("./errors.js");
const { hubName } = require("./hub/name.js");
const { fetchFromHub, stopped } = require("./model.js");

const pull = working("pull", ({ model }, onMessage) => {
  const named = hubName(model);
  if (!named) throw noHubName(model);
  const name = { ...named, kind: "any" };
  const stopping = new AbortController();
  const started = performance.now();
  fetchFromHub(name, {
    signal: stopping.signal,
    onEvent: (event) => onMessage("event", JSON.stringify(event)),
  }).then(
    (found) => {
      const durationMs = Math.round(performance.now() - started);
      onMessage("end", JSON.stringify({ model, ...found, durationMs }));
    },
    (error) => onMessage("error", error),
  );
  return { stop: () => stopping.abort(stopped(name)) };
});

function noHubName(model) {
  return new AmvTrainError(
    "USAGE",
    `"${model}" is no name of a model on the hub, or a path that exists`,
    "names are org/name, org/name@revision and org/name:file.gguf",
  );
}

module.exports = { pull };
