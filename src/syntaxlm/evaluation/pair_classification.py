"""Accuracy of a classifier on labelled pairs of sentences, in all and for each label."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from syntaxlm.core.errors import InputError
from syntaxlm.core.progress import progress_bar
from syntaxlm.core.tables import Column, Columns, HasRows
from syntaxlm.data.labelled_pairs import LabelledPair, read_labelled_pairs
from syntaxlm.data.logic import RELATIONS, FormulaPair, read_formula_pairs
from syntaxlm.models.pair_classifier import PairBatch, PairClassifier
from syntaxlm.storage.folder import PairClassifierSettings, PairTask, StoredClassifier
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.vocabulary import Vocabulary

BATCH = 256  # pairs

Pair = LabelledPair | FormulaPair


def read_pairs(
    path: str | Path, task: PairTask, normaliser: Normaliser, labels: Sequence[str] | None = None
) -> Sequence[Pair]:
    """Read a file of pairs. labels: allowed labels of sentence pairs; None: any.

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
        """Return the pairs with these indices, with their classes."""
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
        """Return the scores for JSON, as fractions from 0 to 1; None if there are no pairs."""
        some = self.pairs or None
        return {
            "pairs": self.pairs,
            "correct": self.right,
            "accuracy": some and self.right / some,
            "majority": some and self.majority / some,
        }

    def row(self, name: str) -> str:
        """Return a line of a table: the name, the number of pairs, and percentages."""
        shares = 100 * self.right / self.pairs, 100 * self.majority / self.pairs
        return f"{name:<22}{self.pairs:>8,}{shares[0]:>8.1f}{shares[1]:>12.1f}"


CLASSIFIER_ACCURACIES = Columns(
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
        """Score the pairs for which `kept` is true."""
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

    columns = CLASSIFIER_ACCURACIES

    def score(self, label: str | None = None) -> AccuracyScore:
        """Score the pairs with this label; None: all pairs."""
        return self.scored(lambda pair: label in (None, pair.label))

    def by_label(self) -> dict[str, AccuracyScore]:
        return {label: self.score(label) for label in self.labels}

    def to_dict(self) -> dict[str, Any]:
        """Return all figures for JSON."""
        return {
            "schema_version": 1,
            "file": self.source,
            "majority_label": self.majority,
            **self.score().to_dict(),
            "by_label": {label: score.to_dict() for label, score in self.by_label().items()},
        }

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the accuracies of all groups, with the columns of `CLASSIFIER_ACCURACIES`."""
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
    """Return the most probable class of every pair, in order. The classifier stays in evaluation mode."""
    classifier.eval()
    found: list[int] = []
    with torch.inference_mode():
        for start in progress_bar(range(0, len(pairs), BATCH), "classifying, batches of pairs"):
            batch = pairs.batch(range(start, min(start + BATCH, len(pairs))))
            found += classifier(batch.to(device))[0].argmax(-1).tolist()
    return found


def answers(stored: StoredClassifier, pairs: Sequence[Pair], device: torch.device | str = "cpu") -> tuple[str, ...]:
    """Return the predicted label of every pair, in order."""
    encoded = EncodedPairs(pairs, stored.settings, stored.vocabulary)
    labels = stored.settings.labels
    return tuple(labels[number] for number in classes_of(stored.classifier.to(device), encoded, device))


def evaluate_classifier(
    stored: StoredClassifier, path: str | Path, device: torch.device | str = "cpu"
) -> ClassificationReport:
    """Evaluate a classifier on the pairs of a file, which has the format of its training files.

    device: where the classifier is run.
    Raises InputError for the reasons of `read_pairs`, and for a label that the classifier does not have.
    """
    settings = stored.settings
    pairs = read_pairs(path, settings.task, settings.normaliser, settings.labels)
    return ClassificationReport(str(path), pairs, answers(stored, pairs, device), settings.labels)


# Logical inference: accuracy of a pair classifier on the relation of two formulas, by number of operators.
#
# Bowman, Manning, Potts 2015, section 3; Shen et al. 2019 (ON-LSTM), section 5.4 and Figure 4.


INFERENCE_ACCURACIES = Columns(
    "logical inference",
    "group of formula pairs",
    {
        "grouping": Column("text", "all, lengths, operators or relation"),
        "group": Column("text", "trained or longer; number of operators; relation; empty for all"),
        "pairs": Column("integer", "number of pairs"),
        "correct": Column("integer", "number of correct answers"),
        "accuracy": Column("number", "share of correct answers, 0 to 1; missing without pairs"),
        "majority": Column("number", "accuracy of always answering the most frequent relation of the file"),
    },
)


@dataclass(frozen=True)
class InferenceReport(AnsweredPairs):
    """A classifier's answers, the predicted relations, scored by number of operators.

    maximum_operators: largest number of operators in the classifier's training pairs.
    """

    pairs: tuple[FormulaPair, ...]
    maximum_operators: int

    columns = INFERENCE_ACCURACIES

    def score(self, operators: range | None = None, relation: str | None = None) -> AccuracyScore:
        """Score the pairs with these numbers of operators and with this relation; None: any."""

        def kept(pair: FormulaPair) -> bool:
            return (operators is None or pair.operators in operators) and relation in (None, pair.relation)

        return self.scored(kept)

    def by_operators(self) -> dict[int, AccuracyScore]:
        """Return the scores for each number of operators in the file."""
        numbers = sorted({pair.operators for pair in self.pairs})
        return {number: self.score(range(number, number + 1)) for number in numbers}

    def by_relation(self) -> dict[str, AccuracyScore]:
        return {sign: self.score(relation=sign) for sign in RELATIONS}

    def trained_and_longer(self) -> tuple[AccuracyScore, AccuracyScore]:
        """Score the pairs with at most the number of operators seen in training, and those with more."""
        most = self.maximum_operators
        return self.score(range(most + 1)), self.score(range(most + 1, sys.maxsize))

    def to_dict(self) -> dict[str, Any]:
        """Return all figures for JSON."""
        trained, longer = self.trained_and_longer()
        return {
            "schema_version": 2,  # 1 had "right" for "correct"
            "file": self.source,
            "maximum_operators_trained": self.maximum_operators,
            "majority_relation": self.majority,
            **self.score().to_dict(),
            "trained_lengths": trained.to_dict(),
            "longer": longer.to_dict(),
            "by_operators": {str(number): score.to_dict() for number, score in self.by_operators().items()},
            "by_relation": {sign: score.to_dict() for sign, score in self.by_relation().items()},
        }

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the accuracies of all groups, with the columns of `INFERENCE_ACCURACIES`."""
        trained, longer = self.trained_and_longer()
        groups: dict[str, dict[str, AccuracyScore]] = {
            "all": {"": self.score()},
            "lengths": {"trained": trained, "longer": longer},
            "operators": {str(number): one for number, one in self.by_operators().items()},
            "relation": self.by_relation(),
        }
        for grouping, scores in groups.items():
            for group, one in scores.items():
                yield {"grouping": grouping, "group": group, **one.to_dict()}

    def __str__(self) -> str:
        most = self.maximum_operators
        trained, longer = self.trained_and_longer()
        sections = [
            [(str(number), score) for number, score in self.by_operators().items()],
            [(f"up to {most}", trained), (f"over {most}", longer), ("all", self.score())],
            [(f"{RELATIONS[sign]} {sign}", score) for sign, score in self.by_relation().items()],
        ]
        lines = [
            f"{self.source}   pairs {len(self.pairs):,}   trained on up to {most} operators",
            f"accuracy in percent; baseline: always the most frequent relation of the file, {self.majority}",
            "",
            f"{'operators':<22}{'pairs':>8}{'correct':>8}{'baseline':>12}",
        ]
        for rows in sections:
            lines += [score.row(name) for name, score in rows if score.pairs]
            lines.append("")
        return "\n".join(lines[:-1])


def evaluate_inference(
    stored: StoredClassifier, path: str | Path, device: torch.device | str = "cpu"
) -> InferenceReport:
    """Evaluate a classifier on the pairs of a file.

    device: where the classifier is run.
    Raises InputError for the reasons of `read_formula_pairs`, and for a classifier of other pairs.
    """
    if stored.settings.task != "logic":
        raise InputError(
            "evaluate logic: found a classifier of sentence pairs; expected one trained on formulas. Use evaluate"
            " classifier"
        )
    pairs = read_formula_pairs(path)
    found = answers(stored, pairs, device)
    return InferenceReport(str(path), tuple(pairs), found, stored.settings.maximum_operators)
