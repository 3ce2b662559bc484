"use strict";

// Checks values against the table of options that the addon carries (lib/options.json).

const table = require("./options.json");
const { AmvTrainError } = require("./errors.js");
const { nearest } = require("./suggest.js");

/** `batch-size` is `batchSize` in JavaScript. */
function property(flag) {
  return flag.replace(/-(\w)/g, (_, letter) => letter.toUpperCase());
}

/** The options that a command has on a surface: on the `commandLine` or in `javaScript`. */
function optionsOf(command, surface = "commandLine") {
  return table.filter(
    (option) =>
      option.commands.includes(command) &&
      ["everywhere", surface].includes(option.surface),
  );
}

/**
 * The options object of a training function with published aliases replaced by their names.
 * Every problem is found before the first is reported: one `AmvTrainError` with code USAGE names them all.
 */
function checkOptions(command, given) {
  if (typeof given !== "object" || given === null || Array.isArray(given)) {
    throw usage([`${command} takes one options object, not ${show(given)}`]);
  }
  const options = optionsOf(command, "javaScript");
  const byProperty = new Map();
  for (const option of options) {
    for (const name of [option.name, ...(option.aliases ?? [])]) {
      byProperty.set(property(name), option);
    }
  }
  const checked = {};
  const seen = new Set();
  const problems = [];
  for (const [key, value] of Object.entries(given)) {
    if (value === undefined) continue;
    const option = byProperty.get(key);
    if (!option) {
      const hint = didYouMean(key, byProperty.keys());
      problems.push(`${key}: no such option${hint}`);
      continue;
    }
    const name = property(option.name);
    if (!isOfType(option, value)) {
      problems.push(`${key}: ${expected(option, value)}, not ${show(value)}`);
    } else if (seen.has(option) && checked[name] !== value) {
      const same = `${name}, which is the same option`;
      problems.push(`${key}: ${show(value)} contradicts ${same}`);
    } else {
      checked[name] = value;
    }
    seen.add(option);
  }
  for (const option of options) {
    if (!option.required || seen.has(option)) continue;
    problems.push(`${property(option.name)}: is required`);
  }
  if (problems.length > 0) throw usage(problems);
  return checked;
}

function usage(problems) {
  return new AmvTrainError("USAGE", problems.join("; "));
}

function didYouMean(word, names) {
  const name = nearest(word, names);
  return name ? `; did you mean ${name}?` : "";
}

function isOfType(option, value) {
  switch (option.type) {
    case "flag":
      return typeof value === "boolean";
    case "path":
    case "text":
      return typeof value === "string" && value !== "";
    case "list":
      return isList(value);
    case "choice":
      return [...option.choices, ...(option.elsewhere ?? [])].includes(value);
    case "integer":
      return (
        Number.isInteger(value) && value >= option.min && value <= option.max
      );
    case "number":
      return Number.isFinite(value) && isInRange(option, value);
    case "steps":
      return (Number.isInteger(value) && value >= 0) || isPercentage(value);
    case "layers":
      return isLayers(value);
    case "pattern":
      return isPattern(option, value);
    case "interval":
      return (
        (Number.isInteger(value) && value >= 0 && value < 2 ** 32) ||
        (typeof value === "string" && /^\d{1,9}m$/.test(value))
      );
  }
}

function isLayers(value) {
  if (typeof value === "string") {
    return /^(last:\d+|\s*\d+(-\d+)?\s*(,\s*\d+(-\d+)?\s*)*)$/.test(value);
  }
  const isLayer = (layer) => Number.isInteger(layer) && layer >= 0;
  return Array.isArray(value) && value.length > 0 && value.every(isLayer);
}

function isPattern({ whole }, value) {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return false;
  }
  const isNumber = whole ? Number.isInteger : Number.isFinite;
  const numbers = Object.values(value);
  return numbers.length > 0 && numbers.every((n) => isNumber(n) && n > 0);
}

function isList(value) {
  const names = [value].flat();
  const named = (name) => typeof name === "string" && name !== "";
  return names.length > 0 && names.every(named);
}

function isInRange({ above, min, below }, value) {
  return (
    (above === undefined || value > above) &&
    (min === undefined || value >= min) &&
    (below === undefined || value < below)
  );
}

function isPercentage(value) {
  if (typeof value !== "string") return false;
  return /^\d+(\.\d+)?%$/.test(value) && parseFloat(value) <= 100;
}

/** What a value must be, in words: "must be a whole number of at least 1". */
function expected(option, value) {
  switch (option.type) {
    case "flag":
      return "must be true or false";
    case "path":
      return "must be a path";
    case "text":
      return "must be a text";
    case "list":
      return "must be a list of names";
    case "choice":
      return `must be ${new Intl.ListFormat("en", { type: "disjunction" }).format(option.choices)}`;
    case "integer":
      return typeof value === "number" && value > option.max
        ? `must be a whole number of at most ${option.max}`
        : `must be a whole number of at least ${option.min}`;
    case "steps":
      return "must be a whole number of steps or a percentage such as 3%";
    case "layers":
      return "must be layers such as 0-7,12 or last:8";
    case "pattern":
      return option.whole
        ? "must give names whole numbers above 0, such as q_proj=16,v_proj=4"
        : "must give names numbers above 0, such as q_proj=16,v_proj=0.5";
    case "interval":
      return "must be a whole number of steps or of minutes such as 10m";
    case "number": {
      const { above, min, below } = option;
      const bounds = [];
      if (above !== undefined) bounds.push(`above ${above}`);
      if (min !== undefined) bounds.push(`of at least ${min}`);
      if (below !== undefined) bounds.push(`below ${below}`);
      return `must be a number ${bounds.join(" and ")}`.trimEnd();
    }
  }
}

/** A value in a message. Some, such as 3n and objects that hold themselves, have no JSON. */
function show(value) {
  if (typeof value === "number") return String(value);
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return `a ${typeof value}`;
  }
}

/** The value that a text on the command line stands for; throws USAGE naming the flag. */
function parseValue(option, text) {
  const value = fromText(option, text);
  if (!isOfType(option, value)) {
    throw usage([`--${option.name} ${expected(option, value)}, not "${text}"`]);
  }
  return value;
}

function fromText(option, text) {
  switch (option.type) {
    case "integer":
    case "number":
      return text.trim() === "" ? NaN : Number(text);
    case "steps":
    case "interval":
      return /^\d+$/.test(text) ? Number(text) : text;
    case "list":
      return text.split(",").map((name) => name.trim());
    case "pattern":
      return patternFromText(text);
    default:
      return text;
  }
}

/** The object that `a=1,b=2` stands for, or the text itself when it is not like that. A name may hold `=` and commas. */
function patternFromText(text) {
  const pairs = [...text.matchAll(/(.+?)=([\d.eE+-]+)(?:,|$)/gy)];
  if (pairs.map(([pair]) => pair).join("") !== text) return text;
  const names = pairs.map(([, name]) => name.trim());
  if (new Set(names).size < names.length) return text;
  const values = pairs.map(([, , number]) => Number(number));
  return Object.fromEntries(names.map((name, i) => [name, values[i]]));
}

module.exports = { checkOptions, optionsOf, parseValue, property };
