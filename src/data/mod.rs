//! Files into batches: documents, tokens, samples, steps.

mod batches;
pub mod documents;
mod samples;
mod tokenizer;

pub use batches::{Batch, Plan, split};
pub use documents::{Document, Documents};
pub use samples::{Eos, Sample, samples};
pub use tokenizer::Tokenizer;
