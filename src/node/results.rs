//! The options of the commands that use what a training has made; part of the one table.

use super::option::Kind::{Flag, Integer, List, Path, Text};
use super::option::OptionSpec;
use super::options::{
    EXACT, MODEL_AND_DATA, OUTPUT, ZERO_OR_MORE, at_least, choice, number, option,
};

const WRITING: &str = "Text";

pub(super) static OPTIONS: &[OptionSpec] = &[
    option("model", Path, "PATH")
        .commands(&["generate", "eval", "export", "merge", "verify"])
        .group(MODEL_AND_DATA)
        .default("tiny-transformer")
        .doc("The base model the adapter was trained on: a Hugging Face directory, a .gguf file, org/name of the Hugging Face hub, or a built-in name."),
    option("adapter", Path, "PATH")
        .commands(&["generate", "eval"])
        .group(MODEL_AND_DATA)
        .doc("The trained adapter: a directory of PEFT or MLX, a .safetensors file, a .gguf file, or org/name of the Hugging Face hub. Without it the base model speaks for itself."),
    option("adapter", Path, "PATH")
        .commands(&["export", "merge", "verify"])
        .required()
        .group(MODEL_AND_DATA)
        .doc("The trained adapter: a directory of PEFT or MLX, a .safetensors file, a .gguf file, or org/name of the Hugging Face hub."),
    option("data", Path, "PATH")
        .commands(&["eval"])
        .required()
        .group(MODEL_AND_DATA)
        .doc("The text to measure, in any format that train reads."),
    option("exported", Path, "PATH")
        .commands(&["verify"])
        .required()
        .group(MODEL_AND_DATA)
        .doc("What was exported or merged: an adapter in any of those formats, a merged directory or a merged .gguf file."),
    option("prompt", Text, "TEXT")
        .commands(&["generate"])
        .required()
        .group(WRITING)
        .doc("The text to continue, or with --chat what a user says."),
    option("chat", Flag, "")
        .commands(&["generate"])
        .group(WRITING)
        .doc("Write the prompt into the model's chat template; the model answers, and its turn ends the text."),
    option("system", Text, "TEXT")
        .commands(&["generate"])
        .group(WRITING)
        .doc("A system message before the prompt of a chat."),
    option("max-tokens", at_least(1), "N")
        .commands(&["generate"])
        .group(WRITING)
        .default("256")
        .doc("Most tokens to write."),
    option("temperature", ZERO_OR_MORE, "X")
        .commands(&["generate"])
        .group(WRITING)
        .default("0.7")
        .doc("0 takes the most likely token, always; higher is wilder."),
    option("top-k", at_least(0), "N")
        .commands(&["generate"])
        .group(WRITING)
        .default("40")
        .doc("Choose among this many of the most likely tokens; 0 for all."),
    option("top-p", number(Some(0.0), None, None), "X")
        .commands(&["generate"])
        .group(WRITING)
        .default("0.95")
        .doc("Of those, choose among the fewest whose probabilities reach this sum; 1 for all."),
    option("repeat-penalty", number(Some(0.0), None, None), "X")
        .commands(&["generate"])
        .group(WRITING)
        .default("1.0")
        .doc("Above 1, tokens of the prompt and the text so far become less likely, as transformers defines it."),
    option("stop", List, "LIST")
        .commands(&["generate"])
        .group(WRITING)
        .doc("End before the first of these strings."),
    option("seed", Integer { min: 0, max: EXACT }, "N")
        .commands(&["generate"])
        .group(WRITING)
        .default("0")
        .doc("Seed of the choice. The same seed on the same machine gives the same text."),
    option("type", choice(&["own", "f32", "f16", "bf16", "q8_0", "q4_0"]), "")
        .commands(&["merge"])
        .group(OUTPUT)
        .default("own")
        .doc("Type of the merged weights: own keeps that of every tensor in the base; q8_0 and q4_0 are for .gguf files."),
    option("output", Path, "PATH")
        .required()
        .commands(&["export"])
        .group(OUTPUT)
        .doc("Where the adapter goes: x.gguf for llama.cpp alone, x.safetensors with x_config.json and x.gguf beside it, or a directory such as my-adapter/ that PEFT loads as is."),
    option("output", Path, "PATH")
        .required()
        .commands(&["merge"])
        .group(OUTPUT)
        .doc("Where the merged model goes: x.gguf of a .gguf base, a directory such as merged/ of a Hugging Face directory."),
    option("overwrite", Flag, "")
        .commands(&["export", "merge"])
        .group(OUTPUT)
        .doc("Replace an output that exists; without it such an output is refused before any work."),
];
