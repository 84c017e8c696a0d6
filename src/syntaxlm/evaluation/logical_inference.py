"""Logical inference: accuracy of a pair classifier on the relation of two formulas, by number of operators.

Bowman, Manning, Potts 2015, section 3; Shen et al. 2019 (ON-LSTM), section 5.4 and Figure 4.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from syntaxlm.data.logic import RELATIONS, FormulaPair, read_formula_pairs
from syntaxlm.errors import InputError
from syntaxlm.evaluation.pair_classification import AccuracyScore, AnsweredPairs, answers
from syntaxlm.model_io import StoredClassifier
from syntaxlm.result_tables import Column, Table

INFERENCE_ACCURACIES = Table(
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

    table = INFERENCE_ACCURACIES

    def score(self, operators: range | None = None, relation: str | None = None) -> AccuracyScore:
        """Scores the pairs with these numbers of operators and with this relation; None: any."""

        def kept(pair: FormulaPair) -> bool:
            return (operators is None or pair.operators in operators) and relation in (None, pair.relation)

        return self.scored(kept)

    def by_operators(self) -> dict[int, AccuracyScore]:
        """Returns the scores for each number of operators in the file."""
        numbers = sorted({pair.operators for pair in self.pairs})
        return {number: self.score(range(number, number + 1)) for number in numbers}

    def by_relation(self) -> dict[str, AccuracyScore]:
        return {sign: self.score(relation=sign) for sign in RELATIONS}

    def trained_and_longer(self) -> tuple[AccuracyScore, AccuracyScore]:
        """Scores the pairs with at most the number of operators seen in training, and those with more."""
        most = self.maximum_operators
        return self.score(range(most + 1)), self.score(range(most + 1, sys.maxsize))

    def to_dict(self) -> dict[str, Any]:
        """Returns all figures for JSON."""
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
        """The accuracies of all groups, with the columns of `INFERENCE_ACCURACIES`."""
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
    """Evaluates a classifier on the pairs of a file.

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
