/**
 * amv-train: LoRA fine-tuning where the data is.
 *
 * @example
 * const { train } = require("amv-train");
 * const result = await train({ model: "base.gguf", data: "notes.txt", output: "notes/" });
 * console.log(result.finalLoss);
 */

/** Version of the package. */
export declare const version: string;

/** How every failure arrives: a code to match, one sentence, and what to do next. */
export declare class AmvTrainError extends Error {
  constructor(code: ErrorCode, message: string, hint?: string);
  readonly name: "AmvTrainError";
  readonly code: ErrorCode;
  /** What to do next, where there is something to do. */
  readonly hint?: string;
}

export type ErrorCode =
  | "USAGE"
  | "NOT_FOUND"
  | "UNSUPPORTED_MODEL"
  | "UNSUPPORTED_FORMAT"
  | "BAD_MODEL"
  | "BAD_DATA"
  | "BAD_ADAPTER"
  | "OUT_OF_MEMORY"
  | "BACKEND_UNAVAILABLE"
  | "DEVICE_LOST"
  | "NON_FINITE"
  | "IO"
  | "NETWORK"
  | "AUTH"
  | "ABORTED"
  | "INTERNAL";

/**
 * Trains a LoRA adapter on a language model, on a thread of its own.
 *
 * Returns at once. A wrong option rejects the run with code `USAGE`; nothing is thrown here.
 *
 * @example
 * const run = train({ data: "notes.jsonl", model: "./SmolLM2-135M", output: "notes.safetensors" });
 * for await (const event of run) {
 *   if (event.type === "step") console.log(event.step, event.loss);
 * }
 * const { finalLoss } = await run;
 */
export declare function train(options: TrainOptions): TrainRun;

/**
 * What training data holds and how it would be trained, without training. Warnings are told to `onEvent`.
 *
 * @example
 * const { records, skipped, shown } = await data({ data: "chats.jsonl", model: "base.gguf" });
 */
export declare function data(
  options: DataOptions,
): Work<DataReport, TrainEvent>;

/**
 * Lets a model, with or without an adapter, continue a prompt. Text comes as `token` events while it is written.
 *
 * @example
 * const { text } = await generate({ model: "base.gguf", adapter: "notes/", prompt: "Dear" });
 */
export declare function generate(
  options: GenerateOptions,
): Work<GenerateResult, GenerateEvent>;

/** Measures loss and perplexity of a data file, for the base model and with the adapter. */
export declare function evaluate(
  options: EvaluateOptions,
): Work<EvaluateResult, WorkEvent>;

/** Writes an adapter, ours or PEFT's or llama.cpp's, in the formats of PEFT and llama.cpp. */
export declare function exportAdapter(
  options: ExportAdapterOptions,
): Work<ExportResult, WorkEvent>;

/** Writes the base model with the adapter merged into its weights. */
export declare function merge(
  options: MergeOptions,
): Work<MergeResult, WorkEvent>;

/** Reads what was exported or merged back from disk and compares its logits with those of the trained adapter. */
export declare function verify(
  options: VerifyOptions,
): Work<VerifyResult, WorkEvent>;

/**
 * Fetches a model from the Hugging Face hub into the cache that its tools share, as every function with `model` does by itself.
 * What was interrupted goes on where it stopped; `HF_HOME`, `HF_TOKEN`, `HF_ENDPOINT` and `HF_HUB_OFFLINE` count.
 *
 * @example
 * const { path } = await pull({ model: "HuggingFaceTB/SmolLM2-135M-Instruct" });
 */
export declare function pull(options: PullOptions): Work<PullResult, PullEvent>;

/**
 * The memory that {@link train} would occupy with the same options, and whether it is free, without training. The data is
 * read and tokenized, since the longest samples decide; nothing is written.
 *
 * @example
 * const { total, fits, wouldFit } = await plan({ model: "base.gguf", data: "notes.txt", batchSize: 4 });
 */
export declare function plan(
  options: PlanOptions,
): Work<MemoryPlan, TrainEvent>;

// generated from src/node/options.rs

/** Options of {@link train}. */
export interface TrainOptions extends RunListeners<TrainEvent> {
  /**
   * The base model: a Hugging Face directory, a .gguf file, org/name of the Hugging Face hub, or a built-in name. It is read, never changed.
   *
   * Default: tiny-transformer.
   */
  model?: string;

  /**
   * Training data, a file or a folder of files: text; JSONL or a JSON array of {"text"}, {"prompt", "completion"}, {"messages"}, {"instruction", "output"} or {"conversations"}; CSV or TSV with such columns.
   *
   * Default: the sample corpus, only with the built-in model.
   */
  data?: string;

  /**
   * Most tokens in one sample, BOS and EOS included. What becomes of longer ones is up to --truncate.
   *
   * Default: 512, or the model's if shorter.
   */
  seqLen?: number;

  /**
   * What becomes of a record that is longer than --seq-len: its end or its start is cut off, it is split into several samples, or it is left out.
   *
   * Default: split for texts, end for the rest.
   */
  truncate?: "end" | "start" | "split" | "drop";

  /**
   * Refuse data with records that would be left out, such as empty ones and those with nothing to learn.
   */
  strict?: boolean;

  /**
   * How conversations become text: chatml, llama3, gemma, phi3, mistral, qwen3 or plain, a file with a Jinja template, or the template itself.
   *
   * Default: the model's own, else chatml or plain.
   */
  chatTemplate?: string;

  /**
   * Which tokens are learned: all, completions (the last answer of a conversation), or every turn of the assistant.
   *
   * Default: assistant for conversations, completions for prompts with completions, all for texts.
   */
  trainOn?: "all" | "completions" | "assistant";

  /**
   * Whether the words that open a turn of the assistant are left out of what is learned.
   *
   * Default: on.
   */
  maskRoleHeader?: "on" | "off";

  /**
   * Whether a document ends with its end token, trained once (auto), or without one (never).
   *
   * Default: auto.
   */
  eos?: "auto" | "never";

  /**
   * Take the samples in file order in every epoch.
   */
  noShuffle?: boolean;

  /**
   * Fill rows of up to --seq-len tokens with several samples, each of which sees only itself; --batch-size then counts rows. Steps of short texts become as long as others; no token is ever padding, packed or not.
   */
  packing?: boolean;

  /**
   * Seed of the shuffle, of dropout and of the first adapter values. The same seed on the same machine gives the same adapter.
   *
   * Default: 0.
   */
  seed?: number;

  /**
   * Passes over the training data.
   *
   * Default: 3.
   */
  epochs?: number;

  /**
   * Most optimizer steps; 0 leaves the length to the epochs. The smaller of the two wins.
   *
   * Default: 0.
   */
  maxSteps?: number;

  /**
   * Samples computed together. Shuffled samples are dealt so that batches have about as many tokens each.
   *
   * Default: 1.
   */
  batchSize?: number;

  /**
   * Batches that make one optimizer step. The loss is divided by the target tokens of the whole step, so batch 2 equals two accumulated batches of 1.
   *
   * Default: 1.
   */
  gradAccum?: number;

  /**
   * Highest learning rate.
   *
   * Default: 0.0001.
   */
  lr?: number;

  /**
   * How the learning rate falls after the warm-up.
   *
   * Default: cosine.
   */
  lrScheduler?: "constant" | "linear" | "cosine";

  /**
   * Steps over which the learning rate rises, as a number or as a share of all steps, rounded down.
   *
   * Default: 3% for linear and cosine, 0 for constant.
   */
  warmup?: number | `${number}%`;

  /**
   * AdamW with betas 0.9 and 0.999 and epsilon 1e-8, or plain SGD, as PyTorch defines them.
   *
   * Default: adamw.
   */
  optimizer?: "adamw" | "sgd";

  /**
   * Weight decay of the adapter: decoupled in AdamW, added to the gradient in SGD.
   *
   * Default: 0.
   */
  weightDecay?: number;

  /**
   * Gradients of a larger global norm are scaled down to it; 0 turns clipping off.
   *
   * Default: 1.0.
   */
  maxGradNorm?: number;

  /**
   * Rank of the adapter: larger learns more and takes more memory.
   *
   * Default: 8.
   */
  rank?: number;
  /** Same as `rank`. */
  loraRank?: number;

  /**
   * Strength of the adapter: its output is scaled by alpha / rank, or by alpha / √rank with rsLoRA.
   *
   * Default: 16.0.
   */
  alpha?: number;
  /** Same as `alpha`. */
  loraAlpha?: number;

  /**
   * Other ranks for some layers, such as q_proj=16,v_proj=4. A name is a regular expression for a layer's path or its end, as in PEFT; the first that matches counts.
   */
  rankPattern?: Readonly<Record<string, number>>;

  /**
   * Other alphas for some layers, written like rank-pattern.
   */
  alphaPattern?: Readonly<Record<string, number>>;

  /**
   * Scale by alpha / √rank instead of alpha / rank (rsLoRA), so that large ranks learn as fast as small ones.
   */
  rslora?: boolean;

  /**
   * Train the length of each output apart from its direction (DoRA): often better at low ranks, and slower. PEFT loads it; llama.cpp only when merged into its base.
   */
  dora?: boolean;

  /**
   * Share of the adapter's inputs that are dropped at random while training.
   *
   * Default: 0.
   */
  loraDropout?: number;

  /**
   * What gets an adapter: all-linear, attention, mlp, names such as q_proj,v_proj, both, or one regular expression for whole paths. embed_tokens and lm_head must be named, where they are not the same table.
   *
   * Default: all-linear.
   */
  target?: string | readonly string[];

  /**
   * Of the targets, only those in these decoder layers, such as 0-7,12 or last:8.
   *
   * Default: all.
   */
  layers?: string | readonly number[];

  /**
   * Continue from this adapter: a directory of PEFT or MLX, a .safetensors file, a .gguf file, or org/name of the Hugging Face hub. Its rank, alpha, patterns, targets and kind hold; a contradicting flag is an error.
   */
  initAdapter?: string;

  /**
   * Share of the samples held back to measure the loss on, chosen by the seed.
   *
   * Default: 0.
   */
  evalSplit?: number;

  /**
   * Measure the loss on this file instead of on a share of the samples.
   */
  evalData?: string;

  /**
   * Steps between two evaluations.
   *
   * Default: each epoch.
   */
  evalEvery?: number;

  /**
   * Steps between two texts that the model writes, to watch it learn; 0 turns them off.
   *
   * Default: 0.
   */
  sampleEvery?: number;

  /**
   * Where to compute.
   *
   * Default: auto.
   */
  backend?: "auto" | "cpu";

  /**
   * What the factors of products with the base are rounded to; sums, the adapter and the optimizer are f32 always. auto takes int8 where the processor multiplies it (VNNI, dot products of ARMv8.2), else f32. Beside int8 and bf16 attention multiplies in bf16 where the processor does.
   *
   * Default: auto.
   */
  precision?: "auto" | "f32" | "bf16" | "int8";

  /**
   * on keeps only the input of each layer and computes the rest again for the gradient: a third more work in a fraction of the memory; off keeps everything. auto is off where that fits the free memory. The results are the same.
   *
   * Default: auto.
   */
  checkpointing?: "auto" | "on" | "off";

  /**
   * Rows of the vocabulary whose logits are in memory at a time; where the output layer learns, as many logits in whole rows of fewer tokens. The losses are the same to rounding.
   *
   * Default: 0, as many as make 4 MB of logits.
   */
  vocabSlice?: number;

  /**
   * Layers that are computed again as a unit: fewer inputs are kept, and more at once is computed again. The results are the same.
   *
   * Default: 0, one.
   */
  chunkLayers?: number;

  /**
   * Give the memory of each layer's weights back after its use and read those of the next one meanwhile: memory for one layer instead of the whole model, which is read anew for every pass. The results are the same.
   */
  streamLayers?: boolean;

  /**
   * Threads to compute with.
   *
   * Default: 0, one for each core.
   */
  threads?: number;

  /**
   * Memory that must stay free: a run that would leave less is refused before any work, with the settings that would fit.
   *
   * Default: 300.
   */
  guardBand?: number;

  /**
   * Instead of refusing a run that is too large, compute it in smaller micro-batches and more of them; each step learns the same.
   */
  fit?: boolean;

  /**
   * Where the adapter goes: x.safetensors (with x_config.json and x.gguf beside it), or a directory such as my-adapter/ that PEFT loads as is.
   */
  output: string;

  /**
   * Replace an output that exists; without it such an output is refused before any work.
   */
  overwrite?: boolean;

  /**
   * Steps or minutes between two checkpoints, which keep everything a run needs to go on; 0 leaves those at its end and when it is stopped.
   *
   * Default: 10m.
   */
  saveEvery?: number | `${number}m`;

  /**
   * Newest checkpoints to keep.
   *
   * Default: 2.
   */
  keep?: number;

  /**
   * Also keep the checkpoint of the evaluation with the lowest loss, and write that adapter at the end instead of the last one.
   */
  saveBest?: boolean;

  /**
   * Go on with an interrupted run: auto takes the newest checkpoint of --output, or starts anew when there is none; PATH names a checkpoint. Data, model and settings must be the same; --epochs and --max-steps may grow.
   */
  resume?: string;

  /**
   * Also write every event to this file, one JSON object a line.
   */
  log?: string;

  /**
   * Also write the numbers of the run to this folder for TensorBoard: `tensorboard --logdir DIR` shows them. Give every run a folder of its own.
   */
  tensorboard?: string;
}

/** Options of {@link data}. */
export interface DataOptions extends RunListeners<TrainEvent> {
  /**
   * The base model: a Hugging Face directory, a .gguf file, org/name of the Hugging Face hub, or a built-in name. It is read, never changed.
   *
   * Default: tiny-transformer.
   */
  model?: string;

  /**
   * The training data, as for `train`.
   */
  data: string;

  /**
   * How many samples to show as they are trained.
   *
   * Default: 3.
   */
  show?: number;

  /**
   * Most tokens in one sample, BOS and EOS included. What becomes of longer ones is up to --truncate.
   *
   * Default: 512, or the model's if shorter.
   */
  seqLen?: number;

  /**
   * What becomes of a record that is longer than --seq-len: its end or its start is cut off, it is split into several samples, or it is left out.
   *
   * Default: split for texts, end for the rest.
   */
  truncate?: "end" | "start" | "split" | "drop";

  /**
   * Refuse data with records that would be left out, such as empty ones and those with nothing to learn.
   */
  strict?: boolean;

  /**
   * How conversations become text: chatml, llama3, gemma, phi3, mistral, qwen3 or plain, a file with a Jinja template, or the template itself.
   *
   * Default: the model's own, else chatml or plain.
   */
  chatTemplate?: string;

  /**
   * Which tokens are learned: all, completions (the last answer of a conversation), or every turn of the assistant.
   *
   * Default: assistant for conversations, completions for prompts with completions, all for texts.
   */
  trainOn?: "all" | "completions" | "assistant";

  /**
   * Whether the words that open a turn of the assistant are left out of what is learned.
   *
   * Default: on.
   */
  maskRoleHeader?: "on" | "off";

  /**
   * Whether a document ends with its end token, trained once (auto), or without one (never).
   *
   * Default: auto.
   */
  eos?: "auto" | "never";
}

/** Options of {@link generate}. */
export interface GenerateOptions extends RunListeners<GenerateEvent> {
  /**
   * How conversations become text: chatml, llama3, gemma, phi3, mistral, qwen3 or plain, a file with a Jinja template, or the template itself.
   *
   * Default: the model's own, else chatml or plain.
   */
  chatTemplate?: string;

  /**
   * Where to compute.
   *
   * Default: auto.
   */
  backend?: "auto" | "cpu";

  /**
   * Threads to compute with.
   *
   * Default: 0, one for each core.
   */
  threads?: number;

  /**
   * The base model the adapter was trained on: a Hugging Face directory, a .gguf file, org/name of the Hugging Face hub, or a built-in name.
   *
   * Default: tiny-transformer.
   */
  model?: string;

  /**
   * The trained adapter: a directory of PEFT or MLX, a .safetensors file, a .gguf file, or org/name of the Hugging Face hub. Without it the base model speaks for itself.
   */
  adapter?: string;

  /**
   * The text to continue, or with --chat what a user says.
   */
  prompt: string;

  /**
   * Write the prompt into the model's chat template; the model answers, and its turn ends the text.
   */
  chat?: boolean;

  /**
   * A system message before the prompt of a chat.
   */
  system?: string;

  /**
   * Most tokens to write.
   *
   * Default: 256.
   */
  maxTokens?: number;

  /**
   * 0 takes the most likely token, always; higher is wilder.
   *
   * Default: 0.7.
   */
  temperature?: number;

  /**
   * Choose among this many of the most likely tokens; 0 for all.
   *
   * Default: 40.
   */
  topK?: number;

  /**
   * Of those, choose among the fewest whose probabilities reach this sum; 1 for all.
   *
   * Default: 0.95.
   */
  topP?: number;

  /**
   * Above 1, tokens of the prompt and the text so far become less likely, as transformers defines it.
   *
   * Default: 1.0.
   */
  repeatPenalty?: number;

  /**
   * End before the first of these strings.
   */
  stop?: string | readonly string[];

  /**
   * Seed of the choice. The same seed on the same machine gives the same text.
   *
   * Default: 0.
   */
  seed?: number;
}

/** Options of {@link evaluate}. */
export interface EvaluateOptions extends RunListeners<WorkEvent> {
  /**
   * Most tokens in one sample, BOS and EOS included. What becomes of longer ones is up to --truncate.
   *
   * Default: 512, or the model's if shorter.
   */
  seqLen?: number;

  /**
   * What becomes of a record that is longer than --seq-len: its end or its start is cut off, it is split into several samples, or it is left out.
   *
   * Default: split for texts, end for the rest.
   */
  truncate?: "end" | "start" | "split" | "drop";

  /**
   * Refuse data with records that would be left out, such as empty ones and those with nothing to learn.
   */
  strict?: boolean;

  /**
   * How conversations become text: chatml, llama3, gemma, phi3, mistral, qwen3 or plain, a file with a Jinja template, or the template itself.
   *
   * Default: the model's own, else chatml or plain.
   */
  chatTemplate?: string;

  /**
   * Which tokens are learned: all, completions (the last answer of a conversation), or every turn of the assistant.
   *
   * Default: assistant for conversations, completions for prompts with completions, all for texts.
   */
  trainOn?: "all" | "completions" | "assistant";

  /**
   * Whether the words that open a turn of the assistant are left out of what is learned.
   *
   * Default: on.
   */
  maskRoleHeader?: "on" | "off";

  /**
   * Whether a document ends with its end token, trained once (auto), or without one (never).
   *
   * Default: auto.
   */
  eos?: "auto" | "never";

  /**
   * Where to compute.
   *
   * Default: auto.
   */
  backend?: "auto" | "cpu";

  /**
   * Threads to compute with.
   *
   * Default: 0, one for each core.
   */
  threads?: number;

  /**
   * The base model the adapter was trained on: a Hugging Face directory, a .gguf file, org/name of the Hugging Face hub, or a built-in name.
   *
   * Default: tiny-transformer.
   */
  model?: string;

  /**
   * The trained adapter: a directory of PEFT or MLX, a .safetensors file, a .gguf file, or org/name of the Hugging Face hub. Without it the base model speaks for itself.
   */
  adapter?: string;

  /**
   * The text to measure, in any format that train reads.
   */
  data: string;
}

/** Options of {@link exportAdapter}. */
export interface ExportAdapterOptions extends RunListeners<WorkEvent> {
  /**
   * The base model the adapter was trained on: a Hugging Face directory, a .gguf file, org/name of the Hugging Face hub, or a built-in name.
   *
   * Default: tiny-transformer.
   */
  model?: string;

  /**
   * The trained adapter: a directory of PEFT or MLX, a .safetensors file, a .gguf file, or org/name of the Hugging Face hub.
   */
  adapter: string;

  /**
   * Where the adapter goes: x.gguf for llama.cpp alone, x.safetensors with x_config.json and x.gguf beside it, or a directory such as my-adapter/ that PEFT loads as is.
   */
  output: string;

  /**
   * Replace an output that exists; without it such an output is refused before any work.
   */
  overwrite?: boolean;
}

/** Options of {@link merge}. */
export interface MergeOptions extends RunListeners<WorkEvent> {
  /**
   * Threads to compute with.
   *
   * Default: 0, one for each core.
   */
  threads?: number;

  /**
   * The base model the adapter was trained on: a Hugging Face directory, a .gguf file, org/name of the Hugging Face hub, or a built-in name.
   *
   * Default: tiny-transformer.
   */
  model?: string;

  /**
   * The trained adapter: a directory of PEFT or MLX, a .safetensors file, a .gguf file, or org/name of the Hugging Face hub.
   */
  adapter: string;

  /**
   * Type of the merged weights: own keeps that of every tensor in the base; q8_0 and q4_0 are for .gguf files.
   *
   * Default: own.
   */
  type?: "own" | "f32" | "f16" | "bf16" | "q8_0" | "q4_0";

  /**
   * Where the merged model goes: x.gguf of a .gguf base, a directory such as merged/ of a Hugging Face directory.
   */
  output: string;

  /**
   * Replace an output that exists; without it such an output is refused before any work.
   */
  overwrite?: boolean;
}

/** Options of {@link verify}. */
export interface VerifyOptions extends RunListeners<WorkEvent> {
  /**
   * Where to compute.
   *
   * Default: auto.
   */
  backend?: "auto" | "cpu";

  /**
   * Threads to compute with.
   *
   * Default: 0, one for each core.
   */
  threads?: number;

  /**
   * The base model the adapter was trained on: a Hugging Face directory, a .gguf file, org/name of the Hugging Face hub, or a built-in name.
   *
   * Default: tiny-transformer.
   */
  model?: string;

  /**
   * The trained adapter: a directory of PEFT or MLX, a .safetensors file, a .gguf file, or org/name of the Hugging Face hub.
   */
  adapter: string;

  /**
   * What was exported or merged: an adapter in any of those formats, a merged directory or a merged .gguf file.
   */
  exported: string;
}

/** Options of {@link pull}. */
export interface PullOptions extends RunListeners<PullEvent> {
  /**
   * The model on the hub: org/name, org/name@revision or org/name:file.gguf.
   */
  model: string;
}

/** Options of {@link plan}. */
export interface PlanOptions extends RunListeners<TrainEvent> {
  /**
   * The base model: a Hugging Face directory, a .gguf file, org/name of the Hugging Face hub, or a built-in name. It is read, never changed.
   *
   * Default: tiny-transformer.
   */
  model?: string;

  /**
   * Training data, a file or a folder of files: text; JSONL or a JSON array of {"text"}, {"prompt", "completion"}, {"messages"}, {"instruction", "output"} or {"conversations"}; CSV or TSV with such columns.
   *
   * Default: the sample corpus, only with the built-in model.
   */
  data?: string;

  /**
   * Most tokens in one sample, BOS and EOS included. What becomes of longer ones is up to --truncate.
   *
   * Default: 512, or the model's if shorter.
   */
  seqLen?: number;

  /**
   * What becomes of a record that is longer than --seq-len: its end or its start is cut off, it is split into several samples, or it is left out.
   *
   * Default: split for texts, end for the rest.
   */
  truncate?: "end" | "start" | "split" | "drop";

  /**
   * Refuse data with records that would be left out, such as empty ones and those with nothing to learn.
   */
  strict?: boolean;

  /**
   * How conversations become text: chatml, llama3, gemma, phi3, mistral, qwen3 or plain, a file with a Jinja template, or the template itself.
   *
   * Default: the model's own, else chatml or plain.
   */
  chatTemplate?: string;

  /**
   * Which tokens are learned: all, completions (the last answer of a conversation), or every turn of the assistant.
   *
   * Default: assistant for conversations, completions for prompts with completions, all for texts.
   */
  trainOn?: "all" | "completions" | "assistant";

  /**
   * Whether the words that open a turn of the assistant are left out of what is learned.
   *
   * Default: on.
   */
  maskRoleHeader?: "on" | "off";

  /**
   * Whether a document ends with its end token, trained once (auto), or without one (never).
   *
   * Default: auto.
   */
  eos?: "auto" | "never";

  /**
   * Take the samples in file order in every epoch.
   */
  noShuffle?: boolean;

  /**
   * Fill rows of up to --seq-len tokens with several samples, each of which sees only itself; --batch-size then counts rows. Steps of short texts become as long as others; no token is ever padding, packed or not.
   */
  packing?: boolean;

  /**
   * Seed of the shuffle, of dropout and of the first adapter values. The same seed on the same machine gives the same adapter.
   *
   * Default: 0.
   */
  seed?: number;

  /**
   * Passes over the training data.
   *
   * Default: 3.
   */
  epochs?: number;

  /**
   * Most optimizer steps; 0 leaves the length to the epochs. The smaller of the two wins.
   *
   * Default: 0.
   */
  maxSteps?: number;

  /**
   * Samples computed together. Shuffled samples are dealt so that batches have about as many tokens each.
   *
   * Default: 1.
   */
  batchSize?: number;

  /**
   * Batches that make one optimizer step. The loss is divided by the target tokens of the whole step, so batch 2 equals two accumulated batches of 1.
   *
   * Default: 1.
   */
  gradAccum?: number;

  /**
   * Highest learning rate.
   *
   * Default: 0.0001.
   */
  lr?: number;

  /**
   * How the learning rate falls after the warm-up.
   *
   * Default: cosine.
   */
  lrScheduler?: "constant" | "linear" | "cosine";

  /**
   * Steps over which the learning rate rises, as a number or as a share of all steps, rounded down.
   *
   * Default: 3% for linear and cosine, 0 for constant.
   */
  warmup?: number | `${number}%`;

  /**
   * AdamW with betas 0.9 and 0.999 and epsilon 1e-8, or plain SGD, as PyTorch defines them.
   *
   * Default: adamw.
   */
  optimizer?: "adamw" | "sgd";

  /**
   * Weight decay of the adapter: decoupled in AdamW, added to the gradient in SGD.
   *
   * Default: 0.
   */
  weightDecay?: number;

  /**
   * Gradients of a larger global norm are scaled down to it; 0 turns clipping off.
   *
   * Default: 1.0.
   */
  maxGradNorm?: number;

  /**
   * Rank of the adapter: larger learns more and takes more memory.
   *
   * Default: 8.
   */
  rank?: number;
  /** Same as `rank`. */
  loraRank?: number;

  /**
   * Strength of the adapter: its output is scaled by alpha / rank, or by alpha / √rank with rsLoRA.
   *
   * Default: 16.0.
   */
  alpha?: number;
  /** Same as `alpha`. */
  loraAlpha?: number;

  /**
   * Other ranks for some layers, such as q_proj=16,v_proj=4. A name is a regular expression for a layer's path or its end, as in PEFT; the first that matches counts.
   */
  rankPattern?: Readonly<Record<string, number>>;

  /**
   * Other alphas for some layers, written like rank-pattern.
   */
  alphaPattern?: Readonly<Record<string, number>>;

  /**
   * Scale by alpha / √rank instead of alpha / rank (rsLoRA), so that large ranks learn as fast as small ones.
   */
  rslora?: boolean;

  /**
   * Train the length of each output apart from its direction (DoRA): often better at low ranks, and slower. PEFT loads it; llama.cpp only when merged into its base.
   */
  dora?: boolean;

  /**
   * Share of the adapter's inputs that are dropped at random while training.
   *
   * Default: 0.
   */
  loraDropout?: number;

  /**
   * What gets an adapter: all-linear, attention, mlp, names such as q_proj,v_proj, both, or one regular expression for whole paths. embed_tokens and lm_head must be named, where they are not the same table.
   *
   * Default: all-linear.
   */
  target?: string | readonly string[];

  /**
   * Of the targets, only those in these decoder layers, such as 0-7,12 or last:8.
   *
   * Default: all.
   */
  layers?: string | readonly number[];

  /**
   * Continue from this adapter: a directory of PEFT or MLX, a .safetensors file, a .gguf file, or org/name of the Hugging Face hub. Its rank, alpha, patterns, targets and kind hold; a contradicting flag is an error.
   */
  initAdapter?: string;

  /**
   * Share of the samples held back to measure the loss on, chosen by the seed.
   *
   * Default: 0.
   */
  evalSplit?: number;

  /**
   * Measure the loss on this file instead of on a share of the samples.
   */
  evalData?: string;

  /**
   * Steps between two evaluations.
   *
   * Default: each epoch.
   */
  evalEvery?: number;

  /**
   * Steps between two texts that the model writes, to watch it learn; 0 turns them off.
   *
   * Default: 0.
   */
  sampleEvery?: number;

  /**
   * Where to compute.
   *
   * Default: auto.
   */
  backend?: "auto" | "cpu";

  /**
   * What the factors of products with the base are rounded to; sums, the adapter and the optimizer are f32 always. auto takes int8 where the processor multiplies it (VNNI, dot products of ARMv8.2), else f32. Beside int8 and bf16 attention multiplies in bf16 where the processor does.
   *
   * Default: auto.
   */
  precision?: "auto" | "f32" | "bf16" | "int8";

  /**
   * on keeps only the input of each layer and computes the rest again for the gradient: a third more work in a fraction of the memory; off keeps everything. auto is off where that fits the free memory. The results are the same.
   *
   * Default: auto.
   */
  checkpointing?: "auto" | "on" | "off";

  /**
   * Rows of the vocabulary whose logits are in memory at a time; where the output layer learns, as many logits in whole rows of fewer tokens. The losses are the same to rounding.
   *
   * Default: 0, as many as make 4 MB of logits.
   */
  vocabSlice?: number;

  /**
   * Layers that are computed again as a unit: fewer inputs are kept, and more at once is computed again. The results are the same.
   *
   * Default: 0, one.
   */
  chunkLayers?: number;

  /**
   * Give the memory of each layer's weights back after its use and read those of the next one meanwhile: memory for one layer instead of the whole model, which is read anew for every pass. The results are the same.
   */
  streamLayers?: boolean;

  /**
   * Threads to compute with.
   *
   * Default: 0, one for each core.
   */
  threads?: number;

  /**
   * Memory that must stay free: a run that would leave less is refused before any work, with the settings that would fit.
   *
   * Default: 300.
   */
  guardBand?: number;

  /**
   * Instead of refusing a run that is too large, compute it in smaller micro-batches and more of them; each step learns the same.
   */
  fit?: boolean;

  /**
   * As for `train`, so that its command line can be planned as it is; not looked at.
   */
  output?: string;

  /**
   * Replace an output that exists; without it such an output is refused before any work.
   */
  overwrite?: boolean;

  /**
   * Steps or minutes between two checkpoints, which keep everything a run needs to go on; 0 leaves those at its end and when it is stopped.
   *
   * Default: 10m.
   */
  saveEvery?: number | `${number}m`;

  /**
   * Newest checkpoints to keep.
   *
   * Default: 2.
   */
  keep?: number;

  /**
   * Also keep the checkpoint of the evaluation with the lowest loss, and write that adapter at the end instead of the last one.
   */
  saveBest?: boolean;

  /**
   * Go on with an interrupted run: auto takes the newest checkpoint of --output, or starts anew when there is none; PATH names a checkpoint. Data, model and settings must be the same; --epochs and --max-steps may grow.
   */
  resume?: string;

  /**
   * Also write every event to this file, one JSON object a line.
   */
  log?: string;

  /**
   * Also write the numbers of the run to this folder for TensorBoard: `tensorboard --logdir DIR` shows them. Give every run a folder of its own.
   */
  tensorboard?: string;
}
// end of the generated part

/** What can follow and end a run; part of the options of every training function. */
export interface RunListeners<Event = TrainEvent> {
  /**
   * Aborting stops the run after its step; the run then rejects with the signal's reason, although what was
   * learned until then is saved. To get the result of a run that is cut short, use {@link TrainRun.stop}.
   */
  signal?: AbortSignal;
  /** Called with every event, in order. If it throws, or returns a promise that rejects, the run stops, saves and rejects with that. */
  onEvent?: (event: Event) => void;
}

/**
 * A run that is under way: a promise of its result and an async iterable of its events.
 *
 * Any number of loops may iterate, or none. A loop gets the events from the moment it begins, and at the end throws if
 * the run failed. Events are kept only for a loop that has begun: one that falls more than 4096 events behind loses the
 * oldest `step` events. Leaving a loop early (`break`, `return`, an error) stops the run and waits until it has saved.
 *
 * Several runs may go on at once; each uses all threads unless `threads` says otherwise.
 */
export interface TrainRun extends Work<TrainResult, TrainEvent> {
  /** Asks the run to finish its step, save and end with status `stopped`. Returns the run. */
  stop(): this;
}

/** Work that is under way: a promise of what it makes and an async iterable of its events, as {@link TrainRun}. */
export interface Work<Result, WorkEvent>
  extends Promise<Result>, AsyncIterable<WorkEvent, void, undefined> {
  /** Asks the work to end early. Returns it. */
  stop(): this;
}

/** What a run made: the fields of its `end` event. */
export type TrainResult = Omit<EndEvent, "type">;

export type TrainEvent =
  | DownloadEvent
  | DataEvent
  | StartEvent
  | StepEvent
  | EvalEvent
  | SaveEvent
  | SampleEvent
  | WarningEvent
  | EndEvent;

/** The first event: what the training data came to, and how its first sample is trained. */
export interface DataEvent extends DataSummary {
  type: "data";
  sample: Piece[];
}

/** A part of a sample whose tokens are all learned, or all not. */
export interface Piece {
  text: string;
  learned: boolean;
}

/** The numbers of a file or folder of training data. */
export interface DataSummary {
  path: string;
  /** Records that are trained. */
  records: number;
  /** How many records have each format. */
  formats: Record<string, number>;
  samples: number;
  /** Tokens of all samples. */
  tokens: number;
  /** Those of them that are learned. */
  targets: number;
  /** Tokens of the longest sample, or with `packing` of the longest row. */
  longest: number;
  /** How many samples have `from` to `to` tokens, both inclusive. */
  lengths: { from: number; to: number; samples: number }[];
  /** Records of which a part was cut off. */
  truncated: number;
  /** Records that are left out. */
  skipped: { place: string; reason: string }[];
  /** Files of a folder that hold no data. */
  passedOver: string[];
}

/** What {@link data} answers. */
export interface DataReport extends DataSummary {
  /** The first samples. */
  shown: { place: string; tokens: number; pieces: Piece[] }[];
}

/** The model is open and the memory is planned. */
export interface StartEvent {
  type: "start";
  task: "llm";
  model: string;
  backend: string;
  device: string;
  trainableParameters: number;
  totalSteps: number;
  /** The step whose checkpoint the run goes on from; absent in a run from the start. */
  resumedStep?: number;
  plan: MemoryPlan;
}

/**
 * Peak memory in bytes by part, and what is free. Activations, logits and saving are never alive at once, so `total` is
 * less than the sum.
 */
export interface MemoryPlan {
  /** Pages of the model's files; the system may drop them and read them again. */
  baseMapped: number;
  /** Norms and biases in f32. */
  baseResident: number;
  /** The input of every layer that is walked back, and the graph of one layer. */
  activations: number;
  /** The last norm, a slice of the vocabulary, and the gradient it leaves. */
  logits: number;
  adapter: number;
  gradients: number;
  optimizer: number;
  /** Unpacked and packed blocks of matrices, attention scores, stacks of threads. */
  workspace: number;
  /** Freed memory that the C library keeps between the blocks in use. */
  allocator: number;
  /** Tokenizer and samples, measured. */
  data: number;
  /** Copies of the adapter while its files are written. */
  saving: number;
  /** What the process occupied before, measured: Node.js and this library. */
  program: number;
  /** The most that is resident at once. */
  total: number;
  /** What of `total` must stay for the run to work: of the mapped files only twice the largest layer or table. */
  required: number;
  /** What the process could still get when the plan was made; null when the system does not say. */
  free: number | null;
  guardBand: number;
  /** Whether `required` leaves the guard band free; null when it is not known what is free. */
  fits: boolean | null;
  /** Samples computed together: fewer than asked for when `fit` made it so. */
  batchSize: number;
  gradAccum: number;
  /** Tokens of the longest sample. */
  longestSample: number;
  /** Where the run does not fit: flags of a smaller one that does, and its total. */
  wouldFit?: { flags: string; total: number };
}

/** One optimizer step. */
export interface StepEvent {
  type: "step";
  /** From 1. */
  step: number;
  totalSteps: number;
  /** Passes over the data so far, e.g. 0.08. */
  epoch: number;
  /** Mean over the step's target tokens, before the update; null when it was not finite. */
  loss: number | null;
  lr: number;
  /** Global norm before clipping; null when it was not finite. */
  gradNorm: number | null;
  /** Real tokens, never padding. */
  tokens: number;
  tokensPerSecond: number;
  /** Milliseconds until the end, estimated. */
  etaMs: number;
  memoryBytes: number;
  /** Whether the update was left out because the loss or a gradient was not finite. */
  skipped: boolean;
}

/** A measurement on the data held back. */
export interface EvalEvent {
  type: "eval";
  step: number;
  loss: number | null;
  perplexity: number | null;
}

/** A checkpoint, or at the end of a run one file of the adapter, was written. */
export interface SaveEvent {
  type: "save";
  step: number;
  path: string;
}

/** A text the model wrote, to watch it learn. */
export interface SampleEvent {
  type: "sample";
  step: number;
  /** When it was written, seen from the training. */
  moment: "before" | "during" | "after";
  prompt: string;
  /** What the model wrote after the prompt. */
  text: string;
}

/** Something to know that does not stop the run. */
export interface WarningEvent {
  type: "warning";
  code: string;
  message: string;
}

/** A piece of text that a model has written. */
export interface TokenEvent {
  type: "token";
  text: string;
}

/** How far work other than a training has come. */
export interface ProgressEvent {
  type: "progress";
  what: string;
  done: number;
  total: number;
}

/** What is told of work other than a training. */
export type WorkEvent = DownloadEvent | ProgressEvent | WarningEvent;

export type GenerateEvent = DownloadEvent | TokenEvent | WarningEvent;

export type PullEvent = DownloadEvent | WarningEvent;

/** How much of a model of the hub has come, before the work itself begins. */
export interface DownloadEvent {
  type: "download";
  /** As it was named. */
  model: string;
  /** The file that is coming now. */
  file: string;
  /** Bytes of all files that had to be fetched. */
  done: number;
  total: number;
}

export interface PullResult {
  model: string;
  /** A directory, or the .gguf file. */
  path: string;
  /** The commit of the repository. */
  commit: string;
  /** What the model is made of, by path in the repository. */
  files: string[];
  /** Of all files. */
  bytes: number;
  durationMs: number;
}

export interface GenerateResult {
  /** What the model wrote after the prompt. */
  text: string;
  /** Why it ended: the model's end token, a stop string, `maxTokens`, or `stop()`. */
  reason: "end" | "stopString" | "length" | "stopped";
  promptTokens: number;
  tokens: number;
  firstTokenMs: number;
  /** After the first. */
  tokensPerSecond: number;
  durationMs: number;
}

/** Loss in nats per target token, and its exponential. */
export interface Score {
  loss: number;
  perplexity: number;
}

export interface EvaluateResult {
  samples: number;
  /** Target tokens. */
  tokens: number;
  base: Score;
  /** With the adapter, when there is one. */
  adapter?: Score;
}

export interface ExportResult {
  output: string;
  files: string[];
  /** Layers with an adapter. */
  layers: number;
}

export interface MergeResult {
  output: string;
  files: string[];
  /** Layers that the adapter was merged into. */
  layers: number;
  /** How many tensors there are of each type. */
  types: Record<string, number>;
  durationMs: number;
}

export interface VerifyResult {
  /** Whether every prompt's `kl` is within `tolerance` and no file has another hash than its sidecar says. */
  passed: boolean;
  /** The coarsest type of the exported weights, e.g. `Q8_0`. */
  weightType: string;
  /** Most nats of `kl` that weights of this type explain. */
  tolerance: number;
  prompts: {
    prompt: string;
    tokens: number;
    maxDifference: number;
    /** Relative to the largest logit. */
    maxRelativeDifference: number;
    /** Kullback-Leibler divergence from the trained distribution: nats, mean over the tokens. */
    kl: number;
    /** Share of tokens after which both find the same next token most likely. */
    top1Agreement: number;
  }[];
  changedFiles: string[];
}

/** The last event of a run that did not fail. */
export interface EndEvent {
  type: "end";
  /** `stopped` after `stop()`, an abort or a signal. */
  status: "completed" | "stopped";
  steps: number;
  epochs: number;
  /** Mean loss of the last tenth of the steps, at least of one. */
  finalLoss: number | null;
  /** The adapter file or directory. */
  adapter: string;
  /** Every file written. */
  files: string[];
  durationMs: number;
  /** The highest resident memory while it ran, the rest of the process included; 0 when the system does not say. */
  peakBytes: number;
}

/**
 * The trainer with the published names.
 *
 * @example
 * const trainer = new TermuxTrainer({ modelType: "lora", model: "base.gguf", loraRank: 8, loraAlpha: 16 });
 * const { finalLoss } = await trainer.fit({ dataPath: "notes.txt", outputPath: "notes/", epochs: 3 });
 */
export declare class TermuxTrainer {
  constructor(options?: TermuxTrainerOptions);
  /** Trains; these options win over those of the constructor. */
  fit(options?: FitOptions): TrainRun;
}

export interface TermuxTrainerOptions extends FitOptions {
  /** `lora` is the one there is in this version; another is refused with `UNSUPPORTED_MODEL`. */
  modelType?: "lora" | "dora";
}

/** Options of {@link train}, some under their published names as well. */
export interface FitOptions extends Partial<TrainOptions> {
  /** Same as `data`. */
  dataPath?: string;
  /** Same as `output`. */
  outputPath?: string;
  /** Same as `lr`. */
  learningRate?: number;
}

/**
 * What a model holds and whether it can be trained. Rejects with `NOT_FOUND` or `BAD_MODEL` when it cannot be read.
 *
 * @param model A Hugging Face directory, a .gguf file, org/name of the Hugging Face hub, or a built-in name.
 */
export declare function inspect(model: string): Promise<ModelReport>;

export interface ModelReport {
  model: string;
  path: string;
  format: string;
  architecture: string;
  trainable: boolean;
  /** Why it cannot be trained. */
  reason?: string;
  parameters: number;
  bytes: number;
  /** Tensors and parameters by type, e.g. `Q4_0`. */
  types: Record<string, { tensors: number; parameters: number }>;
  family?: string;
  layers?: number;
  width?: number;
  heads?: number;
  kvHeads?: number;
  /** Tokens the model was made for. */
  context?: number;
}

/** What can be trained. */
export declare function models(): ModelSupport;

export interface ModelSupport {
  architectures: {
    name: string;
    /** `model_type` in config.json. */
    modelTypes: string[];
    /** What the models are called. */
    knownAs: string;
  }[];
  /** Types of tensors that can be read, by file format. */
  formats: { gguf: string[]; safetensors: string[] };
  builtIn: { name: string; architecture: string }[];
}

/** What can compute here; what cannot says why. */
export declare function devices(): Device[];

export type Device = AvailableDevice | MissingDevice;

export interface AvailableDevice {
  backend: string;
  available: true;
  name: string;
  threads: number;
  /** Processor features in use. */
  features: string[];
  memoryBytes: number | null;
  freeMemoryBytes: number | null;
}

export interface MissingDevice {
  backend: string;
  available: false;
  /** Why it is missing. */
  reason: string;
}

/** Version, platform, memory and devices: what a bug report needs. */
export declare function info(): SystemInfo;

export interface SystemInfo {
  version: string;
  platform: string;
  /** Memory of this process, now and at most. */
  residentBytes: number | null;
  peakBytes: number | null;
  devices: Device[];
  /** Path of the native addon that was loaded. */
  addon: string;
  /** The C library of this process: `glibc 2.41`, `musl` or `bionic`. */
  libc: string;
  /** Node.js, and the version of Node-API that it offers to addons. */
  node: { version: string; api: number };
}
