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
    argument: { name: "model", text: "directory, .gguf file or built-in name" },
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
