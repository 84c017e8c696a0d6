"""Labelled sentence pairs: two sentences and a label, separated by tabs, as in files of natural language inference."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import make_folder, write_text
from syntaxlm.core.settings import LARGEST_SEED, check_number
from syntaxlm.core.text_files import read_lines, source_name
from syntaxlm.text.normaliser import Normaliser

COLUMNS = ("sentence1", "sentence2", "label")


@dataclass(frozen=True)
class LabelledPair:
    """Two sentences as written, and the label of the pair."""

    left: str
    right: str
    label: str


def write_labelled_pairs(pairs: Sequence[LabelledPair], path: str | Path) -> None:
    """Write a tab-separated table with a header and one pair per line."""
    rows = ["\t".join(COLUMNS), *(f"{one.left}\t{one.right}\t{one.label}" for one in pairs)]
    write_text("\n".join(rows) + "\n", path)


def read_labelled_pairs(
    path: str | Path, normaliser: Normaliser, labels: Sequence[str] | None = None
) -> list[LabelledPair]:
    """Read the pairs of a tab-separated file. Lines without text are skipped.

    If the cells of the first line include sentence1, sentence2 and label, they are a header, and other columns are
    ignored. Without a header, the first three columns are sentence1, sentence2 and label.
    normaliser: of the sentences, each of which must have a token.  labels: the labels that are allowed; None: any.
    Raises InputError if a line is not a pair, naming the file and the line, and if the file has no pair.
    """
    source, places = source_name(path), list(range(len(COLUMNS)))
    pairs: list[LabelledPair] = []
    for number, line in read_lines(path):
        cells = [cell.strip() for cell in line.split("\t")]
        if number == 1 and set(COLUMNS) <= set(cells):
            places = [cells.index(name) for name in COLUMNS]
            repeated = [name for name in COLUMNS if cells.count(name) > 1]
            if repeated:
                raise InputError(f"{source}, line 1: found several columns {repeated[0]!r}; expected one")
        elif any(cells):
            pairs.append(_pair_of(cells, places, normaliser, labels, f"{source}, line {number}"))
    if not pairs:
        raise InputError(f"{source}: found no pair; expected lines of {', '.join(COLUMNS)}, separated by tabs")
    return pairs


def _pair_of(
    cells: Sequence[str], places: Sequence[int], normaliser: Normaliser, labels: Sequence[str] | None, place: str
) -> LabelledPair:
    if len(cells) <= max(places):
        raise InputError(
            f"{place}: number of cells {len(cells)}; expected at least {max(places) + 1}, with"
            f" {', '.join(COLUMNS)}, separated by tabs"
        )
    left, right, label = (cells[column] for column in places)
    for name, sentence in zip(COLUMNS, (left, right), strict=False):
        if not normaliser.tokens(sentence):
            raise InputError(f"{place}: {name} is {sentence!r}, which has no word after normalisation")
    if not label:
        raise InputError(f"{place}: the label is empty")
    if labels is not None and label not in labels:
        raise InputError(
            f"{place}: found the label {label!r}; expected one of the training file's: {', '.join(labels)}"
        )
    return LabelledPair(left, right, label)


# Next-sentence prediction: sentence pairs whose labels follow from the order of a text.
#
# Devlin et al. 2019 (BERT), section 3.1: half of the pairs are a sentence and the next one, half a sentence and a
# random other one.


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
    """Return the pairs of a part of the text. Each sentence is the first of at most one pair."""

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
