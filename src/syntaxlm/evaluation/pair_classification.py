"""Accuracy of a classifier on labelled pairs of sentences, in all and for each label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from syntaxlm.data.labelled_pairs import LabelledPair, read_labelled_pairs
from syntaxlm.data.logic import FormulaPair, read_formula_pairs
from syntaxlm.model_io import PairClassifierSettings, PairTask, StoredClassifier
from syntaxlm.models.pair_classifier import PairBatch, PairClassifier
from syntaxlm.progress import progress_bar
from syntaxlm.result_tables import Column, HasRows, Table
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.vocabulary import Vocabulary

BATCH = 256  # pairs

Pair = LabelledPair | FormulaPair


def read_pairs(
    path: str | Path, task: PairTask, normaliser: Normaliser, labels: Sequence[str] | None = None
) -> Sequence[Pair]:
    """Reads a file of pairs. labels: allowed labels of sentence pairs; None: any.

    Raises InputError for the reasons of `read_formula_pairs` and `read_labelled_pairs`.
    """
    return read_formula_pairs(path) if task == "logic" else read_labelled_pairs(path, normaliser, labels)


class EncodedPairs:
    """Pairs as token ids, and their labels as classes, (n,). Every label must be in the settings."""

    def __init__(self, pairs: Sequence[Pair], settings: PairClassifierSettings, vocabulary: Vocabulary) -> None:
        def encoded(sentence: str) -> Tensor:
            return torch.tensor(vocabulary.encode(settings.normaliser.tokens(sentence)))

        classes = {label: number for number, label in enumerate(settings.labels)}
        self.left, self.right = [encoded(pair.left) for pair in pairs], [encoded(pair.right) for pair in pairs]
        self.classes = torch.tensor([classes[pair.label] for pair in pairs])

    def __len__(self) -> int:
        return len(self.classes)

    def batch(self, places: Sequence[int]) -> PairBatch:
        """Returns the pairs with these indices, with their classes."""
        left, right = ([side[place] for place in places] for side in (self.left, self.right))
        return PairBatch.of(left, right, self.classes[list(places)])


@dataclass(frozen=True)
class AccuracyScore:
    """Scores of a set of pairs.

    pairs: number of pairs.  right: number of correct answers.
    majority: number of pairs with the most frequent label of the file.
    """

    pairs: int
    right: int
    majority: int

    def to_dict(self) -> dict[str, Any]:
        """Returns the scores for JSON, as fractions from 0 to 1; None if there are no pairs."""
        some = self.pairs or None
        return {
            "pairs": self.pairs,
            "correct": self.right,
            "accuracy": some and self.right / some,
            "majority": some and self.majority / some,
        }

    def row(self, name: str) -> str:
        """A line of a table: the name, the number of pairs, and percentages."""
        shares = 100 * self.right / self.pairs, 100 * self.majority / self.pairs
        return f"{name:<22}{self.pairs:>8,}{shares[0]:>8.1f}{shares[1]:>12.1f}"


CLASSIFIER_ACCURACIES = Table(
    "accuracies of a pair classifier",
    "group of pairs",
    {
        "grouping": Column("text", "all or label"),
        "group": Column("text", "label; empty for all"),
        "pairs": Column("integer", "number of pairs"),
        "correct": Column("integer", "number of correct answers"),
        "accuracy": Column("number", "share of correct answers, 0 to 1; missing without pairs"),
        "majority": Column("number", "accuracy of always answering the most frequent label of the file"),
    },
)


@dataclass(frozen=True)
class AnsweredPairs(HasRows):
    """A classifier's answers to the pairs of a file.

    answers: the predicted label of each pair.
    """

    source: str
    pairs: Sequence[Pair]
    answers: tuple[str, ...]

    @property
    def majority(self) -> str:
        """The most frequent label of the file, which the baseline predicts for all pairs."""
        return Counter(pair.label for pair in self.pairs).most_common(1)[0][0]

    def scored(self, kept: Callable[[Any], bool]) -> AccuracyScore:
        """Scores the pairs for which `kept` is true."""
        majority = self.majority
        some = [(pair.label, answer) for pair, answer in zip(self.pairs, self.answers, strict=True) if kept(pair)]
        right = sum(label == answer for label, answer in some)
        return AccuracyScore(len(some), right, sum(label == majority for label, _ in some))


@dataclass(frozen=True)
class ClassificationReport(AnsweredPairs):
    """A classifier's answers, scored in all and for each label.

    labels: those of the classifier, in the order of its classes.
    """

    labels: tuple[str, ...]

    table = CLASSIFIER_ACCURACIES

    def score(self, label: str | None = None) -> AccuracyScore:
        """Scores the pairs with this label; None: all pairs."""
        return self.scored(lambda pair: label in (None, pair.label))

    def by_label(self) -> dict[str, AccuracyScore]:
        return {label: self.score(label) for label in self.labels}

    def to_dict(self) -> dict[str, Any]:
        """Returns all figures for JSON."""
        return {
            "schema_version": 1,
            "file": self.source,
            "majority_label": self.majority,
            **self.score().to_dict(),
            "by_label": {label: score.to_dict() for label, score in self.by_label().items()},
        }

    def rows(self) -> Iterator[dict[str, Any]]:
        """The accuracies of all groups, with the columns of `CLASSIFIER_ACCURACIES`."""
        yield {"grouping": "all", "group": "", **self.score().to_dict()}
        for label, score in self.by_label().items():
            yield {"grouping": "label", "group": label, **score.to_dict()}

    def __str__(self) -> str:
        lines = [
            f"{self.source}   pairs {len(self.pairs):,}",
            f"accuracy in percent; baseline: always the most frequent label of the file, {self.majority}",
            "",
            f"{'label':<22}{'pairs':>8}{'correct':>8}{'baseline':>12}",
            *(score.row(label) for label, score in self.by_label().items() if score.pairs),
            self.score().row("all"),
        ]
        return "\n".join(lines)


def classes_of(classifier: PairClassifier, pairs: EncodedPairs, device: torch.device | str = "cpu") -> list[int]:
    """Returns the most probable class of every pair, in order. The classifier stays in evaluation mode."""
    classifier.eval()
    found: list[int] = []
    with torch.inference_mode():
        for start in progress_bar(range(0, len(pairs), BATCH), "classifying, batches of pairs"):
            batch = pairs.batch(range(start, min(start + BATCH, len(pairs))))
            found += classifier(batch.to(device))[0].argmax(-1).tolist()
    return found


def answers(stored: StoredClassifier, pairs: Sequence[Pair], device: torch.device | str = "cpu") -> tuple[str, ...]:
    """Returns the predicted label of every pair, in order."""
    encoded = EncodedPairs(pairs, stored.settings, stored.vocabulary)
    labels = stored.settings.labels
    return tuple(labels[number] for number in classes_of(stored.classifier.to(device), encoded, device))


def evaluate_classifier(
    stored: StoredClassifier, path: str | Path, device: torch.device | str = "cpu"
) -> ClassificationReport:
    """Evaluates a classifier on the pairs of a file, which has the format of its training files.

    device: where the classifier is run.
    Raises InputError for the reasons of `read_pairs`, and for a label that the classifier does not have.
    """
    settings = stored.settings
    pairs = read_pairs(path, settings.task, settings.normaliser, settings.labels)
    return ClassificationReport(str(path), pairs, answers(stored, pairs, device), settings.labels)
