//! The options of a training run as JavaScript hands them over: the camelCase names of the option table.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::bail;
use crate::data::chat::RoleHeader;
use crate::data::{TrainOn, Truncate};
use crate::error;
use crate::error::Result;
use crate::exec::{Placement, Residence};
use crate::train::{
    CheckpointingOption, EosOption, Interval, LayerList, OnOff, OptimizerName, PrecisionOption,
    Shape, TargetList, Warmup,
};

/// One run. Absent fields have the defaults of the option table.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TrainOptions {
    pub model: String,
    pub data: Option<String>,
    pub output: String,
    pub seq_len: Option<usize>,
    pub truncate: Option<Truncate>,
    pub strict: bool,
    pub chat_template: Option<String>,
    pub train_on: Option<TrainOn>,
    pub mask_role_header: OnOff,
    pub eos: EosOption,
    pub no_shuffle: bool,
    pub packing: bool,
    pub seed: u64,
    pub epochs: usize,
    pub max_steps: usize,
    pub batch_size: usize,
    pub grad_accum: usize,
    pub lr: f64,
    pub lr_scheduler: Shape,
    pub warmup: Option<Warmup>,
    pub optimizer: OptimizerName,
    pub weight_decay: f64,
    pub max_grad_norm: f64,
    #[serde(alias = "loraRank")]
    pub rank: Option<usize>,
    #[serde(alias = "loraAlpha")]
    pub alpha: Option<f32>,
    pub lora_dropout: f32,
    pub target: Option<TargetList>,
    pub layers: Option<LayerList>,
    pub dora: Option<bool>,
    pub rslora: Option<bool>,
    /// Values by pattern; the order counts.
    pub rank_pattern: Option<Map<String, Value>>,
    pub alpha_pattern: Option<Map<String, Value>>,
    pub init_adapter: Option<String>,
    pub eval_split: f64,
    pub eval_data: Option<String>,
    pub eval_every: usize,
    pub sample_every: usize,
    pub backend: String,
    pub precision: PrecisionOption,
    pub checkpointing: CheckpointingOption,
    /// Rows of the vocabulary; 0 for as many as fit a few megabytes of logits.
    pub vocab_slice: usize,
    /// Layers in a unit; 0 for one.
    pub chunk_layers: usize,
    pub stream_layers: bool,
    pub threads: usize,
    /// MiB that must stay free.
    pub guard_band: u64,
    pub fit: bool,
    pub overwrite: bool,
    pub log: Option<String>,
    /// Folder for TensorBoard's event files.
    pub tensorboard: Option<String>,
    pub save_every: Interval,
    pub keep: usize,
    pub save_best: bool,
    /// `auto` or a path.
    pub resume: Option<String>,
}

/// The model trained when none is named; it ships with the package.
pub const BUILT_IN: &str = "tiny-transformer";

impl Default for TrainOptions {
    fn default() -> Self {
        TrainOptions {
            model: BUILT_IN.to_owned(),
            data: None,
            output: String::new(),
            seq_len: None,
            truncate: None,
            strict: false,
            chat_template: None,
            train_on: None,
            mask_role_header: OnOff::On,
            eos: EosOption::Auto,
            no_shuffle: false,
            packing: false,
            seed: 0,
            epochs: 3,
            max_steps: 0,
            batch_size: 1,
            grad_accum: 1,
            lr: 1e-4,
            lr_scheduler: Shape::Cosine,
            warmup: None,
            optimizer: OptimizerName::Adamw,
            weight_decay: 0.0,
            max_grad_norm: 1.0,
            rank: None,
            alpha: None,
            lora_dropout: 0.0,
            target: None,
            layers: None,
            dora: None,
            rslora: None,
            rank_pattern: None,
            alpha_pattern: None,
            init_adapter: None,
            eval_split: 0.0,
            eval_data: None,
            eval_every: 0,
            sample_every: 0,
            backend: "auto".to_owned(),
            precision: PrecisionOption::Auto,
            checkpointing: CheckpointingOption::Auto,
            vocab_slice: 0,
            chunk_layers: 0,
            stream_layers: false,
            threads: 0,
            guard_band: 300,
            fit: false,
            overwrite: false,
            log: None,
            tensorboard: None,
            save_every: Interval::Text("10m".to_owned()),
            keep: 2,
            save_best: false,
            resume: None,
        }
    }
}

impl TrainOptions {
    pub fn role_header(&self) -> RoleHeader {
        match self.mask_role_header {
            OnOff::On => RoleHeader::Masked,
            OnOff::Off => RoleHeader::Learned,
        }
    }

    pub fn vocab_slice(&self) -> Option<usize> {
        (self.vocab_slice > 0).then_some(self.vocab_slice)
    }

    pub fn placement(&self) -> Placement {
        Placement {
            together: self.chunk_layers.max(1),
            residence: match self.stream_layers {
                true => Residence::Streamed,
                false => Residence::Mapped,
            },
        }
    }

    /// The options as JSON, by way of text: an f32 of 0.1 has one digit there, and 17 as the nearest f64.
    pub fn json(&self) -> Result<Value> {
        let text = serde_json::to_string(self);
        let value = text.and_then(|text| serde_json::from_str(&text));
        value.map_err(|cause| error!(Internal, "the options cannot be written as JSON: {cause}"))
    }

    /// Refuses values no run can have.
    pub fn check(&self) -> Result<()> {
        let positive = [
            ("epochs", self.epochs),
            ("batch-size", self.batch_size),
            ("grad-accum", self.grad_accum),
            ("rank", self.rank.unwrap_or(1)),
            ("keep", self.keep),
        ];
        if let Some((name, _)) = positive.iter().find(|(_, value)| *value == 0) {
            bail!(Usage, "{name} is 0; it must be at least 1");
        }
        if let Some(seq_len) = self.seq_len
            && seq_len < 2
        {
            bail!(
                Usage,
                "seq-len is {seq_len}; a sample needs at least 2 tokens to predict one"
            );
        }
        if !(self.lr.is_finite() && self.lr > 0.0) {
            bail!(Usage, "lr is {}; it must be greater than 0", self.lr);
        }
        if let Some(alpha) = self.alpha
            && !(alpha.is_finite() && alpha > 0.0)
        {
            bail!(Usage, "alpha is {alpha}; it must be greater than 0");
        }
        for (name, value) in [
            ("weight-decay", self.weight_decay),
            ("max-grad-norm", self.max_grad_norm),
        ] {
            if !(value.is_finite() && value >= 0.0) {
                bail!(Usage, "{name} is {value}; it must be 0 or more");
            }
        }
        for (name, value) in [
            ("lora-dropout", f64::from(self.lora_dropout)),
            ("eval-split", self.eval_split),
        ] {
            if !(0.0..1.0).contains(&value) {
                bail!(
                    Usage,
                    "{name} is {value}; it must be at least 0 and less than 1"
                );
            }
        }
        if self.output.is_empty() {
            bail!(
                Usage,
                "output is missing; name a file such as adapter.safetensors or a directory such as adapter/"
            );
        }
        if self.checkpointing == CheckpointingOption::Off {
            let units = [
                ("stream-layers", self.stream_layers),
                ("chunk-layers", self.chunk_layers > 0),
            ];
            if let Some((name, _)) = units.iter().find(|(_, given)| *given) {
                return Err(error!(
                    Usage,
                    "{name} needs activations that are computed again, and checkpointing is off"
                )
                .hint("leave --checkpointing off away"));
            }
        }
        self.save_every.every()?;
        if self.save_best && self.eval_data.is_none() && self.eval_split == 0.0 {
            return Err(error!(Usage, "save-best needs an evaluation")
                .hint("add --eval-split 0.1 or --eval-data FILE"));
        }
        if self.eval_data.is_some() && self.eval_split > 0.0 {
            bail!(Usage, "eval-data and eval-split exclude each other");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_options_and_values_out_of_range_are_refused_by_name() {
        let parse = |json: &str| serde_json::from_str::<TrainOptions>(json);
        assert!(
            parse(r#"{"learnRate":1}"#)
                .unwrap_err()
                .to_string()
                .contains("learnRate")
        );
        let options =
            parse(r#"{"output":"a/","loraRank":4,"warmup":"5%","target":["q_proj","v_proj"]}"#)
                .unwrap();
        assert_eq!(options.rank, Some(4));
        assert_eq!(options.target.as_ref().unwrap().text(), "q_proj,v_proj");
        assert!(options.check().is_ok());
        for (json, name) in [
            (r#"{"output":"a/","lr":0}"#, "lr"),
            (r#"{"output":"a/","batchSize":0}"#, "batch-size"),
            (r#"{"output":"a/","loraDropout":1}"#, "lora-dropout"),
            ("{}", "output"),
        ] {
            assert!(
                parse(json)
                    .unwrap()
                    .check()
                    .unwrap_err()
                    .message
                    .starts_with(name),
                "{json}"
            );
        }
    }
}
