//! Runs that are killed, or that cannot write: always resumable, and in the end bit for bit what an unbroken run makes.

mod desk;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use amv_train::run::train;
use amv_train::tensor::Random;
use amv_train::train::{Event, Listener, TrainOptions};
use desk::{Desk, Heard, TWENTY_WORDS, package, steps};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What a child process does; this test binary is started again with it in `CHILD`.
#[derive(Default, Serialize, Deserialize)]
struct Child {
    options: Value,
    /// End at this point of a save, at this time.
    kill_at: Option<(String, usize)>,
    /// End so many microseconds after this event.
    kill_after: Option<(usize, u64)>,
    /// From the first save on, no file may grow beyond so many bytes.
    limit: Option<u64>,
}

const CHILD: &str = "AMV_TRAIN_TEST_CHILD";

struct Events {
    child: Child,
    count: AtomicUsize,
    heard: Heard,
}

impl Listener for Events {
    fn event(&self, event: &Event) {
        self.heard.event(event);
        let count = 1 + self.count.fetch_add(1, Ordering::Relaxed);
        if let Some((_, wait)) = self.child.kill_after.filter(|(at, _)| *at == count) {
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_micros(wait));
                unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
            });
        }
        if let (Event::Save { .. }, Some(bytes)) = (event, self.child.limit) {
            let limit = libc::rlimit {
                rlim_cur: bytes,
                rlim_max: bytes,
            };
            unsafe {
                // A write beyond the limit is then an error, as on a full disk, instead of a signal.
                libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
                libc::setrlimit(libc::RLIMIT_FSIZE, &limit);
            }
        }
    }
}

/// Not a test of its own: what a child process runs.
#[test]
fn child() {
    let Ok(text) = std::env::var(CHILD) else {
        return;
    };
    let child: Child = serde_json::from_str(&text).unwrap();
    let options: TrainOptions = serde_json::from_value(child.options.clone()).unwrap();
    if let Some((point, time)) = &child.kill_at {
        #[cfg(debug_assertions)]
        amv_train::format::fault::kill_at(point, *time);
        let _ = (point, time);
    }
    let events = Events {
        child,
        count: AtomicUsize::new(0),
        heard: Heard::default(),
    };
    let end = train(&options, &package(), &events, &AtomicBool::new(false));
    for event in events.heard.0.lock().unwrap().iter() {
        println!("\n{}", serde_json::to_string(event).unwrap());
    }
    if let Err(error) = end {
        println!(
            "\nerror: {error} hint: {}",
            error.hint.clone().unwrap_or_default()
        );
    }
}

/// Whether the child came to its end, and what it printed.
fn run(child: &Child) -> (bool, String) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(CHILD, serde_json::to_string(child).unwrap())
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    (output.status.success(), text)
}

fn options(desk: &Desk, output: &str, save_every: usize) -> Value {
    json!({
        "model": package().model_path("tiny-transformer"), "data": desk.text("data.txt"), "output": desk.text(output),
        "seqLen": 16, "maxSteps": 12, "epochs": 9, "lr": 0.01, "rank": 4, "loraDropout": 0.1, "gradAccum": 2,
        "saveEvery": save_every, "threads": 1, "evalSplit": 0.1, "evalEvery": 3, "resume": "auto"
    })
}

fn desk() -> Desk {
    Desk::new(&TWENTY_WORDS.repeat(6))
}

fn files(output: &Path) -> Vec<Vec<u8>> {
    let names = [
        "adapter_model.safetensors",
        "adapter_config.json",
        "adapter.gguf",
    ];
    let read = |name: &str| std::fs::read(output.join(name)).unwrap();
    names.map(read).into()
}

/// An adapter of an unbroken run of `options`.
fn unbroken(desk: &Desk, options: &Value) -> Vec<Vec<u8>> {
    let mut options = options.clone();
    options["output"] = desk.text("unbroken/").into();
    let (end, _) = desk.run(options);
    end.unwrap();
    files(&desk.path("unbroken"))
}

/// Every step is told once and in order, and nothing but the checkpoints and the files of the run is there.
fn check_order(desk: &Desk, output: &str, steps: usize) {
    let work = desk.path(&format!("{output}.amv"));
    let metrics = std::fs::read_to_string(work.join("metrics.jsonl")).unwrap();
    let told: Vec<u64> = metrics
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|event| event["type"] == "step")
        .map(|event| event["step"].as_u64().unwrap())
        .collect();
    assert_eq!(told, (1..=steps as u64).collect::<Vec<_>>());
}

#[test]
fn a_run_killed_at_twenty_random_moments_ends_as_an_unbroken_one() {
    let desk = desk();
    let options = options(&desk, "out/", 1);
    let expected = unbroken(&desk, &options);
    let random = Random::new(60);
    let mut kills = 0;
    while kills < 20 {
        // One to six events after the start, and up to 60 ms later: in a step, an evaluation, a save or the export.
        let draw = |index: u64, limit: usize| random.below(2 * kills + index, limit);
        let kill_after = Some((1 + draw(0, 6), draw(1, 60_000) as u64));
        let child = Child {
            options: options.clone(),
            kill_after,
            ..Child::default()
        };
        let (ended, _) = run(&child);
        kills += 1;
        if ended {
            // It was faster: the next kills begin from the start again.
            assert!(files(&desk.path("out")) == expected, "after {kills} kills");
            check_order(&desk, "out", 12);
            std::fs::remove_dir_all(desk.path("out")).unwrap();
            std::fs::remove_dir_all(desk.path("out.amv")).unwrap();
        }
    }
    let last = Child {
        options,
        ..Child::default()
    };
    let (ended, text) = run(&last);
    assert!(ended, "{text}");
    assert!(files(&desk.path("out")) == expected);
    check_order(&desk, "out", 12);
}

/// Every point of a save, and the time at which the process ends there.
const POINTS: [(&str, usize); 12] = [
    ("before a checkpoint", 2),
    ("between the tensors of a file", 1),
    ("between the tensors of a file", 100),
    ("after the tensors of a checkpoint", 2),
    ("after the manifest of a checkpoint", 1),
    ("before a checkpoint takes its place", 2),
    ("after a checkpoint took its place", 1),
    ("while an old checkpoint is removed", 1),
    ("after an old checkpoint was removed", 1),
    ("before the files of a set take their places", 1),
    ("between two files of a set", 1),
    ("between two files of a set", 3),
];

#[test]
#[cfg_attr(not(debug_assertions), ignore = "the points are only in debug builds")]
fn a_run_killed_inside_a_save_ends_as_an_unbroken_one() {
    let desk = desk();
    let options = |output: &str| {
        let mut options = options(&desk, output, 3);
        options["evalSplit"] = 0.into();
        options
    };
    let expected = unbroken(&desk, &options("out/"));
    for (index, (point, time)) in POINTS.into_iter().enumerate() {
        let output = format!("out{index}");
        let mut child = Child {
            options: options(&format!("{output}/")),
            kill_at: Some((point.to_owned(), time)),
            ..Child::default()
        };
        assert!(!run(&child).0, "{point} was not reached");
        child.kill_at = None;
        let (ended, text) = run(&child);
        assert!(
            ended && text.contains("\"type\":\"end\""),
            "{point}: {text}"
        );
        assert!(!text.contains("BAD_CHECKPOINT"), "{point}: {text}");
        assert!(files(&desk.path(&output)) == expected, "{point}");
        check_order(&desk, &output, 12);
        // What the killed process left is gone.
        for place in [
            ".".to_owned(),
            output.clone(),
            format!("{output}.amv/checkpoints"),
        ] {
            let mut left = std::fs::read_dir(desk.path(&place)).unwrap();
            let left = left.find(|entry| {
                let name = entry.as_ref().unwrap().file_name();
                name.to_string_lossy().starts_with(".amv-")
            });
            assert!(left.is_none(), "{point}: {left:?}");
        }
    }
}

#[test]
fn a_full_disk_costs_warnings_and_no_training() {
    let desk = desk();
    let plain = options(&desk, "out/", 3);
    let expected = unbroken(&desk, &plain);
    let child = Child {
        options: plain.clone(),
        limit: Some(20_000),
        ..Child::default()
    };
    let (_, text) = run(&child);
    let count = |what: &str| text.matches(what).count();
    assert_eq!(count("\"type\":\"step\""), 12, "{text}");
    assert_eq!(count("\"type\":\"save\""), 1, "{text}");
    // At steps 6, 9 and 12.
    assert_eq!(count("SAVE_FAILED"), 3, "{text}");
    assert!(
        text.contains("the last checkpoint is that of step 3"),
        "{text}"
    );
    assert!(
        text.contains("error: ") && text.contains("--resume auto"),
        "{text}"
    );
    assert!(!desk.path("out/adapter_model.safetensors").exists());
    let names = std::fs::read_dir(desk.path("out.amv/checkpoints")).unwrap();
    assert_eq!(names.count(), 1, "nothing unfinished is left");
    // With room again the rest is trained, not all of it.
    let (end, events) = desk.run(plain);
    end.unwrap();
    let first = events.iter().find_map(|event| match event {
        Event::Step { step, .. } => Some(*step),
        _ => None,
    });
    assert_eq!(first, Some(4));
    assert!(files(&desk.path("out")) == expected);
    check_order(&desk, "out", 12);
}

#[test]
fn a_place_for_checkpoints_that_cannot_be_written_costs_warnings_only() {
    let desk = desk();
    let plain = options(&desk, "out/", 3);
    let expected = unbroken(&desk, &plain);
    std::fs::create_dir(desk.path("out.amv")).unwrap();
    std::fs::write(desk.path("out.amv/checkpoints"), "a file").unwrap();
    let (end, events) = desk.run(plain);
    end.unwrap();
    let failed = |event: &&Event| {
        matches!(
            event,
            Event::Warning {
                code: "SAVE_FAILED",
                ..
            }
        )
    };
    assert_eq!(events.iter().filter(failed).count(), 4);
    assert_eq!(steps(&events).len(), 12);
    assert!(files(&desk.path("out")) == expected);
}

#[test]
fn a_second_run_on_the_same_files_is_refused_while_the_first_lives() {
    let desk = desk();
    let at = |output: &str| {
        let mut options = options(&desk, output, 3);
        options["overwrite"] = true.into();
        options
    };
    std::fs::create_dir(desk.path("d")).unwrap();
    std::os::unix::fs::symlink(desk.path("d"), desk.path("link")).unwrap();
    struct Second<'a>(&'a Desk, Vec<Value>, std::sync::Mutex<Vec<String>>);
    impl Listener for Second<'_> {
        fn event(&self, event: &Event) {
            if matches!(event, Event::Step { step: 1, .. }) {
                for options in &self.1 {
                    let error = self.0.run(options.clone()).0.unwrap_err();
                    self.2.lock().unwrap().push(error.message);
                }
            }
        }
    }
    let others = [
        "d/",
        "d/adapter_model.safetensors",
        "d/adapter.safetensors",
        "link/",
    ];
    let second = Second(&desk, others.map(at).into(), Default::default());
    let first: TrainOptions = serde_json::from_value(at("d/")).unwrap();
    train(&first, &package(), &second, &AtomicBool::new(false)).unwrap();
    let refused = second.2.into_inner().unwrap();
    assert_eq!(refused.len(), others.len());
    for message in refused {
        assert!(
            message.starts_with("another run is writing to "),
            "{message}"
        );
    }
    // Afterwards the output is free again.
    desk.run(at("d/adapter_model.safetensors")).0.unwrap();
}
