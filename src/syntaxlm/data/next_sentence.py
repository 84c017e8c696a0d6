"""Next-sentence prediction: sentence pairs whose labels follow from the order of a text.

Devlin et al. 2019 (BERT), section 3.1: half of the pairs are a sentence and the next one, half a sentence and a random
other one.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from syntaxlm.data.labelled_pairs import LabelledPair, write_labelled_pairs
from syntaxlm.errors import InputError
from syntaxlm.files import make_folder
from syntaxlm.settings import LARGEST_SEED, check_number
from syntaxlm.text_files import read_lines, source_name

NEXT, OTHER = "next", "other"
SHARES = {"train": 0.9, "valid": 0.05, "test": 0.05}  # of the text, in this order


@dataclass(frozen=True)
class NextSentenceSummary:
    """The result of `write_next_sentence_pairs`: the number of pairs in each file."""

    folder: str
    train: int
    valid: int
    test: int

    def to_dict(self) -> dict[str, Any]:
        return {"schema_version": 1, **asdict(self)}

    def __str__(self) -> str:
        return f"{self.folder}: {self.train:,} training, {self.valid:,} validation and {self.test:,} test pairs"


def write_next_sentence_pairs(
    text: str | Path, folder: str | Path, maximum_words: int = 40, seed: int = 0
) -> NextSentenceSummary:
    """Write train.tsv, valid.tsv and test.tsv with the columns sentence1, sentence2 and label.

    text: one sentence per line. An empty line separates texts: the sentences around it are no pair.
    maximum_words: pairs with a longer sentence are omitted, counted at white space.
    The files come from parts of the text that do not overlap. Raises InputError if a part has no pair.
    """
    check_number("maximum_words", maximum_words, 1)
    check_number("seed", seed, 0, LARGEST_SEED)
    lines = [" ".join(line.split()) for _, line in read_lines(text)]
    draw, written, start = random.Random(seed), {}, 0
    parts = {}
    for name, share in SHARES.items():
        end = len(lines) if name == "test" else start + round(share * len(lines))
        parts[name], start = _pairs(lines[start:end], maximum_words, draw), end
        if not parts[name]:
            raise InputError(
                f"{source_name(text)}: found no pair of adjacent sentences of up to {maximum_words} words for"
                f" {name}.tsv in {len(lines)} lines; expected a longer text"
            )
    make_folder(Path(folder))
    for name, pairs in parts.items():
        write_labelled_pairs(pairs, Path(folder) / f"{name}.tsv")
        written[name] = len(pairs)
    return NextSentenceSummary(str(folder), **written)


def _pairs(lines: Sequence[str], maximum_words: int, draw: random.Random) -> list[LabelledPair]:
    """The pairs of a part of the text. Each sentence is the first of at most one pair."""

    def fits(line: str) -> bool:
        return 0 < len(line.split()) <= maximum_words

    sentences = [line for line in lines if fits(line)]
    found = []
    for left, right in pairwise(lines):
        if fits(left) and fits(right):
            other = draw.choice(sentences)
            if draw.random() < 0.5 or other in (left, right):
                found.append(LabelledPair(left, right, NEXT))
            else:
                found.append(LabelledPair(left, other, OTHER))
    return found
