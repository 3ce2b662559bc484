//! The tokenizer of a model: text to ids and back, exactly as Hugging Face `tokenizers` does it.

mod cuts;
mod directory;
mod gguf;
mod settings;
mod templates;
mod words;

pub use templates::Templates;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cuts::Cuts;
use rayon::prelude::*;

use crate::error::{Code, Error, Result};

/// A tokenizer with what training needs around it. Special tokens that occur literally in a text become their ids,
/// as in Hugging Face.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    cuts: Cuts,
    vocab_size: usize,
    bos: Option<u32>,
    eos: Option<u32>,
    padding: Option<u32>,
    /// Ids that every document starts with: BOS or nothing, for nearly all models.
    prefix: Vec<u32>,
    /// Texts of the special tokens by their names in templates: `bos_token`, `eos_token`, …
    named: Vec<(String, String)>,
    templates: Templates,
    sha256: String,
}

impl Tokenizer {
    /// Ids of `text` without added BOS or EOS.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let parts = self.cuts.parts(text);
        let ids: Vec<Vec<u32>> = parts
            .into_par_iter()
            .map(|part| self.encode_part(part))
            .collect::<Result<_>>()?;
        Ok(ids.concat())
    }

    fn encode_part(&self, text: &str) -> Result<Vec<u32>> {
        let encoding = guarded(|| self.inner.encode_fast(text, false))
            .map_err(|cause| Error::new(Code::BadData, format!("cannot tokenize: {cause}")))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Ids of `text` as [`Tokenizer::encode`] gives them, and for each the bytes of the text it stands for. White space
    /// that a token takes with it is in its range.
    pub fn encode_with_places(&self, text: &str) -> Result<(Vec<u32>, Vec<Range<usize>>)> {
        let encoding = guarded(|| self.inner.encode(text, false))
            .map_err(|cause| Error::new(Code::BadData, format!("cannot tokenize: {cause}")))?;
        let places = encoding.get_offsets().iter();
        let places = places.map(|&(start, end)| start..end).collect();
        Ok((encoding.get_ids().to_vec(), places))
    }

    /// Ids of one document: BOS where the tokenizer's own settings put it, then the text. EOS is left to the caller.
    pub fn encode_document(&self, text: &str) -> Result<Vec<u32>> {
        Ok(self.with_prefix(self.encode(text)?))
    }

    /// `ids` with BOS before them where the tokenizer's own settings put it; one that a text or template wrote is enough.
    pub fn with_prefix(&self, ids: Vec<u32>) -> Vec<u32> {
        match ids.starts_with(&self.prefix) {
            true => ids,
            false => [self.prefix.as_slice(), &ids].concat(),
        }
    }

    /// The text of `ids`, special tokens included; ids that the vocabulary does not have become nothing.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        guarded(|| self.inner.decode(ids, false))
            .map_err(|cause| Error::new(Code::BadData, format!("cannot decode ids: {cause}")))
    }

    /// The id of one token of the vocabulary, e.g. `<|im_end|>`.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// Whether `id` is a special token: cut out of texts before anything merges, and no text of its own.
    pub fn is_special(&self, id: u32) -> bool {
        let added = self.inner.get_added_vocabulary().get_added_tokens_decoder();
        added.get(&id).is_some_and(|token| token.special)
    }

    /// What templates call the special tokens, with their texts: `bos_token`, `eos_token` and so on.
    pub fn named_tokens(&self) -> &[(String, String)] {
        &self.named
    }

    /// What documents start with, where the model has such a token. See [`Tokenizer::encode_document`] for whether it is used.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The token that ends a document.
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    pub fn padding(&self) -> Option<u32> {
        self.padding
    }

    /// One more than the largest id: an embedding matrix needs at least so many rows.
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// The Jinja template that turns messages into text, where the model has one.
    pub fn chat_template(&self) -> Option<&str> {
        self.templates.get("default")
    }

    /// All templates of the model, by name.
    pub fn templates(&self) -> &Templates {
        &self.templates
    }

    /// SHA-256 in hexadecimal of tokenizer.json, or of the `tokenizer.*` keys of a GGUF file without its chat templates.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }
}

/// Runs code of the tokenizers crate, which indexes and unwraps on what a file says: a panic there is the file's fault.
fn guarded<T>(work: impl FnOnce() -> tokenizers::Result<T>) -> std::result::Result<T, String> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(|cause| cause.to_string()),
        Err(_) => Err("the tokenizer's own tables contradict each other".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::format::digest;
    use crate::format::gguf::GgufFile;

    /// Made by `__test__/reference/tokenizer_families.py` with Python `tokenizers`.
    const FAMILIES: [&str; 10] = [
        "gpt2", "smollm", "llama3", "qwen2", "tekken", "phi4mini", "llama2", "phi3", "gemma2",
        "gemma3",
    ];

    #[derive(serde::Deserialize)]
    struct Expected {
        vocab_size: usize,
        /// Ids of the first line with what the post-processor adds.
        document: Vec<u32>,
        /// Lines that do not come back as they went in.
        decoded: std::collections::HashMap<usize, String>,
        ids: Vec<Vec<u32>>,
    }

    fn folder(name: &str) -> PathBuf {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        root.join("__test__/fixtures/tokenizers").join(name)
    }

    fn json<T: serde::de::DeserializeOwned>(path: &Path) -> T {
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }

    pub(super) fn torture() -> Vec<String> {
        json(&folder("torture.json"))
    }

    fn from_gguf(path: &Path) -> Tokenizer {
        Tokenizer::from_gguf(GgufFile::open(path).unwrap().metadata()).unwrap()
    }

    fn check(tokenizer: &Tokenizer, expected: &Expected, name: &str) {
        for (i, line) in torture().iter().enumerate() {
            let ids = tokenizer.encode(line).unwrap();
            assert_eq!(ids, expected.ids[i], "{name} line {i}: {line:?}");
            let text = tokenizer.decode(&ids).unwrap();
            let wanted = expected.decoded.get(&i).unwrap_or(line);
            assert_eq!(&text, wanted, "{name} line {i} decoded");
        }
        let document = tokenizer.encode_document(&torture()[0]).unwrap();
        assert_eq!(document, expected.document, "{name} document");
    }

    #[test]
    fn tokenizer_json_gives_the_ids_of_hugging_face() {
        for name in FAMILIES {
            let tokenizer = Tokenizer::from_dir(&folder(name)).unwrap();
            let expected: Expected = json(&folder(name).join("expected.json"));
            check(&tokenizer, &expected, name);
            assert_eq!(tokenizer.vocab_size(), expected.vocab_size, "{name}");
        }
    }

    #[test]
    fn gguf_metadata_gives_the_ids_of_hugging_face() {
        for name in FAMILIES {
            let tokenizer = from_gguf(&folder(name).join("model.gguf"));
            let expected: Expected = json(&folder(name).join("expected.json"));
            check(&tokenizer, &expected, name);
            assert!(tokenizer.vocab_size() >= expected.vocab_size, "{name}");
            let directory = Tokenizer::from_dir(&folder(name)).unwrap();
            assert_eq!(tokenizer.eos(), directory.eos(), "{name}");
            // llama.cpp's default for byte-level files that name none is 11.
            assert_eq!(tokenizer.bos(), directory.bos().or(Some(11)), "{name}");
            assert_eq!(tokenizer.chat_template(), directory.chat_template());
        }
    }

    #[test]
    fn the_content_has_one_hash_and_the_template_another() {
        let path = folder("llama3").join("model.gguf");
        let file = GgufFile::open(&path).unwrap();
        let hash = |metadata: &crate::format::gguf::Metadata| -> String {
            Tokenizer::from_gguf(metadata).unwrap().sha256().to_string()
        };
        let original = hash(file.metadata());
        let mut changed = file.metadata().clone();
        let text = crate::format::gguf::Value::String("{{ messages }}".into());
        changed.set("tokenizer.chat_template", text);
        assert_eq!(hash(&changed), original);
        let no = crate::format::gguf::Value::Bool(false);
        changed.set("tokenizer.ggml.add_bos_token", no);
        assert_ne!(hash(&changed), original);
        let template = Tokenizer::from_gguf(&changed).unwrap();
        assert_eq!(template.chat_template(), Some("{{ messages }}"));
        let directory = Tokenizer::from_dir(&folder("llama3")).unwrap();
        let file = folder("llama3").join("tokenizer.json");
        assert_eq!(directory.sha256(), digest::file(&file).unwrap());
    }

    #[test]
    fn ids_outside_the_vocabulary_decode_to_nothing() {
        let tokenizer = Tokenizer::from_dir(&folder("smollm")).unwrap();
        assert_eq!(tokenizer.decode(&[u32::MAX, 1_000_000]).unwrap(), "");
        assert_eq!(tokenizer.id("<|im_end|>"), tokenizer.eos());
        assert_eq!(tokenizer.id("<|no_such_token|>"), None);
    }

    /// The GGUF comes from `__test__/reference/fetch-smollm2.sh`, the ids from ../shared/parity/smollm2.
    #[test]
    fn smollm2_tokenizes_the_gpl_like_peft_saw_it() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let model = root.join("target/parity/SmolLM2-135M-Instruct.Q4_1.gguf");
        let golden = root.join("../shared/parity/smollm2/expected.json");
        let text = Path::new("/usr/share/common-licenses/GPL-3");
        for (path, remedy) in [
            (model.as_path(), "run __test__/reference/fetch-smollm2.sh"),
            (&golden, "the shared folder is not beside the repository"),
            (text, "install Debian's base-files"),
        ] {
            if !path.exists() {
                let strict = std::env::var("AMV_TEST_STRICT").is_ok_and(|value| value == "1");
                assert!(!strict, "{} is missing: {remedy}", path.display());
                eprintln!("skipped: {} is missing: {remedy}", path.display());
                return;
            }
        }
        let text = std::fs::read_to_string(text).unwrap();
        let golden: serde_json::Value = json(&golden);
        let ids: Vec<u32> = serde_json::from_value(golden["ids"].clone()).unwrap();
        let tokenizer = from_gguf(&model);
        assert_eq!(tokenizer.encode(&text).unwrap(), ids);
        assert_eq!(tokenizer.encode_document(&text).unwrap(), ids);
        assert_eq!(tokenizer.decode(&ids).unwrap(), text);
        assert_eq!((tokenizer.bos(), tokenizer.eos()), (Some(1), Some(2)));
        assert_eq!(tokenizer.vocab_size(), 49152);
    }
}
