"""Lines that tokenizers get wrong: scripts, joins, normal forms, white space, digits, contractions, code, marks in text."""

ZWJ, ZWNJ, ZWSP, BOM, NBSP, SHY, RLM, VS16 = "\u200d", "\u200c", "\u200b", "\ufeff", "\u00a0", "\u00ad", "\u200f", "\ufe0f"

SCRIPTS = [
    "The quick brown fox jumps over the lazy dog.",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. STRASSE Straße ẞ",
    "Portez ce vieux whisky au juge blond qui fume l’été à Noël : « cœur »",
    "Příliš žluťoučký kůň úpěl ďábelské ódy",
    "Pijamalı hasta yağız şoföre çabucak güvendi. İIıi",
    "Съешь же ещё этих мягких французских булок, да выпей чаю",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία ΣΊΣΥΦΟΣ σίσυφος",
    "עטלף אבק נס דרך מזגן שהתפוצץ כי חם שָׁלוֹם",
    "صِف خَلقَ خَودِ كَمِثلِ الشَمسِ إِذ بَزَغَت ١٢٣٤٥ ۱۲۳",
    "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश १२३",
    "ক্ষ্ম বাংলা বর্ণমালা ১২৩৪", "தமிழ் எழுத்து கௌ", "తెలుగు అక్షరాలు", "ಕನ್ನಡ", "മലയാളം", "සිංහල",
    "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า ๑๒๓", "ພາສາລາວ", "ភាសាខ្មែរ", "မြန်မာဘာသာ", "བོད་ཡིག",
    "我能吞下玻璃而不伤身体。２０２４年１月", "いろはにほへと ちりぬるを カタカナ ｶﾞｷﾞｸﾞ 漢字かな交じり文", "키스의 고유조건은 입술끼리 만나야 하고",
    "\u1112\u1161\u11ab\u1100\u1173\u11af 한글", "ქართული ენა ᲥᲐᲠᲗᲣᲚᲘ", "Հայերեն լեզու", "አማርኛ ፩፪፫", "ᏣᎳᎩ ꮳꮃꭹ", "ⵜⴰⵎⴰⵣⵉⵖⵜ",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚𝟛 𐍈𐌰 𒀀𒁀 𓀀 🀄", "𠜎𠜱𠝹𠱓 㐀 䶵 ﷽", "ⅠⅣ ⅻ ½ ¾ ² ³ ₁₂ ① ⑳ ㊿ ٠",
]
JOINS = [
    f"👨{ZWJ}👩{ZWJ}👧{ZWJ}👦 👩🏽{ZWJ}🚀 🏳{VS16}{ZWJ}🌈 🇩🇪🇫🇷 1{VS16}\u20e3 ❤{VS16} ☺",
    "e\u0301 é a\u030a å n\u0303 ñ o\u0302\u0323 ộ \u1ed9 \u212b \u2126 \ufb01 ﬃ",
    "Z\u0335\u0321a\u0316\u0301l\u0334\u0308g\u0327o\u0362 \u0301alone \u0301\u0301\u0301",
    "\u0915\u094d\u200d\u0937 \u0915\u094d\u200c\u0937", f"zero{ZWSP}width{ZWNJ}non{ZWJ}joiner{BOM}bom{SHY}soft",
    f"{BOM}starts with a mark", f"right{RLM}to left \u202eoverride\u202c \u2066isolate\u2069",
    "ſ 'ſ don'ſ K \u212a k Å", "ŉ ǰ ΐ ß ŒœÆæ Ǆǅǆ", "\U000e0041\U000e0042 tags \ufffd \ufffe \U0010fffd \ue000",
]
SPACES = [
    "", " ", "  ", "   ", "\n", "\n\n", "\t", "\r\n", "\r", " \n", "\n ", "\t\t\tx", "a", " a", "a ", " a ", "  a  b   c    d     e",
    "line one\nline two\n\nline three\n\n\n\nline four\n", "dos\r\nline\r\n\r\nends\r\n", "old mac\rline\r\rends\r",
    "trailing spaces   \nnext   \n   indented\n\ttab\n \t mixed \t \n", "\n\n\n   \n\n  x\n \n\n", "a\u00a0b\u2003c\u3000d\u2028e\u2029f\u0085g\u000bh\u000ci\u1680j\u202fk\u205fl",
    f"{NBSP}{NBSP}nbsp{NBSP} {NBSP}mix", " " * 31 + "x" + " " * 32 + "y" + " " * 33, "x" + " " * 70 + "y", "\n" * 40 + "z", "\t" * 37 + "z", " \u3000 \u3000 ",
    "ends with a space ", "ends with two  ", "ends with newline\n", "ends with\n ", "\x00nul\x01\x02\x07bell\x1b[0m\x7f\x80\x9f",
]
NUMBERS = [
    "0", "1 12 123 1234 12345 1234567890 12345678901234567890", "3.14159 -2.5e-10 1,000,000 1_000 0xDEADBEEF 0b1010 1st 2nd 3rd x86_64",
    "2024-02-29T23:59:59.999Z 12:34 +49 (0)30 123-456", "007 00 000 0000 a1b2c3 1a 12a 123a 1234a", "１２３ ４５６ ৩৪৫ ४५६ Ⅷ² 10⁻⁶", "$5 €10 £20 ¥30 ₹40 50% 60‰ №7 §8",
]
WORDS = [
    "I'm you're he's we've they'll I'd don't o'clock 'tis 'Twas", "I'M YOU'RE HE'S WE'VE THEY'LL I'D DON'T O'CLOCK", "I’m you’re he’s it’s ’tis 'S 's' 'sS '' ''' 'll'll",
    "camelCase PascalCase snake_case SCREAMING_CASE kebab-case XMLHttpRequest iPhone McDonald ÜberMensch éÉ ÉÉé", "aAaA AAaa AaAaA ǅa ʰa aʰ Aʰb",
    "hello...world!!! what?! (yes) [no] {maybe} <tag> \"quoted\" «guillemets» „low“ ‚x‘ — – - ‑ … ·", "!!!???...,,,;;;:::---___***///\\\\\\|||~~~```@@@###$$$%%%^^^&&&+++===",
    "/path/to/file.txt C:\\Windows\\System32 ~/dir ../.. //comment /* c */ /\n/ //\n", "https://user:pw@example.com:8080/a/b.html?q=1&r=%20x#frag mailto:a.b+c@d.co.uk",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "abababababababababababab ananananas bananana ssssss mississippi",
    "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft", "\u2581 literal \u2581\u2581 low\u2581line ▁▁▁x Ġ literal Ċ ĠĠ",
]
CODE = [
    "def f(x: int) -> str:\n    \"\"\"Doc.\"\"\"\n    if x > 0 and x != 3:\n        return f\"{x!r:>10}\"\n\treturn None  # end\n",
    "#include <stdio.h>\nint main(void) { printf(\"%d\\n\", 1 << 3); return 0; }\n", "for (let i = 0; i < 10; i++) { a[i] ??= b?.c ?? `t${i}`; }",
    "SELECT * FROM \"t\" WHERE a <> 'it''s' AND b >= 1.0; -- x", "<div class=\"a b\" style='x:y'>&nbsp;&amp;<br/></div>", "{\"a\": [1, 2.5, null, true], \"b\\u00e9\": \"\\n\\t\"}",
    "| a | b |\n|---|:-:|\n| 1 | 2 |\n\n```rust\nfn main() {}\n```\n* x\n  - y\n1. z", "\\frac{a}{b} \\sum_{i=0}^{n} x_i^2 $$E=mc^2$$",
]
MARKS = [
    "<s>", "</s>", "<s>text</s>", "a <s> b </s> c", "<unk> <pad> <bos>x<eos> <|endoftext|>", "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
    "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>", "<start_of_turn>user\nhi<end_of_turn>\n", "<|user|>\n hi<|end|>\n<|assistant|>  \n ok", "[INST] hi [/INST]",
    "<|im_start|", "|im_end|>", "< |im_start|>", "<|im_start|><|im_start|>", "  <|im_end|>  x", "x</s>  y </s>\n\nz", "<0x0A> <0x41> <0xe2>", "<think>\nhm\n</think>\n\nok", "<table><tr><td>x</td></tr></table>", "[PAD7] <unused0> <extra_id_0>",
]


def lines():
    """All lines, and groups of them joined, for what happens between lines."""
    groups = [SCRIPTS, JOINS, SPACES, NUMBERS, WORDS, CODE, MARKS]
    single = [line for group in groups for line in group]
    joined = ["".join(group) for group in (SPACES, NUMBERS, WORDS, CODE, MARKS)]
    return single + joined
