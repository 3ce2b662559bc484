//! Whole runs on conversations: what is warned of, what is left out, and the time that templates write into the data.

mod desk;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use amv_train::error::Code;
use amv_train::run::{DataOptions, data};
use amv_train::train::Event;
use desk::{Desk, Heard, package, steps};
use serde_json::{Value, json};

/// Every message by its role; what an answer ends with is to be put in.
const TURNS: &str = "{% for m in messages %}{{ m.role }}: {{ m.content }}END\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}";

fn chat(answer: &str) -> String {
    let messages = json!([
        { "role": "user", "content": "what does the fox do?" },
        { "role": "assistant", "content": answer }
    ]);
    format!("{}\n", json!({ "messages": messages }))
}

fn codes(events: &[Event]) -> Vec<&'static str> {
    let code = |event: &Event| match event {
        Event::Warning { code, .. } => Some(*code),
        _ => None,
    };
    events.iter().filter_map(code).collect()
}

#[test]
fn a_turn_end_that_nothing_learns_is_warned_of() {
    let desk = Desk::new(&chat("it jumps"));
    let marked = |inside: &str, behind: &str| {
        format!(
            "{{% for m in messages %}}{{{{ m.role }}}}: {{% if m.role == 'assistant' %}}{{% generation %}}{{{{ m.content }}}}{inside}{{% endgeneration %}}{behind}{{% else %}}{{{{ m.content }}}}{{% endif %}}\n{{% endfor %}}"
        )
    };
    let end = "{{ eos_token }}";
    for (template, eos, warned) in [
        (marked("", end), "auto", true),
        (marked(end, ""), "auto", false),
        (TURNS.replace("END", end), "auto", false),
        (TURNS.replace("END", ""), "auto", false),
        (TURNS.replace("END", ""), "never", true),
    ] {
        let options: DataOptions = serde_json::from_value(json!({
            "data": desk.text("data.jsonl"), "model": "tiny-transformer", "chatTemplate": template, "eos": eos
        }))
        .unwrap();
        let heard = Heard::default();
        data(&options, &package(), &heard, &AtomicBool::new(false)).unwrap();
        let events = heard.0.into_inner().unwrap();
        let found = codes(&events).contains(&"NO_TURN_END");
        assert_eq!(found, warned, "{template} {eos}");
    }
}

/// NVIDIA-NeMo/Speech#8025, meta-llama/llama-cookbook#133: a sample of which nothing is learned made the loss NaN.
#[test]
fn a_conversation_without_an_answer_is_left_out_of_training_and_evaluation() {
    let question = json!({ "messages": [{ "role": "user", "content": "what does the fox do?" }] });
    let desk = Desk::new(&format!(
        "{}{question}\n{}",
        chat("it jumps"),
        chat("it sleeps")
    ));
    let (end, events) = desk.run(json!({
        "data": desk.text("data.jsonl"), "evalData": desk.text("data.jsonl"), "maxSteps": 2, "evalEvery": 1
    }));
    end.unwrap();
    let left_out = codes(&events).into_iter().filter(|code| *code == "SKIPPED");
    assert_eq!(left_out.count(), 2);
    assert!(steps(&events).iter().all(|(loss, _)| loss.is_finite()));
    let evals: Vec<Value> = events
        .iter()
        .map(|event| json!(event))
        .filter(|event| event["type"] == "eval")
        .collect();
    assert!(!evals.is_empty() && evals.iter().all(|eval| eval["loss"].is_f64()));
}

#[test]
fn a_run_goes_on_with_the_time_that_its_template_wrote_at_first() {
    let desk = Desk::new(&chat("it jumps").repeat(4));
    let template = format!("{{{{ strftime_now('%H:%M:%S') }}}} {TURNS}");
    let run = |steps: usize| {
        let resume = if steps > 2 {
            json!("auto")
        } else {
            Value::Null
        };
        let (end, events) = desk.run(json!({
            "data": desk.text("data.jsonl"), "chatTemplate": template, "maxSteps": steps, "epochs": 9, "lrScheduler": "constant",
            "saveEvery": 2, "resume": resume
        }));
        (end, events)
    };
    run(2).0.unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    let (end, events) = run(4);
    end.unwrap();
    assert_eq!(steps(&events).len(), 2, "it went on");
    // Without that time the data is rendered with today's, and is other data.
    for entry in std::fs::read_dir(desk.path("out.amv/checkpoints")).unwrap() {
        let path = entry.unwrap().path().join("manifest.json");
        let mut manifest: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let identity = manifest["run"].as_object_mut().unwrap();
        let count = identity.len();
        identity.retain(|name, _| !name.starts_with("seconds from 1970"));
        assert_eq!(identity.len() + 1, count);
        std::fs::write(&path, manifest.to_string()).unwrap();
    }
    let error = run(6).0.unwrap_err();
    assert_eq!(error.code, Code::Usage);
    assert!(error.message.contains("data: "), "{error}");
}

#[test]
fn numbers_are_written_with_the_digits_they_were_given() {
    let desk = Desk::new(&chat("it jumps"));
    let (end, _) = desk.run(json!({
        "data": desk.text("data.jsonl"), "maxSteps": 1, "loraDropout": 0.1, "alpha": 3.3, "alphaPattern": { "q_proj": 0.7 },
        "tensorboard": desk.text("board"), "log": desk.text("log.jsonl")
    }));
    end.unwrap();
    let mut seen = 0;
    for folder in [
        "out",
        "out.amv",
        "out.amv/checkpoints/step-000001",
        "board",
        ".",
    ] {
        for entry in std::fs::read_dir(desk.path(folder)).unwrap() {
            let path = entry.unwrap().path();
            if !path.is_file() {
                continue;
            }
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
            for (number, widened) in [(0.1_f32, 0.1), (3.3, 3.3), (0.7, 0.7)] {
                let wide = f64::from(number).to_string();
                assert_ne!(wide, widened.to_string());
                assert!(!text.contains(&wide), "{} has {wide}", path.display());
            }
            seen += usize::from(text.contains("0.7"));
        }
    }
    assert!(
        seen >= 4,
        "configuration, sidecar, report and checkpoint: {seen}"
    );
}
