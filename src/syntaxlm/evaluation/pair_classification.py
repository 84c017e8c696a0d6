"""Accuracy of a classifier on labelled pairs of sentences, or of formulas (logical inference), in all and by group.

Logical inference: the relation of two formulas, by their number of operators. Bowman, Manning, Potts 2015, section 3;
Shen et al. 2019 (ON-LSTM), section 5.4 and Figure 4.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from syntaxlm.core.errors import InputError
from syntaxlm.core.progress import progress_bar
from syntaxlm.data.labelled_pairs import RELATIONS, LabelledPair, read_formula_pairs, read_labelled_pairs
from syntaxlm.models.classifiers import PairBatch, PairClassifier
from syntaxlm.reports.report import HasReport, Report
from syntaxlm.reports.tables import PERCENT, Column, Columns, ReportTable
from syntaxlm.storage.folder import ClassifierBundle, PairClassifierSettings, PairTask
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.vocabulary import Vocabulary

BATCH = 256  # pairs

CLASSIFIER_ACCURACIES = Columns(
    "accuracies of a pair classifier",
    "group of pairs",
    {
        "grouping": Column("text", "all or label; for formulas, all, lengths, operators or relation"),
        "group": Column("text", "label; trained or longer; number of operators; relation; empty for all"),
        "pairs": Column("integer", "number of pairs"),
        "correct": Column("integer", "number of correct answers"),
        "accuracy": Column("number", "share of correct answers, 0 to 1; missing without pairs", PERCENT),
        "majority": Column("number", "accuracy of always predicting the most frequent label of the file", PERCENT),
    },
)


def read_pairs(
    path: str | Path, task: PairTask, normaliser: Normaliser, labels: Sequence[str] | None = None
) -> Sequence[LabelledPair]:
    """Read a file of pairs.

    Args:
        labels: allowed labels of sentence pairs; None: any.

    Raises:
        InputError: for the reasons of `read_formula_pairs` and `read_labelled_pairs`.
    """
    return read_formula_pairs(path) if task == "logic" else read_labelled_pairs(path, normaliser, labels)


class EncodedPairs:
    """Pairs as token ids, and their labels as classes, (n,). Every label must be in the settings."""

    def __init__(self, pairs: Sequence[LabelledPair], settings: PairClassifierSettings, vocabulary: Vocabulary) -> None:
        normaliser = Normaliser(settings.normaliser)

        def encoded(sentence: str) -> Tensor:
            return torch.tensor(vocabulary.encode(normaliser.tokens(sentence)))

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
class GroupScore:
    """Scores of a group of pairs.

    Attributes:
        correct: number of correct answers.
        majority: number of pairs with the most frequent label of the file.
    """

    pairs: int
    correct: int
    majority: int

    def to_dict(self) -> dict[str, Any]:
        """Return the scores for JSON, as fractions from 0 to 1; None if there are no pairs."""
        count = self.pairs or None
        return {
            "pairs": self.pairs,
            "correct": self.correct,
            "accuracy": count and self.correct / count,
            "majority": count and self.majority / count,
        }


@dataclass(frozen=True)
class AnsweredPairs(HasReport):
    """A classifier's answers to the pairs of a file.

    Attributes:
        answers: the predicted label of each pair.
    """

    source: str
    pairs: Sequence[LabelledPair]
    answers: tuple[str, ...]

    @cached_property
    def majority(self) -> str:
        """The most frequent label of the file, which the baseline predicts for all pairs."""
        return Counter(pair.label for pair in self.pairs).most_common(1)[0][0]

    def score(self, operators: range | None = None, label: str | None = None) -> GroupScore:
        """Score the pairs with these numbers of operators and with this label; None: any."""
        kept = [
            (pair.label, answer)
            for pair, answer in zip(self.pairs, self.answers, strict=True)
            if (operators is None or pair.operators in operators) and label in (None, pair.label)
        ]
        correct = sum(gold == answer for gold, answer in kept)
        return GroupScore(len(kept), correct, sum(gold == self.majority for gold, _ in kept))

    @property
    @abstractmethod
    def groupings(self) -> dict[str, dict[str, GroupScore]]:
        """The scores by type of grouping and group."""

    def _report(
        self,
        schema_version: int,
        figures: Mapping[str, Any],
        facts: Mapping[str, Any],
        heading: str,
        label: str,
        shown: Sequence[Mapping[str, GroupScore]],
    ) -> Report:
        """Return a report.

        Args:
            heading: the heading of the first column.
            label: what the classifier predicts.
            shown: blocks of rows of the table, by title; groups without pairs are left out.
        """
        rows = [
            {"grouping": grouping, "group": group, **score.to_dict()}
            for grouping, groups in self.groupings.items()
            for group, score in groups.items()
        ]
        lines: list[Sequence[Any]] = []
        for block in shown:
            scores = {title: score.to_dict() for title, score in block.items() if score.pairs}
            lines += [
                [title, figures["pairs"], figures["accuracy"], figures["majority"]] for title, figures in scores.items()
            ]
            lines.append([""] * 4)
        headings = {heading: "", "pairs": ",", "correct": PERCENT, "baseline": PERCENT}
        baseline = f"accuracy in percent; baseline: always the most frequent {label} of the file, {self.majority}"
        return Report(
            CLASSIFIER_ACCURACIES,
            rows,
            {
                "schema_version": schema_version,
                "file": self.source,
                f"majority_{label}": self.majority,
                **self.score().to_dict(),
                **figures,
            },
            {"pairs": len(self.pairs), **facts},
            [baseline],
            [ReportTable(headings, lines[:-1])],
            data=[self.source],
        )


@dataclass(frozen=True)
class ClassificationReport(AnsweredPairs):
    """A classifier's answers, scored in all and for each label.

    Attributes:
        labels: those of the classifier, in the order of its classes.
    """

    labels: tuple[str, ...]

    @cached_property
    def groupings(self) -> dict[str, dict[str, GroupScore]]:
        """The scores of all pairs and of each label."""
        return {"all": {"": self.score()}, "label": {label: self.score(label=label) for label in self.labels}}

    def report(self) -> Report:
        """Return the accuracies of all pairs and of each label."""
        by_label = self.groupings["label"]
        shown = [{**by_label, "all": self.score()}]
        return self._report(1, {"by_label": by_label}, {}, "label", "label", shown)


@dataclass(frozen=True)
class InferenceReport(AnsweredPairs):
    """A classifier's answers, the predicted relations, scored by number of operators.

    Attributes:
        maximum_operators: largest number of operators in the classifier's training pairs.
    """

    maximum_operators: int

    @cached_property
    def groupings(self) -> dict[str, dict[str, GroupScore]]:
        """The scores of all pairs, of those with at most the number of operators seen in training and of longer ones,
        by number of operators, and by relation.
        """
        most = self.maximum_operators
        numbers = sorted({pair.operators for pair in self.pairs})
        return {
            "all": {"": self.score()},
            "lengths": {"trained": self.score(range(most + 1)), "longer": self.score(range(most + 1, sys.maxsize))},
            "operators": {str(number): self.score(range(number, number + 1)) for number in numbers},
            "relation": {sign: self.score(label=sign) for sign in RELATIONS},
        }

    def report(self) -> Report:
        """Return the accuracies by number of operators and relation."""
        most = self.maximum_operators
        (whole, lengths, operators, relations) = self.groupings.values()
        figures = {
            "maximum_operators_trained": most,
            "trained_lengths": lengths["trained"],
            "longer": lengths["longer"],
            "by_operators": operators,
            "by_relation": relations,
        }
        shown = [
            operators,
            {f"up to {most}": lengths["trained"], f"over {most}": lengths["longer"], "all": whole[""]},
            {f"{RELATIONS[sign]} {sign}": score for sign, score in relations.items()},
        ]
        return self._report(2, figures, {"trained on up to": f"{most} operators"}, "operators", "relation", shown)


def classes_of(classifier: PairClassifier, pairs: EncodedPairs, device: torch.device | str = "cpu") -> list[int]:
    """Return the most probable class of every pair, in order. The classifier stays in evaluation mode."""
    classifier.eval()
    classes: list[int] = []
    with torch.inference_mode():
        for start in progress_bar(range(0, len(pairs), BATCH), "classifying, batches of pairs"):
            batch = pairs.batch(range(start, min(start + BATCH, len(pairs))))
            classes += classifier(batch.to(device))[0].argmax(-1).tolist()
    return classes


def answers(
    bundle: ClassifierBundle, pairs: Sequence[LabelledPair], device: torch.device | str = "cpu"
) -> tuple[str, ...]:
    """Return the predicted label of every pair, in order."""
    encoded = EncodedPairs(pairs, bundle.settings, bundle.vocabulary)
    labels = bundle.settings.labels
    return tuple(labels[number] for number in classes_of(bundle.classifier.to(device), encoded, device))


def evaluate_classifier(
    bundle: ClassifierBundle, path: str | Path, device: torch.device | str = "cpu"
) -> ClassificationReport:
    """Evaluate a classifier on the pairs of a file, which has the format of its training files.

    Args:
        device: where the classifier is run.

    Raises:
        InputError: for the reasons of `read_pairs`, and for a label that the classifier does not have.
    """
    settings = bundle.settings
    pairs = read_pairs(path, settings.task, Normaliser(settings.normaliser), settings.labels)
    return ClassificationReport(str(path), pairs, answers(bundle, pairs, device), settings.labels)


def evaluate_inference(
    bundle: ClassifierBundle, path: str | Path, device: torch.device | str = "cpu"
) -> InferenceReport:
    """Evaluate a classifier on the formula pairs of a file.

    Args:
        device: where the classifier is run.

    Raises:
        InputError: for the reasons of `read_formula_pairs`, and for a classifier of other pairs.
    """
    if bundle.settings.task != "logic":
        raise InputError(
            "evaluate logic: found a classifier of sentence pairs; expected one trained on formulas. Use evaluate"
            " classifier"
        )
    pairs = tuple(read_formula_pairs(path))
    return InferenceReport(str(path), pairs, answers(bundle, pairs, device), bundle.settings.maximum_operators)
