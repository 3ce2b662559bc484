"use strict";

/** A loop that falls this many events behind loses the oldest `step` events, and never another kind. */
const MOST_WAITING = 4096;

/**
 * One `for await` over a run's events. It keeps the events from its creation until they are read, nothing else does.
 * A failed run is thrown by the loop; leaving the loop early stops the run and waits until it has saved.
 */
class EventReader {
  #run;
  #leave;
  #waiting = [];
  #asked = [];
  #over = false;
  #failed = false;

  constructor(run, leave) {
    this.#run = run;
    this.#leave = leave;
  }

  push(event) {
    const ask = this.#asked.shift();
    if (ask) return ask({ done: false, value: event });
    this.#waiting.push(event);
    if (this.#waiting.length > MOST_WAITING) this.#dropOldestStep();
  }

  close(failure) {
    this.#over = true;
    this.#failed = Boolean(failure);
    for (const ask of this.#asked.splice(0)) ask(this.#last());
  }

  next() {
    // The loop reports a failure, so the promise need not be awaited as well.
    this.#run.catch(() => {});
    if (this.#waiting.length > 0) {
      return Promise.resolve({ done: false, value: this.#waiting.shift() });
    }
    if (this.#over) return Promise.resolve(this.#last());
    return new Promise((resolve) => this.#asked.push(resolve));
  }

  async return() {
    this.#leave();
    this.#waiting = [];
    if (!this.#over) await this.#run.stop();
    this.close();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  /** What comes after the last event: the failure once, then the end. */
  #last() {
    const end = { done: true, value: undefined };
    if (!this.#failed) return end;
    this.#failed = false;
    return this.#run.then(() => end);
  }

  #dropOldestStep() {
    const index = this.#waiting.findIndex(({ type }) => type === "step");
    if (index >= 0) this.#waiting.splice(index, 1);
  }
}

module.exports = { EventReader };
