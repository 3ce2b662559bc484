"use strict";

// Requests to the hub: what fails for a moment is tried again, what is refused becomes one of our errors.

const { setTimeout: sleep } = require("node:timers/promises");
const { version } = require("../../package.json");
const { AmvTrainError } = require("../errors.js");
const { refusal } = require("./refusal.js");

const ATTEMPTS = 6;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 60_000;
const ANSWER_MS = 30_000;
const BUSY = [408, 425, 429, 500, 502, 503, 504];

/** A failure that may be gone in a moment; `pauseMs` when the server said how long. */
class Transient extends Error {
  constructor(message, pauseMs) {
    super(message);
    this.pauseMs = pauseMs;
  }
}

class Requests {
  #name;
  #environment;
  #signal;
  #pause;

  /** `name`: what is fetched, for errors. `pause(ms, signal)` waits before another attempt. */
  constructor(name, environment, { signal, pause = wait } = {}) {
    this.#name = name;
    this.#environment = environment;
    this.#signal = signal;
    this.#pause = pause;
  }

  get host() {
    return new URL(this.#environment.endpoint).host;
  }

  /**
   * One request, with the token: a response that is ok or one of the statuses `accept`.
   * Throws `Transient`, or the error that a refusal is.
   */
  async once(url, { headers = {}, accept = [] } = {}) {
    const { token } = this.#environment;
    const hurry = new AbortController();
    const end = () => hurry.abort(this.#signal.reason);
    const timer = setTimeout(
      () => hurry.abort(new Transient(`no answer for ${ANSWER_MS / 1000} s`)),
      ANSWER_MS,
    );
    this.#signal?.throwIfAborted();
    this.#signal?.addEventListener("abort", end);
    let response;
    try {
      response = await fetch(url, {
        headers: {
          "user-agent": `amv-train/${version}`,
          // A body that is packed on the way has no positions to go on from.
          "accept-encoding": "identity",
          ...(token && { authorization: `Bearer ${token}` }),
          ...headers,
        },
        signal: hurry.signal,
      });
    } catch (error) {
      throw this.failure(error);
    } finally {
      clearTimeout(timer);
    }
    if (response.ok || accept.includes(response.status)) return response;
    await response.body?.cancel();
    if (BUSY.includes(response.status)) {
      const seconds = Number(response.headers.get("retry-after")) || undefined;
      throw new Transient(
        `it answers ${response.status}`,
        seconds && 1000 * seconds,
      );
    }
    throw refusal(response, this.#name, this.#environment);
  }

  /** What a broken connection becomes: the reason of an abort as it is, everything else `Transient`. */
  failure(error) {
    if (this.#signal?.aborted) return this.#signal.reason;
    if (error instanceof Transient) return error;
    const cause = error.cause ?? error;
    return new Transient(cause.code ?? cause.message);
  }

  /** What `work` answers, begun again after each `Transient` up to `attempts` times; then NETWORK. */
  async patiently(work, attempts = ATTEMPTS) {
    for (let attempt = 1; ; attempt++) {
      try {
        return await work();
      } catch (error) {
        if (!(error instanceof Transient)) throw error;
        await this.breathe(error, attempt, attempts);
      }
    }
  }

  /** Waits after the failed attempt number `attempt`; throws NETWORK when it was the last. */
  async breathe(error, attempt, attempts = ATTEMPTS) {
    if (attempt >= attempts) {
      throw new AmvTrainError(
        "NETWORK",
        `${this.#name.model} cannot be fetched from ${this.host}: ${error.message}`,
        "check the network and run the same command again: it goes on where it stopped",
      );
    }
    const pause = error.pauseMs ?? FIRST_PAUSE_MS * 2 ** (attempt - 1);
    await this.#pause(Math.min(pause, LONGEST_PAUSE_MS), this.#signal);
  }
}

async function wait(ms, signal) {
  try {
    await sleep(ms, undefined, { signal });
  } catch (error) {
    throw signal?.aborted ? signal.reason : error;
  }
}

module.exports = { Requests, Transient };
