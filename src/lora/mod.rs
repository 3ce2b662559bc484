//! Low-rank adapters: W + scale·B·A. Hu et al. 2021, arXiv:2106.09685. The adapter owns everything trainable.

mod adapter;
mod check;
mod config;
mod initial;
mod layers;
mod merge;
mod nearest;
mod optimizer;
mod pair;
mod part;
mod patterns;
mod state;
mod targets;

pub use adapter::{Adapter, DoraLengths, Factors};
pub use check::Site;
pub use config::LoraConfig;
pub use layers::{Layers, layer_of, ranges};
pub use merge::Merge;
pub(crate) use merge::PANEL_BYTES;
pub use nearest::nearest;
pub use optimizer::{GradStats, Optimizer};
pub use pair::{Matrix, Pair};
pub use part::{LayerKind, PEFT_PREFIX, Part};
pub use patterns::{Patterns, most_common};
pub use state::{ParameterState, ParameterView};
pub use targets::Targets;
