"use strict";

// Parses the command line, runs the command, and turns every failure into `error:`, `hint:` and an exit code.

const { CommanderError } = require("commander");
const { buildProgram, usageError } = require("./program.js");
const { printError, surviveClosedPipes } = require("./terminal.js");

const FAILED = 1;
const USAGE = 2;

/** Runs the command line `words`, without node and script. Sets the exit code, and never throws. */
async function main(words) {
  surviveClosedPipes();
  const program = buildProgram((command, argument, given) =>
    command.run()(given, argument),
  );
  try {
    if (words.length === 0) return void program.outputHelp();
    await program.parseAsync(words, { from: "user" });
  } catch (error) {
    report(error, words);
  }
}

function report(error, words) {
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return; // help or version, already printed
    error = usageError(error, words);
  }
  printError(error);
  process.exitCode = error.code === "USAGE" ? USAGE : FAILED;
}

module.exports = { main };
