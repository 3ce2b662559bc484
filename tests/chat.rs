//! Conversations against TRL and transformers: token ids and learned tokens the same, and the losses of ten steps.
//! The fixtures are made by `__test__/reference/chat.py`.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::UNIX_EPOCH;

use amv_train::data::chat::RoleHeader;
use amv_train::data::{
    Content, Conversation, Encoded, Encoder, Encoding, Eos, Plan, Record, Sample, Tokenizer,
};
use amv_train::format::{Checkpoint, adapter};
use amv_train::lora::{Adapter, Optimizer};
use amv_train::models::{Decoder, adapter_base};
use amv_train::nn::Loader;
use amv_train::ops::IGNORED;
use amv_train::tensor::Activations;
use amv_train::train::{Event, Listener, Progress, Schedule, Settings, Shape, Trainer};
use serde_json::{Map, Value};

fn fixtures(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("__test__/fixtures")
        .join(name)
}

fn json(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(fixtures(name)).unwrap()).unwrap()
}

fn tokenizer(family: &str) -> Tokenizer {
    Tokenizer::from_dir(&fixtures("tokenizers").join(family)).unwrap()
}

/// The value of `--chat-template` for a template of the fixtures.
fn template(name: &str) -> String {
    match name.strip_prefix("ours/") {
        Some(ours) => ours.to_owned(),
        None => {
            let path = fixtures("chat/templates").join(format!("{name}.jinja"));
            std::fs::read_to_string(path).unwrap()
        }
    }
}

fn encoding(template: &str) -> Encoding<'_> {
    Encoding {
        chat_template: Some(template),
        train_on: None,
        role_header: RoleHeader::Masked,
        eos: Eos::Append,
        now: UNIX_EPOCH,
    }
}

/// A record in TRL's columns.
fn record(columns: &Value, place: &str) -> Record {
    let text = |key: &str| columns[key].as_str().unwrap().to_owned();
    let list = |key: &str| -> Vec<Map<String, Value>> {
        serde_json::from_value(columns.get(key).cloned().unwrap_or_default()).unwrap()
    };
    let content = if columns["text"].is_string() {
        Content::Text(text("text"))
    } else if columns["prompt"].is_string() {
        Content::Completion {
            prompt: text("prompt"),
            completion: text("completion"),
        }
    } else {
        let (messages, first_completion) = match columns.get("messages") {
            Some(_) => (list("messages"), 0),
            None => (
                [list("prompt"), list("completion")].concat(),
                list("prompt").len(),
            ),
        };
        Content::Chat(Conversation {
            tools: columns.get("tools").cloned(),
            first_completion,
            ..Conversation::new(messages)
        })
    };
    Record {
        content,
        place: place.to_owned(),
    }
}

/// Compares with a row `[ids, "0011…"]`, or with null where the template refuses the conversation.
fn check(encoder: &Encoder, tokenizer: &Tokenizer, columns: &Value, row: &Value, place: &str) {
    let encoded = encoder.encode(&record(columns, place));
    if row.is_null() {
        let error = encoded.expect_err(place);
        assert!(error.message.starts_with(place), "{error}");
        return;
    }
    let Encoded { ids, learned } = encoded.unwrap_or_else(|error| panic!("{place}: {error}"));
    let expected: Vec<u32> = serde_json::from_value(row[0].clone()).unwrap();
    let text = |ids: &[u32]| tokenizer.decode(ids).unwrap();
    assert_eq!(
        ids,
        expected,
        "{place}:\n{}\n{}",
        text(&ids),
        text(&expected)
    );
    let mask: Vec<bool> = row[1]
        .as_str()
        .unwrap()
        .bytes()
        .map(|b| b == b'1')
        .collect();
    // The first token has nothing before it; TRL's shift drops its label.
    for index in 1..ids.len() {
        assert_eq!(
            learned[index],
            mask[index],
            "{place}: token {index} {:?} after {:?}",
            text(&ids[index..=index]),
            text(&ids[..index])
        );
    }
    assert!(!learned[0]);
}

fn rows(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap()
}

#[test]
fn conversations_have_the_tokens_and_masks_of_trl() {
    let golden = json("chat/tokens.json");
    let mut compared = 0;
    for (name, case) in golden["templates"].as_object().unwrap() {
        let tokenizer = tokenizer(case["family"].as_str().unwrap());
        let text = template(name);
        let encoder = Encoder::new(&tokenizer, encoding(&text));
        let conversations = rows(&golden["conversations"])
            .iter()
            .zip(rows(&case["assistant"]));
        for (index, (columns, row)) in conversations.enumerate() {
            let place = format!("{name} conversation {index}");
            check(&encoder, &tokenizer, columns, row, &place);
            compared += usize::from(!row.is_null());
        }
        let pairs = rows(&golden["pairs"])
            .iter()
            .zip(rows(&case["completions"]));
        for (index, (columns, row)) in pairs.enumerate() {
            let place = format!("{name} pair {index}");
            check(&encoder, &tokenizer, columns, row, &place);
            compared += usize::from(!row.is_null());
        }
    }
    assert!(compared > 300, "{compared}");
}

#[test]
fn turns_are_found_where_the_marks_of_a_template_were() {
    let golden = json("chat/tokens.json");
    let case = &golden["templates"]["qwen3_training"];
    let marked = template("qwen3_training");
    let text = marked
        .replace("{%- generation %}", "")
        .replace("{%- endgeneration %}", "");
    let tokenizer = tokenizer("qwen2");
    let encoder = Encoder::new(&tokenizer, encoding(&text));
    let conversations = rows(&golden["conversations"])
        .iter()
        .zip(rows(&case["assistant"]));
    for (index, (columns, row)) in conversations.enumerate() {
        check(
            &encoder,
            &tokenizer,
            columns,
            row,
            &format!("conversation {index}"),
        );
    }
}

/// TRL swaps in a variant of Qwen3's template that thinks in every turn; where both write the same, so are the masks.
#[test]
fn qwen3_as_published_has_the_masks_of_trl_s_variant_where_both_write_the_same() {
    let golden = json("chat/tokens.json");
    let of = |name: &str| rows(&golden["templates"][name]["assistant"]);
    let pairs = of("qwen3").iter().zip(of("qwen3_training"));
    let same: Vec<_> = pairs.filter(|(one, other)| one[0] == other[0]).collect();
    assert!(same.len() >= 3, "{}", same.len());
    for (one, other) in same {
        assert_eq!(one[1], other[1]);
    }
}

#[test]
fn texts_and_completions_have_the_tokens_and_masks_of_trl() {
    let golden = json("chat/tokens.json");
    for (family, case) in golden["plain"].as_object().unwrap() {
        let tokenizer = tokenizer(family);
        let encoder = Encoder::new(&tokenizer, encoding("chatml"));
        let texts = rows(&golden["texts"]).iter().zip(rows(case));
        for (index, (columns, row)) in texts.enumerate() {
            check(
                &encoder,
                &tokenizer,
                columns,
                row,
                &format!("{family} text {index}"),
            );
        }
        assert!(encoder.used_chat().is_none());
    }
}

#[derive(Default)]
struct Losses(Mutex<Vec<f64>>);

impl Listener for Losses {
    fn event(&self, event: &Event) {
        if let Event::Step { loss, .. } = event {
            self.0.lock().unwrap().push(*loss);
        }
    }
}

fn sample(encoded: Encoded) -> Sample {
    let next = encoded.ids.iter().zip(&encoded.learned).skip(1);
    let targets = next.map(|(&id, &learned)| if learned { id } else { IGNORED });
    Sample {
        targets: targets.chain([IGNORED]).collect(),
        ids: encoded.ids,
        place: String::new(),
    }
}

#[test]
fn ten_steps_of_sft_trainer_have_our_losses() {
    let golden = json("chat/steps.json");
    for (name, case) in golden["models"].as_object().unwrap() {
        let tokenizer = tokenizer(case["family"].as_str().unwrap());
        let text = template(case["template"].as_str().unwrap());
        let folder = fixtures("chat/models").join(name);
        for mode in ["assistant", "completions"] {
            let encoder = Encoder::new(&tokenizer, encoding(&text));
            let records = rows(&golden["data"][mode]).iter();
            let samples: Vec<Sample> = records
                .map(|columns| sample(encoder.encode(&record(columns, name)).unwrap()))
                .collect();
            let checkpoint = Checkpoint::open(&folder).unwrap();
            let base = adapter_base(&checkpoint).unwrap();
            let saved = adapter::read(&folder.join("adapter"), &base).unwrap();
            let adapter = Adapter::continuing(saved.config, saved.pairs);
            let loader = Loader::new(checkpoint.source(), Some(adapter.clone()));
            let model = Decoder::load(checkpoint.config(), &loader).unwrap();
            let heard = Losses::default();
            let trainer = Trainer {
                model: &model,
                adapter: &adapter,
                samples: &samples,
                eval: &[],
                settings: Settings {
                    activations: Activations::Replayed,
                    vocab_slice: None,
                    plan: Plan {
                        batch_size: 2,
                        grad_accum: 2,
                        shuffle_seed: None,
                        packing: None,
                    },
                    schedule: Schedule {
                        lr: 2e-2,
                        shape: Shape::Constant,
                        warmup: 0,
                        total: 10,
                    },
                    optimizer: Optimizer::adamw(0.0),
                    max_grad_norm: 1.0,
                    eval_every: 0,
                    sample_every: 0,
                    seed: 0,
                },
                listener: &heard,
                stop: &AtomicBool::new(false),
                sample: &|_| Ok(()),
                save: &|_| (),
            };
            trainer.run(&mut Progress::default()).unwrap();
            let ours = heard.0.into_inner().unwrap();
            let theirs: Vec<f64> = serde_json::from_value(case[mode].clone()).unwrap();
            assert_eq!(ours.len(), theirs.len());
            assert!(theirs[8] < theirs[0] - 0.5, "{name} {mode} learns nothing");
            for (step, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
                assert!(
                    (ours - theirs).abs() < 5e-3,
                    "{name} {mode} step {step}: {ours} not {theirs}"
                );
            }
        }
    }
}
