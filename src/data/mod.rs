//! Files into batches: documents, tokens, samples, steps.

mod batches;
pub mod chat;
pub mod documents;
mod encode;
mod record;
mod samples;
mod tokenizer;

pub use batches::{Batch, Plan, split};
pub use documents::{Document, Documents};
pub use encode::{Encoder, Encoding, TrainOn};
pub use record::{Content, Conversation, Encoded, Record};
pub use samples::{Eos, Sample, samples};
pub use tokenizer::Tokenizer;
