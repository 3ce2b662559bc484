"use strict";

// The handle of a run, on a scripted native side.

const assert = require("node:assert/strict");
const { execFileSync, spawnSync } = require("node:child_process");
const path = require("node:path");
const { describe, test } = require("node:test");
const { AmvTrainError } = require("../lib/errors.js");
const { startRun } = require("../lib/run.js");

const RESULT = { status: "completed", steps: 3, finalLoss: 1.5 };

/** A native run of `steps` steps, one each turn of the event loop; `outcome` is the last message. */
function scripted(steps, outcome = ["end", RESULT]) {
  const native = { stopped: false, stop: () => (native.stopped = true) };
  native.launch = (onMessage) => {
    let step = 0;
    const turn = () => {
      const over = step === steps || native.stopped;
      if (over) return onMessage(outcome[0], JSON.stringify(outcome[1]));
      onMessage("event", JSON.stringify({ type: "step", step: ++step }));
      setImmediate(turn);
    };
    setImmediate(turn);
    return native;
  };
  return native;
}

const FAILURE = [
  "error",
  { code: "NON_FINITE", message: "loss is NaN", hint: "lower lr" },
];

async function steps(run) {
  const seen = [];
  for await (const event of run) seen.push(event.step);
  return seen;
}

describe("a run", () => {
  test("is a promise of the result", async () => {
    const run = startRun(scripted(3).launch);
    assert.ok(run instanceof Promise);
    assert.deepEqual(await run, RESULT);
  });

  test("gives every loop every event", async () => {
    const run = startRun(scripted(3).launch);
    const seen = await Promise.all([steps(run), steps(run)]);
    assert.deepEqual(seen, [
      [1, 2, 3],
      [1, 2, 3],
    ]);
    assert.deepEqual(
      await steps(run),
      [],
      "a loop after the end has nothing to see",
    );
  });

  test("gives onEvent every event in order", async () => {
    const seen = [];
    await startRun(scripted(3).launch, {
      onEvent: ({ step }) => seen.push(step),
    });
    assert.deepEqual(seen, [1, 2, 3]);
  });

  test("saves and resolves after stop()", async () => {
    const native = scripted(1000);
    const run = startRun(native.launch);
    assert.equal(run.stop(), run);
    assert.deepEqual(await run, RESULT);
    assert.ok(native.stopped);
    run.stop();
  });

  test("has saved when a loop that was left early is over", async () => {
    const native = scripted(1000);
    const run = startRun(native.launch);
    let settled = false;
    run.then(() => (settled = true));
    for await (const { step } of run) if (step === 2) break;
    assert.ok(native.stopped && settled);
    assert.deepEqual(await run, RESULT);
  });

  test("lets an error of the loop's body through", async () => {
    const run = startRun(scripted(1000).launch);
    await assert.rejects(async () => {
      for await (const _ of run) throw new RangeError("mine");
    }, RangeError);
  });
});

describe("a run that fails", () => {
  const expected = {
    name: "AmvTrainError",
    code: "NON_FINITE",
    message: "loss is NaN",
    hint: "lower lr",
  };

  test("rejects with an AmvTrainError", async () => {
    const run = startRun(scripted(2, FAILURE).launch);
    await assert.rejects(run, expected);
    await assert.rejects(run, AmvTrainError);
  });

  test("throws in every loop, after its events", async () => {
    const run = startRun(scripted(2, FAILURE).launch);
    const seen = [];
    await assert.rejects(async () => {
      for await (const { step } of run) seen.push(step);
    }, expected);
    assert.deepEqual(seen, [1, 2]);
    await assert.rejects(
      steps(run),
      expected,
      "a loop that begins after the end",
    );
  });

  test("throws when its loop is left early and the save fails", async () => {
    const run = startRun(scripted(1000, FAILURE).launch);
    await assert.rejects(async () => {
      for await (const _ of run) break;
    }, expected);
  });

  test("rejects with what launch throws", async () => {
    const launch = () => {
      throw new AmvTrainError("USAGE", "no");
    };
    await assert.rejects(startRun(launch), { code: "USAGE" });
  });

  test("stops and rejects with what an async onEvent rejects with", async () => {
    const native = scripted(100);
    const onEvent = async () => {
      throw new RangeError("mine");
    };
    await assert.rejects(startRun(native.launch, { onEvent }), RangeError);
    assert.ok(native.stopped);
  });

  test("stops and rejects with what onEvent throws", async () => {
    const native = scripted(1000);
    const onEvent = () => {
      throw new RangeError("mine");
    };
    await assert.rejects(startRun(native.launch, { onEvent }), RangeError);
    assert.ok(native.stopped);
  });

  const handler = path.join(__dirname, "..", "lib", "run.js");
  const script = (use) => `
    const { startRun } = require(${JSON.stringify(handler)});
    const run = startRun((send) => (setImmediate(() => send("error", '{"code":"IO","message":"disk full"}')), { stop() {} }));
    ${use}`;

  test("ends the process like any promise that nobody handles", () => {
    const { status, stderr } = spawnSync(process.execPath, ["-e", script("")], {
      encoding: "utf8",
    });
    assert.equal(status, 1);
    assert.match(stderr, /disk full/);
  });

  test("is handled by the loop that threw it", () => {
    const use =
      "(async () => { try { for await (const _ of run); } catch (e) { console.log(e.code); } })();";
    const stdout = execFileSync(process.execPath, ["-e", script(use)], {
      encoding: "utf8",
    });
    assert.equal(stdout, "IO\n");
  });
});

describe("an aborted signal", () => {
  test("stops the run, which rejects with the reason", async () => {
    const native = scripted(1000);
    const controller = new AbortController();
    const run = startRun(native.launch, { signal: controller.signal });
    setImmediate(() => controller.abort(new RangeError("enough")));
    await assert.rejects(run, RangeError);
    assert.ok(native.stopped);
  });

  test("is thrown by the loops as well", async () => {
    const controller = new AbortController();
    const run = startRun(scripted(1000).launch, { signal: controller.signal });
    await assert.rejects(
      async () => {
        for await (const { step } of run) if (step === 2) controller.abort();
      },
      { name: "AbortError" },
    );
  });

  test("starts nothing when it was aborted before", async () => {
    const launch = () => assert.fail("launched");
    await assert.rejects(startRun(launch, { signal: AbortSignal.abort() }), {
      name: "AbortError",
    });
  });

  test("leaves no listener behind", async () => {
    const { signal } = new AbortController();
    await startRun(scripted(1).launch, { signal });
    const { getEventListeners } = require("node:events");
    assert.equal(getEventListeners(signal, "abort").length, 0);
  });

  test("must be a signal, and onEvent a function", async () => {
    const { launch } = scripted(1);
    await assert.rejects(startRun(launch, { signal: {} }), { code: "USAGE" });
    await assert.rejects(startRun(launch, { onEvent: 1 }), { code: "USAGE" });
  });
});

test("a loop that falls behind loses the oldest steps and no other event", async () => {
  let send;
  const run = startRun((onMessage) => ((send = onMessage), { stop() {} }));
  const reader = run[Symbol.asyncIterator]();
  send("event", '{"type":"start"}');
  for (let step = 1; step <= 5000; step++)
    send("event", JSON.stringify({ type: "step", step }));
  send("end", JSON.stringify(RESULT));
  assert.equal((await reader.next()).value.type, "start");
  const seen = await steps({ [Symbol.asyncIterator]: () => reader });
  assert.equal(seen.length, 4095);
  assert.equal(seen.at(-1), 5000);
});
