"use strict";

// The command line, built from the table of options: parser, help and usage errors.

const { isDeepStrictEqual } = require("node:util");
const { Command, Option } = require("commander");
const { version } = require("../../package.json");
const { AmvTrainError } = require("../../lib/errors.js");
const { optionsOf, parseValue, property } = require("../../lib/options.js");
const { nearest } = require("../../lib/suggest.js");
const { COMMANDS } = require("./commands.js");

/** The parser. `start(command, argument, given)` is called with the command's data and the options that were given. */
function buildProgram(start) {
  const program = new Command("amv-train")
    .description("Trains LoRA adapters where the data is.")
    .version(version, "-V, --version", "print the version")
    .helpOption("-h, --help", "show this help")
    .addHelpText("after", examples([COMMANDS[0].examples[0]]));
  settle(program).helpCommand("help [command]", "show the help of a command");
  for (const data of COMMANDS) {
    const command = program.command(data.name).summary(data.summary);
    settle(command)
      .description(data.description)
      .helpOption("-h, --help", "show this help")
      .addHelpText("after", examples(data.examples));
    if (data.alias) command.alias(data.alias);
    if (data.argument) {
      command.argument(`<${data.argument.name}>`, data.argument.text);
    }
    const given = addOptions(command, data.name);
    command.action(() => start(data, command.args[0], given()));
  }
  return program;
}

/** Errors are thrown and printed by us; a usage error should not print the whole help. */
function settle(command) {
  return command
    .exitOverride()
    .showSuggestionAfterError(false)
    .allowExcessArguments(false)
    .configureOutput({ outputError: () => {}, writeErr: () => {} })
    .configureHelp({ formatItem });
}

const NAME_COLUMNS = 26;
const NARROW = 60;

/** One option or command of the help: its name, then its text beside it or, where that does not fit, below. */
function formatItem(term, _, text, help) {
  const narrow = help.helpWidth < NARROW;
  const indent = narrow ? 6 : NAME_COLUMNS;
  const lines = wrap(text, help.helpWidth - indent);
  const name = `  ${term}`;
  const beside = !narrow && term.length + 4 <= NAME_COLUMNS;
  const first = beside ? name.padEnd(NAME_COLUMNS) + lines.shift() : name;
  return [first, ...lines.map((line) => " ".repeat(indent) + line)].join("\n");
}

function wrap(text, width) {
  const lines = [""];
  for (const word of text.split(" ")) {
    const line = lines.at(-1);
    if (line === "") lines[lines.length - 1] = word;
    else if (line.length + 1 + word.length > width) lines.push(word);
    else lines[lines.length - 1] = `${line} ${word}`;
  }
  return lines;
}

function examples(list) {
  const lines = list.map(({ title, command }) => `  ${title}:\n    ${command}`);
  return `\nExamples:\n${lines.join("\n\n")}\n`;
}

/** Adds the table's options of a command; returns a function that collects those that were given. */
function addOptions(command, name) {
  const pairs = optionsOf(name).map((spec) => {
    const option = new Option(flagsOf(spec), textOf(spec));
    if (spec.type !== "flag") {
      option.argParser((text, before) => {
        const value = parseValue(spec, text);
        if (before !== undefined && !isDeepStrictEqual(before, value)) {
          throw contradiction(spec, before, value);
        }
        return value;
      });
    }
    option.helpGroup(`${spec.group}:`);
    command.addOption(option);
    return { spec, option };
  });
  return () => {
    const given = {};
    for (const { spec, option } of pairs) {
      const key = option.attributeName();
      if (command.getOptionValueSource(key) !== "cli") continue;
      const value = command.getOptionValue(key);
      given[property(spec.name)] = option.negate ? !value : value;
    }
    return given;
  };
}

/** Two values for one option: a script that gives both --rank and --lora-rank means one of them. */
function contradiction({ name, aliases = [] }, before, value) {
  const names = [name, ...aliases].map((flag) => `--${flag}`).join(" or ");
  return new AmvTrainError(
    "USAGE",
    `${names} is given twice, as ${JSON.stringify(before)} and as ${JSON.stringify(value)}`,
    "give it once",
  );
}

function flagsOf({ name, aliases = [], choices, value }) {
  const names = [name, ...aliases].map((flag) => `--${flag}`).join(", ");
  const placeholder = choices?.join("|") ?? value;
  return placeholder ? `${names} <${placeholder}>` : names;
}

function textOf({ doc, default: fallback, required }) {
  if (required) return `${doc} (required)`;
  return fallback ? `${doc} (default: ${fallback})` : doc;
}

/** A complaint of the parser as one of ours, with a hint; `words` is the command line. */
function usageError(error, words) {
  const message = error.message.replace(/^error: /, "");
  const [, wrong] = /'(.+?)'/.exec(message) ?? [];
  const word = words.find((word) => !word.startsWith("-"));
  const data = COMMANDS.find(
    ({ name, alias }) => word && [name, alias].includes(word),
  );
  switch (error.code) {
    case "commander.unknownCommand":
    case "commander.excessArguments":
      if (!data) return unknownCommand(word);
      break;
    case "commander.help":
      return unknownCommand(words[1]);
    case "commander.unknownOption":
      return unknownOption(wrong, data);
  }
  return new AmvTrainError("USAGE", message, seeHelp(data));
}

function unknownCommand(word) {
  const names = COMMANDS.flatMap(({ name, alias }) => [name, alias]).filter(
    Boolean,
  );
  const meant = nearest(word, names);
  return new AmvTrainError(
    "USAGE",
    `there is no command "${word}" in this version`,
    meant
      ? `did you mean \`amv-train ${meant}\`?`
      : `the commands are ${names.join(", ")}`,
  );
}

function unknownOption(flag, data) {
  const specs = data ? optionsOf(data.name) : [];
  const names = specs.flatMap(({ name, aliases = [] }) => [name, ...aliases]);
  const meant = nearest(flag.replace(/^-+/, "").replace(/=.*/, ""), [
    ...names,
    "help",
  ]);
  const message = `there is no option ${flag} ${data ? `of ${data.name} ` : ""}in this version`;
  return new AmvTrainError(
    "USAGE",
    message,
    meant ? `did you mean --${meant}?` : seeHelp(data),
  );
}

function seeHelp(data) {
  return `\`amv-train ${data ? `${data.name} ` : ""}--help\` shows the options`;
}

module.exports = { buildProgram, usageError };
