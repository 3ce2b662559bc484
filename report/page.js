"use strict";

// The program of report.html: puts the facts of the run (the element #run) into the page. Texts of users and models only
// ever become text nodes.

const run = JSON.parse(document.getElementById("run").textContent);
const { settings, steps, evals, start, data, end, lastStep } = run;

const byId = (id) => document.getElementById(id);
const isNumber = (value) => typeof value === "number";
const isText = (value) => typeof value === "string" && value !== "";

/** An element with attributes and children; strings become text. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  Object.assign(made, attributes);
  made.append(...children);
  return made;
}

const NO_VALUE = "–";
const whole = (value) =>
  isNumber(value) ? value.toLocaleString("en-US") : NO_VALUE;
const decimals = (digits) => (value) =>
  isNumber(value) ? value.toFixed(digits) : NO_VALUE;
const loss = decimals(4);
const significant = (value) =>
  isNumber(value) ? String(Number(value.toPrecision(4))) : NO_VALUE;
const rate = (value) => (isNumber(value) ? value.toPrecision(3) : NO_VALUE);

function bytes(value) {
  if (!isNumber(value)) return NO_VALUE;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

function duration(milliseconds) {
  const seconds = Math.round(milliseconds / 1000);
  const [h, m, s] = [seconds / 3600, (seconds / 60) % 60, seconds % 60].map(
    Math.floor,
  );
  if (h > 0) return `${h} h ${m} min`;
  return m > 0 ? `${m} min ${s} s` : `${s} s`;
}

/** `maxGradNorm` is "max grad norm". */
const words = (name) =>
  name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);

function showHead() {
  const status = run.error ? "failed" : (end?.status ?? "running");
  const model = settings.model ?? start?.model;
  document.title = `${settings.output} – amv-train`;
  byId("title").append(
    `${model} → ${settings.output} `,
    element("span", { className: `status ${status}` }, status),
  );
  const about = [start?.device, start && `on ${start.backend}`];
  byId("subtitle").append(about.filter(Boolean).join(", "));
  byId("footer").append(
    `amv-train ${run.version}, written ${new Date(run.writtenMs).toLocaleString()}. The numbers are those of metrics.jsonl beside this page.`,
  );
  if (run.error) {
    const { message, hint } = run.error;
    byId("problem").hidden = false;
    byId("problem").append([message, hint].filter(isText).join("\n"));
  }
}

function showTiles() {
  const done = lastStep?.step ?? 0;
  const total = lastStep?.totalSteps ?? start?.totalSteps;
  const first = steps.loss.find(isNumber);
  const speeds = steps.tokensPerSecond.filter(isNumber);
  const mean = speeds.reduce((sum, speed) => sum + speed, 0) / speeds.length;
  const tile = (name, value, small) => {
    const about = small ? [element("small", {}, small)] : [];
    byId("tiles").append(
      element(
        "div",
        {},
        element("dt", {}, name),
        element("dd", {}, value, ...about),
      ),
    );
  };
  const final = end?.finalLoss ?? lastStep?.loss;
  tile(
    end ? "final loss" : "loss",
    loss(final),
    isNumber(first) ? `first ${loss(first)}` : "",
  );
  if (run.bestEval) {
    const { loss: best, step } = run.bestEval;
    tile("best evaluation", loss(best), `at step ${whole(step)}`);
  }
  const skipped = run.skipped > 0 ? `, ${whole(run.skipped)} skipped` : "";
  tile("steps", whole(done), `of ${whole(total)}${skipped}`);
  const epoch = lastStep && `epoch ${significant(lastStep.epoch)}`;
  tile("tokens", whole(run.tokens), epoch);
  if (speeds.length > 0) tile("speed", significant(mean), "tokens/s");
  tile("peak memory", bytes(run.peakMemoryBytes), "of the process");
  tile("trained", whole(start?.trainableParameters), "parameters");
  if (end) tile("time", duration(end.durationMs));
  else if (lastStep) tile("time left", duration(lastStep.etaMs));
}

/** Each series: its column, what it is called, its colour and how its numbers are written. */
const CHARTS = [
  {
    title: "Loss",
    className: "first",
    series: [
      { of: steps, column: "loss", name: "training", color: "--blue" },
      {
        of: evals,
        column: "loss",
        name: "evaluation",
        color: "--orange",
        points: true,
      },
    ],
    format: loss,
  },
  {
    title: "Perplexity",
    series: [
      {
        of: evals,
        column: "perplexity",
        name: "evaluation",
        color: "--orange",
        points: true,
      },
    ],
    format: significant,
  },
  {
    title: "Learning rate",
    series: [{ of: steps, column: "lr", name: "rate", color: "--purple" }],
    format: rate,
  },
  {
    title: "Gradient norm, before clipping",
    series: [{ of: steps, column: "gradNorm", name: "norm", color: "--teal" }],
    format: significant,
  },
  {
    title: "Tokens per second",
    series: [
      { of: steps, column: "tokensPerSecond", name: "speed", color: "--green" },
    ],
    format: significant,
  },
  {
    title: "Memory of the process",
    series: [
      { of: steps, column: "memoryBytes", name: "resident", color: "--red" },
    ],
    format: bytes,
  },
];

const HEIGHT = 240;
const color = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const hasNumbers = ({ of, column }) => of[column].some(isNumber);

/** The columns of a chart over the steps of all its series, and how uPlot draws them. */
function columnsOf({ series, format }) {
  const tables = [];
  const drawn = [{ label: "step", value: (_, step) => significant(step) }];
  const bands = [];
  for (const { of, column, name, color: variable, points } of series) {
    const stroke = () => color(variable);
    tables.push([of.step, of[column]]);
    drawn.push({
      label: name,
      stroke,
      width: points ? 1.5 : 1.75,
      spanGaps: Boolean(points),
      points: { show: points || undefined, size: 6 },
      value: (_, value) => format(value),
    });
    if (of[`${column}Least`] === undefined) continue;
    // Where a point is many steps, a band shows their extremes.
    const index = drawn.length;
    bands.push({
      series: [index + 1, index],
      fill: () => `${color(variable)}33`,
    });
    for (const edge of ["Least", "Greatest"]) {
      tables.push([of.step, of[`${column}${edge}`]]);
      drawn.push({
        label: `${name}, ${edge.toLowerCase()}`,
        width: 0,
        points: { show: false },
        value: (_, value) => format(value),
      });
    }
  }
  return { columns: uPlot.join(tables), drawn, bands };
}

function showChart(chart) {
  const series = chart.series.filter(hasNumbers);
  if (series.length === 0) return;
  const frame = element("div", { className: `chart ${chart.className ?? ""}` });
  byId("charts").append(frame);
  frame.append(element("h2", {}, chart.title));
  const { columns, drawn, bands } = columnsOf({ ...chart, series });
  const axis = {
    stroke: () => color("--faint"),
    grid: { stroke: () => color("--grid"), width: 1 },
    ticks: { stroke: () => color("--grid"), width: 1 },
    font: "11px system-ui, sans-serif",
  };
  const width = () => frame.clientWidth - 28;
  const rest = (plot) => {
    // Without a cursor the legend has the last values.
    if (plot.cursor.idx == null) plot.setLegend({ idxs: lastOf(columns) });
  };
  const plot = new uPlot(
    {
      width: width(),
      height: HEIGHT,
      scales: { x: { time: false } },
      cursor: { drag: { x: true, y: false } },
      series: drawn,
      bands,
      axes: [
        axis,
        {
          ...axis,
          size: 64,
          values: (_, ticks) => ticks.map(tickOf(chart.format)),
        },
      ],
      hooks: { setCursor: [rest], ready: [rest] },
    },
    columns,
    frame,
  );
  new ResizeObserver(() =>
    plot.setSize({ width: width(), height: HEIGHT }),
  ).observe(frame);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => plot.redraw());
}

/** Ticks are round numbers: without the digits that values have. */
const tickOf = (format) => (value) =>
  format === bytes ? bytes(value) : significant(value);

/** For each column the index of its last number. */
function lastOf(columns) {
  return columns.map((column) => {
    let index = column.length - 1;
    while (index > 0 && !isNumber(column[index])) index--;
    return index;
  });
}

function showSamples() {
  if (run.samples.length === 0) return;
  byId("samples").hidden = false;
  const texts = byId("samples").querySelector(".texts");
  for (const { moment, step, prompt, text } of run.samples) {
    const when = moment === "during" ? "" : `${moment} training, `;
    texts.append(
      element(
        "figure",
        {},
        element("figcaption", {}, `${when}at step ${whole(step)}`),
        element(
          "pre",
          {},
          element("span", { className: "prompt" }, prompt),
          text,
        ),
      ),
    );
  }
}

function showEvals() {
  if (evals.step.length === 0) return;
  byId("evals").hidden = false;
  const row = (cell, ...texts) =>
    element("tr", {}, ...texts.map((text) => element(cell, {}, text)));
  byId("evals")
    .querySelector("table")
    .append(
      row("th", "step", "loss", "perplexity"),
      ...evals.step.map((step, i) =>
        row(
          "td",
          significant(step),
          loss(evals.loss[i]),
          significant(evals.perplexity[i]),
        ),
      ),
    );
}

function showWarnings() {
  if (run.warnings.length === 0) return;
  byId("warnings").hidden = false;
  const list = byId("warnings").querySelector("ul");
  for (const { message } of run.warnings) {
    list.append(element("li", {}, message));
  }
  if (run.moreWarnings > 0) {
    list.append(element("li", {}, `and ${whole(run.moreWarnings)} more`));
  }
}

/** Puts `facts`, texts by name, into the list of a section. */
function showFacts(id, facts) {
  const shown = Object.entries(facts).filter(([, value]) => isText(value));
  byId(id).hidden = shown.length === 0;
  const list = byId(id).querySelector("dl");
  for (const [name, value] of shown) {
    list.append(
      element(
        "div",
        {},
        element("dt", {}, words(name)),
        element("dd", {}, value),
      ),
    );
  }
}

function showData() {
  if (!data) return;
  const formats = Object.entries(data.formats ?? {});
  showFacts("data", {
    path: data.path,
    formats: formats
      .map(([name, count]) => `${name} (${whole(count)})`)
      .join(", "),
    records: whole(data.records),
    leftOut: whole(data.skipped?.length),
    cut: whole(data.truncated),
    samples: whole(data.samples),
    tokens: whole(data.tokens),
    learned: whole(data.targets),
    longest: `${whole(data.longest)} tokens`,
  });
  const sample = byId("data").querySelector("pre");
  for (const { text, learned } of data.sample ?? []) {
    sample.append(
      element("span", { className: learned ? "learned" : "prompt" }, text),
    );
  }
}

/** A memory plan is bytes by part, maybe in groups. */
function showPlan() {
  const facts = {};
  const add = (plan, before) => {
    for (const [name, value] of Object.entries(plan ?? {})) {
      const whole = before ? `${before} ${words(name)}` : name;
      if (isNumber(value))
        facts[whole.replace(/ ?[Bb]ytes$/, "")] = bytes(value);
      else if (value && typeof value === "object") add(value, whole);
    }
  };
  add(start?.plan, "");
  showFacts("plan", facts);
}

function showSettings() {
  const text = (value) => (isText(value) ? value : JSON.stringify(value));
  const given = Object.entries(settings).filter(
    ([, value]) => value !== null && value !== "",
  );
  showFacts(
    "settings",
    Object.fromEntries(given.map(([name, value]) => [name, text(value)])),
  );
}

function showFiles() {
  if (!end?.files?.length) return;
  byId("files").hidden = false;
  byId("files")
    .querySelector("ul")
    .append(...end.files.map((file) => element("li", {}, file)));
}

showHead();
showTiles();
CHARTS.forEach(showChart);
showSamples();
showEvals();
showWarnings();
showData();
showPlan();
showSettings();
showFiles();
