use std::path::Path;
use std::time::UNIX_EPOCH;

use serde_json::{Map, Value, json};

use super::*;

fn tokenizer(family: &str) -> Tokenizer {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    Tokenizer::from_dir(&root.join("__test__/fixtures/tokenizers").join(family)).unwrap()
}

fn conversation(messages: Value) -> Conversation {
    let messages: Vec<Map<String, Value>> = serde_json::from_value(messages).unwrap();
    Conversation::new(messages)
}

fn render(template: &str, conversation: &Conversation) -> Result<String> {
    let tokens = [("bos_token".to_owned(), "<s>".to_owned())];
    let template = Template::new(template, &tokens, "the template", UNIX_EPOCH)?;
    let rendered = template.render(&conversation.messages, conversation, Ending::Closed);
    rendered
        .map(|rendered| rendered.text)
        .map_err(|refusal| refusal.at("a.jsonl line 1"))
}

#[test]
fn values_are_printed_as_python_prints_them() {
    let mut chat = conversation(json!([{"role": "user", "content": " \u{1f} é\u{3000}\n"}]));
    chat.tools =
        Some(json!([{"b": [1, 2.5, 1e16, 1e-7, null, true], "a": {"é": "it's\n", "<": "\""}}]));
    for (template, expected) in [
        (
            "{{ tools[0] | tojson }}",
            r#"{"b": [1, 2.5, 1e+16, 1e-07, null, true], "a": {"é": "it's\n", "<": "\""}}"#,
        ),
        (
            "{{ tools[0].a | tojson(ensure_ascii=true, sort_keys=true, separators=(',', ':')) }}",
            "{\"<\":\"\\\"\",\"\\u00e9\":\"it's\\n\"}",
        ),
        (
            "{{ [1, {'a': []}] | tojson(indent=2) }}",
            "[\n  1,\n  {\n    \"a\": []\n  }\n]",
        ),
        (
            "{{ tools[0] }}",
            r#"{'b': [1, 2.5, 1e+16, 1e-07, None, True], 'a': {'é': "it's\n", '<': '"'}}"#,
        ),
        ("{{ true }} {{ none }} {{ nothing }}|", "True None |"),
        (
            "[{{ messages[0].content | trim }}][{{ messages[0]['content'].strip() }}]",
            "[é][é]",
        ),
        (
            "{{ 'a</think>b'.split('</think>')[-1] }}{{ bos_token }}",
            "b<s>",
        ),
        (
            "{% if true %}\n  {% if tools is none %}{% endif %}\n x\n{% endif %}\n",
            " x\n",
        ),
        (
            "{{ [1, 2, 3][::-1] }}{{ '%s!' | format('a') }}",
            "[3, 2, 1]a!",
        ),
        (
            "{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}",
            "01",
        ),
    ] {
        assert_eq!(render(template, &chat).unwrap(), expected, "{template}");
    }
}

#[test]
fn a_hostile_template_is_an_error() {
    let chat = conversation(json!([{"role": "user", "content": "hi"}]));
    let nested = format!(
        "{}1{}",
        "{{ (".replace("(", &"(".repeat(2000)),
        ")".repeat(2000) + " }}"
    );
    for template in [
        "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
        "{{ 'x' * 1000000000 }}",
        "{% set ns = namespace(x='x') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% for m in messages recursive %}{{ loop(messages) }}{% endfor %}",
        "{{ messages | tojson(indent=1000000000) }}",
        "{{ 'a'.replace('', 'b' * 60000).replace('b', 'c' * 60000) }}",
        "{% if %}",
        "{{ raise_exception('no system') }}",
        "{{ messages[0].none.x }}",
        "{% include 'x' %}",
        "{% generation %}a",
        nested.as_str(),
    ] {
        let short = &template[..template.len().min(80)];
        let error = render(template, &chat).expect_err(short);
        assert!(error.hint.is_some(), "{short}: {error}");
    }
    let error = render("\n{{ raise_exception('no system') }}", &chat).unwrap_err();
    assert_eq!(
        error.message,
        "a.jsonl line 1: the chat template refuses this conversation: no system (line 2 of the template)"
    );
    let forged = conversation(json!([{"role": "user", "content": "\u{10fffe}x"}]));
    assert!(render("{{ messages }}", &forged).is_err());
}

#[test]
fn reasoning_is_known_by_each_of_its_names_and_nulls_are_absent() {
    let chat = conversation(json!([{"role": "assistant", "content": null, "reasoning": "hm"}]));
    let template = "{{ messages[0].reasoning_content }}{{ messages[0].thinking }}{{ 'content' in messages[0] }}";
    assert_eq!(render(template, &chat).unwrap(), "hmhmFalse");
}

#[test]
fn a_template_is_chosen_by_name_file_text_or_vocabulary() {
    let qwen = tokenizer("qwen2");
    let of = |chosen: Option<&str>| source::find(&qwen, chosen).unwrap();
    assert_eq!(of(None).text, "{{ bos_token }}{{ messages }}");
    assert!(of(Some("gemma")).text.contains("<start_of_turn>"));
    assert_eq!(of(Some("{{ x }}")).text, "{{ x }}");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "{{ y }}").unwrap();
    assert_eq!(of(file.path().to_str()).text, "{{ y }}");
    let error = source::find(&qwen, Some("chatlm")).unwrap_err();
    assert!(error.hint.unwrap().contains("chatml"));
    for (family, name) in [
        ("qwen2", "chatml"),
        ("smollm", "chatml"),
        ("llama3", "llama3"),
        ("phi4mini", "phi3"),
        ("tekken", "mistral"),
        ("gpt2", "plain"),
    ] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("__test__/fixtures/tokenizers");
        let folder = tempfile::tempdir().unwrap();
        let from = root.join(family).join("tokenizer.json");
        std::fs::copy(from, folder.path().join("tokenizer.json")).unwrap();
        let bare = Tokenizer::from_dir(folder.path()).unwrap();
        let notice = source::find(&bare, None).unwrap().notice.unwrap();
        assert!(notice.contains(&format!("; {name} is used")), "{notice}");
    }
}

#[test]
fn conversations_with_tools_have_the_template_for_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("__test__/fixtures/tokenizers/gpt2");
    let folder = tempfile::tempdir().unwrap();
    let from = root.join("tokenizer.json");
    std::fs::copy(from, folder.path().join("tokenizer.json")).unwrap();
    let named = json!({"chat_template": [{"name": "default", "template": "a"},
        {"name": "tool_use", "template": "b"}]});
    std::fs::write(
        folder.path().join("tokenizer_config.json"),
        named.to_string(),
    )
    .unwrap();
    let tokenizer = Tokenizer::from_dir(folder.path()).unwrap();
    let chat = Chat::open(&tokenizer, None, UNIX_EPOCH).unwrap();
    let mut conversation = conversation(json!([{"role": "user", "content": "x"}]));
    let text = |conversation: &Conversation| {
        let template = chat.template(conversation);
        let rendered = template.render(&conversation.messages, conversation, Ending::Closed);
        rendered.unwrap().text
    };
    assert_eq!(text(&conversation), "a");
    conversation.tools = Some(json!([{"name": "f"}]));
    assert_eq!(text(&conversation), "b");
}

#[test]
fn a_prompt_ends_where_the_answer_begins_and_has_one_bos() {
    let question = conversation(json!([{"role": "user", "content": "hi"}]));
    for (family, name, prompt, end) in [
        (
            "smollm",
            "chatml",
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
            "<|im_end|>",
        ),
        (
            "llama3",
            "llama3",
            "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
            "<|eot_id|>",
        ),
        (
            "llama3",
            "plain",
            "<|begin_of_text|>### User:\nhi\n\n### Assistant:\n",
            "<|eot_id|>",
        ),
        ("tekken", "mistral", "<s>[INST] hi [/INST]", "</s>"),
        (
            "phi4mini",
            "phi3",
            "<|user|>\nhi<|end|>\n<|assistant|>\n",
            "<|end|>",
        ),
    ] {
        let tokenizer = tokenizer(family);
        let chat = Chat::open(&tokenizer, Some(name), UNIX_EPOCH).unwrap();
        let ids = chat.prompt(&tokenizer, &question).unwrap();
        assert_eq!(tokenizer.decode(&ids).unwrap(), prompt, "{name}");
        let ends = chat.turn_ends(&tokenizer).unwrap();
        assert!(ends.contains(&tokenizer.id(end).unwrap()), "{name}");
    }
}
