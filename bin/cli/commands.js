"use strict";

// The commands as data: what help shows beside the options of the table. `run` is loaded only when the command is used.

const COMMANDS = [
  {
    name: "train",
    alias: "peft",
    summary: "train a LoRA adapter on a language model",
    description:
      "Trains a LoRA adapter on a language model. Ctrl-C finishes the step, saves and exits; a second Ctrl-C exits at once.",
    run: () => require("./train.js").train,
    examples: [
      {
        title: "Watch the built-in model learn the sample corpus, offline",
        command: "amv-train train --output my-adapter/",
      },
      {
        title: "Train a model on your own text, for PEFT and llama.cpp",
        command:
          "amv-train train --model SmolLM2-135M/ --data notes.txt --output notes/",
      },
      {
        title: "A quantised base, a stronger adapter, one file",
        command:
          "amv-train train --model base.gguf --data notes.jsonl --rank 16 --alpha 32 --output notes.safetensors",
      },
    ],
  },
  {
    name: "data",
    argument: { name: "path", text: "file or folder of training data" },
    summary: "show what training data holds and how it is trained",
    description:
      "Shows the formats, counts and lengths of training data, and samples with what is learned of them.",
    run: () => require("./data.js").data,
    examples: [
      {
        title: "Before a training run on chats",
        command: "amv-train data chats.jsonl --model base.gguf",
      },
    ],
  },
  {
    name: "generate",
    summary: "let a model, with or without an adapter, continue a prompt",
    description:
      "Continues a prompt and prints the text as it is written. Ctrl-C ends the text.",
    run: () => require("./generate.js").generate,
    examples: [
      {
        title:
          "Try the adapter that `amv-train train` made of the sample corpus",
        command:
          'amv-train generate --adapter my-adapter/ --prompt "Once upon a time"',
      },
      {
        title: "The most likely text of an own model and adapter",
        command:
          'amv-train generate --model base.gguf --adapter notes/ --temperature 0 --prompt "Dear"',
      },
      {
        title: "An answer of a model that chats",
        command:
          'amv-train generate --model instruct.gguf --adapter chats/ --chat --prompt "What is the capital of Glania?"',
      },
    ],
  },
  {
    name: "eval",
    summary: "measure loss and perplexity, with and without an adapter",
    description:
      "Measures loss and perplexity of a data file per token, through the data path of training, for the base model and with the adapter.",
    run: () => require("./results.js").evaluate,
    examples: [
      {
        title: "Whether an adapter knows text it was not trained on",
        command:
          "amv-train eval --model base.gguf --adapter notes/ --data held-out.txt",
      },
    ],
  },
  {
    name: "export",
    summary: "write an adapter for PEFT or llama.cpp",
    description:
      "Writes an adapter, ours or PEFT's or llama.cpp's, as a PEFT directory, a safetensors file or a llama.cpp adapter. A DoRA adapter has no form in llama.cpp: merge it.",
    run: () => require("./results.js").exportAdapter,
    examples: [
      {
        title: "A PEFT adapter for llama.cpp",
        command:
          "amv-train export --model base.gguf --adapter peft-adapter/ --output adapter.gguf",
      },
    ],
  },
  {
    name: "merge",
    summary: "write a model with the adapter in its weights",
    description:
      "Writes the base model with the adapter merged into its weights, tensor by tensor: a directory of a Hugging Face base, a .gguf file of a .gguf base.",
    run: () => require("./results.js").merge,
    examples: [
      {
        title: "One file for every program that loads GGUF",
        command:
          "amv-train merge --model base.gguf --adapter notes/ --output merged.gguf",
      },
      {
        title: "Four bits for a phone",
        command:
          "amv-train merge --model base-f16.gguf --adapter notes/ --type q4_0 --output merged-q4_0.gguf",
      },
    ],
  },
  {
    name: "verify",
    summary: "compare an exported file with the trained adapter",
    description:
      "Reads an exported adapter or merged model back from disk and compares its logits of three prompts with those of the base and the trained adapter. Exits with 1 when they are further apart than its type explains.",
    run: () => require("./results.js").verify,
    examples: [
      {
        title: "After a merge",
        command:
          "amv-train verify --model base.gguf --adapter notes/ --exported merged.gguf",
      },
    ],
  },
  {
    name: "pull",
    argument: {
      name: "model",
      text: "org/name, org/name@revision or org/name:file.gguf",
    },
    summary: "fetch a model from the Hugging Face hub",
    description:
      "Fetches a model from the Hugging Face hub into the cache that all tools of the hub share, and prints where it is. Every command that takes --model does the same by itself. What was interrupted goes on where it stopped.",
    run: () => require("./pull.js").pull,
    examples: [
      {
        title: "Before going offline",
        command: "amv-train pull HuggingFaceTB/SmolLM2-135M-Instruct",
      },
      {
        title: "One quantised file of many",
        command:
          "amv-train pull bartowski/SmolLM2-135M-Instruct-GGUF:SmolLM2-135M-Instruct-Q8_0.gguf",
      },
    ],
  },
  {
    name: "plan",
    summary: "show the memory a training run needs",
    description:
      "Shows the memory that `train` would need with the same options, part by part, whether it is free, and what would fit. Nothing is trained or written.",
    run: () => require("./plan.js").plan,
    examples: [
      {
        title: "Before a run on a phone",
        command:
          "amv-train plan --model base.gguf --data notes.txt --batch-size 4",
      },
    ],
  },
  {
    name: "info",
    summary: "show version, processor features, memory and backends",
    description:
      "Shows the version, the processor features in use, memory, backends and why one is missing.",
    run: () => require("./show.js").showInfo,
    examples: [
      { title: "For a bug report", command: "amv-train info" },
      { title: "For a program", command: "amv-train info --json" },
    ],
  },
  {
    name: "models",
    summary: "list what can be trained",
    description:
      "Lists the built-in models, the architectures and the file types that can be trained.",
    run: () => require("./show.js").showModels,
    examples: [{ title: "For a program", command: "amv-train models --json" }],
  },
  {
    name: "inspect",
    argument: {
      name: "model",
      text: "directory, .gguf file, org/name of the hub, or built-in name",
    },
    summary: "show what a model holds and whether it can be trained",
    description:
      "Shows what a model holds and whether it can be trained, and if not, why.",
    run: () => require("./show.js").showModel,
    examples: [
      {
        title: "Before a download of gigabytes is trained",
        command: "amv-train inspect base.gguf",
      },
    ],
  },
];

module.exports = { COMMANDS };
