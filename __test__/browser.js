"use strict";

// A page in headless Chromium, over its debugging pipe: JSON messages that end with a zero byte.

const { spawn, spawnSync } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");

/** The command of an installed Chromium; undefined when there is none. */
function findChromium() {
  const names = ["chromium", "chromium-browser", "google-chrome"];
  return names.find((name) => spawnSync(name, ["--version"]).status === 0);
}

class Browser {
  #process;
  #profile = fs.mkdtempSync(path.join(os.tmpdir(), "amv-train-chromium-"));
  #waiting = new Map();
  #listeners = [];
  #last = 0;
  #session;

  static async open(command) {
    const browser = new Browser();
    await browser.#start(command);
    return browser;
  }

  async #start(command) {
    this.#process = spawn(
      command,
      [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--remote-debugging-pipe",
        `--user-data-dir=${this.#profile}`,
      ],
      { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] },
    );
    let rest = "";
    this.#process.stdio[4].setEncoding("utf8").on("data", (text) => {
      const messages = (rest + text).split("\0");
      rest = messages.pop();
      for (const message of messages) this.#receive(JSON.parse(message));
    });
    const { targetId } = await this.send("Target.createTarget", {
      url: "about:blank",
    });
    const attached = await this.send("Target.attachToTarget", {
      targetId,
      flatten: true,
    });
    this.#session = attached.sessionId;
    for (const domain of ["Page", "Runtime", "Log", "Network"]) {
      await this.send(`${domain}.enable`);
    }
  }

  /** Sends a command of the DevTools protocol and returns its result. */
  send(method, params = {}) {
    const id = ++this.#last;
    const message = { id, method, params, sessionId: this.#session };
    this.#process.stdio[3].write(`${JSON.stringify(message)}\0`);
    return new Promise((resolve, reject) =>
      this.#waiting.set(id, { resolve, reject }),
    );
  }

  #receive({ id, result, error, method, params }) {
    if (id === undefined) {
      for (const listener of this.#listeners) listener(method, params);
      return;
    }
    const { resolve, reject } = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (error) reject(new Error(error.message));
    else resolve(result);
  }

  /** Loads `url` and returns what went wrong on the page, and the addresses it asked for. */
  async load(url) {
    const problems = [];
    const requests = [];
    const loaded = new Promise((resolve) => {
      this.#listeners = [
        (method, params) => {
          if (method === "Page.loadEventFired") resolve();
          if (method === "Network.requestWillBeSent") {
            requests.push(params.request.url);
          }
          if (method === "Runtime.exceptionThrown") {
            problems.push(params.exceptionDetails.exception.description);
          }
          if (method === "Log.entryAdded") problems.push(params.entry.text);
        },
      ];
    });
    await this.send("Page.navigate", { url });
    await loaded;
    return { problems, requests };
  }

  /** The value of an expression on the page. */
  async evaluate(expression) {
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", {
      expression,
      returnByValue: true,
      awaitPromise: true,
    });
    if (exceptionDetails)
      throw new Error(exceptionDetails.exception.description);
    return result.value;
  }

  async screenshot(file) {
    const { data } = await this.send("Page.captureScreenshot", {
      captureBeyondViewport: true,
    });
    fs.writeFileSync(file, Buffer.from(data, "base64"));
  }

  async close() {
    const gone = new Promise((resolve) => this.#process.on("close", resolve));
    this.#process.kill("SIGKILL");
    await gone;
    fs.rmSync(this.#profile, { recursive: true, force: true, maxRetries: 5 });
  }
}

module.exports = { Browser, findChromium };
