//! What of a conversation is learned, by hand: templates that write turns otherwise once more follow, ends, BOS, options.

use std::path::Path;
use std::time::UNIX_EPOCH;

use amv_train::data::chat::RoleHeader;
use amv_train::data::{
    Content, Conversation, Encoded, Encoder, Encoding, Eos, Record, Tokenizer, TrainOn,
};
use amv_train::error::Result;
use amv_train::format::gguf::GgufFile;
use serde_json::{Map, Value, json};

fn tokenizer(family: &str) -> Tokenizer {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    Tokenizer::from_dir(&root.join("__test__/fixtures/tokenizers").join(family)).unwrap()
}

fn encoding(template: &str) -> Encoding<'_> {
    Encoding {
        chat_template: Some(template),
        train_on: None,
        role_header: RoleHeader::Masked,
        eos: Eos::Append,
        now: UNIX_EPOCH,
    }
}

fn chat(messages: Value) -> Conversation {
    let messages: Vec<Map<String, Value>> = serde_json::from_value(messages).unwrap();
    Conversation::new(messages)
}

fn encode(tokenizer: &Tokenizer, encoding: Encoding, chat: Conversation) -> Result<Encoded> {
    let record = Record {
        content: Content::Chat(chat),
        place: "a.jsonl line 7".to_owned(),
    };
    Encoder::new(tokenizer, encoding).encode(&record)
}

/// The text with what is learned in ⟦ ⟧.
fn shown(tokenizer: &Tokenizer, encoded: &Encoded) -> String {
    let tokens: Vec<_> = encoded.ids.iter().zip(&encoded.learned).collect();
    let runs = tokens.chunk_by(|(_, one), (_, other)| one == other);
    let parts = runs.map(|run| {
        let ids: Vec<u32> = run.iter().map(|(id, _)| **id).collect();
        let text = tokenizer.decode(&ids).unwrap();
        match run[0].1 {
            true => format!("⟦{text}⟧"),
            false => text,
        }
    });
    parts.collect()
}

fn check(family: &str, encoding: Encoding, chat: Conversation, expected: &str) {
    let tokenizer = tokenizer(family);
    let encoded = encode(&tokenizer, encoding, chat).unwrap();
    assert_eq!(shown(&tokenizer, &encoded), expected);
}

fn two_turns() -> Conversation {
    chat(json!([
        {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
        {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]))
}

/// As Mistral's templates do: the system's words stand in the last turn of the user, wherever that is.
const SYSTEM_LAST: &str = "{{ bos_token }}{% for m in messages if m.role != 'system' %}{% if m.role == 'user' %}{{ '[INST] ' + (messages[0].content + ': ' if messages[0].role == 'system' and m == (messages | selectattr('role', 'equalto', 'user') | list)[-1] else '') + m.content + ' [/INST]' }}{% else %}{{ ' ' + m.content + eos_token }}{% endif %}{% endfor %}";

#[test]
fn turns_are_found_where_the_system_moves_to_the_last_question() {
    let mut conversation = two_turns();
    conversation.messages[2]["content"] = "c".into();
    let system = chat(json!([{"role": "system", "content": "s"}]));
    conversation.messages.splice(0..0, system.messages);
    check(
        "tekken",
        encoding(SYSTEM_LAST),
        conversation,
        "<s>[INST] a [/INST]⟦ b</s>⟧[INST] s: c [/INST]⟦ b</s>⟧",
    );
}

#[test]
fn a_prompt_that_opens_a_thought_the_conversation_lacks_begins_the_turn_before_it() {
    let template = "{% for m in messages %}<|im_start|>{{ m.role + '\\n' + m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}";
    check(
        "qwen2",
        encoding(template),
        two_turns(),
        "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n⟦b<|im_end|>\n⟧<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n⟦b<|im_end|>\n⟧",
    );
}

#[test]
fn a_turn_that_the_template_does_not_end_gets_the_end_token_once() {
    let bare = "{% for m in messages %}{{ m.role + ':' + m.content + '\\n' }}{% endfor %}{{ 'assistant:' if add_generation_prompt }}";
    let one =
        || chat(json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]));
    check(
        "gpt2",
        encoding(bare),
        one(),
        "user:a\nassistant:⟦b\n<|endoftext|>⟧",
    );
    let never = Encoding {
        eos: Eos::Never,
        ..encoding(bare)
    };
    check("gpt2", never, one(), "user:a\nassistant:⟦b\n⟧");
    check(
        "gpt2",
        encoding("plain"),
        one(),
        "### User:\na\n\n### Assistant:\n⟦b<|endoftext|>⟧",
    );
    // Gemma's end token is <eos>, but its turns end otherwise.
    let question = chat(json!([{"role": "user", "content": "a"}]));
    check("gpt2", encoding(bare), question, "user:a\n");
}

#[test]
fn there_is_one_bos_whether_or_not_the_template_writes_it() {
    for (template, expected) in [
        (
            "plain",
            "<|begin_of_text|>### User:\na\n\n### Assistant:\n⟦b<|eot_id|>⟧",
        ),
        (
            "llama3",
            "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\na<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n⟦b<|eot_id|>⟧",
        ),
    ] {
        let one =
            chat(json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]));
        check("llama3", encoding(template), one, expected);
    }
}

#[test]
fn what_is_learned_can_be_chosen() {
    let header = "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n";
    let with = |train_on| Encoding {
        train_on: Some(train_on),
        ..encoding("chatml")
    };
    let last = format!("{header}b<|im_end|>\n{header}⟦b<|im_end|>\n⟧");
    check("qwen2", with(TrainOn::Completions), two_turns(), &last);
    let all = format!("{header}b<|im_end|>\n{header}b<|im_end|>\n");
    let all = all.replacen("user", "⟦user", 1) + "⟧";
    check("qwen2", with(TrainOn::All), two_turns(), &all);
    let learned = Encoding {
        role_header: RoleHeader::Learned,
        ..encoding("chatml")
    };
    let turn = "<|im_start|>user\na<|im_end|>\n⟦<|im_start|>assistant\nb<|im_end|>\n⟧";
    check("qwen2", learned, two_turns(), &turn.repeat(2));
    let mut weighted = two_turns();
    weighted.messages[1].insert("weight".into(), 0.into());
    check("qwen2", encoding("chatml"), weighted, &last);
    let mut pair = two_turns();
    pair.first_completion = 2;
    let rest = format!("{header}b<|im_end|>\n⟦{header}b<|im_end|>\n⟧");
    let rest = rest.replace("⟦<|im_start|>user", "<|im_start|>⟦user");
    check("qwen2", encoding("chatml"), pair, &rest);
}

#[test]
fn a_turn_that_is_not_certain_is_an_error_that_names_the_record() {
    let refused = |template: &str, chat: Conversation| {
        let error = encode(&tokenizer("qwen2"), encoding(template), chat).unwrap_err();
        assert!(error.message.starts_with("a.jsonl line 7: "), "{error}");
        assert!(error.hint.is_some());
        error.message
    };
    let backwards = "{% for m in messages | reverse %}{{ m.role + m.content + '\\n' }}{% endfor %}";
    assert!(refused(backwards, two_turns()).contains("message 2"));
    let silent = "{% for m in messages %}{{ m.role + '\\n' }}{% endfor %}";
    assert!(refused(silent, two_turns()).contains("leaves its words out"));
    let first = chat(json!([{"role": "assistant", "content": "b"}]));
    let begins =
        "x{% for m in messages %}{{ m.content }}{% endfor %}{{ 'y' if add_generation_prompt }}";
    assert!(refused(begins, first).contains("nothing stands before it"));
    assert!(refused("chatml", chat(json!([]))).contains("without messages"));
}

#[test]
fn an_option_that_does_not_fit_a_record_is_refused() {
    let tokenizer = tokenizer("gpt2");
    for (train_on, content) in [
        (TrainOn::Assistant, Content::Text("a".into())),
        (TrainOn::Completions, Content::Text("a".into())),
        (
            TrainOn::Assistant,
            Content::Completion {
                prompt: "a".into(),
                completion: "b".into(),
            },
        ),
    ] {
        let encoding = Encoding {
            train_on: Some(train_on),
            ..encoding("plain")
        };
        let place = "a.txt".to_owned();
        let error = Encoder::new(&tokenizer, encoding)
            .encode(&Record { content, place })
            .unwrap_err();
        assert!(error.message.contains("--train-on"), "{error}");
    }
}

/// The GGUF comes from `__test__/reference/fetch-smollm2.sh`; its template writes a system message of its own.
#[test]
fn smollm2_instruct_learns_its_answers() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("target/parity/SmolLM2-135M-Instruct.Q4_1.gguf");
    if !path.exists() {
        let strict = std::env::var("AMV_TEST_STRICT").is_ok_and(|value| value == "1");
        assert!(!strict, "{} is missing", path.display());
        eprintln!("skipped: run __test__/reference/fetch-smollm2.sh");
        return;
    }
    let tokenizer = Tokenizer::from_gguf(GgufFile::open(&path).unwrap().metadata()).unwrap();
    let own = Encoding {
        chat_template: None,
        ..encoding("")
    };
    let encoded = encode(&tokenizer, own, two_turns()).unwrap();
    let turn = "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n⟦b<|im_end|>\n⟧";
    let system = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n";
    assert_eq!(shown(&tokenizer, &encoded), [system, turn, turn].concat());
}
