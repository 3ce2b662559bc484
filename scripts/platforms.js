"use strict";

// Runs around `npm publish`: `add` names the platform packages as optional dependencies, `remove` takes them out again.
// They are not in the repository, because `npm ci` fails on an optional dependency that is not published yet.
// Publish the folders of npm/ first; one without its addon is left out, and its users build from source.

const fs = require("node:fs");
const path = require("node:path");
const { PACKAGES } = require("../lib/platform.js");

const ROOT = path.join(__dirname, "..");
const MANIFEST = path.join(ROOT, "package.json");

/** `{ name: version }` of the platform packages whose addon is in place. */
function ready(version) {
  const packages = {};
  for (const name of Object.values(PACKAGES)) {
    const folder = path.join(ROOT, "npm", name.replace("amv-train-", ""));
    const file = path.join(folder, "package.json");
    const manifest = JSON.parse(fs.readFileSync(file, "utf8"));
    if (manifest.version !== version) {
      throw new Error(`${name} is ${manifest.version}, amv-train ${version}`);
    }
    const hasAddon = fs.existsSync(path.join(folder, manifest.main));
    if (hasAddon) packages[name] = version;
    else console.error(`${name}: no ${manifest.main}, left out`);
  }
  return packages;
}

const manifest = JSON.parse(fs.readFileSync(MANIFEST, "utf8"));
if (process.argv[2] === "add") {
  manifest.optionalDependencies = ready(manifest.version);
} else {
  delete manifest.optionalDependencies;
}
fs.writeFileSync(MANIFEST, `${JSON.stringify(manifest, null, 2)}\n`);
