"""Labelled sentence pairs: two sentences and a label, separated by tabs, as in files of natural language inference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from syntaxlm.errors import InputError
from syntaxlm.files import write_text
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text_files import read_lines, source_name

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
