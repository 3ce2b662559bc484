//! Files into batches: records, tokens, samples, steps.

mod batches;
pub mod chat;
mod encode;
mod packing;
mod plan;
pub mod reading;
mod record;
mod report;
mod samples;
mod tokenizer;

pub use batches::{Batch, split};
pub use encode::{Encoder, Encoding, TrainOn};
pub use plan::{Dealer, Plan};
pub use reading::{Records, Skipped};
pub use record::{Content, Conversation, Encoded, Record};
pub use report::{Bin, Piece, Report, pieces};
pub use samples::{Cut, Eos, Sample, Samples, Truncate};
pub use tokenizer::Tokenizer;
