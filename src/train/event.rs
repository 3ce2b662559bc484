//! What a run tells while it goes: the same objects for `--json`, `--log` and the SDK's iterator. Names are in INTERFACE order.

use serde::{Serialize, Serializer};

use crate::data::{Piece, Report};

/// Gets every event, in order, from the thread that trains.
pub trait Listener: Send + Sync {
    fn event(&self, event: &Event);
}

/// A JSON object with a `type`; numbers are numbers, non-finite ones null.
#[derive(Debug, Clone, Serialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum Event {
    /// What the training data came to, and how its first sample is trained.
    Data {
        #[serde(flatten)]
        report: Report,
        sample: Vec<Piece>,
    },
    Start {
        task: &'static str,
        model: String,
        backend: &'static str,
        device: String,
        trainable_parameters: usize,
        total_steps: usize,
        /// The step whose checkpoint the run goes on from.
        #[serde(skip_serializing_if = "Option::is_none")]
        resumed_step: Option<usize>,
        /// Bytes by part.
        plan: serde_json::Value,
    },
    Step {
        step: usize,
        total_steps: usize,
        epoch: f64,
        /// Mean over the step's target tokens, in nats, before the update.
        #[serde(serialize_with = "finite")]
        loss: f64,
        lr: f64,
        /// Global, before clipping.
        #[serde(serialize_with = "finite")]
        grad_norm: f64,
        tokens: usize,
        tokens_per_second: f64,
        eta_ms: u64,
        /// Resident memory of the process.
        memory_bytes: u64,
        skipped: bool,
    },
    Eval {
        step: usize,
        #[serde(serialize_with = "finite")]
        loss: f64,
        #[serde(serialize_with = "finite")]
        perplexity: f64,
    },
    Save {
        step: usize,
        path: String,
    },
    Warning {
        code: &'static str,
        message: String,
    },
    Sample {
        step: usize,
        /// `before`, `during` or `after` training.
        moment: SampleMoment,
        prompt: String,
        text: String,
    },
    /// A piece of text that a model has written.
    Token {
        text: String,
    },
    /// How far work other than training has come.
    Progress {
        what: String,
        done: usize,
        total: usize,
    },
    End {
        status: Status,
        steps: usize,
        epochs: f64,
        /// Mean of the last tenth of the steps, at least one.
        #[serde(serialize_with = "finite")]
        final_loss: f64,
        adapter: String,
        files: Vec<String>,
        duration_ms: u64,
        /// The highest resident memory of the run, the rest of the process included.
        peak_bytes: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SampleMoment {
    Before,
    During,
    After,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Status {
    Completed,
    Stopped,
}

fn finite<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    match number.is_finite() {
        true => serializer.serialize_some(number),
        false => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_camel_case_and_a_loss_that_is_no_number_is_null() {
        let event = Event::Eval {
            step: 3,
            loss: f64::NAN,
            perplexity: 2.0,
        };
        let json = serde_json::to_string(&event).unwrap();
        assert_eq!(
            json,
            r#"{"type":"eval","step":3,"loss":null,"perplexity":2.0}"#
        );
        let event = Event::Warning {
            code: "EMPTY_TEXT",
            message: "x".to_owned(),
        };
        assert_eq!(serde_json::to_value(&event).unwrap()["type"], "warning");
    }
}
