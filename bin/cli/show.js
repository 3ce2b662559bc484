"use strict";

// The commands that answer a question: info, models and inspect. With --json they print exactly what the SDK returns.

const { hubName } = require("../../lib/hub/name.js");
const { fetchModel } = require("./pull.js");
const { bytes } = require("./quantities.js");
const { printable, styled } = require("./terminal.js");

async function showInfo({ json }) {
  const { info } = require("../../index.js");
  show(info(), json);
}

async function showModels({ json }) {
  const { models } = require("../../index.js");
  show(models(), json);
}

async function showModel({ json, quiet }, model) {
  if (hubName(model)) await fetchModel(model, { quiet: quiet || json });
  const { inspect } = require("../../index.js");
  show(await inspect(model), json);
}

function show(answer, json) {
  const text = json
    ? JSON.stringify(answer, null, 2)
    : outline(answer).join("\n");
  process.stdout.write(`${text}\n`);
}

/** An object as indented lines `name: value`; names of members become words, bytes become MiB. */
function outline(object, indent = "") {
  return Object.entries(object).flatMap(([key, value]) => {
    const name = styled(process.stdout, "bold", words(key));
    if (Array.isArray(value) && value.some(isObject)) {
      return [
        `${indent}${name}:`,
        ...value.flatMap((item) => bullet(item, indent)),
      ];
    }
    if (isObject(value))
      return [`${indent}${name}:`, ...outline(value, `${indent}  `)];
    return [`${indent}${name}: ${leaf(key, value)}`];
  });
}

/** An item of a list: its first member beside the bullet, the others below. */
function bullet(item, indent) {
  const [first, ...rest] = outline(item, `${indent}    `);
  return [`${indent}  - ${first.trimStart()}`, ...rest];
}

function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function words(key) {
  const name = key.replace(/Bytes$/, "");
  return name.replace(
    /(?<=[a-z])[A-Z]/g,
    (letter) => ` ${letter.toLowerCase()}`,
  );
}

function leaf(key, value) {
  if (value === null) return "unknown";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value))
    return value.length > 0 ? printable(value.join(", ")) : "none";
  if (typeof value !== "number") return printable(value);
  return /bytes$/i.test(key) ? bytes(value) : value.toLocaleString("en-US");
}

module.exports = { showInfo, showModel, showModels };
