//! What saves memory changes no result: units of layers and streaming not by a bit, slices of the vocabulary by rounding.

mod desk;

use amv_train::error::Code;
use amv_train::train::Event;
use desk::{Desk, TWENTY_WORDS, steps};
use serde_json::{Map, Value, json};

/// Loss and gradient norm of every step, and the adapter.
fn run(options: Value) -> (Vec<[f64; 2]>, Vec<u8>) {
    let desk = Desk::new(&TWENTY_WORDS.repeat(4));
    let plain =
        json!({ "seqLen": 33, "maxSteps": 3, "lr": 0.01, "loraDropout": 0.1, "precision": "f32" });
    let all: Map<String, Value> = [plain, options]
        .into_iter()
        .flat_map(|options| options.as_object().unwrap().clone())
        .collect();
    let (end, events) = desk.run(all.into());
    end.unwrap();
    let step = |event: &Event| match event {
        Event::Step {
            loss, grad_norm, ..
        } => Some([*loss, *grad_norm]),
        _ => None,
    };
    let adapter = std::fs::read(desk.path("out/adapter_model.safetensors")).unwrap();
    assert_eq!(steps(&events).len(), 3);
    (events.iter().filter_map(step).collect(), adapter)
}

#[test]
fn units_streams_and_threads_give_the_same_bits() {
    let plain = run(json!({ "checkpointing": "off", "threads": 1 }));
    for options in [
        json!({ "checkpointing": "on" }),
        json!({ "chunkLayers": 1 }),
        json!({ "chunkLayers": 2, "layers": "last:1" }),
        json!({ "chunkLayers": 3 }),
        json!({ "chunkLayers": 1000 }),
        json!({ "streamLayers": true }),
        json!({ "streamLayers": true, "chunkLayers": 2, "threads": 3 }),
    ] {
        let expected = match options.get("layers") {
            Some(layers) => &run(json!({ "checkpointing": "off", "layers": layers })),
            None => &plain,
        };
        assert!(run(options.clone()) == *expected, "{options}");
    }
    let dora = |options: Value| {
        let mut all = json!({ "dora": true, "target": "all-linear" });
        let given = options.as_object().unwrap().clone();
        all.as_object_mut().unwrap().extend(given);
        run(all)
    };
    let streamed = dora(json!({ "streamLayers": true, "chunkLayers": 2 }));
    assert!(streamed == dora(json!({ "checkpointing": "off" })));
}

#[test]
fn slices_of_the_vocabulary_change_losses_by_rounding_only() {
    let plain = run(json!({})).0;
    for slice in [1, 7, 100, 1_000_000] {
        let sliced = run(json!({ "vocabSlice": slice })).0;
        for (step, (one, other)) in plain.iter().zip(sliced).enumerate() {
            // AdamW makes an update of full size from the smallest gradient, rounding included.
            let bound = if step == 0 { 1e-5 } else { 1e-4 };
            for (one, other) in one.iter().zip(other) {
                let off = (one - other).abs() / one;
                assert!(off < bound, "{slice} step {step}: {one} {other}");
            }
        }
    }
}

#[test]
fn units_of_kept_activations_are_refused() {
    for name in ["streamLayers", "chunkLayers"] {
        let desk = Desk::new(TWENTY_WORDS);
        let value = if name == "chunkLayers" {
            json!(2)
        } else {
            json!(true)
        };
        let error = desk
            .run(json!({ "checkpointing": "off", name: value }))
            .0
            .unwrap_err();
        assert_eq!(error.code, Code::Usage);
        assert!(error.message.contains("-layers needs"), "{}", error.message);
    }
}
