"use strict";

/** An error with a code to match, one sentence for people, and what to do next. */
class AmvTrainError extends Error {
  constructor(code, message, hint) {
    super(message);
    this.name = "AmvTrainError";
    this.code = code;
    if (hint) this.hint = hint;
  }
}

/**
 * The addon describes an error as JSON `{code, message, hint?}`, thrown as the message of an Error or sent as text.
 * Anything else is a fault of ours.
 */
function fromNative(error) {
  if (error instanceof AmvTrainError) return error;
  const text = error instanceof Error ? error.message : String(error);
  try {
    const { code, message, hint } = JSON.parse(text);
    if (code && message) return new AmvTrainError(code, message, hint);
  } catch {
    // Not JSON: the text itself is all there is to say.
  }
  return new AmvTrainError("INTERNAL", text);
}

module.exports = { AmvTrainError, fromNative };
