//! What a report shows, gathered from the events of a run in bounded memory.

use serde_json::{Value, json};

use super::curve::Curve;

/// Samples and warnings beyond these are counted only. The first texts show where the model began.
const MOST_SAMPLES: usize = 24;
const MOST_WARNINGS: usize = 100;

const STEP: [&str; 5] = ["loss", "lr", "gradNorm", "tokensPerSecond", "memoryBytes"];
const EVAL: [&str; 2] = ["loss", "perplexity"];

pub struct Facts {
    steps: Curve,
    evals: Curve,
    last_step: Value,
    last_eval: Value,
    best_eval: Value,
    tokens: u64,
    skipped: usize,
    peak_memory: u64,
    data: Value,
    start: Value,
    samples: Vec<Value>,
    warnings: Vec<Value>,
    more_warnings: usize,
    end: Value,
}

impl Facts {
    pub fn new() -> Facts {
        Facts {
            steps: Curve::new(&STEP),
            evals: Curve::new(&EVAL),
            last_step: Value::Null,
            last_eval: Value::Null,
            best_eval: Value::Null,
            tokens: 0,
            skipped: 0,
            peak_memory: 0,
            data: Value::Null,
            start: Value::Null,
            samples: Vec::new(),
            warnings: Vec::new(),
            more_warnings: 0,
            end: Value::Null,
        }
    }

    /// Takes the next event of the run.
    pub fn add(&mut self, event: &Value) {
        match event["type"].as_str().unwrap_or_default() {
            "step" => self.step(event),
            "eval" => self.eval(event),
            "sample" => {
                self.samples.push(event.clone());
                if self.samples.len() > MOST_SAMPLES {
                    self.samples.remove(MOST_SAMPLES / 2);
                }
            }
            "warning" => self.warning(event),
            "data" => self.data = event.clone(),
            "start" => self.start = event.clone(),
            "end" => self.end = event.clone(),
            _ => (),
        }
    }

    fn step(&mut self, event: &Value) {
        self.steps.add(event);
        self.tokens += event["tokens"].as_u64().unwrap_or(0);
        self.skipped += usize::from(event["skipped"] == true);
        let memory = event["memoryBytes"].as_u64().unwrap_or(0);
        self.peak_memory = self.peak_memory.max(memory);
        self.last_step = event.clone();
    }

    fn eval(&mut self, event: &Value) {
        self.evals.add(event);
        self.last_eval = event.clone();
        let best = self.best_eval["loss"].as_f64().unwrap_or(f64::INFINITY);
        if event["loss"].as_f64().is_some_and(|loss| loss < best) {
            self.best_eval = event.clone();
        }
    }

    /// A run that goes on says again what it said when it began.
    fn warning(&mut self, event: &Value) {
        match self.warnings.contains(event) {
            true => (),
            false if self.warnings.len() < MOST_WARNINGS => self.warnings.push(event.clone()),
            false => self.more_warnings += 1,
        }
    }

    pub fn json(&self) -> Value {
        json!({
            "steps": self.steps.json(),
            "evals": self.evals.json(),
            "lastStep": self.last_step,
            "lastEval": self.last_eval,
            "bestEval": self.best_eval,
            "tokens": self.tokens,
            "skipped": self.skipped,
            "peakMemoryBytes": self.peak_memory,
            "data": self.data,
            "start": self.start,
            "samples": self.samples,
            "warnings": self.warnings,
            "moreWarnings": self.more_warnings,
            "end": self.end,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_the_first_and_last_texts_stay() {
        let mut facts = Facts::new();
        for step in 0..1000 {
            facts.add(&json!({ "type": "sample", "step": step, "text": "x" }));
            facts.add(&json!({ "type": "warning", "code": "A", "message": step % 200 }));
        }
        let json = facts.json();
        let samples = json["samples"].as_array().unwrap();
        let steps: Vec<_> = samples
            .iter()
            .map(|s| s["step"].as_u64().unwrap())
            .collect();
        assert_eq!(steps.len(), MOST_SAMPLES);
        assert_eq!(
            (steps[0], steps[11], steps[12], steps[23]),
            (0, 11, 988, 999)
        );
        assert_eq!(json["warnings"].as_array().unwrap().len(), MOST_WARNINGS);
        assert_eq!(json["moreWarnings"], 500);
    }

    #[test]
    fn sums_and_extremes_are_those_of_the_steps() {
        let mut facts = Facts::new();
        for (step, memory) in [(1, 50), (2, 70), (3, 60)] {
            facts.add(&json!({ "type": "step", "step": step, "tokens": 10, "memoryBytes": memory, "skipped": step == 2 }));
            facts.add(&json!({ "type": "eval", "step": step, "loss": (step - 2) * (step - 2) }));
        }
        let json = facts.json();
        assert_eq!((&json["tokens"], &json["skipped"]), (&json!(30), &json!(1)));
        assert_eq!(json["peakMemoryBytes"], 70);
        assert_eq!(
            (&json["bestEval"]["step"], &json["lastEval"]["step"]),
            (&json!(2), &json!(3))
        );
    }
}
