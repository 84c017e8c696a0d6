"""The training text of the shipped English models: novels, MASC and speeches, tokenised, one sentence per line.

    python -m shipping.english_text DATA OUTPUT

DATA: a folder with novels/*.txt.gz, masc_written.tagged.txt.gz, state_union.txt.gz and inaugural.txt.gz.
OUTPUT: a folder for train.txt and valid.txt.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from syntaxlm.core.files import replaced
from syntaxlm.core.text_files import read_lines
from syntaxlm.data.running_text import write_sentences
from syntaxlm.text.normaliser import has_tag, split_tag, split_words
from syntaxlm.text.treebank_style import TreebankStyle

VALID_SHARE = 0.02
SEED = 0
MASC_BLOCK = 25  # lines that are put into the same of the two texts, because they are from one document
MASC_TIMES = 2  # MASC is the smallest and the only modern part, so the models read it twice
WSJ_LINES = range(26_857, 27_231)  # of MASC: articles of the Wall Street Journal, which are also in the WSJ sample

_STYLE = TreebankStyle("split", "split")
_SPELLINGS = str.maketrans({"’": "'", "‘": "'", "_": None})  # Gutenberg texts set _italics_ between underscores


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
    """Writes train.txt and valid.txt, and returns their paths. The sentences of each source are in order."""
    train, valid = output / "train.txt", output / "valid.txt"
    sources = [sorted(data.glob("novels/*.txt.gz")), [data / "state_union.txt.gz"], [data / "inaugural.txt.gz"]]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        kept, aside = (
            stack.enter_context(open(stack.enter_context(replaced(path)), "w", encoding="utf-8"))
            for path in (train, valid)
        )
        for number, paths in enumerate(sources):
            texts = [folder / f"{number}.{name}" for name in ("train", "valid")]
            write_sentences(paths, texts[0], texts[1], VALID_SHARE, SEED)
            for text, file in zip(texts, (kept, aside), strict=True):
                file.writelines(tokenised(line) + "\n" for line in text.read_text("utf-8").splitlines())
        masc = list(_masc(data / "masc_written.tagged.txt.gz"))
        blocks = np.random.default_rng(SEED).random(len(masc) // MASC_BLOCK + 1) < VALID_SHARE
        is_aside = [blocks[index // MASC_BLOCK] for index in range(len(masc))]
        for _ in range(MASC_TIMES):
            kept.writelines(line + "\n" for line, out in zip(masc, is_aside, strict=True) if not out)
        aside.writelines(line + "\n" for line, out in zip(masc, is_aside, strict=True) if out)
    return train, valid


def _masc(path: Path) -> Iterator[str]:
    """The sentences of MASC without their tags and without the articles of the WSJ sample."""
    for number, line in read_lines(path):
        words = [split_tag(token)[0] if has_tag(token) else token for token in split_words(line)]
        if number not in WSJ_LINES and (sentence := tokenised(" ".join(words))):
            yield sentence


def tokenised(sentence: str) -> str:
    """A sentence with its words and punctuation separated by spaces."""
    return _STYLE(sentence.translate(_SPELLINGS))


if __name__ == "__main__":
    main()
