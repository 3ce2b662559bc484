"""SentencePiece vocabularies of the llama and gemma kind: as Hugging Face converts them and as a GGUF file holds them.

Published tokenizer.json files have their merges from scores: every cut of a piece into two pieces, best score of the result
first. Where scores are equal, Llama 2, Phi-3, Gemma 1 and 2 keep the order of ids (cuts of one piece: ids of left and right),
Gemma 3 was made by a later transformers, which puts the longer left part first. Checked against the published files: all
58980 merges of Llama 2 in order, those of Gemma 2 as a set, and those of Gemma 3 in order but for its user-defined pieces.
"""

import io

import gguf
from sentencepiece import SentencePieceTrainer
from sentencepiece import sentencepiece_model_pb2 as model_pb2
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
FAMILIES = ["llama2", "phi3", "gemma2", "gemma3"]
SPACE = "\u2581"


def family(name, corpus):
    return Gemma(name, corpus) if name.startswith("gemma") else Llama(name, corpus)


def train(corpus, **options):
    """Pieces of a trained BPE model as [text, score, type]."""
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(line for text in corpus for line in text.split("\n") if line and "\0" not in line),
        model_writer=model, model_type="bpe", byte_fallback=True, character_coverage=0.98, split_digits=True,
        allow_whitespace_only_pieces=True, remove_extra_whitespaces=False, normalization_rule_name="identity",
        num_threads=1, minloglevel=2, **options,
    )  # fmt: skip
    proto = model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    return [[piece.piece, piece.score, piece.type] for piece in proto.pieces]


def merges(pieces, longest_first):
    scores = dict((text, score) for text, score, _ in pieces)
    ids = {text: i for i, (text, _, _) in enumerate(pieces)}
    found = []
    for text in scores:
        cuts = [(text[:i], text[i:]) for i in range(1, len(text)) if text[:i] in ids and text[i:] in ids]
        found += [(scores[text], *cut) for cut in sorted(cuts, key=lambda cut: (ids[cut[0]], ids[cut[1]]))]
    key = (lambda m: (m[0], len(m[1]), len(m[2]))) if longest_first else (lambda m: m[0])
    return [(left, right) for _, left, right in sorted(found, key=key, reverse=True)]


def template(bos, pieces):
    return processors.TemplateProcessing(single=f"{bos} $A", special_tokens=[(bos, [p[0] for p in pieces].index(bos))])


class Llama:
    """Llama 2 and, with chat marks that strip white space on their right, Phi-3."""

    def __init__(self, name, corpus):
        self.name, self.architecture = name, "phi3" if name == "phi3" else "llama"
        self.pieces = train(corpus, vocab_size=900)
        # as in the published models: runs of spaces come last
        self.pieces = [[t, -1e9 if set(t) == {SPACE} else s, k] for t, s, k in self.pieces]
        self.marks = ["<|endoftext|>", "<|assistant|>", "<|system|>", "<|end|>", "<|user|>"] if name == "phi3" else []
        end = "<|endoftext|>" if name == "phi3" else "</s>"
        self.settings = {"bos_token": "<s>", "eos_token": end, "add_bos_token": name != "phi3", "tokenizer_class": "LlamaTokenizer"}

    def tokenizer(self):
        tokenizer = Tokenizer(models.BPE(
            vocab={text: i for i, (text, _, _) in enumerate(self.pieces)}, merges=merges(self.pieces, False),
            unk_token="<unk>", fuse_unk=True, byte_fallback=True))  # fmt: skip
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
        tokenizer.decoder = decoders.Sequence(
            [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        )
        phi3 = self.name == "phi3"
        specials = [AddedToken(t, normalized=False, special=not (phi3 and t == "</s>"), rstrip=phi3 and t == "</s>") for t in ("<unk>", "<s>", "</s>")]
        marks = [AddedToken(t, normalized=False, special=True, rstrip=t != "<|endoftext|>") for t in self.marks]
        tokenizer.add_tokens(specials + marks)
        if self.settings["add_bos_token"]:
            tokenizer.post_processor = template("<s>", self.pieces)
        else:
            tokenizer.post_processor = processors.TemplateProcessing(single="$A")
        return tokenizer

    def write(self, writer):
        kinds = [k for _, _, k in self.pieces] + [CONTROL] * len(self.marks)
        tokens = [t for t, _, _ in self.pieces] + self.marks
        scores = [s for _, s, _ in self.pieces] + [-1000.0] * len(self.marks)
        for i, text in enumerate(tokens):
            if text in ("<s>", "</s>"):  # added_tokens_decoder
                kinds[i], scores[i] = CONTROL if text == "<s>" or self.name != "phi3" else USER_DEFINED, -1000.0
        writer.add_token_list(tokens)
        writer.add_token_scores(scores)
        writer.add_token_types(kinds)
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(tokens.index(self.settings["eos_token"]))
        writer.add_unk_token_id(0)
        if self.name == "phi3":
            writer.add_add_bos_token(False)
        return writer


class Gemma:
    """User-defined runs of newlines and spaces, no space in front; Gemma 2 has runs of tabs but no tab."""

    def __init__(self, name, corpus):
        self.name, self.architecture = name, name
        self.pieces = train(corpus, vocab_size=900, pad_id=0, eos_id=1, bos_id=2, unk_id=3, pad_piece="<pad>", bos_piece="<bos>", eos_piece="<eos>")
        known = {text for text, _, _ in self.pieces}
        cut = ["<start_of_turn>", "<end_of_turn>", "<table>", "</table>", "<td>"] + ["\n" * n for n in range(1, 32)] + [SPACE * n for n in range(2, 32)]
        runs = ["\t" * n for n in range(1 if name == "gemma3" else 2, 32)]
        self.pieces = [p for p in self.pieces if p[0] not in cut and p[0] not in runs]
        head = next(i for i, p in enumerate(self.pieces) if p[2] == BYTE)
        self.pieces[head:head] = [[text, 0.0, USER_DEFINED] for text in cut]
        self.pieces += [[text, 0.0, NORMAL] for text in runs]
        assert known >= {"<bos>", SPACE}
        self.turns = {"<start_of_turn>", "<end_of_turn>"}
        self.settings = {"bos_token": "<bos>", "eos_token": "<eos>", "tokenizer_class": "GemmaTokenizer", "add_bos_token": True}

    def tokenizer(self):
        pieces = [list(p) for p in self.pieces]
        if self.name == "gemma2":
            next(p for p in pieces if p[0] == "<0x09>")[0] = "\t"
        tokenizer = Tokenizer(models.BPE(
            vocab={text: i for i, (text, _, _) in enumerate(pieces)}, merges=merges(pieces, self.name == "gemma3"),
            unk_token="<unk>", fuse_unk=True, byte_fallback=True))  # fmt: skip
        tokenizer.normalizer = normalizers.Replace(" ", SPACE)
        if self.name == "gemma3":
            tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
        tokenizer.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()])
        tokenizer.add_tokens([
            AddedToken(text, normalized=False, special=kind != USER_DEFINED or text in self.turns)
            for text, _, kind in pieces if kind in (UNKNOWN, CONTROL, USER_DEFINED)])  # fmt: skip
        tokenizer.post_processor = template("<bos>", pieces)
        return tokenizer

    def write(self, writer):
        tokens, scores, kinds = map(list, zip(*self.pieces))
        for i, kind in enumerate(kinds):
            if kind in (CONTROL, USER_DEFINED):  # added_tokens_decoder; user-defined spaces are written as spaces
                kinds[i] = CONTROL if kind == CONTROL or tokens[i] in self.turns else USER_DEFINED
                tokens[i] = tokens[i] if kinds[i] == CONTROL else tokens[i].replace(SPACE, " ")
                scores[i] = -1000.0
        writer.add_token_list(tokens)
        writer.add_token_scores(scores)
        writer.add_token_types([gguf.TokenType(kind) for kind in kinds])
        writer.add_bos_token_id(2)
        writer.add_eos_token_id(1)
        writer.add_unk_token_id(3)
        writer.add_add_space_prefix(False)
        return writer
