"use strict";

// The handle of a training run: a promise of its result, an async iterable of its events, and stop().

const { AmvTrainError, fromNative } = require("./errors.js");
const { EventReader } = require("./reader.js");
const { errorInWords, eventInWords } = require("./words.js");

/**
 * `launch(onMessage)` starts the native run and returns its `{ stop() }`; onMessage gets (kind, json) with kind
 * `event` any number of times, then `end` or `error` once. What launch throws rejects the promise. `nameOf` says how the
 * caller calls options (`words.js`).
 */
function startRun(launch, listeners = {}) {
  const wrong = wrongListener(listeners);
  if (wrong)
    return startRun(() => {
      throw wrong;
    });
  const { signal, onEvent, nameOf } = listeners;
  const readers = new Set();
  let native;
  let settle;
  let problem; // what the caller's own onEvent threw
  let outcome; // { failure? } once the run is over

  const promise = new Promise((resolve, reject) => {
    settle = { resolve, reject };
  });

  function stop() {
    native?.stop();
    return run;
  }

  // Not `stop` itself: Node.js adopts a promise that a listener returns, and would report its rejection.
  const onAbort = () => void stop();

  function finish(error, result) {
    signal?.removeEventListener("abort", onAbort);
    const failure = signal?.aborted
      ? { error: signal.reason }
      : (problem ?? error);
    outcome = { failure };
    for (const reader of readers) reader.close(failure);
    readers.clear();
    if (failure) settle.reject(failure.error);
    else settle.resolve(result);
  }

  function failed(error) {
    problem ??= { error };
    stop();
  }

  function emit(event) {
    try {
      // An async onEvent answers with a promise, whose rejection would otherwise end the process.
      onEvent?.(event)?.then?.(undefined, failed);
    } catch (error) {
      failed(error);
    }
    for (const reader of readers) reader.push(event);
  }

  function onMessage(kind, json) {
    if (kind === "event") emit(eventInWords(JSON.parse(json), nameOf));
    else if (kind === "end") finish(undefined, resultOf(json));
    else finish({ error: errorInWords(fromNative(json), nameOf) });
  }

  const run = Object.assign(promise, {
    stop,
    [Symbol.asyncIterator]() {
      const reader = new EventReader(run, () => readers.delete(reader));
      if (outcome) reader.close(outcome.failure);
      else readers.add(reader);
      return reader;
    },
  });

  try {
    signal?.throwIfAborted();
    native = launch(onMessage);
    signal?.addEventListener("abort", onAbort);
  } catch (error) {
    finish({ error: errorInWords(error, nameOf) });
  }
  return run;
}

/** The fields of the `end` event. */
function resultOf(json) {
  const { type: _, ...result } = JSON.parse(json);
  return result;
}

function wrongListener({ signal, onEvent }) {
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    return new AmvTrainError("USAGE", "signal: must be an AbortSignal");
  }
  if (onEvent !== undefined && typeof onEvent !== "function") {
    return new AmvTrainError("USAGE", "onEvent: must be a function");
  }
}

module.exports = { startRun };
