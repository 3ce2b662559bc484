// Checked by `npm run test:types`; never run. Lines after @ts-expect-error must not compile.

import amv = require("amv-train");

type Equal<A, B> =
  (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2
    ? true
    : false;
function same<A, B>(_: Equal<A, B>): void {}

async function follow(): Promise<void> {
  const controller = new AbortController();
  const run = amv.train({
    output: "x/",
    model: "base.gguf",
    data: "notes.txt",
    rank: 8,
    loraAlpha: 16,
    warmup: "3%",
    target: ["q_proj", "v_proj"],
    lrScheduler: "cosine",
    signal: controller.signal,
    onEvent: (event) => same<typeof event, amv.TrainEvent>(true),
  });
  same<typeof run, amv.TrainRun>(true);
  for await (const event of run) {
    if (event.type === "step") same<typeof event.loss, number | null>(true);
    if (event.type === "end") same<typeof event.files, string[]>(true);
  }
  const result = await run.stop();
  same<typeof result, amv.TrainResult>(true);
  same<typeof result.status, "completed" | "stopped">(true);
  const settled: amv.TrainResult | undefined = await run.catch(() => undefined);
  void settled;
}

async function publishedNames(): Promise<number | null> {
  const trainer = new amv.TermuxTrainer({
    modelType: "lora",
    loraRank: 8,
    loraAlpha: 16,
    backend: "auto",
  });
  const { finalLoss } = await trainer.fit({
    dataPath: "notes.txt",
    epochs: 3,
    learningRate: 1e-4,
    outputPath: "notes/",
  });
  return finalLoss;
}

async function questions(): Promise<void> {
  const model = await amv.inspect("base.gguf");
  same<typeof model.trainable, boolean>(true);
  same<ReturnType<typeof amv.devices>, amv.Device[]>(true);
  const { architectures } = amv.models();
  same<(typeof architectures)[0]["name"], string>(true);
  same<typeof amv.version, string>(true);
}

function errors(error: unknown): string | undefined {
  if (!(error instanceof amv.AmvTrainError)) return undefined;
  same<typeof error.code, amv.ErrorCode>(true);
  return error.code === "OUT_OF_MEMORY" ? error.hint : error.message;
}

// @ts-expect-error: output is required
amv.train({ model: "base.gguf" });
// Every kind of adapter.
amv.train({
  output: "x/",
  dora: true,
  rslora: true,
  rankPattern: { q_proj: 16 },
  alphaPattern: { v_proj: 0.5 },
  layers: [0, 1],
});
amv.train({ output: "x/", layers: "last:8", target: ".*\\.q_proj" });
new amv.TermuxTrainer({ modelType: "dora" });
// @ts-expect-error: a misspelt option
amv.train({ output: "x/", epoch: 3 });
// @ts-expect-error: not a backend of this version
amv.train({ output: "x/", backend: "vulkan" });
// @ts-expect-error: a number
amv.train({ output: "x/", lr: "0.1" });
// @ts-expect-error: an option of the command line
amv.train({ output: "x/", json: true });
// @ts-expect-error: not in this version
new amv.TermuxTrainer({ modelType: "bitnet" });

export { errors, follow, publishedNames, questions };

async function hub() {
  const fetching = amv.pull({ model: "org/name@main" });
  for await (const event of fetching) {
    if (event.type === "download") event.done satisfies number;
  }
  const { path, files } = await fetching;
  path satisfies string;
  files satisfies string[];
  // @ts-expect-error: a model must be named
  amv.pull({});
}
