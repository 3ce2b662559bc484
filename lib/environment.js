"use strict";

// What JavaScript reads from the environment, all of it.

const os = require("node:os");
const path = require("node:path");

const PUBLIC_HUB = "https://huggingface.co";

/**
 * Where models of the Hugging Face hub come from and are kept, as its own tools have it.
 *
 * HF_HOME is the folder of `hub/` (the shared cache) and `token` (default: `huggingface` in the XDG cache folder);
 * HF_TOKEN wins over the token file; HF_ENDPOINT is another hub; HF_HUB_OFFLINE forbids the network.
 */
function hubEnvironment(variables = process.env) {
  const { HF_HOME, HF_TOKEN, HF_ENDPOINT, HF_HUB_OFFLINE, XDG_CACHE_HOME } =
    variables;
  const caches = XDG_CACHE_HOME || path.join(os.homedir(), ".cache");
  const home = HF_HOME ? fromHome(HF_HOME) : path.join(caches, "huggingface");
  return {
    cacheFolder: path.join(home, "hub"),
    tokenFile: path.join(home, "token"),
    token: HF_TOKEN?.trim() || undefined,
    endpoint: (HF_ENDPOINT || PUBLIC_HUB).replace(/\/+$/, ""),
    offline: /^(1|on|yes|true)$/i.test(HF_HUB_OFFLINE ?? ""),
  };
}

function fromHome(folder) {
  return path.resolve(folder.replace(/^~(?=\/|$)/, os.homedir()));
}

module.exports = { hubEnvironment };
