//! A plain text as the samples of a run.

use std::time::UNIX_EPOCH;

use amv_train::data::chat::RoleHeader;
use amv_train::data::{Content, Cut, Encoder, Encoding, Eos, Record, Sample, Samples, Tokenizer};

pub fn text_samples(text: &str, tokenizer: &Tokenizer, length: usize, eos: Eos) -> Vec<Sample> {
    let encoding = Encoding {
        chat_template: None,
        train_on: None,
        role_header: RoleHeader::Masked,
        eos,
        now: UNIX_EPOCH,
    };
    let record = Record {
        content: Content::Text(text.to_owned()),
        place: "text".to_owned(),
    };
    let encoded = Encoder::new(tokenizer, encoding).encode(&record).unwrap();
    let cut = Cut {
        length,
        truncate: None,
        bos: tokenizer.bos(),
    };
    let mut made = Samples::default();
    cut.add(&record, &encoded, &mut made);
    made.samples
}
