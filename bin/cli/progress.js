"use strict";

// How a run shows on standard error: one line that is redrawn on a terminal, plain lines elsewhere.

const { masked, shortened } = require("./mask.js");
const { bytes, count, duration, loss, planLine } = require("./quantities.js");
const { printable, styled } = require("./terminal.js");

const REDRAW_MS = 100;
const PLAIN_LINE_MS = 10_000;
const PLAIN_LINE_SHARE = 0.1;
const LONGEST_SAMPLE = 400;

/** The facts of a step, the most important first. */
function stepFields(event) {
  if (event.type === "progress") {
    return [`${event.what} ${event.done}/${event.total}`];
  }
  if (event.type === "download") {
    const { done, total, file, rate } = event;
    const fields = [`fetching ${bytes(done)} of ${bytes(total)}`];
    if (rate > 0) {
      const left = duration((1000 * (total - done)) / rate);
      fields.push(`ETA ${left}`, `${bytes(rate)}/s`);
    }
    return [...fields, printable(file)];
  }
  const width = String(event.totalSteps).length;
  const fields = [
    `step ${String(event.step).padStart(width)}/${event.totalSteps}`,
    `loss ${loss(event.loss)}`,
    `ETA ${duration(event.etaMs)}`,
    `${count(Math.round(event.tokensPerSecond))} tok/s`,
    bytes(event.memoryBytes),
  ];
  if (event.skipped) fields.splice(2, 0, "skipped");
  return fields;
}

/** How far a step or other progress has come, from 1, of how many. */
const place = (event) => event.step ?? event.done;
const length = (event) => event.totalSteps ?? event.total;
const isLast = (event) => place(event) === length(event);

/** As many fields as fit in `width` columns, at least the first. */
function fitted(fields, width) {
  let line = fields[0];
  for (const field of fields.slice(1)) {
    if (line.length + 2 + field.length > width) break;
    line += `  ${field}`;
  }
  return line.slice(0, width);
}

/** The line of a terminal: redrawn at most ten times a second, and moved down by everything else that is printed. */
class LiveLine {
  #stream;
  #shown = 0;
  #drawnAt = -Infinity;
  #line = "";

  constructor(stream) {
    this.#stream = stream;
  }

  step(event) {
    this.#line = fitted(stepFields(event), (this.#stream.columns || 80) - 1);
    const now = performance.now();
    const last = isLast(event);
    if (last || now - this.#drawnAt >= REDRAW_MS) this.#draw(now);
  }

  print(text) {
    this.#clear();
    this.#stream.write(`${text}\n`);
    if (this.#line) this.#draw(performance.now());
  }

  /** Leaves the last line standing. */
  end() {
    if (this.#line) this.#draw(performance.now());
    if (this.#shown > 0) this.#stream.write("\n");
    this.#shown = 0;
    this.#line = "";
  }

  #draw(now) {
    // Blanks instead of an escape sequence: every terminal understands them.
    this.#stream.write(`\r${this.#line.padEnd(this.#shown)}`);
    this.#shown = this.#line.length;
    this.#drawnAt = now;
  }

  #clear() {
    if (this.#shown > 0) this.#stream.write(`\r${" ".repeat(this.#shown)}\r`);
    this.#shown = 0;
  }
}

/** Lines for a file: the first step, the last, and between them one every tenth of the run or every ten seconds. */
class PlainLines {
  #stream;
  #printed;
  #latest;

  constructor(stream) {
    this.#stream = stream;
  }

  step(event) {
    const now = performance.now();
    const due =
      !this.#printed ||
      isLast(event) ||
      place(event) - this.#printed.place >= length(event) * PLAIN_LINE_SHARE ||
      now - this.#printed.at >= PLAIN_LINE_MS;
    this.#latest = event;
    if (due) this.#printStep(event, now);
  }

  print(text) {
    this.#stream.write(`${text}\n`);
  }

  /** A run that was stopped early shows its last step, too. */
  end() {
    if (this.#latest && place(this.#latest) !== this.#printed.place) {
      this.#printStep(this.#latest, performance.now());
    }
  }

  #printStep(event, now) {
    this.print(stepFields(event).join("  "));
    this.#printed = { place: place(event), at: now };
  }
}

function linesFor(stream) {
  return stream.isTTY ? new LiveLine(stream) : new PlainLines(stream);
}

/** Shows a run's events on `stream`; with `quiet` only the warnings. */
class Progress {
  #stream;
  #lines;
  #quiet;
  #saved = [];
  #fetching;

  constructor(stream, { quiet = false } = {}) {
    this.#stream = stream;
    this.#quiet = quiet;
    this.#lines = linesFor(stream);
  }

  event(event) {
    if (event.type === "warning") {
      const label = styled(this.#stream, "yellow", "warning:");
      this.#lines.print(`${label} ${printable(event.message)}`);
    }
    if (this.#quiet) return;
    if (event.type === "step") this.#step(event);
    else if (event.type === "save") this.#saved.push(event);
    else if (event.type === "progress") this.#lines.step(event);
    else if (event.type === "download") this.#download(event);
    const text = this.#textOf(event);
    if (text) this.#lines.print(text);
  }

  /** A line of our own between the events. */
  note(text) {
    if (!this.#quiet) this.#lines.print(text);
  }

  end() {
    this.#lines.end();
  }

  /** Files saved before a step are checkpoints; those after the last one are the result, which is not repeated here. */
  #step(event) {
    for (const { path, step } of this.#saved.splice(0)) {
      this.#lines.print(`saved ${printable(path)} at step ${step}`);
    }
    this.#lines.step(event);
  }

  /** With the speed since the first event; what comes after the last one begins on lines of its own. */
  #download(event) {
    const now = performance.now();
    this.#fetching ??= { at: now, done: event.done };
    const { at, done } = this.#fetching;
    const rate = (1000 * (event.done - done)) / (now - at);
    this.#lines.step({ ...event, rate });
    if (event.done < event.total) return;
    this.#fetching = undefined;
    this.#lines.end();
    this.#lines = linesFor(this.#stream);
  }

  #textOf(event) {
    switch (event.type) {
      case "data":
        return dataText(event, this.#stream);
      case "start":
        return `training ${count(event.trainableParameters)} parameters of ${printable(event.model)} on ${printable(event.device)}: ${event.totalSteps} steps\n${planLine(event.plan)}`;
      case "eval":
        return `eval at step ${event.step}: loss ${loss(event.loss)}, perplexity ${event.perplexity?.toFixed(2) ?? "not finite"}`;
      case "sample":
        return `${styled(this.#stream, "bold", sampleLabel(event))} ${sampleText(event)}`;
    }
  }
}

/** What the data is, and its first sample with what is learned of it. */
function dataText(
  { records, samples, formats, tokens, targets, sample },
  stream,
) {
  const names = Object.keys(formats).join(", ");
  const label = styled(stream, "bold", "the first, with what is learned:");
  return [
    `data: ${count(records)} records (${names}), ${count(samples)} samples, ${count(tokens)} tokens, ${count(targets)} of them learned`,
    `${label} ${masked(shortened(sample, LONGEST_SAMPLE), stream).replace(/\n/g, "\n  ")}`,
  ].join("\n");
}

function sampleLabel({ moment, step }) {
  const when = moment === "during" ? `at step ${step}` : `${moment} training`;
  return `the model writes, ${when}:`;
}

function sampleText({ prompt, text }) {
  const whole = printable(`${prompt}${text}`).trim();
  const cut =
    whole.length > LONGEST_SAMPLE
      ? `${whole.slice(0, LONGEST_SAMPLE)} ...`
      : whole;
  return cut.replace(/\n+/g, "\n  ");
}

module.exports = { Progress, fitted };
