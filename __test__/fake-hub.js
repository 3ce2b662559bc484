"use strict";

// A server that speaks as much of the Hugging Face hub's API as a download needs, and fails on demand.

const crypto = require("node:crypto");
const http = require("node:http");
const { once } = require("node:events");

const hash = (kind, content) =>
  crypto.createHash(kind).update(content).digest("hex");

/** A file of a repository: large ones, as the hub keeps them, have a SHA-256, others the hash of git's blob. */
function entryOf(path, content) {
  const { length: size } = content;
  const oid = hash(
    "sha1",
    Buffer.concat([Buffer.from(`blob ${size}\0`), content]),
  );
  const isLarge = /\.(gguf|safetensors|bin)$/.test(path);
  const lfs = isLarge && {
    oid: hash("sha256", content),
    size,
    pointerSize: 130,
  };
  return { type: "file", path, size, oid, ...(lfs && { lfs }) };
}

class FakeHub {
  /** Requests as `{ url, range, authorization, status, sent }`, `sent` the bytes of the body that went out. */
  requests = [];
  #server;
  #repositories = new Map();
  #faults = [];

  /** Adds `files`, contents by path, as the revision `main`; returns the commit. `gated` asks for the token `open`. */
  add(repo, files, { revision = "main", gated = false } = {}) {
    const contents = Object.entries(files).map(([path, content]) => [
      path,
      Buffer.from(content),
    ]);
    const commit = hash("sha1", JSON.stringify([repo, revision, contents]));
    const known = this.#repositories.get(repo);
    const refs = { ...known?.refs, [revision]: commit };
    const commits = { ...known?.commits, [commit]: new Map(contents) };
    this.#repositories.set(repo, { refs, commits, gated });
    return commit;
  }

  /**
   * The next requests whose path matches `pattern` go wrong, one after the other: `{ status, headers }` refuses, `{ drop: n }`
   * ends the connection after n bytes of the body, `{ content }` sends something else, `{ whole: true }` ignores the range.
   */
  fail(pattern, ...faults) {
    for (const fault of faults) this.#faults.push({ pattern, ...fault });
  }

  /** What a listing says about a file of a commit. */
  entry(repo, commit, path) {
    return entryOf(
      path,
      this.#repositories.get(repo).commits[commit].get(path),
    );
  }

  async start() {
    this.#server = http.createServer((request, response) =>
      this.#answer(request, response),
    );
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    this.endpoint = `http://127.0.0.1:${this.#server.address().port}`;
    return this;
  }

  stop() {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  /** Bytes of bodies that were sent for paths that match. */
  sent(pattern) {
    const bodies = this.requests.filter(({ url }) => pattern.test(url));
    return bodies.reduce((sum, { sent }) => sum + sent, 0);
  }

  #answer(request, response) {
    const { url, headers } = request;
    const { range, authorization } = headers;
    const record = { url, range, authorization, status: 200, sent: 0 };
    this.requests.push(record);
    const index = this.#faults.findIndex(({ pattern }) => pattern.test(url));
    const [fault] = index < 0 ? [{}] : this.#faults.splice(index, 1);
    const send = (status, more = {}, body = "") => {
      record.status = status;
      response.writeHead(status, { "content-length": body.length, ...more });
      const part = body.subarray?.(0, fault.drop) ?? body;
      record.sent = part.length;
      response.write(part, () => {
        if (fault.drop === undefined) response.end();
        else setTimeout(() => response.destroy(), 20);
      });
    };
    if (fault.status) return send(fault.status, fault.headers);

    const path = decodeURIComponent(new URL(url, "http://hub").pathname);
    const api =
      /^\/api\/models\/([^/]+\/[^/]+)\/(revision|tree)\/([^?]+)$/.exec(path);
    const file = /^\/([^/]+\/[^/]+)\/resolve\/([0-9a-f]+)\/(.+)$/.exec(path);
    const far = /^\/far\/([^/]+\/[^/]+)\/([0-9a-f]+)\/(.+)$/.exec(path);
    const [, repo] = api ?? file ?? far ?? [];
    const found = this.#repositories.get(repo);
    if (!found) return send(401, { "x-error-code": "RepoNotFound" });
    if (api) return this.#describe(repo, found, api[2], api[3], send);
    if (found.gated && !far && authorization !== "Bearer open") {
      return send(authorization ? 403 : 401, { "x-error-code": "GatedRepo" });
    }
    const [, , commit, name] = file ?? far;
    const content = found.commits[commit]?.get(name);
    if (!content) return send(404, { "x-error-code": "EntryNotFound" });
    const { oid, lfs } = entryOf(name, content);
    if (file && lfs) {
      // Large files come from elsewhere.
      return send(302, {
        location: `/far/${repo}/${commit}/${encodeURIComponent(name)}`,
        "x-linked-etag": `"${lfs.oid}"`,
        "x-linked-size": lfs.size,
        "x-repo-commit": commit,
      });
    }
    const body = fault.content ? Buffer.from(fault.content) : content;
    const more = { etag: `"${lfs?.oid ?? oid}"`, "x-repo-commit": commit };
    const from = /^bytes=(\d+)-$/.exec(range ?? "")?.[1];
    if (from === undefined || fault.whole) return send(200, more, body);
    if (Number(from) >= body.length) return send(416);
    const part = body.subarray(Number(from));
    more["content-range"] = `bytes ${from}-${body.length - 1}/${body.length}`;
    send(206, more, part);
  }

  #describe(repo, { refs, commits, gated }, kind, revision, send) {
    const commit = refs[revision] ?? revision;
    if (!commits[commit]) {
      return send(404, { "x-error-code": "RevisionNotFound" });
    }
    const files = [...commits[commit]];
    const answer =
      kind === "revision"
        ? { _id: "1", id: repo, sha: commit, gated, private: false }
        : files.map(([path, content]) => entryOf(path, content));
    const type = { "content-type": "application/json" };
    send(200, type, Buffer.from(JSON.stringify(answer)));
  }
}

module.exports = { FakeHub };
