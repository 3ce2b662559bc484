"use strict";

// GGUF models in several files: `name-00001-of-00003.gguf` and so on.

const PART = /^(?<stem>.+)-\d{5}-of-(?<parts>\d{5})\.gguf$/;

/** All files of the model that `file` is, or is a part of. */
function partsOf(file) {
  const { stem, parts } = PART.exec(file)?.groups ?? {};
  if (!stem) return [file];
  return Array.from(
    { length: Number(parts) },
    (_, index) =>
      `${stem}-${String(index + 1).padStart(5, "0")}-of-${parts}.gguf`,
  );
}

module.exports = { partsOf };
