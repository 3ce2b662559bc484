use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Records, Skipped, read};
use crate::data::{Content, Conversation};
use crate::error::Error;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }
}

fn read_as(name: &str, content: impl AsRef<[u8]>) -> Result<Records, Error> {
    let folder = Folder::new();
    read(&folder.file(name, content))
}

/// The one record of a file of one line.
fn content_of(value: Value) -> Content {
    let mut read = read_as("a.jsonl", value.to_string()).unwrap();
    assert_eq!(read.records.len(), 1);
    read.records.remove(0).content
}

fn chat_of(value: Value) -> Conversation {
    match content_of(value) {
        Content::Chat(conversation) => conversation,
        other => panic!("{other:?}"),
    }
}

fn message_of(value: Value) -> Result<Records, Error> {
    read_as("a.jsonl", json!({ "messages": [value] }).to_string())
}

#[test]
fn one_conversation_in_any_format_is_the_same_conversation() {
    let messages = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "2 + 2?\nIn words."},
        {"role": "assistant", "content": "Four, \"I think\""},
    ]);
    let expected = chat_of(json!({ "messages": messages }));
    let parts =
        json!([{"type": "text", "text": "2 + 2?\n"}, {"type": "text", "text": "In words."}]);
    let alike = [
        json!({"messages": [messages[0], {"role": "user", "content": parts}, messages[2]]}),
        json!({"messages": [{"role": "developer", "content": "Be brief."}, messages[1], messages[2]]}),
        json!({"conversations": [{"from": "system", "value": "Be brief."}, {"from": "human", "value": "2 + 2?\nIn words."},
            {"from": "gpt", "value": "Four, \"I think\""}]}),
        json!({"system": "Be brief.", "conversations": [messages[1], messages[2]]}),
        json!({"system": "Be brief.", "instruction": "2 + 2?", "input": "In words.", "output": "Four, \"I think\""}),
    ];
    for value in alike {
        assert_eq!(chat_of(value.clone()), expected, "{value}");
    }
    let files = [
        ("a.json", json!([{ "messages": messages }]).to_string()),
        ("b.json", serde_json::to_string_pretty(&json!({ "messages": messages })).unwrap()),
        ("c.txt", format!("{}\n", json!({ "messages": messages }))),
        (
            "d.csv",
            "system,instruction,input,output\r\nBe brief.,2 + 2?,In words.,\"Four, \"\"I think\"\"\"\r\n".to_owned(),
        ),
        (
            "e.tsv",
            "system\tinstruction\toutput\nBe brief.\t\"2 + 2?\nIn words.\"\t\"Four, \"\"I think\"\"\"\n".to_owned(),
        ),
        (
            "f.csv",
            format!("\u{feff}messages\n\"{}\"\n", messages.to_string().replace('"', "\"\"")),
        ),
    ];
    for (name, content) in files {
        let read = read_as(name, content).unwrap();
        assert_eq!(
            read.records[0].content,
            Content::Chat(expected.clone()),
            "{name}"
        );
    }
}

#[test]
fn a_prompt_and_a_completion_are_texts_or_lists_of_messages() {
    let content = content_of(json!({"prompt": "a ", "completion": "b"}));
    let (prompt, completion) = ("a ".to_owned(), "b".to_owned());
    assert_eq!(content, Content::Completion { prompt, completion });
    let (user, answer) = (
        json!({"role": "user", "content": "q"}),
        json!({"role": "assistant", "content": "a"}),
    );
    let chat = chat_of(json!({"prompt": [user, answer, user], "completion": [answer]}));
    assert_eq!((chat.messages.len(), chat.first_completion), (4, 3));
}

#[test]
fn tool_calls_are_made_alike_and_what_templates_use_is_kept() {
    let wanted = json!([{"type": "function", "function": {"name": "add", "arguments": {"a": 1}}}]);
    for call in [
        json!({"type": "function", "function": {"name": "add", "arguments": {"a": 1}}}),
        json!({"type": "function", "function": {"name": "add", "arguments": "{\"a\": 1}"}}),
        json!({"name": "add", "arguments": {"a": 1}}),
    ] {
        let chat = chat_of(json!({"messages": [
            {"role": "assistant", "content": null, "tool_calls": [call], "reasoning_content": "hm"},
        ], "tools": "[{\"name\": \"add\"}]", "chat_template_kwargs": {"enable_thinking": false}}));
        assert_eq!(chat.messages[0]["tool_calls"], wanted);
        assert_eq!(chat.messages[0]["content"], Value::Null);
        assert_eq!(chat.messages[0]["reasoning_content"], "hm");
        assert_eq!(chat.tools, Some(json!([{"name": "add"}])));
        assert_eq!(chat.template_kwargs["enable_thinking"], false);
    }
    let chat = chat_of(json!({"conversations": [
        {"from": "human", "value": "1 + 1?"},
        {"from": "function_call", "value": "{\"name\": \"add\", \"arguments\": {\"a\": 1}}"},
        {"from": "observation", "value": "2"},
    ], "tools": ""}));
    assert_eq!(chat.messages[1]["tool_calls"], wanted);
    assert_eq!(chat.messages[2]["role"], "tool");
    assert_eq!(chat.tools, None);
}

#[test]
fn a_text_file_is_one_record_without_its_byte_order_mark() {
    let read = read_as("a.txt", "\u{feff}one\r\n\r\ntwo\n").unwrap();
    assert_eq!(
        read.records[0].content,
        Content::Text("one\r\n\r\ntwo\n".to_owned())
    );
    assert_eq!(read.formats.into_iter().collect::<Vec<_>>(), [("text", 1)]);
    // Prose may begin as a table, a list or an object does.
    for text in ["text, and more of it\nb", "[1] a note", "{a set}", "text"] {
        assert_eq!(
            read_as("a.md", text).unwrap().records[0].content,
            Content::Text(text.to_owned())
        );
    }
}

#[test]
fn lines_are_records_of_any_known_format_and_empty_ones_are_named() {
    let lines = "{\"text\":\"one\"}\n\n{\"text\":\"  \"}\n{\"prompt\":\"a\",\"completion\":\"b\",\"id\":7}\n{\"messages\":[]}\n";
    let read = read_as("a.jsonl", lines).unwrap();
    let places: Vec<&str> = read.records.iter().map(|r| r.place.as_str()).collect();
    assert_eq!(places, ["a.jsonl line 1", "a.jsonl line 4"]);
    let formats: Vec<_> = read.formats.into_iter().collect();
    assert_eq!(formats, [("prompt and completion", 1), ("text", 1)]);
    let skipped = |line: usize, reason: &str| Skipped {
        place: format!("a.jsonl line {line}"),
        reason: reason.to_owned(),
    };
    assert_eq!(
        read.skipped,
        [
            skipped(3, "\"text\" is empty"),
            skipped(5, "\"messages\" is empty")
        ]
    );
}

#[test]
fn the_first_three_bad_lines_are_named_with_reasons() {
    let error = read_as(
        "a.jsonl",
        "{\"title\":1}\n[1]\n{\"text\":3}\n{\n{\"text\":\"good\"}\n",
    )
    .unwrap_err();
    assert_eq!(
        error.message,
        "a.jsonl line 1: only \"title\", without \"text\", \"prompt\" and \"completion\", \"messages\", \"instruction\" and \"output\", or \"conversations\"; \
         a.jsonl line 2: not an object; a.jsonl line 3: \"text\" is not a string (and 1 more)"
    );
}

#[test]
fn where_nothing_is_left_the_first_three_reasons_are_told() {
    let error = read_as("a.jsonl", "{\"conversations\":[]}\n".repeat(5)).unwrap_err();
    assert!(
        error.message.ends_with(
            "a.jsonl can be trained on: a.jsonl line 1: \"conversations\" is empty; a.jsonl line 2: \"conversations\" is empty; \
             a.jsonl line 3: \"conversations\" is empty (and 2 more)"
        ),
        "{}",
        error.message
    );
}

#[test]
fn messages_that_cannot_be_read_say_why() {
    for (message, reason) in [
        (json!("hi"), "message 1: not an object"),
        (json!({"content": "hi"}), "message 1: no \"role\""),
        (json!({"role": "user"}), "message 1: no \"content\""),
        (
            json!({"role": "wizard", "content": "hi"}),
            "message 1: role \"wizard\" is not known",
        ),
        (
            json!({"role": "user", "content": [{"type": "image", "image": "a.png"}]}),
            "part of type \"image\"",
        ),
        (
            json!({"role": "assistant", "tool_calls": [{"arguments": {}}]}),
            "a tool call has no \"name\"",
        ),
    ] {
        let error = message_of(message.clone()).unwrap_err();
        assert!(
            error.message.contains(reason),
            "{message}: {}",
            error.message
        );
    }
    let preference = json!({"prompt": "a", "chosen": "b", "rejected": "c"});
    let error = read_as("a.jsonl", preference.to_string()).unwrap_err();
    assert!(
        error.message.contains("preference training"),
        "{}",
        error.message
    );
}

#[test]
fn a_folder_is_read_in_order_of_paths_and_names_what_it_passes_over() {
    let folder = Folder::new();
    folder.file("b/two.jsonl", "{\"text\":\"two\"}");
    folder.file("a.txt", "one");
    folder.file("c.csv", "text\nthree\n");
    folder.file(".hidden.txt", "no");
    folder.file("picture.png", [0x89, 0x50]);
    let read = read(folder.0.path()).unwrap();
    let places: Vec<&str> = read.records.iter().map(|r| r.place.as_str()).collect();
    assert_eq!(places, ["a.txt", "b/two.jsonl line 1", "c.csv line 2"]);
    assert_eq!(read.passed_over, ["picture.png"]);
}

#[test]
fn files_that_are_no_data_are_refused_by_name() {
    for (name, content) in [
        ("a.pdf", &b"%PDF"[..]),
        ("a.txt", &b"ok\n\xff\xfe"[..]),
        ("a.csv", b"x,y\n1,2\n"),
        ("b.csv", b"text,prompt\na\n"),
        ("a.json", b"[{\"text\": \"a\"}"),
        ("b.json", b"{\"text\": \n"),
    ] {
        let error = read_as(name, content).unwrap_err();
        assert!(error.message.starts_with(name), "{name}: {}", error.message);
    }
    let deep = "[".repeat(100_000);
    for (name, content) in [
        ("a.jsonl", format!("{{\"messages\": {deep}")),
        ("a.json", format!("[{{\"messages\": {deep}")),
    ] {
        assert!(
            read_as(name, content)
                .unwrap_err()
                .message
                .contains("recursion limit")
        );
    }
    assert!(
        read_as("a.txt", " \n")
            .unwrap_err()
            .message
            .contains("a.txt: no text")
    );
    let error = read(Path::new("/dev/zero")).unwrap_err();
    assert_eq!(error.message, "/dev/zero is not a regular file");
    let error = read(Path::new("/nowhere.txt")).unwrap_err();
    assert!(error.message.contains("/nowhere.txt"));
}
