//! Files into batches: records, tokens, samples, steps.

mod batches;
pub mod chat;
pub mod documents;
mod encode;
mod record;
mod report;
mod samples;
mod tokenizer;

pub use batches::{Batch, Plan, split};
pub use documents::{Document, Documents};
pub use encode::{Encoder, Encoding, TrainOn};
pub use record::{Content, Conversation, Encoded, Record};
pub use report::{Bin, Piece, Report, pieces};
pub use samples::{Cut, Eos, Sample, Samples, Truncate};
pub use tokenizer::Tokenizer;
