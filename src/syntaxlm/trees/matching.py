"""Checks that two sources have trees for the same sentences: the same number of trees and of words in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from syntaxlm.errors import InputError
from syntaxlm.trees.brackets import read_brackets
from syntaxlm.trees.tree import Tree

_SHOWN = 12  # words of a sentence in a message


@dataclass(frozen=True)
class Side:
    """One of the two sources in messages.  source: the file; name: written before its words; subject: its tree."""

    source: str
    name: str
    subject: str


def match_words(predicted: Sequence[Tree], gold: Sequence[Tree], predicted_source: str, gold_source: str) -> None:
    """Checks that there is one prediction per gold sentence, with the same number of words.

    The words may differ, because of normalisation.  Raises InputError naming sources and sentence, and showing both
    sentences where they differ.
    """
    _match(predicted, gold, *gold_sides(predicted_source, gold_source), GOLD_ADVICE)


GOLD_ADVICE = "Predictions must have one tree for each gold sentence, with as many words as it has after clean-up."


def gold_sides(predicted_source: str, gold_source: str) -> tuple[Side, Side]:
    """The sources of predictions and gold trees in messages."""
    return Side(predicted_source, "predicted", "the prediction"), Side(gold_source, "gold", "the tree")


def read_matching(
    trees: Sequence[Tree], others: Sequence[Tree], side: Side, other_side: Side, advice: str
) -> Sequence[Tree]:
    """`trees` if they match the others, or else the trees of their file read without labels, if those match.

    (Some files can be read both ways.)  side.source: the file.  Raises InputError like `match_words`.
    """
    try:
        _match(trees, others, side, other_side, advice)
    except InputError:
        trees = read_brackets(side.source, labelled=False)
        if [len(tree) for tree in trees] != [len(tree) for tree in others]:
            raise
    return trees


def _match(trees: Sequence[Tree], others: Sequence[Tree], side: Side, other_side: Side, advice: str) -> None:
    pairs = enumerate(zip(trees, others, strict=False), 1)
    wrong = next(((number, one, other) for number, (one, other) in pairs if len(one) != len(other)), None)
    if wrong:
        number, one, other = wrong
        width = max(len(side.name), len(other_side.name)) + 1
        raise InputError(
            f"{other_side.source}, sentence {number}: the tree has {len(other)} words, {side.subject} has {len(one)}.\n"
            f"  {other_side.name + ':':{width}} {beginning(other.words)}\n"
            f"  {side.name + ':':{width}} {beginning(one.words)}   ({side.source}, tree {number})\n{advice}"
        )
    if len(trees) != len(others):
        both = min(len(trees), len(others))
        source, longer = (other_side.source, others) if len(others) > both else (side.source, trees)
        raise InputError(
            f"{side.source}: found {len(trees)} trees, expected {len(others)} as in {other_side.source}.\n"
            f"  first without a partner: {source}, sentence {both + 1}: {beginning(longer[both].words)}\n{advice}"
        )


def check_same_words(words: Sequence[str], expected: Sequence[str], place: str, expected_place: str) -> None:
    """Raises InputError with the position of the first word that differs. place, expected_place: for messages."""
    for position, (word, other) in enumerate(zip(words, expected, strict=False), 1):
        if word != other:
            raise InputError(f"{place}: found {word!r} as word {position}, expected {other!r} as in {expected_place}")
    if len(words) != len(expected):
        raise InputError(f"{place}: found {len(words)} words, expected {len(expected)} as in {expected_place}")


def beginning(words: Sequence[str]) -> str:
    """The first words of a sentence, for a message."""
    return " ".join(words[:_SHOWN]) + (" ..." if len(words) > _SHOWN else "")
