"use strict";

// The template of report.html: the page of report/ with its style, its program and uPlot in it.

const fs = require("node:fs");
const path = require("node:path");

const PAGE = path.join(__dirname, "..", "report");
const UPLOT = path.dirname(require.resolve("uplot/package.json"));

function reportTemplate() {
  const read = (...parts) => fs.readFileSync(path.join(...parts), "utf8");
  const licence = `/*\n${read(UPLOT, "LICENSE").trim()}\n*/`;
  const style = [
    read(UPLOT, "dist/uPlot.min.css"),
    read(PAGE, "page.css"),
  ].join("\n");
  const program = [
    licence,
    read(UPLOT, "dist/uPlot.iife.min.js"),
    read(PAGE, "page.js"),
  ].join("\n");
  if (/<\/?(script|style)/i.test(style + program)) {
    throw new Error("what is inlined must not end its element");
  }
  return read(PAGE, "page.html")
    .replace("<!-- style -->", () => `<style>\n${style}</style>`)
    .replace("<!-- program -->", () => `<script>\n${program}</script>`);
}

module.exports = { reportTemplate };
