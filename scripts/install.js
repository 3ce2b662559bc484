"use strict";

// Runs at `npm install`: done when an addon loads; otherwise builds it with cargo, or says what is missing.
// Only in a clone does a missing addon fail the installation: a program can depend on amv-train anywhere.

const path = require("node:path");
const { loadNative } = require("../lib/native.js");
const { build, whatIsMissing } = require("./build.js");

/** Why no addon loads, or undefined when one does. */
function loadProblem() {
  try {
    loadNative();
    return undefined;
  } catch (error) {
    return error.message;
  }
}

function install() {
  const inClone = !__dirname.split(path.sep).includes("node_modules");
  const missing = whatIsMissing();
  // An addon of an older commit loads, too: in a clone cargo decides what is up to date.
  const mustBuild = inClone && !missing;
  const problem = mustBuild ? undefined : loadProblem();
  if (!mustBuild && !problem) return;

  try {
    if (missing) throw new Error(`${problem}\nIt cannot be built: ${missing}`);
    console.error("amv-train: building the native addon, about 3 minutes ...");
    console.error(`amv-train: built ${build()}`);
  } catch (error) {
    const again = inClone ? "npm install" : "npm rebuild amv-train";
    console.error(`${error.message}\nOnce that is fixed, run \`${again}\`.`);
    process.exitCode = inClone ? 1 : 0;
  }
}

install();
