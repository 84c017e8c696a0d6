"""The text of the shipped English models: textbooks, MASC, speeches and novels, tokenised, one sentence per line.

    python -m laboratory.shipping.english_text DATA OUTPUT

DATA: a folder with textbooks/*.txt.gz, novels/*.txt.gz, masc_written.tagged.txt.gz, state_union.txt.gz and
inaugural.txt.gz.
OUTPUT: a folder for train.txt, valid.txt and, for each source, NAME.valid.txt and NAME.test.txt.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from syntaxlm.core.files import replaced, write_text
from syntaxlm.core.text_files import read_lines
from syntaxlm.data.running_text import write_sentences
from syntaxlm.text.normaliser import has_tag, split_tag, split_words
from syntaxlm.text.treebank_style import TreebankStyle

HELD_OUT = 0.02  # share of each source; its first half is for validation, its second half for tests
SEED = 0
MASC_BLOCK = 25  # lines that are put into the same text, because they are from one document
MASC_TIMES = 2  # MASC is the smallest part and has the most genres, so the models read it twice
WSJ_LINES = range(26_857, 27_231)  # of MASC: articles of the Wall Street Journal, which are also in the WSJ sample
SOURCES = ("textbooks", "masc", "speeches", "novels")

_STYLE = TreebankStyle("split", "split")
_SPELLINGS = str.maketrans({"’": "'", "‘": "'", "_": None})  # Gutenberg texts set _italics_ between underscores
# What is left of a sentence whose reference to a figure or formula was taken out of a textbook: "as shown in , the"
_HOLE = re.compile(r"(?i)\b(?:as|at|by|from|in|of|see|than|the|to|with) ?[,;:)]|\( ?\)|^(?:\S+ )?shows ")
_SENTENCE_END = re.compile(r"[.?!][\"'”’)]*$")


def main() -> None:
    """Prepares the text; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("output", type=Path)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    train, valid = write_english(options.data, options.output)
    print(f"{train}\n{valid}")


def write_english(data: Path, output: Path) -> tuple[Path, Path]:
    """Writes the texts, and returns the paths of train.txt and valid.txt. The sentences of each source are in order."""
    train, valid = output / "train.txt", output / "valid.txt"
    with ExitStack() as stack:
        files = (stack.enter_context(replaced(path)) for path in (train, valid))
        train_file, valid_file = (stack.enter_context(open(path, "w", encoding="utf-8")) for path in files)
        for source in SOURCES:
            sentences, held_out = _masc(data) if source == "masc" else _running_text(source, data)
            middle = len(held_out) // 2
            for name, part in (("valid", held_out[:middle]), ("test", held_out[middle:])):
                write_text("".join(f"{line}\n" for line in part), output / f"{source}.{name}.txt")
            for _ in range(MASC_TIMES if source == "masc" else 1):
                train_file.writelines(f"{line}\n" for line in sentences)
            valid_file.writelines(f"{line}\n" for line in held_out[:middle])
    return train, valid


def _running_text(source: str, data: Path) -> tuple[list[str], list[str]]:
    """The sentences of books or speeches: those for training, and those held out."""
    patterns = ["state_union.txt.gz", "inaugural.txt.gz"] if source == "speeches" else [f"{source}/*.txt.gz"]
    paths = [path for pattern in patterns for path in sorted(data.glob(pattern))]
    with tempfile.TemporaryDirectory() as folder:
        texts = [Path(folder) / name for name in ("train", "held-out")]
        write_sentences(paths, texts[0], texts[1], HELD_OUT, SEED)
        train, held_out = (text.read_text("utf-8").splitlines() for text in texts)
    if source == "textbooks":
        seen: set[str] = set()
        held_out, train = list(_whole(held_out, seen)), list(_whole(train, seen))
    return [tokenised(line) for line in train], [tokenised(line) for line in held_out]


def _whole(sentences: list[str], seen: set[str]) -> Iterator[str]:
    """The sentences that end in a mark, have no hole and are not in `seen`, to which they are added."""
    for sentence in sentences:
        if sentence not in seen and _SENTENCE_END.search(sentence) and not _HOLE.search(sentence):
            yield sentence
        seen.add(sentence)


def _masc(data: Path) -> tuple[list[str], list[str]]:
    """The sentences of MASC without tags and without the articles of the WSJ sample: for training, and held out."""
    sentences = []
    for number, line in read_lines(data / "masc_written.tagged.txt.gz"):
        words = [split_tag(token)[0] if has_tag(token) else token for token in split_words(line)]
        if number not in WSJ_LINES and (sentence := tokenised(" ".join(words))):
            sentences.append(sentence)
    is_held_out = np.random.default_rng(SEED).random(len(sentences) // MASC_BLOCK + 1) < HELD_OUT
    parts: tuple[list[str], list[str]] = [], []
    for index, sentence in enumerate(sentences):
        parts[int(is_held_out[index // MASC_BLOCK])].append(sentence)
    return parts


def tokenised(sentence: str) -> str:
    """A sentence with its words and punctuation separated by spaces."""
    return _STYLE(sentence.translate(_SPELLINGS))


if __name__ == "__main__":
    main()
