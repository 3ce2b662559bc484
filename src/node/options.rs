//! The one table of options: name, type, default, text. Change an option here and run `npm run generate`.

use std::sync::LazyLock;

use super::option::Kind::{
    Choice, Flag, Integer, Interval, Layers, List, Number, Path, Pattern, Steps, Text,
};
use super::option::{Kind, OptionSpec};
use super::results;

pub(super) const MODEL_AND_DATA: &str = "Model and data";
const LENGTH: &str = "Length of the run";
const OPTIMIZER: &str = "Optimizer";
const LORA: &str = "LoRA";
pub(super) const EVALUATION: &str = "Evaluation";
pub(super) const MACHINE: &str = "Machine";
pub(super) const OUTPUT: &str = "Output";

/// The largest whole number JavaScript holds exactly.
pub(super) const EXACT: u64 = (1 << 53) - 1;

pub(super) const fn at_least(min: u64) -> Kind {
    let max = u32::MAX as u64;
    Integer { min, max }
}

pub(super) const fn number(above: Option<f64>, min: Option<f64>, below: Option<f64>) -> Kind {
    Number { above, min, below }
}

pub(super) const fn choice(choices: &'static [&'static str]) -> Kind {
    let elsewhere = &[];
    Choice { choices, elsewhere }
}

const POSITIVE: Kind = number(Some(0.0), None, None);
pub(super) const ZERO_OR_MORE: Kind = number(None, Some(0.0), None);
const SHARE: Kind = number(None, Some(0.0), Some(1.0));

/// Every option of every command, in the order help shows them.
pub fn option_table() -> &'static [OptionSpec] {
    static ALL: LazyLock<Vec<OptionSpec>> = LazyLock::new(|| [OPTIONS, results::OPTIONS].concat());
    &ALL
}

pub(super) const fn option(name: &'static str, kind: Kind, value: &'static str) -> OptionSpec {
    OptionSpec::new(name, kind, value)
}

static OPTIONS: &[OptionSpec] = &[
    option("model", Path, "PATH")
        .group(MODEL_AND_DATA)
        .commands(&["train", "plan", "data"])
        .default("tiny-transformer")
        .doc("The base model: a Hugging Face directory, a .gguf file, org/name of the Hugging Face hub, or a built-in name. It is read, never changed."),
    option("model", Path, "NAME")
        .group(MODEL_AND_DATA)
        .required()
        .java_script()
        .commands(&["pull"])
        .doc("The model on the hub: org/name, org/name@revision or org/name:file.gguf."),
    option("data", Path, "PATH")
        .group(MODEL_AND_DATA)
        .default("the sample corpus, only with the built-in model")
        .doc("Training data, a file or a folder of files: text; JSONL or a JSON array of {\"text\"}, {\"prompt\", \"completion\"}, {\"messages\"}, {\"instruction\", \"output\"} or {\"conversations\"}; CSV or TSV with such columns."),
    option("data", Path, "PATH")
        .group(MODEL_AND_DATA)
        .required()
        .java_script()
        .commands(&["data"])
        .doc("The training data, as for `train`."),
    option("show", at_least(0), "N")
        .group(OUTPUT)
        .commands(&["data"])
        .default("3")
        .doc("How many samples to show as they are trained."),
    option("seq-len", at_least(2), "N")
        .group(MODEL_AND_DATA)
        .commands(&["train", "plan", "data", "eval"])
        .default("512, or the model's if shorter")
        .doc("Most tokens in one sample, BOS and EOS included. What becomes of longer ones is up to --truncate."),
    option("truncate", choice(&["end", "start", "split", "drop"]), "")
        .group(MODEL_AND_DATA)
        .commands(&["train", "plan", "data", "eval"])
        .default("split for texts, end for the rest")
        .doc("What becomes of a record that is longer than --seq-len: its end or its start is cut off, it is split into several samples, or it is left out."),
    option("strict", Flag, "")
        .group(MODEL_AND_DATA)
        .commands(&["train", "plan", "data", "eval"])
        .doc("Refuse data with records that would be left out, such as empty ones and those with nothing to learn."),
    option("chat-template", Text, "NAME|FILE|TEXT")
        .group(MODEL_AND_DATA)
        .commands(&["train", "plan", "data", "eval", "generate"])
        .default("the model's own, else chatml or plain")
        .doc("How conversations become text: chatml, llama3, gemma, phi3, mistral, qwen3 or plain, a file with a Jinja template, or the template itself."),
    option("train-on", choice(&["all", "completions", "assistant"]), "")
        .group(MODEL_AND_DATA)
        .commands(&["train", "plan", "data", "eval"])
        .default("assistant for conversations, completions for prompts with completions, all for texts")
        .doc("Which tokens are learned: all, completions (the last answer of a conversation), or every turn of the assistant."),
    option("mask-role-header", choice(&["on", "off"]), "")
        .group(MODEL_AND_DATA)
        .commands(&["train", "plan", "data", "eval"])
        .default("on")
        .doc("Whether the words that open a turn of the assistant are left out of what is learned."),
    option("eos", choice(&["auto", "never"]), "")
        .group(MODEL_AND_DATA)
        .commands(&["train", "plan", "data", "eval"])
        .default("auto")
        .doc("Whether a document ends with its end token, trained once (auto), or without one (never)."),
    option("no-shuffle", Flag, "")
        .group(MODEL_AND_DATA)
        .doc("Take the samples in file order in every epoch."),
    option("packing", Flag, "")
        .group(MODEL_AND_DATA)
        .doc("Fill rows of up to --seq-len tokens with several samples, each of which sees only itself; --batch-size then counts rows. Steps of short texts become as long as others; no token is ever padding, packed or not."),
    option("seed", Integer { min: 0, max: EXACT }, "N")
        .group(MODEL_AND_DATA)
        .default("0")
        .doc("Seed of the shuffle, of dropout and of the first adapter values. The same seed on the same machine gives the same adapter."),
    option("epochs", at_least(1), "N")
        .group(LENGTH)
        .default("3")
        .doc("Passes over the training data."),
    option("max-steps", at_least(0), "N")
        .group(LENGTH)
        .default("0")
        .doc("Most optimizer steps; 0 leaves the length to the epochs. The smaller of the two wins."),
    option("batch-size", at_least(1), "N")
        .group(LENGTH)
        .default("1")
        .doc("Samples computed together. Shuffled samples are dealt so that batches have about as many tokens each."),
    option("grad-accum", at_least(1), "N")
        .group(LENGTH)
        .default("1")
        .doc("Batches that make one optimizer step. The loss is divided by the target tokens of the whole step, so batch 2 equals two accumulated batches of 1."),
    option("lr", POSITIVE, "X")
        .group(OPTIMIZER)
        .default("0.0001")
        .doc("Highest learning rate."),
    option("lr-scheduler", choice(&["constant", "linear", "cosine"]), "")
        .group(OPTIMIZER)
        .default("cosine")
        .doc("How the learning rate falls after the warm-up."),
    option("warmup", Steps, "N|X%")
        .group(OPTIMIZER)
        .default("3% for linear and cosine, 0 for constant")
        .doc("Steps over which the learning rate rises, as a number or as a share of all steps, rounded down."),
    option("optimizer", choice(&["adamw", "sgd"]), "")
        .group(OPTIMIZER)
        .default("adamw")
        .doc("AdamW with betas 0.9 and 0.999 and epsilon 1e-8, or plain SGD, as PyTorch defines them."),
    option("weight-decay", ZERO_OR_MORE, "X")
        .group(OPTIMIZER)
        .default("0")
        .doc("Weight decay of the adapter: decoupled in AdamW, added to the gradient in SGD."),
    option("max-grad-norm", ZERO_OR_MORE, "X")
        .group(OPTIMIZER)
        .default("1.0")
        .doc("Gradients of a larger global norm are scaled down to it; 0 turns clipping off."),
    option("rank", at_least(1), "N")
        .aliases(&["lora-rank"])
        .group(LORA)
        .default("8")
        .doc("Rank of the adapter: larger learns more and takes more memory."),
    option("alpha", POSITIVE, "X")
        .aliases(&["lora-alpha"])
        .group(LORA)
        .default("16.0")
        .doc("Strength of the adapter: its output is scaled by alpha / rank, or by alpha / √rank with rsLoRA."),
    option("rank-pattern", Pattern { whole: true }, "NAME=N,...")
        .group(LORA)
        .doc("Other ranks for some layers, such as q_proj=16,v_proj=4. A name is a regular expression for a layer's path or its end, as in PEFT; the first that matches counts."),
    option("alpha-pattern", Pattern { whole: false }, "NAME=X,...")
        .group(LORA)
        .doc("Other alphas for some layers, written like rank-pattern."),
    option("rslora", Flag, "")
        .group(LORA)
        .doc("Scale by alpha / √rank instead of alpha / rank (rsLoRA), so that large ranks learn as fast as small ones."),
    option("dora", Flag, "")
        .group(LORA)
        .doc("Train the length of each output apart from its direction (DoRA): often better at low ranks, and slower. PEFT loads it; llama.cpp only when merged into its base."),
    option("lora-dropout", SHARE, "X")
        .group(LORA)
        .default("0")
        .doc("Share of the adapter's inputs that are dropped at random while training."),
    option("target", List, "LIST")
        .group(LORA)
        .default("all-linear")
        .doc("What gets an adapter: all-linear, attention, mlp, names such as q_proj,v_proj, both, or one regular expression for whole paths. embed_tokens and lm_head must be named, where they are not the same table."),
    option("layers", Layers, "LIST")
        .group(LORA)
        .default("all")
        .doc("Of the targets, only those in these decoder layers, such as 0-7,12 or last:8."),
    option("init-adapter", Path, "PATH")
        .group(LORA)
        .doc("Continue from this adapter: a directory of PEFT or MLX, a .safetensors file, a .gguf file, or org/name of the Hugging Face hub. Its rank, alpha, patterns, targets and kind hold; a contradicting flag is an error."),
    option("eval-split", SHARE, "X")
        .group(EVALUATION)
        .default("0")
        .doc("Share of the samples held back to measure the loss on, chosen by the seed."),
    option("eval-data", Path, "PATH")
        .group(EVALUATION)
        .doc("Measure the loss on this file instead of on a share of the samples."),
    option("eval-every", at_least(0), "N")
        .group(EVALUATION)
        .default("each epoch")
        .doc("Steps between two evaluations."),
    option("sample-every", at_least(0), "N")
        .group(EVALUATION)
        .default("0")
        .doc("Steps between two texts that the model writes, to watch it learn; 0 turns them off."),
    option("backend", Choice { choices: &["auto", "cpu"], elsewhere: &["vulkan", "opencl"] }, "")
        .group(MACHINE)
        .default("auto")
        .commands(&["train", "plan", "generate", "eval", "verify"])
        .doc("Where to compute."),
    option("precision", choice(&["auto", "f32", "bf16", "int8"]), "")
        .group(MACHINE)
        .default("auto")
        .doc("What the factors of products with the base are rounded to; sums, the adapter and the optimizer are f32 always. auto takes int8 where the processor multiplies it (VNNI, dot products of ARMv8.2), else f32. Beside int8 and bf16 attention multiplies in bf16 where the processor does."),
    option("checkpointing", choice(&["auto", "on", "off"]), "")
        .group(MACHINE)
        .default("auto")
        .doc("on keeps only the input of each layer and computes the rest again for the gradient: a third more work in a fraction of the memory; off keeps everything. auto is off where that fits the free memory. The results are the same."),
    option("vocab-slice", at_least(0), "N")
        .group(MACHINE)
        .default("0, as many as make 4 MB of logits")
        .doc("Rows of the vocabulary whose logits are in memory at a time; where the output layer learns, as many logits in whole rows of fewer tokens. The losses are the same to rounding."),
    option("chunk-layers", at_least(0), "N")
        .group(MACHINE)
        .default("0, one")
        .doc("Layers that are computed again as a unit: fewer inputs are kept, and more at once is computed again. The results are the same."),
    option("stream-layers", Flag, "")
        .group(MACHINE)
        .doc("Give the memory of each layer's weights back after its use and read those of the next one meanwhile: memory for one layer instead of the whole model, which is read anew for every pass. The results are the same."),
    option("threads", at_least(0), "N")
        .group(MACHINE)
        .default("0, one for each core")
        .commands(&["train", "plan", "generate", "eval", "merge", "verify"])
        .doc("Threads to compute with."),
    option("guard-band", at_least(0), "MB")
        .group(MACHINE)
        .default("300")
        .doc("Memory that must stay free: a run that would leave less is refused before any work, with the settings that would fit."),
    option("fit", Flag, "")
        .group(MACHINE)
        .doc("Instead of refusing a run that is too large, compute it in smaller micro-batches and more of them; each step learns the same."),
    option("output", Path, "PATH")
        .commands(&["train"])
        .required()
        .group(OUTPUT)
        .doc("Where the adapter goes: x.safetensors (with x_config.json and x.gguf beside it), or a directory such as my-adapter/ that PEFT loads as is."),
    option("output", Path, "PATH")
        .group(OUTPUT)
        .commands(&["plan"])
        .doc("As for `train`, so that its command line can be planned as it is; not looked at."),
    option("overwrite", Flag, "")
        .group(OUTPUT)
        .doc("Replace an output that exists; without it such an output is refused before any work."),
    option("save-every", Interval, "N|Nm")
        .group(OUTPUT)
        .default("10m")
        .doc("Steps or minutes between two checkpoints, which keep everything a run needs to go on; 0 leaves those at its end and when it is stopped."),
    option("keep", at_least(1), "K")
        .group(OUTPUT)
        .default("2")
        .doc("Newest checkpoints to keep."),
    option("save-best", Flag, "")
        .group(OUTPUT)
        .doc("Also keep the checkpoint of the evaluation with the lowest loss, and write that adapter at the end instead of the last one."),
    option("resume", Path, "auto|PATH")
        .group(OUTPUT)
        .doc("Go on with an interrupted run: auto takes the newest checkpoint of --output, or starts anew when there is none; PATH names a checkpoint. Data, model and settings must be the same; --epochs and --max-steps may grow."),
    option("log", Path, "FILE")
        .group(OUTPUT)
        .doc("Also write every event to this file, one JSON object a line."),
    option("tensorboard", Path, "DIR")
        .group(OUTPUT)
        .doc("Also write the numbers of the run to this folder for TensorBoard: `tensorboard --logdir DIR` shows them. Give every run a folder of its own."),
    option("json", Flag, "")
        .command_line()
        .group(OUTPUT)
        .commands(&["train", "plan", "data", "generate", "eval", "export", "merge", "verify", "pull", "info", "models", "inspect"])
        .doc("Print JSON on standard output and nothing else there; of a training run every event, one a line."),
    option("quiet", Flag, "")
        .command_line()
        .group(OUTPUT)
        .commands(&["train", "plan", "generate", "eval", "export", "merge", "verify", "pull", "inspect"])
        .doc("Show no progress; warnings, errors and the result remain."),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::COMMANDS;
    use crate::node::option::{Surface, camel_case};
    use serde_json::{Map, Value};
    use std::collections::HashSet;

    #[test]
    fn flags_become_camel_case_properties() {
        assert_eq!(camel_case("lr"), "lr");
        assert_eq!(camel_case("max-grad-norm"), "maxGradNorm");
    }

    /// The options of a command; JavaScript has those of [`Surface::Everywhere`].
    fn of(command: &str) -> impl Iterator<Item = &'static OptionSpec> {
        let all = option_table().iter();
        let of_command = all.filter(move |spec| spec.commands.contains(&command));
        of_command.filter(|spec| spec.surface != Surface::CommandLine)
    }

    #[test]
    fn a_command_has_every_name_once() {
        let mut seen = HashSet::new();
        for spec in option_table() {
            for name in spec.aliases.iter().chain([&spec.name]) {
                for command in spec.commands {
                    let first = seen.insert((*command, *name));
                    assert!(first, "--{name} stands twice for {command}");
                }
            }
        }
    }

    /// A value in range for every type, as JSON.
    fn example(kind: &Kind) -> Value {
        match kind {
            Flag => true.into(),
            Path | Text => "path".into(),
            List => serde_json::json!(["q_proj"]),
            Choice { choices, .. } => choices[0].into(),
            Integer { min, .. } => (*min).into(),
            Number { .. } => 0.5.into(),
            Steps => "3%".into(),
            Layers => "last:2".into(),
            Pattern { .. } => serde_json::json!({ "q_proj": 4 }),
            Interval => "10m".into(),
        }
    }

    #[test]
    fn the_engine_takes_every_option_and_has_no_other() {
        for command in COMMANDS {
            let given: Map<_, _> = of(command.name)
                .map(|spec| (spec.property(), example(&spec.kind)))
                .collect();
            let names = |map: &Map<String, _>| -> HashSet<String> { map.keys().cloned().collect() };
            let known = (command.parse)(&Value::from(given.clone()).to_string()).unwrap();
            assert_eq!(
                names(known.as_object().unwrap()),
                names(&given),
                "{}",
                command.name
            );
        }
    }

    #[test]
    fn defaults_are_those_of_the_engine() {
        for command in COMMANDS {
            let defaults = (command.defaults)();
            for spec in of(command.name) {
                let Some(shown) = spec.default else { continue };
                let what = format!("--{} of {}", spec.name, command.name);
                match &defaults[spec.property()] {
                    Value::String(word) => assert_eq!(shown, word, "{what}"),
                    Value::Number(number) if shown.parse::<f64>().is_ok() => {
                        assert_eq!(shown.parse().ok(), number.as_f64(), "{what}")
                    }
                    _ => (), // worked out by the run, from other options and the model
                }
            }
        }
    }

    #[test]
    fn every_option_is_described() {
        for spec in option_table() {
            assert!(spec.doc.ends_with('.'), "--{}: {:?}", spec.name, spec.doc);
            assert!(!spec.group.is_empty(), "--{} has no group", spec.name);
            let takes_any_value = !matches!(spec.kind, Flag | Choice { .. });
            assert_eq!(takes_any_value, !spec.value.is_empty(), "--{}", spec.name);
        }
    }
}
