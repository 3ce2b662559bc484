//! The tokenizer of a Hugging Face directory: tokenizer.json as it is, and the settings in the files beside it.
//!
//! Truncation and padding that a tokenizer.json may carry are switched off, as transformers does.

use std::path::Path;

use super::cuts::Cuts;
use super::settings::Settings;
use super::{Tokenizer, guarded, words};
use crate::error::{Code, Error, Result};
use crate::format::digest;

impl Tokenizer {
    /// Reads tokenizer.json and, where they exist, tokenizer_config.json, special_tokens_map.json,
    /// generation_config.json, config.json and chat_template.jinja.
    ///
    /// BOS starts a document when `add_bos_token` says so; without that key when the post-processor puts it there,
    /// and without a post-processor when the class is Llama's or Gemma's, whose default it is.
    pub fn from_dir(directory: &Path) -> Result<Self> {
        let path = directory.join("tokenizer.json");
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
                return Err(missing(directory));
            }
            Err(cause) => return Err(Error::file("read", &path, &cause)),
        };
        let mut inner = guarded(|| tokenizers::Tokenizer::from_bytes(&bytes))
            .map_err(|cause| Error::new(Code::BadModel, format!("{}: {cause}", path.display())))?;
        let broken = |cause| Error::new(Code::BadModel, format!("{}: {cause}", path.display()));

        let settings = Settings::read(directory)?;
        guarded(|| {
            inner.with_truncation(None)?.with_padding(None);
            for token in settings.added(&inner) {
                inner.add_tokens([token])?;
            }
            Ok(())
        })
        .map_err(broken)?;

        let bos = settings.special("bos", &inner);
        let prefix = match settings.adds_bos(&inner) {
            Some(true) => bos.into_iter().collect(),
            Some(false) => Vec::new(),
            None => guarded(|| prefix(&inner)).map_err(broken)?,
        };
        let cuts = Cuts::of(&inner);
        words::split(&mut inner)?;
        let vocab_size = inner
            .get_vocab(true)
            .into_values()
            .max()
            .map_or(0, |id| id as usize + 1);
        Ok(Tokenizer {
            cuts,
            vocab_size,
            bos,
            eos: settings.special("eos", &inner),
            padding: settings.special("pad", &inner),
            prefix,
            inner,
            named: settings.named(),
            templates: settings.templates,
            sha256: digest::bytes(&bytes),
        })
    }
}

/// The ids that the post-processor puts before a text.
fn prefix(inner: &tokenizers::Tokenizer) -> tokenizers::Result<Vec<u32>> {
    let encoding = inner.encode_fast("a", true)?;
    let special = encoding.get_special_tokens_mask().iter();
    let count = special.take_while(|&&mask| mask == 1).count();
    Ok(encoding.get_ids()[..count].to_vec())
}

/// What to say about a directory without tokenizer.json.
fn missing(directory: &Path) -> Error {
    let others = ["tokenizer.model", "vocab.json", "tekken.json", "vocab.txt"];
    let found = others
        .into_iter()
        .find(|name| directory.join(name).exists());
    match found {
        Some(name) => crate::error!(
            NotFound,
            "{} has {name} but no tokenizer.json, the only form that is read",
            directory.display()
        )
        .hint(
            "make one with Python: AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR); or use a GGUF file of the model",
        ),
        None => crate::error!(NotFound, "no tokenizer.json in {}", directory.display())
            .hint("copy tokenizer.json and tokenizer_config.json of the model there; they belong to every download"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::Value;
    use tempfile::TempDir;

    use super::*;

    /// A copy of a fixture whose two files went through `edit`.
    fn edited(name: &str, edit: impl FnOnce(&mut Value, &mut Value)) -> TempDir {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let source = root.join("__test__/fixtures/tokenizers").join(name);
        let read = |file: &str| -> Value {
            serde_json::from_slice(&fs::read(source.join(file)).unwrap()).unwrap()
        };
        let mut tokenizer = read("tokenizer.json");
        let mut settings = read("tokenizer_config.json");
        edit(&mut tokenizer, &mut settings);
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("tokenizer.json"), tokenizer.to_string()).unwrap();
        let path = folder.path().join("tokenizer_config.json");
        fs::write(path, settings.to_string()).unwrap();
        folder
    }

    fn load(folder: &TempDir) -> Tokenizer {
        Tokenizer::from_dir(folder.path()).unwrap()
    }

    fn document(folder: &TempDir) -> Vec<u32> {
        load(folder).encode_document("").unwrap()
    }

    #[test]
    fn bos_is_where_the_settings_put_it() {
        let said = |flag: Value| edited("llama2", |_, settings| settings["add_bos_token"] = flag);
        assert_eq!(document(&said(true.into())), [1]);
        assert!(document(&said(false.into())).is_empty());
        // Older files do not have the key; the post-processor then knows, and the class without one.
        assert_eq!(document(&said(Value::Null)), [1]);
        let class = |class: &str| {
            edited("llama2", |tokenizer, settings| {
                settings["add_bos_token"] = Value::Null;
                settings["tokenizer_class"] = class.into();
                tokenizer["post_processor"] = Value::Null;
            })
        };
        assert_eq!(document(&class("LlamaTokenizerFast")), [1]);
        assert!(document(&class("PreTrainedTokenizerFast")).is_empty());
    }

    #[test]
    fn eos_of_the_post_processor_is_left_to_the_caller() {
        let folder = edited("llama2", |tokenizer, settings| {
            settings["add_bos_token"] = Value::Null;
            let eos = serde_json::json!({"SpecialToken": {"id": "</s>", "type_id": 0}});
            let post = &mut tokenizer["post_processor"];
            post["single"].as_array_mut().unwrap().push(eos);
            post["special_tokens"]["</s>"] =
                serde_json::json!({"id": "</s>", "ids": [2], "tokens": ["</s>"]});
        });
        let tokenizer = load(&folder);
        let mut expected = vec![1];
        expected.extend(tokenizer.encode("the end").unwrap());
        assert_eq!(tokenizer.encode_document("the end").unwrap(), expected);
    }

    #[test]
    fn names_of_specials_go_before_ids_of_the_model() {
        let folder = edited("qwen2", |_, settings| {
            settings.as_object_mut().unwrap().remove("eos_token");
        });
        let ids = r#"{"bos_token_id": 3, "eos_token_id": [7, 9]}"#;
        fs::write(folder.path().join("config.json"), ids).unwrap();
        let tokenizer = load(&folder);
        assert_eq!(tokenizer.bos(), None, "null in tokenizer_config.json");
        assert_eq!(tokenizer.eos(), Some(7), "absent there");
    }

    #[test]
    fn added_tokens_of_the_settings_replace_those_of_tokenizer_json() {
        let mark = |strip: bool| {
            serde_json::json!({"900": {"content": "<mark>", "lstrip": false, "rstrip": strip,
                "single_word": false, "normalized": false, "special": true}})
        };
        let with = |strip| {
            load(&edited("llama2", |_, settings| {
                settings["added_tokens_decoder"] = mark(strip);
            }))
        };
        assert_eq!(with(false).id("<mark>"), Some(900));
        let space = with(false).encode("<mark> ").unwrap();
        assert_eq!(with(true).encode("<mark> ").unwrap(), [900]);
        assert!(space.len() > 1);
    }

    #[test]
    fn truncation_of_tokenizer_json_is_off() {
        let folder = edited("gpt2", |tokenizer, _| {
            tokenizer["truncation"] = serde_json::json!({"direction": "Right", "max_length": 4,
                "strategy": "LongestFirst", "stride": 0});
        });
        assert!(load(&folder).encode(&"x ".repeat(100)).unwrap().len() > 4);
    }

    #[test]
    fn named_templates_and_template_files_are_found() {
        let folder = edited("gpt2", |_, settings| {
            settings["chat_template"] = serde_json::json!([
                {"name": "tool_use", "template": "a"}, {"name": "default", "template": "b"}]);
        });
        assert_eq!(load(&folder).chat_template(), Some("b"));
        fs::write(folder.path().join("chat_template.jinja"), "c").unwrap();
        assert_eq!(load(&folder).chat_template(), Some("c"));
    }

    #[test]
    fn a_directory_without_tokenizer_json_says_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let error = Tokenizer::from_dir(folder.path()).err().unwrap();
        assert_eq!(error.code, Code::NotFound);
        fs::write(folder.path().join("tokenizer.model"), "").unwrap();
        let error = Tokenizer::from_dir(folder.path()).err().unwrap();
        assert!(error.message.contains("tokenizer.model"), "{error}");
        assert!(error.hint.unwrap().contains("save_pretrained"));
    }

    #[test]
    fn broken_files_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer.json");
        let longer = r#"{"version": "1.0", "model": {"type": "BPE", "vocab": {"a": 0, "b": 1},
            "merges": [["a", "b"]]}}"#;
        for content in ["", "{}", "[1, 2]", r#"{"model": {"type": "BPE"}}"#, longer] {
            fs::write(&path, content).unwrap();
            let error = Tokenizer::from_dir(folder.path()).err().unwrap();
            assert_eq!(error.code, Code::BadModel, "{content}");
            assert!(error.message.contains("tokenizer.json"), "{error}");
        }
        let folder = edited("gpt2", |_, _| ());
        fs::write(folder.path().join("tokenizer_config.json"), "[]").unwrap();
        let error = Tokenizer::from_dir(folder.path()).err().unwrap();
        assert_eq!(error.code, Code::BadModel);
    }
}
