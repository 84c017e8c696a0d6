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


GOLD_ADVICE = (
    "Predictions must have one tree for each gold sentence, with as many words as it has after gold-tree preprocessing."
)


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
    wrong = first_difference(trees, others)
    if wrong is None:
        return
    if len(trees) != len(others):
        raise wrong_number(trees, others, side, other_side, advice)
    one, other = trees[wrong], others[wrong]
    raise InputError(
        f"{other_side.source}, sentence {wrong + 1}: the tree has {len(other)} words, {side.subject} has {len(one)}.\n"
        f"{_both(one, other, side, other_side)}   ({side.source}, tree {wrong + 1})\n{advice}"
    )


def first_difference(trees: Sequence[Tree], others: Sequence[Tree]) -> int | None:
    """The index of the first sentence with another number of words, or without a partner; None where all agree."""
    pairs = list(zip(trees, others, strict=False))
    by_length = next((place for place, (one, other) in enumerate(pairs) if len(one) != len(other)), len(pairs))
    return None if by_length == len(pairs) and len(trees) == len(others) else by_length


def wrong_number(
    trees: Sequence[Tree], others: Sequence[Tree], side: Side, other_side: Side, advice: str
) -> InputError:
    """The error for two files with different numbers of trees."""
    place = first_difference(trees, others)
    assert place is not None
    one, other = (each[place] if place < len(each) else None for each in (trees, others))
    return InputError(
        f"{side.source}: found {len(trees):,} trees, expected {len(others):,} as in {other_side.source}.\n"
        f"First difference: sentence {place + 1}\n{_both(one, other, side, other_side)}\n{advice}"
    )


def _both(one: Tree | None, other: Tree | None, side: Side, other_side: Side) -> str:
    width = max(len(side.name), len(other_side.name)) + 1
    pairs = (other_side, other), (side, one)
    return "\n".join(
        f"  {each.name + ':':{width}} {'(no tree)' if tree is None else beginning(tree.words)}" for each, tree in pairs
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
