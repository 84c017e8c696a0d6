"""Checks that two sources have trees of the same sentences: the same number of trees, with equal numbers of words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from syntaxlm.errors import InputError
from syntaxlm.trees.brackets import read_brackets
from syntaxlm.trees.tree import Tree

_SHOWN = 12  # number of words of a sentence in a message


@dataclass(frozen=True)
class Side:
    """One of the two sources, for messages.

    source: the file.  name: label of its words.  subject: description of its tree, such as "the prediction".
    """

    source: str
    name: str
    subject: str


def match_words(predicted: Sequence[Tree], gold: Sequence[Tree], predicted_source: str, gold_source: str) -> None:
    """Checks that there is one predicted tree per gold tree, with the same number of words.

    predicted_source, gold_source: the files, for messages.
    The words may differ, because of normalisation.
    Raises InputError with the sources, the number of the first sentence that differs, and both sentences.
    """
    _match(predicted, gold, *gold_sides(predicted_source, gold_source), GOLD_ADVICE)


GOLD_ADVICE = (
    "Expected one predicted tree for each gold tree, with the same number of words as after gold-tree preprocessing."
)


def gold_sides(predicted_source: str, gold_source: str) -> tuple[Side, Side]:
    """Returns the sources of predictions and gold trees, for messages."""
    return Side(predicted_source, "predicted", "the prediction"), Side(gold_source, "gold", "the tree")


def read_matching(
    trees: Sequence[Tree], others: Sequence[Tree], side: Side, other_side: Side, advice: str
) -> Sequence[Tree]:
    """Returns `trees` if they match the others; otherwise reads the file again without labels.

    Some files can be read with and without labels.
    side, other_side: the sources, for messages; side.source is the file of `trees`.  advice: the end of messages.
    Raises InputError like `match_words` if neither reading matches.
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
        f"{other_side.source}, sentence {wrong + 1}: the tree has {len(other)} words, but {side.subject} has"
        f" {len(one)}.\n"
        f"{_both(one, other, side, other_side)}   ({side.source}, tree {wrong + 1})\n{advice}"
    )


def first_difference(trees: Sequence[Tree], others: Sequence[Tree]) -> int | None:
    """Returns the index of the first sentence that differs in length or has no partner; None if all match."""
    pairs = list(zip(trees, others, strict=False))
    by_length = next((place for place, (one, other) in enumerate(pairs) if len(one) != len(other)), len(pairs))
    return None if by_length == len(pairs) and len(trees) == len(others) else by_length


def wrong_number(
    trees: Sequence[Tree], others: Sequence[Tree], side: Side, other_side: Side, advice: str
) -> InputError:
    """Returns the error for two files with different numbers of trees."""
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
    """Raises InputError with the position of the first word that differs.

    place, expected_place: files and lines of the two sentences, for messages.
    """
    for position, (word, other) in enumerate(zip(words, expected, strict=False), 1):
        if word != other:
            raise InputError(f"{place}: found {word!r} as word {position}, expected {other!r} as in {expected_place}")
    if len(words) != len(expected):
        raise InputError(f"{place}: found {len(words)} words, expected {len(expected)} as in {expected_place}")


def beginning(words: Sequence[str]) -> str:
    """Returns the first words of a sentence, for a message."""
    return " ".join(words[:_SHOWN]) + (" ..." if len(words) > _SHOWN else "")
