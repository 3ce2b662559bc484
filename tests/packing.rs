//! Packing in the formats that PyPI `gguf` only reads, against GGML's own quantiser, and merging into bases of these.

#[path = "desk/mod.rs"]
mod desk;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use amv_train::backend::Bytes;
use amv_train::error::{Code, Error};
use amv_train::format::gguf::{self, GgufFile};
use amv_train::quant::{Format, Weight};
use amv_train::run::{Merged, merge, verify};
use desk::{Desk, Heard, TWENTY_WORDS, package};
use safetensors::SafeTensors;
use serde_json::{Value, json};

/// Made by `__test__/reference/quantisers.py` with the quantiser of llama.cpp; its header says what is inside.
const FIXTURE: &[u8] = include_bytes!("../__test__/fixtures/quantisers.safetensors");

const FORMATS: [Format; 7] = [
    Format::Q2K,
    Format::Q3K,
    Format::Q4K,
    Format::Q5K,
    Format::Q6K,
    Format::IQ4NL,
    Format::IQ4XS,
];

fn bytes(name: &str) -> Vec<u8> {
    let file = SafeTensors::deserialize(FIXTURE).unwrap();
    file.tensor(name).unwrap().data().to_vec()
}

fn row(kind: &str) -> Vec<f32> {
    let bytes = bytes(&format!("rows.{kind}"));
    let numbers = bytes.as_chunks().0.iter();
    numbers.map(|x| f32::from_le_bytes(*x)).collect()
}

/// Kinds of rows, with the relative error of GGML's quantiser.
fn kinds(format: Format) -> Vec<(String, f64)> {
    let (_, header) = SafeTensors::read_metadata(FIXTURE).unwrap();
    let kinds = &header.metadata().as_ref().unwrap()["kinds"];
    let kinds: Vec<String> = serde_json::from_str(kinds).unwrap();
    let errors = bytes(&format!("{format}.rmse"));
    let errors = errors.as_chunks().0.iter().map(|x| f64::from_le_bytes(*x));
    kinds.into_iter().zip(errors).collect()
}

fn unpacked(format: Format, packed: &[u8]) -> Vec<f32> {
    let mut values = vec![0.0; packed.len() / format.block_bytes() * format.block_elements()];
    format.unpack(packed, &mut values).unwrap();
    values
}

fn packed(format: Format, values: &[f32]) -> Vec<u8> {
    let mut packed = vec![0; values.len() / format.block_elements() * format.block_bytes()];
    format.pack(values, &mut packed).unwrap();
    packed
}

/// Root mean square of `found` − `values` over that of `values`, or of 1 where all are zero.
fn relative_error(found: &[f32], values: &[f32]) -> f64 {
    let square = |x: f64| x * x;
    let difference = |(a, b): (&f32, &f32)| square(f64::from(*a) - f64::from(*b));
    let error: f64 = found.iter().zip(values).map(difference).sum();
    let whole: f64 = values.iter().map(|x| square((*x).into())).sum();
    (error / if whole > 0.0 { whole } else { 1.0 }).sqrt()
}

/// The error of f16 itself, half of its last digit: no bound is narrower.
const HALF: f64 = 1.0 / 2048.0;

#[test]
fn packed_rows_come_as_near_to_the_numbers_as_with_ggml() {
    for format in FORMATS {
        for (kind, theirs) in kinds(format) {
            let values = row(&kind);
            let ours = relative_error(&unpacked(format, &packed(format, &values)), &values);
            assert!(
                ours <= (1.01 * theirs).max(HALF),
                "{format}, {kind}: {ours}, with ggml {theirs}"
            );
        }
    }
}

#[test]
fn what_ggml_packed_is_packed_to_the_same_values() {
    for format in FORMATS {
        let packed_before = bytes(&format!("{format}.packed"));
        let before = unpacked(format, &packed_before);
        let after = unpacked(format, &packed(format, &before));
        // A run of 16 three-bit numbers may fit two scales alike, of which the block can hold one: an eighth of the
        // error that the numbers have had since they were packed.
        let most = if format == Format::Q3K { 0.02 } else { 0.0 };
        let lost = relative_error(&after, &before);
        assert!(lost <= most, "{format}: {lost}");
    }
}

#[test]
fn what_we_packed_is_packed_to_nearly_the_same_values() {
    for format in FORMATS {
        for (kind, error) in kinds(format) {
            let before = unpacked(format, &packed(format, &row(&kind)));
            let after = unpacked(format, &packed(format, &before));
            let lost = relative_error(&after, &before);
            let most = (error / 8.0).max(HALF);
            assert!(lost <= most, "{format}, {kind}: {lost} of {error}");
        }
    }
}

#[test]
fn the_largest_values_of_either_sign_are_held_and_larger_ones_refused() {
    for format in FORMATS {
        let error = format.pack(
            &[1e30; 256],
            &mut vec![0; 256 / format.block_elements() * format.block_bytes()],
        );
        let error = error.unwrap_err();
        assert_eq!(error.code, Code::NonFinite);
        let most: f32 = error.message.rsplit(' ').next().unwrap().parse().unwrap();
        for signs in [[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]] {
            let values: Vec<f32> = (0..256).map(|i| most * signs[i / 3 % 2]).collect();
            let found = unpacked(format, &packed(format, &values));
            let error = relative_error(&found, &values);
            assert!(error < 0.06, "{format} {signs:?}: {error}");
        }
    }
}

#[test]
fn a_long_row_is_packed_as_its_parts_are() {
    let values: Vec<f32> = (0..40).flat_map(|_| row("heavy_tailed")).collect();
    for format in FORMATS {
        let part = packed(format, &row("heavy_tailed"));
        let whole = packed(format, &values);
        assert!(
            whole.chunks(part.len()).all(|found| found == part),
            "{format}"
        );
    }
}

/// The built-in model, its matrices in the formats that `format` says.
fn write_base(desk: &Desk, name: &str, format: impl Fn(&str) -> Format) -> String {
    let base = GgufFile::open(&package().model_path("tiny-transformer")).unwrap();
    let tensors: Vec<(String, Weight)> = base
        .tensor_names()
        .map(|name| {
            let weight = base.weight(name).unwrap();
            if weight.shape().len() < 2 {
                return (name.to_owned(), weight);
            }
            let format = format(name);
            let bytes = Bytes::copy_of(&packed(format, &weight.to_f32().unwrap()));
            let weight = Weight::new(format, weight.shape().clone(), bytes).unwrap();
            (name.to_owned(), weight)
        })
        .collect();
    gguf::write(&desk.path(name), base.metadata(), &tensors).unwrap();
    desk.text(name)
}

/// The mixture that llama.cpp calls Q4_K_M.
fn medium(name: &str) -> Format {
    let finer = ["token_embd", "ffn_down", "attn_v"];
    match finer.iter().any(|part| name.contains(part)) {
        true => Format::Q6K,
        false => Format::Q4K,
    }
}

fn merge_into(desk: &Desk, base: &str, output: &str) -> Result<Merged, Error> {
    let options =
        json!({ "model": base, "adapter": desk.text("out"), "output": desk.text(output) });
    let options = serde_json::from_value(options).unwrap();
    merge(
        &options,
        &package(),
        &Heard::default(),
        &AtomicBool::new(false),
    )
}

#[test]
fn a_base_of_these_types_is_merged_in_its_own_types_and_computes_what_the_adapter_did() {
    let desk = Desk::new(TWENTY_WORDS);
    let base = write_base(&desk, "q4_k_m.gguf", medium);
    let run =
        json!({ "model": base, "maxSteps": 6, "epochs": 6, "lr": 0.02, "target": "all-linear" });
    desk.run(run).0.unwrap();
    let mut bases = vec![(base, Format::Q4K, 0.1)];
    for (format, most) in FORMATS
        .into_iter()
        .zip([2.0, 0.5, 0.1, 0.05, 0.01, 0.1, 0.1])
    {
        let name = format!("{format}.gguf");
        bases.push((write_base(&desk, &name, |_| format), format, most));
    }
    for (base, format, most) in bases {
        let merged = merge_into(&desk, &base, "merged.gguf").unwrap();
        assert_eq!(merged.layers, 56);
        let types = |path: &str| -> Vec<Format> {
            let file = GgufFile::open(Path::new(path)).unwrap();
            let names: Vec<String> = file.tensor_names().map(str::to_owned).collect();
            names
                .iter()
                .map(|name| file.weight(name).unwrap().format())
                .collect()
        };
        assert_eq!(types(&desk.text("merged.gguf")), types(&base), "{format}");
        let options = json!({ "model": base, "adapter": desk.text("out"), "exported": desk.text("merged.gguf") });
        let options = serde_json::from_value(options).unwrap();
        let verdict = verify(
            &options,
            &package(),
            &Heard::default(),
            &AtomicBool::new(false),
        )
        .unwrap();
        let kl = verdict
            .prompts
            .iter()
            .map(|prompt| prompt.kl)
            .fold(0.0, f64::max);
        assert!(verdict.passed && kl < most, "{format}: {verdict:?}");
        assert_eq!(verdict.format, format.name());
        std::fs::remove_file(desk.path("merged.gguf")).unwrap();
    }
}

#[test]
fn a_merged_value_that_the_type_cannot_hold_is_an_error_that_names_the_tensor() {
    let desk = Desk::new(TWENTY_WORDS);
    let base = write_base(&desk, "base.gguf", |_| Format::Q4K);
    desk.run(json!({ "model": base, "maxSteps": 2, "lr": 0.02, "target": ["q_proj"] }))
        .0
        .unwrap();
    let config = desk.path("out/adapter_config.json");
    let text = std::fs::read_to_string(&config).unwrap();
    let mut settings: Value = serde_json::from_str(&text).unwrap();
    settings["lora_alpha"] = 1e30.into();
    std::fs::write(&config, settings.to_string()).unwrap();
    let error = merge_into(&desk, &base, "merged.gguf").unwrap_err();
    assert_eq!(error.code, Code::NonFinite, "{error}");
    assert!(
        error
            .message
            .starts_with("tensor blk.0.attn_q.weight, from row 0 on"),
        "{error}"
    );
    assert!(error.message.contains("Q4_K holds at most"), "{error}");
    assert!(!desk.path("merged.gguf").exists());
}
