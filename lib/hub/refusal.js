"use strict";

// What the hub's refusals mean. It answers 401 also for what does not exist, so that nobody learns what is private.

const { AmvTrainError } = require("../errors.js");

/** The error for a response that is not ok. `name`: `{ model, repo, revision, file }`. */
function refusal(response, name, { endpoint, token }) {
  const { status, headers } = response;
  const code = headers.get("x-error-code");
  const said = headers.get("x-error-message");
  const { host } = new URL(endpoint);
  const { model, repo, revision } = name;

  if (code === "GatedRepo") {
    const account = token ? "the account of your token" : "your account";
    const set = token
      ? ""
      : `, then set HF_TOKEN to a token from ${endpoint}/settings/tokens`;
    return new AmvTrainError(
      "AUTH",
      `${repo} is gated: who fetches it must have accepted its terms`,
      `accept them with ${account} on ${endpoint}/${repo}${set}`,
    );
  }
  if (code === "RevisionNotFound") {
    return new AmvTrainError(
      "NOT_FOUND",
      `${repo} has no revision ${revision}`,
      `its branches and tags are on ${endpoint}/${repo}/tree/main`,
    );
  }
  if (status === 401 && token && /credentials|token/i.test(said ?? "")) {
    return new AmvTrainError(
      "AUTH",
      `${host} does not know the token it was given`,
      `set HF_TOKEN to a valid token from ${endpoint}/settings/tokens, or to none`,
    );
  }
  if (status === 403) {
    return new AmvTrainError(
      "AUTH",
      `${host} refuses ${model}${said ? `: ${said}` : ""}`,
      `HF_TOKEN must hold a token that may read ${endpoint}/${repo}`,
    );
  }
  if (status === 401 || status === 404) {
    return new AmvTrainError(
      "NOT_FOUND",
      `there is no ${model}: no such path here, and no ${repo} on ${host}, or it is private`,
      token
        ? "check the name; a private model needs a token that may read it"
        : `check the name; for a private model set HF_TOKEN to a token from ${endpoint}/settings/tokens`,
    );
  }
  return new AmvTrainError(
    "NETWORK",
    `${host} answers ${status} for ${model}${said ? `: ${said}` : ""}`,
  );
}

module.exports = { refusal };
