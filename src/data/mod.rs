//! Files become batches: tokenizers, readers of each dataset format, and what pads and packs them.

pub mod tokenizer;

pub use tokenizer::Tokenizer;
