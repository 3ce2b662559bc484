"use strict";

// Writes THIRD-PARTY-NOTICES.md: the crates compiled into the addon with their licences, what is in report.html, and what
// the built-in model was made from.

const { execFileSync } = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");

const root = path.join(__dirname, "..");
const metadata = JSON.parse(
  execFileSync(
    "cargo",
    ["metadata", "--format-version=1", "--locked", "--features=node"],
    { cwd: root, maxBuffer: 1 << 28 },
  ),
);

// Everything reachable from our crate through dependencies that end up in the addon.
const nodes = new Map(metadata.resolve.nodes.map((node) => [node.id, node]));
const linked = new Set();
const visit = (id) => {
  if (linked.has(id)) return;
  linked.add(id);
  for (const { pkg, dep_kinds: kinds } of nodes.get(id).deps) {
    const used = ({ kind, target }) =>
      kind === null && !/windows|macos|apple|wasm|wasi/.test(target ?? "");
    if (kinds.some(used)) visit(pkg);
  }
};
visit(metadata.resolve.root);

const rows = metadata.packages
  .filter(({ id }) => linked.has(id) && id !== metadata.resolve.root)
  .map(({ name, version, license }) => `| ${name} | ${version} | ${license} |`)
  .sort();
const uplot = path.dirname(require.resolve("uplot/package.json"));
const { version } = require("uplot/package.json");
const licence = fs.readFileSync(path.join(uplot, "LICENSE"), "utf8");
const model = fs.readFileSync(path.join(root, "builtin/NOTICE.md"), "utf8");
fs.writeFileSync(
  path.join(root, "THIRD-PARTY-NOTICES.md"),
  `# Third-party notices

amv-train is licensed under Apache-2.0, see [LICENSE](LICENSE). It contains the work of others, under their own licences.

## Crates compiled into the addon

\`npm run notices\` writes this list. The full texts are in the source packages of these crates.

| crate | version | licence |
| --- | --- | --- |
${rows.join("\n")}

## In report.html

uPlot ${version} (https://github.com/leeoniya/uPlot) draws the curves:

\`\`\`text
${licence.trim()}
\`\`\`

${model.trim().replace(/^# /, "## ").replace(/\n## /g, "\n### ")}
`,
);
