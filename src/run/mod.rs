//! What the SDK and the command line call: options in, work done, results out.

mod adapted;
mod base;
mod data;
mod describe;
mod evaluate;
mod export;
mod generate;
mod identity;
mod log;
mod merge;
mod places;
mod report;
mod resume;
mod room;
mod samples;
mod sampling;
mod saver;
mod session;
mod settings;
mod start;
mod stream;
mod tensorboard;
mod train;
mod verify;
mod workspace;

pub use base::Package;
pub use data::{DataOptions, DataReport, data};
pub use describe::{devices, info, inspect, models};
pub use evaluate::{EvaluateOptions, Evaluated, Score, evaluate};
pub use export::{ExportOptions, Exported, export};
pub use generate::{GenerateOptions, Generated, Reason, generate};
pub use merge::{MergeOptions, MergeType, Merged, merge};
pub use train::train;
pub use verify::{Comparison, Verified, VerifyOptions, verify};
