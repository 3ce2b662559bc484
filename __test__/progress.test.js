"use strict";

const assert = require("node:assert/strict");
const { describe, test } = require("node:test");
const { fitted, Progress } = require("../bin/cli/progress.js");
const quantities = require("../bin/cli/quantities.js");
const { printable } = require("../bin/cli/terminal.js");

/** A stream that remembers what was written. */
function stream(properties) {
  const chunks = [];
  return {
    ...properties,
    write: (text) => chunks.push(text),
    text: () => chunks.join(""),
  };
}

function step(number, totalSteps = 100) {
  const facts = {
    loss: 2,
    etaMs: 61_000,
    tokensPerSecond: 1234,
    memoryBytes: 2 ** 28,
    skipped: false,
  };
  return { type: "step", step: number, totalSteps, ...facts };
}

describe("progress in a file", () => {
  test("has the first step, the last, and one every tenth", () => {
    const out = stream();
    const progress = new Progress(out);
    for (let number = 1; number <= 100; number++) progress.event(step(number));
    progress.end();
    const lines = out.text().trimEnd().split("\n");
    assert.equal(
      lines[0],
      "step   1/100  loss 2.0000  ETA 1:01  1.2 k tok/s  256 MiB",
    );
    const shown = lines.map((line) => Number(/\d+/.exec(line)));
    assert.deepEqual(shown, [1, 11, 21, 31, 41, 51, 61, 71, 81, 91, 100]);
  });

  test("has the last step of a run that was stopped", () => {
    const out = stream();
    const progress = new Progress(out);
    for (let number = 1; number <= 5; number++) progress.event(step(number));
    progress.end();
    progress.end();
    assert.match(out.text(), /step   5\/100.*\n$/);
    assert.equal(out.text().split("\n").length, 3);
  });

  test("shows a loss that is not finite, and a skipped step", () => {
    const out = stream();
    new Progress(out).event({ ...step(1), loss: null, skipped: true });
    assert.match(out.text(), /loss not finite  skipped/);
  });

  test("is only warnings when quiet", () => {
    const out = stream();
    const progress = new Progress(out, { quiet: true });
    progress.note("a note");
    progress.event(step(1));
    progress.event({
      type: "warning",
      code: "SHORT",
      message: "the text is short",
    });
    assert.equal(out.text(), "warning: the text is short\n");
  });
});

describe("progress on a terminal", () => {
  const terminal = (columns) =>
    stream({ isTTY: true, columns, hasColors: () => false });

  test("fits its width and keeps what matters most", () => {
    for (const [columns, line] of [
      [80, /256 MiB$/],
      [45, /ETA 1:01$/],
      [20, /^step   1\/100$/],
      [8, /^step   $/],
    ]) {
      const out = terminal(columns);
      new Progress(out).event(step(1));
      const [, drawn] = out.text().split("\r");
      assert.ok(drawn.length < columns, drawn);
      assert.match(drawn, line);
    }
  });

  test("is redrawn at most ten times a second", () => {
    const out = terminal(80);
    const progress = new Progress(out);
    const start = performance.now();
    for (let number = 1; number < 90; number++) progress.event(step(number));
    const drawn = out.text().split("\r").length - 1;
    assert.ok(drawn <= 1 + (performance.now() - start) / 100, `${drawn} times`);
  });

  test("moves down for other lines and leaves the last one standing", () => {
    const out = terminal(30);
    const progress = new Progress(out);
    progress.event(step(100));
    progress.note("saved");
    progress.end();
    const line = "step 100/100  loss 2.0000";
    const blank = " ".repeat(line.length);
    assert.equal(
      out.text(),
      `\r${line}\r${blank}\rsaved\n\r${line}\r${line}\n`,
    );
  });
});

test("fields are dropped from the right", () => {
  assert.equal(fitted(["aa", "bb", "cc"], 6), "aa  bb");
  assert.equal(fitted(["aaaa"], 2), "aa");
});

test("quantities read as people write them", () => {
  assert.equal(quantities.bytes(0), "0 B");
  assert.equal(quantities.bytes(1536), "1.5 KiB");
  assert.equal(quantities.duration(59_400), "0:59");
  assert.equal(quantities.duration(3_662_000), "1:01:02");
  assert.equal(quantities.count(999), "999");
  assert.equal(quantities.count(134_515_008), "134.5 M");
});

test("text of a model cannot steer the terminal", () => {
  assert.equal(printable("a\x1b[2Jb\rc\u009bd\ne"), "a [2Jb c d\ne");
});
