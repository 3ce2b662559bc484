// Teaches SmolLM2-135M-Instruct 200 made-up facts, one chat each, then asks for them in other words, without and with
// the adapter, and writes result.json.
//
//     bash __test__/reference/fetch-smollm2.sh     # the model, 93 MB
//     node examples/made-up-facts/run.mjs [FOLDER] # where the adapter goes; a temporary folder without it

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { generate, train } from "../../index.mjs";

const here = (file) => fileURLToPath(new URL(file, import.meta.url));
const model = here("../../target/parity/SmolLM2-135M-Instruct.Q4_1.gguf");
const settings = { epochs: 10, batchSize: 4, lr: 0.002, rank: 16, alpha: 32 };

const folder = process.argv[2] ?? mkdtempSync(join(tmpdir(), "amv-facts-"));
try {
  await run(join(folder, "adapter/"));
} finally {
  if (!process.argv[2]) rmSync(folder, { recursive: true });
}

async function run(output) {
  const trained = await train({
    model,
    data: here("train.jsonl"),
    precision: "f32", // the committed result is the same on every processor to rounding
    output,
    overwrite: true,
    ...settings,
    onEvent({ type, step, totalSteps, loss }) {
      if (type === "step" && step % 50 === 0)
        console.error(`step ${step}/${totalSteps}, loss ${loss.toFixed(4)}`);
    },
  });
  const base = await score();
  const adapted = await score(output);
  const result = {
    model: "SmolLM2-135M-Instruct.Q4_1.gguf",
    settings,
    steps: trained.steps,
    finalLoss: Number(trained.finalLoss.toFixed(4)),
    questions: base.questions,
    rightWithoutAdapter: base.right,
    rightWithAdapter: adapted.right,
    wrong: adapted.wrong,
  };
  writeFileSync(here("result.json"), `${JSON.stringify(result, null, 2)}\n`);
  const share = (right) => `${((100 * right) / base.questions).toFixed(1)} %`;
  console.log(
    `${base.questions} held-out questions: ${share(base.right)} right without the adapter, ${share(adapted.right)} with it`,
  );
}

/** How many held-out questions are answered right: the answer, whole, is in what the model says. */
async function score(adapter) {
  const lines = readFileSync(here("questions.jsonl"), "utf8")
    .trim()
    .split("\n");
  const wrong = [];
  for (const line of lines) {
    const { question, answer } = JSON.parse(line);
    const { text } = await generate({
      model,
      ...(adapter && { adapter }),
      prompt: question,
      chat: true,
      temperature: 0,
      maxTokens: 32,
    });
    if (!text.toLowerCase().includes(answer.toLowerCase()))
      wrong.push({ question, answer, said: text });
  }
  const questions = lines.length;
  return { questions, right: questions - wrong.length, wrong };
}
