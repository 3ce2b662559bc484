"""Conversations that make masks go wrong, for chat.py."""


def user(text):
    return {"role": "user", "content": text}


def system(text):
    return {"role": "system", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def call(name, **arguments):
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


def tool(text, **more):
    return {"role": "tool", "content": text, **more}


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "now",
            "description": "The time & <date>, é",
            "parameters": {"type": "object", "properties": {"zone": {"type": "string"}, "digits": {"type": "number"}}},
        },
    }
]

CONVERSATIONS = [
    {"messages": [user("hi"), assistant("Hello, you!")]},
    {"messages": [user("one"), assistant("two"), user("three"), assistant("four"), user("five"), assistant("six")]},
    {"messages": [system("Be short."), user("one"), assistant("two"), user("three"), assistant("four")]},
    {"messages": [user("say it"), assistant("say it"), user("say it"), assistant("say it")]},
    {"messages": [user(" \n a "), assistant("  \n b\n\n"), user("\tc"), assistant("\n\nd  ")]},
    {"messages": [user("be silent"), assistant(""), user(""), assistant("ok")]},
    {"messages": [user("<|im_end|>\n<|im_start|>assistant\nno"), assistant("<|im_end|>\n<|im_start|>user\n<|eot_id|><end_of_turn>\n<s>x</s>"), user("[/INST] a"), assistant("b<|endoftext|>")]},
    {"messages": [user("emoji 👩‍👩‍👧 e\u0301"), assistant("naïve 漢字 🇩🇪"), user("é"), assistant("e\u0301.")]},
    {"messages": [user("a"), assistant("b", reasoning_content="early thought"), user("c"), assistant("d", reasoning_content="\nlate thought\n")]},
    {"messages": [user("a"), assistant("<think>\nearly\n</think>\n\nb"), user("c"), assistant("<think>\nlate\n</think>\n\nd")]},
    {"messages": [user("what time?"), assistant("", tool_calls=[call("now", zone="UTC", digits=1.5)]), tool("12:00"), assistant("Noon.")], "tools": TOOLS},
    {"messages": [user("twice"), assistant("I look.", tool_calls=[call("now", zone="a"), call("now", zone="é<b>")]), tool("1"), tool("2"), assistant("1 and 2"), user("thanks"), assistant("sure")]},
    {"messages": [user("what?"), assistant("that"), user("and?")]},
    {"messages": [user("code"), assistant("```\nfor x in y:\n    pass\n```\n")]},
    {"messages": [user("go"), assistant("one"), assistant("two"), user("on"), assistant("three")]},
    {"messages": [user("assistant"), assistant("user\nassistant\n"), user("model"), assistant("assistant")]},
    {"messages": [system("s"), system("t"), user("u"), assistant("v")]},
    {"messages": [user("a"), assistant("b", reasoning_content="x"), tool("r"), assistant("c"), tool("q"), assistant("d")]},
]  # fmt: skip

PAIRS = [
    {"prompt": [user("hi")], "completion": [assistant("Hello, you!")]},
    {"prompt": [system("Be short."), user("one"), assistant("two"), user("three")], "completion": [assistant("four")]},
    {"prompt": [user("a"), assistant("<think>\nx\n</think>\n\nb"), user("c")], "completion": [assistant("<think>\ny\n</think>\n\nd")]},
    {"prompt": [user("say it")], "completion": [assistant(" say it ")]},
    {"prompt": [user("a")], "completion": [assistant("b"), user("c"), assistant("d")]},
    {"prompt": [user("what time?"), assistant("", tool_calls=[call("now", zone="UTC")]), tool("12:00")], "completion": [assistant("Noon.")]},
    {"prompt": [user("hi")], "completion": [assistant("")]},
]  # fmt: skip

TEXTS = [
    {"text": "hello"},
    {"text": "Two lines\n and é 漢 </s><|endoftext|> x"},
    {"prompt": "Q: what?\nA:", "completion": " that"},
    {"prompt": "ends in a space ", "completion": "before a word"},
    {"prompt": "half a wo", "completion": "rd"},
    {"prompt": "", "completion": "all"},
    {"prompt": "Question\n", "completion": "\nAnswer"},
]

MESSAGES = [record["messages"] for record in CONVERSATIONS if len(record["messages"]) % 2 == 0 and record["messages"][0]["role"] == "user"]
SIMPLE = [messages for messages in MESSAGES if all(set(m) == {"role", "content"} and m["role"] != "tool" for m in messages)]
ONE_TURN = [messages[:2] for messages in SIMPLE if messages[1]["content"].strip()][:8]
STEPS_DATA = {
    # One answer each: TRL's training variant of Qwen3 writes earlier turns otherwise than the published template.
    "assistant": [{"messages": messages} for messages in ONE_TURN],
    "completions": [{"prompt": messages[:-1], "completion": messages[-1:]} for messages in SIMPLE[:8]],
}
