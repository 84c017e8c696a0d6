"""Checks that two sources have trees of the same sentences: the same number of trees, with equal numbers of words."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from syntaxlm.core.arrays import Numbers
from syntaxlm.core.errors import InputError, shortened, warn_caller
from syntaxlm.core.option_names import option_name
from syntaxlm.core.reading import ReadingReport, Remarks, announce
from syntaxlm.statistics.bootstrap import BootstrapResult, RunScores, compare_runs
from syntaxlm.trees.preprocessing import (
    EMPTY_TAG,
    PREPROCESSINGS,
    GoldPreprocessing,
    clean,
    kept_words,
    text_words,
)
from syntaxlm.trees.tree import DependencyTree, Tree

# Two versions of a sentence may write a few words differently (brackets, quotes, numbers, unknown words). Two sentences
# count as different if a smaller share of their words is equal.
SAME_SENTENCE = 0.5
_WORDS_PRINTED = 12  # of a sentence in a message
_EXAMPLE_LENGTH = 60  # characters of a sentence in a reading report
GOLD_ADVICE = (
    "Expected one predicted tree for each gold tree, with the same number of words as before or after gold-tree"
    " preprocessing. Parsing with the option pretokenised gives each word of its text one leaf, whatever the model"
    " reads."
)


@dataclass(frozen=True)
class Side:
    """One of the two sources, for messages.

    Attributes:
        source: the file.
        name: label of its words.
        subject: description of its tree, such as "the prediction".
    """

    source: str
    name: str
    subject: str


def gold_sides(predicted_source: str, gold_source: str) -> tuple[Side, Side]:
    """Return the sources of predictions and gold trees, for messages."""
    return Side(predicted_source, "predicted", "the prediction"), Side(gold_source, "gold", "the tree")


@dataclass(frozen=True)
class GoldWords:
    """The words of gold trees, with which predictions are matched.

    Attributes:
        trees: the trees after preprocessing.
        kept: for each sentence, whether preprocessing keeps each of its words; without empty nodes. Sentences that lose
            all words have no tree.
        numbers: the number of each sentence in its file, from 1.
        rules: the preprocessing.
    """

    trees: Sequence[Tree]
    kept: Sequence[Sequence[bool]]
    numbers: Sequence[int]
    rules: GoldPreprocessing


def match_predictions(
    predicted: Sequence[Tree], gold: GoldWords, side: Side, gold_side: Side, advice: str = GOLD_ADVICE
) -> list[Tree]:
    """Return the predicted trees over the words of the gold trees, one for each.

    A prediction with all words of its sentence loses those that preprocessing drops from the gold tree, whatever its
    own tags are, as in EVALB. A prediction with as many words as the preprocessed gold tree is not changed. Any other
    prediction is preprocessed by its own tags. Empty nodes never count. What was done is announced.

    Warns of sentences whose words differ, see `compare_words`.

    Args:
        advice: the end of messages.

    Raises:
        InputError: the message has the first sentence that does not fit.
    """
    matches = _matches(predicted, gold)
    if list(map(len, matches.trees)) != list(map(len, gold.trees)):
        raise _no_match(matches, gold, len(predicted), side, gold_side, advice)

    remarks = Remarks()
    if matches.dropped:
        what = "words dropped at the positions that preprocessing drops from the gold trees"
        remarks.add(what, count=matches.dropped)
    for text in matches.by_own_tags:
        what = "trees with another number of words, from which words were dropped by their own tags"
        remarks.add(what, example=shortened(text, _EXAMPLE_LENGTH))
    numbers = [(number, gold.numbers[sentence]) for number, sentence in matches.places]
    compare_words(matches.trees, gold.trees, side, gold_side, numbers, remarks)
    if remarks:
        counts = {"sentences": len(matches.trees)}
        announce(ReadingReport(side.source, f"trees of {gold_side.source}", counts, remarks=remarks.all()))
    return matches.trees


@dataclass
class _Matches:
    """Predicted trees over the words of gold trees, where they fit.

    Attributes:
        trees: the predictions.
        places: for each, its number among all predictions, from 1, and the index of its sentence.
        dropped: number of words at positions that preprocessing drops from the gold trees.
        by_own_tags: sentences from which words were dropped by the tags of the prediction.
    """

    trees: list[Tree] = field(default_factory=list)
    places: list[tuple[int, int]] = field(default_factory=list)
    dropped: int = 0
    by_own_tags: list[str] = field(default_factory=list)

    def add(self, tree: Tree, kept: Sequence[bool], rules: GoldPreprocessing) -> None:
        """Add a prediction over the words that are kept, if it has these or all words of its sentence."""
        size = sum(kept)
        if len(tree) == len(kept) > size:
            self.dropped += len(kept) - size
            self.trees.append(clean(tree, rules, kept) or tree)
        elif len(tree) == size:
            self.trees.append(tree)
        else:
            self.trees.append(clean(tree, rules) or tree)
            if len(self.trees[-1]) == size:
                self.by_own_tags.append(" ".join(tree.words))


def _matches(predicted: Sequence[Tree], gold: GoldWords) -> _Matches:
    """Return the predictions over the words of the gold trees. Predictions that do not fit are unchanged."""
    trees = []
    for tree in predicted:
        in_text = text_words(tree, gold.rules)
        trees.append(tree if all(in_text) else clean(tree, gold.rules, in_text) or tree)

    # Sentences of punctuation only have no gold tree, and may be in one of the files only.
    with_tree = [sentence for sentence, kept in enumerate(gold.kept) if any(kept)]
    sentences = range(len(gold.kept)) if len(trees) == len(gold.kept) else with_tree
    if len(trees) != len(sentences):
        cleaned = [left for tree in trees if (left := clean(tree, gold.rules)) is not None]
        if list(map(len, cleaned)) == list(map(len, gold.trees)):
            places = list(enumerate(with_tree, 1))
            return _Matches(cleaned, places, by_own_tags=[" ".join(tree.words) for tree in cleaned])

    matches = _Matches()
    for number, (tree, sentence) in enumerate(zip(trees, sentences, strict=False), 1):
        if any(gold.kept[sentence]):
            matches.add(tree, gold.kept[sentence], gold.rules)
            matches.places.append((number, sentence))
    matches.trees += trees[len(sentences) :]
    return matches


def without_empty_nodes(tree: Tree) -> Tree:
    """Return a tree without its empty nodes (the tag -NONE-); the same tree if it has none or nothing else."""
    if EMPTY_TAG not in tree.tags:
        return tree
    return clean(tree, PREPROCESSINGS["none"]) or tree


def match_files(trees: Sequence[Tree], gold: Sequence[Tree], side: Side, gold_side: Side, advice: str) -> None:
    """Check that two files have trees of the same sentences. What is odd is announced.

    Warns of sentences whose words differ, see `compare_words`.

    Args:
        side: the source of `trees`, for messages.
        gold_side: the source of `gold`, for messages.
        advice: the end of messages.

    Raises:
        InputError: as in `mismatch` for different numbers of trees or words.
    """
    if list(map(len, trees)) != list(map(len, gold)):
        raise mismatch(trees, gold, side, gold_side, advice)
    remarks = Remarks()
    compare_words(trees, gold, side, gold_side, [(number, number) for number in range(1, len(trees) + 1)], remarks)
    if remarks:
        counts = {"sentences": len(trees)}
        announce(ReadingReport(side.source, f"trees of {gold_side.source}", counts, remarks=remarks.all()))


def compare_words(
    trees: Sequence[Tree],
    gold: Sequence[Tree],
    side: Side,
    gold_side: Side,
    numbers: Sequence[tuple[int, int]],
    remarks: Remarks,
) -> None:
    """Warn if fewer than half of the words of a sentence agree, with the first such pair of sentences.

    Args:
        gold: trees of equal lengths as `trees`.
        numbers: the number of each pair's tree in the two files, from 1.
        remarks: get the number of these sentences.
    """
    pairs = enumerate(zip(trees, gold, strict=True))
    differing = [index for index, (tree, gold_tree) in pairs if not is_same_sentence(tree.words, gold_tree.words)]
    if not differing:
        return
    first = differing[0]
    what = f"sentences of which fewer than half of the words agree with {gold_side.source}"
    remarks.add(what, example=shortened(" ".join(trees[first].words), _EXAMPLE_LENGTH), count=len(differing))
    number, gold_number = numbers[first]
    numbered = "sentence" if number == gold_number else f"sentences {number:,} and"
    warn_caller(
        f"{side.source} and {gold_side.source}: fewer than half of the words agree in {len(differing):,} of"
        f" {len(trees):,} sentences. The first is {numbered} {gold_number:,}:\n"
        f"{_side_by_side(trees[first].words, gold[first].words, side, gold_side)}\n"
        f"{_likely_order(trees, gold, differing)}Trees are compared by their position in the files."
    )


def is_same_sentence(words: Sequence[str], gold_words: Sequence[str]) -> bool:
    """Return whether at least half of the words of two sentences agree, whatever their case and Unicode form."""
    if words == gold_words:
        return True
    pairs = zip(words, gold_words, strict=True)
    equal = sum(word == gold_word or _plain(word) == _plain(gold_word) for word, gold_word in pairs)
    return equal >= SAME_SENTENCE * len(words)


def _plain(word: str) -> str:
    return unicodedata.normalize("NFKC", word).lower()


def _likely_order(trees: Sequence[Tree], gold: Sequence[Tree], differing: Sequence[int]) -> str:
    """Describe how the sentences of two files are ordered, if that explains the differing pairs; otherwise ""."""
    words = [tree.words for tree in trees]
    expected = [tree.words for tree in gold]
    if Counter(words) == Counter(expected):
        return "Both files have the same sentences, in different orders. "
    if len(words) != len(expected):
        return ""
    for shift, direction in ((1, "later"), (-1, "earlier")):
        shifted = (0 <= place + shift < len(words) and words[place + shift] == expected[place] for place in differing)
        if differing and sum(shifted) >= SAME_SENTENCE * len(differing):
            return f"Most of these sentences are one tree {direction} in the first file. "
    return ""


def _side_by_side(words: Sequence[str] | None, gold_words: Sequence[str] | None, side: Side, gold_side: Side) -> str:
    """Return the beginnings of two sentences, one per line; None: there is no tree."""
    width = max(len(side.name), len(gold_side.name)) + 1
    pairs = ((gold_side.name, gold_words), (side.name, words))
    lines = [
        f"  {name + ':':{width}} {'(no tree)' if sentence is None else beginning(sentence)}" for name, sentence in pairs
    ]
    return "\n".join(lines)


def _no_match(
    matches: _Matches, gold: GoldWords, predictions: int, side: Side, gold_side: Side, advice: str
) -> InputError:
    """Return the error for predictions that do not fit the gold trees.

    Args:
        predictions: the number of all predictions.
    """
    # The first tree that differs, and the numbers of its sentence in the two files.
    trees = matches.trees
    index = _first_difference(trees, gold.trees)
    beginnings = _side_by_side(_words_of(trees, index), _words_of(gold.trees, index), side, gold_side)
    with_tree = [*(sentence for sentence, kept in enumerate(gold.kept) if any(kept)), len(gold.kept)]
    sentence = with_tree[index]
    number = matches.places[index][0] if index < len(matches.places) else index + 1
    gold_number = gold.numbers[sentence] if sentence < len(gold.numbers) else sentence + 1

    rule = gold.rules.name
    if predictions not in (len(gold.kept), len(gold.trees)):
        emptied = len(gold.kept) - len(gold.trees)
        more = f" ({emptied:,} more have no word after preprocessing {rule})" if emptied else ""
        return InputError(
            f"{side.source}: found {predictions:,} trees; expected {len(gold.trees):,} as in {gold_side.source}{more}."
            f"\nFirst difference: sentence {gold_number:,}\n{beginnings}\n{advice}"
        )
    before = len(gold.kept[sentence])
    after = len(gold.trees[index])
    raw = f" ({before} before preprocessing {rule})" if before != after else ""
    reason = _likely_order(trees, gold.trees, []) or _fitting_rule(trees, gold)
    return InputError(
        f"{gold_side.source}, sentence {gold_number}: the tree has {after} words{raw}, but {side.subject} has"
        f" {len(trees[index])}.\n{beginnings}   ({side.source}, tree {number})\n{reason}{advice}"
    )


def _first_difference(trees: Sequence[Tree], gold: Sequence[Tree]) -> int:
    """Return the index of the first pair of trees of different lengths; or the number of pairs."""
    pairs = enumerate(zip(trees, gold, strict=False))
    different = (index for index, (tree, gold_tree) in pairs if len(tree) != len(gold_tree))
    return next(different, min(len(trees), len(gold)))


def _words_of(trees: Sequence[Tree], index: int) -> Sequence[str] | None:
    return trees[index].words if index < len(trees) else None


def _fitting_rule(trees: Sequence[Tree], gold: GoldWords) -> str:
    """Describe which preprocessing of the gold trees would leave as many words as the predictions have, or ""."""
    sizes = list(map(len, trees))
    for name, rules in PREPROCESSINGS.items():
        if list(filter(None, (sum(kept_words(tree, rules)) for tree in gold.trees))) == sizes:
            return f"The numbers of words agree with {option_name('--preprocessing', name)}. "
    return ""


def mismatch(trees: Sequence[Tree], gold: Sequence[Tree], side: Side, gold_side: Side, advice: str) -> InputError:
    """Return the error for files with trees of different numbers or lengths: the first sentence that differs."""
    index = _first_difference(trees, gold)
    beginnings = _side_by_side(_words_of(trees, index), _words_of(gold, index), side, gold_side)
    if len(trees) != len(gold):
        return InputError(
            f"{side.source}: found {len(trees):,} trees; expected {len(gold):,} as in {gold_side.source}.\n"
            f"First difference: sentence {index + 1}\n{beginnings}\n{advice}"
        )
    return InputError(
        f"{gold_side.source}, sentence {index + 1}: the tree has {len(gold[index])} words, but {side.subject} has"
        f" {len(trees[index])}.\n{beginnings}   ({side.source}, tree {index + 1})\n{advice}"
    )


def check_same_words(words: Sequence[str], expected: Sequence[str], place: str, expected_place: str) -> None:
    """Raise InputError with the position of the first word that differs.

    Args:
        place: file and line of the sentence, for messages.
        expected_place: file and line of the expected words, for messages.
    """
    for position, (word, wanted) in enumerate(zip(words, expected, strict=False), 1):
        if word != wanted:
            raise InputError(f"{place}: found {word!r} as word {position}; expected {wanted!r} as in {expected_place}")
    if len(words) != len(expected):
        raise InputError(f"{place}: found {len(words)} words; expected {len(expected)} as in {expected_place}")


def beginning(words: Sequence[str]) -> str:
    """Return the first words of a sentence, for a message."""
    return " ".join(words[:_WORDS_PRINTED]) + (" ..." if len(words) > _WORDS_PRINTED else "")


# Attachment scores of dependency trees: percentage of words with the correct head (UAS), or head and label (LAS).
#
# Both are computed over all words and over words that are not punctuation. A word is punctuation if its gold tag is
# PUNCT or, if its tag is not from Universal Dependencies, if all its characters have a Unicode category of punctuation.
# Labels are compared in full, including subtypes (nsubj:pass).


NO_PUNCTUATION, ALL_WORDS = range(2)  # rows of `Counts`: which words are counted
WORDS, HEADS, LABELLED = range(3)  # columns: all words, those with the correct head, with the correct head and label

_PUNCTUATION = "PUNCT"
_UNIVERSAL_TAGS = PREPROCESSINGS["ud"].known_tags


def is_punctuation(word: str, tag: str) -> bool:
    """Return whether a word is punctuation: by its Universal Dependencies tag, or else by its characters."""
    if tag in _UNIVERSAL_TAGS:
        return tag == _PUNCTUATION
    return all(unicodedata.category(character)[0] == "P" for character in word)


def attachment(predicted: DependencyTree, gold: DependencyTree, place: str = "", gold_place: str = "") -> Numbers:
    """Count correct attachments: (2, 3), rows NO_PUNCTUATION, ALL_WORDS, columns WORDS, HEADS, LABELLED.

    Args:
        place: location of the tree, for messages; by default its name.
        gold_place: location of the gold tree, for messages; by default its name.

    Raises:
        InputError: the message names the position of the first word that differs.
    """
    if predicted.words != gold.words:
        places = place or f"sentence {predicted.name}", gold_place or f"the gold sentence {gold.name}"
        check_same_words(predicted.words, gold.words, *places)
    heads = np.array(predicted.heads) == np.array(gold.heads)
    labels = np.fromiter(map(str.__eq__, predicted.labels, gold.labels), bool, len(gold))
    marks = np.fromiter(map(is_punctuation, gold.words, gold.tags), bool, len(gold))
    everywhere = np.ones(len(gold))
    return np.stack([~marks, everywhere]) @ np.stack([everywhere, heads, heads & labels], axis=1)


@dataclass(frozen=True, eq=False)
class AttachmentScores:
    """The attachment scores of a set of trees.

    Attributes:
        counts: (S, 2, 3), for each sentence, as returned by `attachment`.
        labelled: whether the gold trees have labels; without labels there is no LAS.
    """

    counts: Numbers
    labelled: bool = True

    def uas(self, words: int = NO_PUNCTUATION) -> float | None:
        """Return UAS as a fraction, over the words of all sentences; None if there are no words."""
        return self._share(HEADS, words)

    def las(self, words: int = NO_PUNCTUATION) -> float | None:
        """Return LAS, like `uas`; also None if the gold trees have no labels."""
        return self._share(LABELLED, words) if self.labelled else None

    def words(self, words: int = NO_PUNCTUATION) -> int:
        """Return the number of words."""
        return int(self.counts[:, words, WORDS].sum())

    def to_dict(self) -> dict[str, float | None]:
        """Return the scores as fractions from 0 to 1."""
        return {
            "uas": self.uas(),
            "las": self.las(),
            "uas_all_words": self.uas(ALL_WORDS),
            "las_all_words": self.las(ALL_WORDS),
        }

    def _share(self, column: int, words: int) -> float | None:
        total = self.counts[:, words, WORDS].sum()
        return float(self.counts[:, words, column].sum() / total) if total else None


def compare_attachment(first: AttachmentScores, second: AttachmentScores) -> BootstrapResult:
    """Compare two sets of trees by a paired bootstrap over sentences, for UAS without punctuation.

    Raises:
        InputError: if sentences differ in number or size, or all words are punctuation.
    """
    words = first.counts[:, NO_PUNCTUATION, WORDS]
    second_words = second.counts[:, NO_PUNCTUATION, WORDS]
    if not np.array_equal(words, second_words):
        raise InputError(f"found scores of {len(words)} and {len(second_words)} sentences; expected the same sentences")
    if not words.any():
        raise InputError("found only punctuation; expected other words to compare")
    first_run = RunScores(first.counts[None, :, NO_PUNCTUATION, HEADS], words[None])
    second_run = RunScores(second.counts[None, :, NO_PUNCTUATION, HEADS], words[None])
    return compare_runs(first_run, second_run, "UAS")
