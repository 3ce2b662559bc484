"use strict";

// Numbers as people read them.

/** 123456789 is "118 MiB". */
function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (count >= 1024 && unit < units.length - 1) {
    count /= 1024;
    unit++;
  }
  return `${unit === 0 || count >= 100 ? Math.round(count) : count.toFixed(1)} ${units[unit]}`;
}

/** 62000 is "1:02", 3662000 is "1:01:02". */
function duration(milliseconds) {
  const seconds = Math.round(milliseconds / 1000);
  const parts = [Math.floor(seconds / 60) % 60, seconds % 60];
  const hours = Math.floor(seconds / 3600);
  if (hours > 0) parts.unshift(hours);
  return parts
    .map((part, index) =>
      index === 0 ? String(part) : String(part).padStart(2, "0"),
    )
    .join(":");
}

/** 134515008 is "134.5 M". */
function count(number) {
  const units = ["", " k", " M", " G"];
  let unit = 0;
  while (number >= 1000 && unit < units.length - 1) {
    number /= 1000;
    unit++;
  }
  return `${unit === 0 ? number : number.toFixed(1)}${units[unit]}`;
}

/** A loss with four decimals; null, which events have for a non-finite number, as "not finite". */
function loss(value) {
  return value === null ? "not finite" : value.toFixed(4);
}

/** The plan in one line, for the start of a run. */
function planLine(plan) {
  const others = plan.total - plan.baseMapped - plan.activations;
  const free = plan.free === null ? "" : ` of ${bytes(plan.free)} free`;
  return `memory: at most ${bytes(plan.total)}${free} (base ${bytes(plan.baseMapped)}, activations ${bytes(plan.activations)}, the rest ${bytes(Math.max(others, 0))}); the longest sample has ${plan.longestSample} tokens`;
}

module.exports = { bytes, count, duration, loss, planLine };
