"use strict";

// How messages call an option: the engine writes flags, and whoever called from JavaScript reads the names of properties.

const table = require("./options.json");
const { AmvTrainError } = require("./errors.js");
const { property } = require("./options.js");

/**
 * The key under which a caller says how it calls the option of a flag: a function from `batch-size` to its own word, or
 * null for the flag itself. Without it messages have the properties of the SDK.
 */
const NAMES = Symbol("names of options");

/** What the command line adds to its options. */
const AS_FLAGS = { [NAMES]: null };

const OPTIONS = new Map(
  table.flatMap((option) =>
    [option.name, ...(option.aliases ?? [])].map((name) => [name, option]),
  ),
);

/** A flag, the word before it where it sets the flag, and the value after it. */
const FLAG =
  /(?<![\w-])((?:with|add|use) )?--([a-z][a-z0-9]*(?:-[a-z0-9]+)*)(?: (\w+(?:\.\d+)?))?/g;

/** `text` with the caller's words for options: `--resume auto` becomes `resume: "auto"`. */
function inWords(text, nameOf = property) {
  if (nameOf === null || text === undefined) return text;
  return text.replace(FLAG, (all, before = "", flag, value) => {
    const option = OPTIONS.get(flag);
    if (!option) return all;
    const name = `${before}${nameOf(flag)}`;
    const after = value === undefined ? "" : ` ${value}`;
    if (option.type === "flag")
      return before ? `${name}: true${after}` : `${name}${after}`;
    if (/^\d/.test(value)) return `${name}: ${value}`;
    const isWord = value === "auto" || option.choices?.includes(value);
    return isWord ? `${name}: "${value}"` : `${name}${after}`;
  });
}

/** An error of ours in the caller's words; any other as it is. */
function errorInWords(error, nameOf) {
  if (!(error instanceof AmvTrainError)) return error;
  error.message = inWords(error.message, nameOf);
  if (error.hint) error.hint = inWords(error.hint, nameOf);
  return error;
}

/** A warning in the caller's words; any other event as it is. */
function eventInWords(event, nameOf) {
  if (event.type !== "warning") return event;
  return { ...event, message: inWords(event.message, nameOf) };
}

module.exports = { AS_FLAGS, NAMES, errorInWords, eventInWords, inWords };
