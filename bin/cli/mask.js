"use strict";

// A sample as it is trained: what is learned stands out.

const { printable, styled } = require("./terminal.js");

/** `pieces` as text for `stream`; what is learned is green, or in brackets where there are no colours. */
function masked(pieces, stream) {
  return pieces
    .map(({ text, learned }) => {
      const shown = printable(text);
      if (!learned) return shown;
      const coloured = styled(stream, "green", shown);
      return coloured === shown ? `[${shown}]` : coloured;
    })
    .join("");
}

/** The pieces with `longest` characters at most: the middle of what is too long is left out. */
function shortened(pieces, longest) {
  const each = Math.max(40, Math.floor(longest / Math.max(1, pieces.length)));
  const total = pieces.reduce((sum, { text }) => sum + text.length, 0);
  if (total <= longest) return pieces;
  return pieces.map(({ text, learned }) => ({
    text:
      text.length <= each
        ? text
        : `${text.slice(0, each / 2)} ... ${text.slice(-each / 2)}`,
    learned,
  }));
}

module.exports = { masked, shortened };
