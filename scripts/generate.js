"use strict";

// Writes what follows from the table of options in src/node/options.rs: lib/options.json, and the marked parts of
// index.d.ts, README.md and docs/commands.md; and, of report/ and uPlot, the template of report.html. `npm run generate`
// after changing any of them; a test checks that nothing is behind.

const fs = require("node:fs");
const path = require("node:path");
const prettier = require("prettier");
const { loadNative } = require("../lib/native.js");
const { COMMANDS } = require("../bin/cli/commands.js");
const { property } = require("../lib/options.js");
const { reportTemplate } = require("./report.js");

const ROOT = path.join(__dirname, "..");

/** The name in index.d.ts of the options of each command that JavaScript can start: `TrainOptions` for `train`. */
const TYPES = {
  train: "TrainOptions",
  data: "DataOptions",
  generate: "GenerateOptions",
  eval: "EvaluateOptions",
  export: "ExportAdapterOptions",
  merge: "MergeOptions",
  verify: "VerifyOptions",
  pull: "PullOptions",
  plan: "PlanOptions",
};

/** The events of those that have others than a training; the rest of them tell of progress and warnings only. */
const EVENTS = {
  train: "TrainEvent",
  data: "TrainEvent",
  generate: "GenerateEvent",
  pull: "PullEvent",
  plan: "TrainEvent",
};

/** The text every generated file should have, by its path from the root. */
async function generated() {
  const table = JSON.parse(loadNative().optionTable());
  const texts = {
    "lib/options.json": JSON.stringify(table),
    "index.d.ts": replacePart("index.d.ts", "//", "", typesOf(table)),
    "README.md": replacePart(
      "README.md",
      "<!--",
      " -->",
      optionTable(optionsOf(table, "train")),
    ),
    "docs/commands.md": replacePart(
      "docs/commands.md",
      "<!--",
      " -->",
      commandTables(table),
    ),
  };
  for (const [file, text] of Object.entries(texts)) {
    texts[file] = await prettier.format(text, { filepath: file });
  }
  // As it is: what is inlined keeps its own form.
  return { ...texts, "src/run/report/template.html": reportTemplate() };
}

/** The file with everything between its two marker lines replaced. */
function replacePart(file, open, close, part) {
  const text = fs.readFileSync(path.join(ROOT, file), "utf8");
  const begin = `${open} generated from src/node/options.rs${close}\n`;
  const end = `${open} end of the generated part${close}\n`;
  const [before, rest] = text.split(begin);
  const after = rest?.split(end)[1];
  if (after === undefined) throw new Error(`${file} lacks its marker lines`);
  return `${before}${begin}\n${part}\n${end}${after}`;
}

/** The options of every command that JavaScript can start. */
function typesOf(table) {
  const interfaces = Object.entries(TYPES).map(([command, type]) => {
    const options = optionsOf(table, command).filter(
      ({ surface }) => surface !== "commandLine",
    );
    return `/** Options of {@link ${functionOf(type)}}. */
export interface ${type} extends RunListeners<${EVENTS[command] ?? "WorkEvent"}> {
${options.map(typeOfOption).join("\n")}
}`;
  });
  return interfaces.join("\n\n");
}

function optionsOf(table, command) {
  return table.filter(({ commands }) => commands.includes(command));
}

/** `TrainOptions` are those of `train`. */
function functionOf(type) {
  const name = type.replace(/Options$/, "");
  return name[0].toLowerCase() + name.slice(1);
}

/** A section with a table of options for every command but `train`, whose table is in the README. */
function commandTables(table) {
  const sections = COMMANDS.filter(({ name }) => name !== "train").map(
    ({ name, description, examples }) => {
      const options = optionsOf(table, name);
      const commands = examples.map(({ command }) => command).join("\n");
      const rows = options.length > 0 ? `\n${optionTable(options)}` : "";
      return `## ${name}\n\n${description}\n\n\`\`\`sh\n${commands}\n\`\`\`\n${rows}`;
    },
  );
  return sections.join("\n");
}

function typeOfOption(option) {
  const name = property(option.name);
  const optional = option.required ? "" : "?";
  const lines = [option.doc];
  if (option.default) lines.push(`Default: ${option.default}.`);
  const type = typeScript(option);
  const doc = lines.map((line) => `   * ${line}\n`).join("   *\n");
  const aliases = (option.aliases ?? []).map(
    (alias) =>
      `  /** Same as \`${name}\`. */\n  ${property(alias)}?: ${type};\n`,
  );
  return `  /**\n${doc}   */\n  ${name}${optional}: ${type};\n${aliases.join("")}`;
}

function typeScript({ type, choices }) {
  switch (type) {
    case "flag":
      return "boolean";
    case "integer":
    case "number":
      return "number";
    case "steps":
      return "number | `${number}%`";
    case "interval":
      return "number | `${number}m`";
    case "list":
      return "string | readonly string[]";
    case "layers":
      return "string | readonly number[]";
    case "pattern":
      return "Readonly<Record<string, number>>";
    case "choice":
      return choices.map((word) => JSON.stringify(word)).join(" | ");
    default:
      return "string";
  }
}

function optionTable(options) {
  const shown = options.filter(({ surface }) => surface !== "javaScript");
  const rows = shown.map((option) => {
    const flags = [option.name, ...(option.aliases ?? [])];
    const value = (option.choices?.join("|") ?? option.value ?? "").replaceAll(
      "|",
      "\\|",
    );
    const names = flags.map((flag) => `\`--${flag}\``).join(", ");
    const fallback = option.required ? "required" : (option.default ?? "");
    return `| ${names} ${value} | ${fallback} | ${option.doc} |`;
  });
  return ["| option | default | |", "| --- | --- | --- |", ...rows, ""].join(
    "\n",
  );
}

async function write() {
  for (const [file, text] of Object.entries(await generated())) {
    fs.writeFileSync(path.join(ROOT, file), text);
  }
}

if (require.main === module) write();

module.exports = { generated };
