"""Checks that two sources of trees have the same sentences: as many, each with as many words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from syntaxlm.errors import InputError
from syntaxlm.trees.brackets import read_brackets
from syntaxlm.trees.tree import Tree

_SHOWN = 12  # words of a sentence in a message


@dataclass(frozen=True)
class Side:
    """How messages name one of the two sources.  source: the file; name: stands before its words; subject: its tree."""

    source: str
    name: str
    subject: str


def match_words(predicted: Sequence[Tree], gold: Sequence[Tree], predicted_source: str, gold_source: str) -> None:
    """Checks that predictions are of the gold sentences: as many trees, each with as many words.

    The words themselves may differ, as after normalisation.  Raises InputError that names both sources and shows the
    first sentence that differs.
    """
    _match(predicted, gold, *gold_sides(predicted_source, gold_source), GOLD_ADVICE)


GOLD_ADVICE = (
    "Predictions must have one tree for each gold sentence, with as many words as it has after gold-tree preprocessing."
)


def gold_sides(predicted_source: str, gold_source: str) -> tuple[Side, Side]:
    """Predictions and gold trees, as messages name them."""
    return Side(predicted_source, "predicted", "the prediction"), Side(gold_source, "gold", "the tree")


def read_matching(
    trees: Sequence[Tree], others: Sequence[Tree], side: Side, other_side: Side, advice: str
) -> Sequence[Tree]:
    """`trees` if they are of the sentences of the others; else their file read without labels, if those are.

    (Some files can be read both ways.)  side.source: the file.  Raises InputError as `match_words` does.
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
    """Raises InputError naming the first word, by its position, that is not the one expected. place: of each."""
    for position, (word, other) in enumerate(zip(words, expected, strict=False), 1):
        if word != other:
            raise InputError(f"{place}: found {word!r} as word {position}, expected {other!r} as in {expected_place}")
    if len(words) != len(expected):
        raise InputError(f"{place}: found {len(words)} words, expected {len(expected)} as in {expected_place}")


def beginning(words: Sequence[str]) -> str:
    """The first words of a sentence, for a message."""
    return " ".join(words[:_SHOWN]) + (" ..." if len(words) > _SHOWN else "")
