"""Logical inference: accuracy of a pair classifier on the relation of two formulas, by number of operators.

Bowman, Manning, Potts 2015, section 3; Shen et al. 2019 (ON-LSTM), section 5.4 and Figure 4.
"""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor

from syntaxlm.data.logic import RELATIONS, TOKENS, TRAINED_OPERATORS, FormulaPair, read_formula_pairs
from syntaxlm.errors import InputError
from syntaxlm.files import make_folder, to_json, write_text
from syntaxlm.model_io import WEIGHTS, distinct_tensors, present_name, put_tensors, read_config
from syntaxlm.models.pair_classifier import ClassifierSettings, PairBatch, PairClassifier
from syntaxlm.models.registry import ModelConfig
from syntaxlm.models.sizes import shapes_of
from syntaxlm.progress import progress_bar
from syntaxlm.result_tables import Column, HasRows, Table
from syntaxlm.settings import Settings
from syntaxlm.tensor_files import TensorFile, read_tensors, refuse, renamed, tensor_faults, write_tensors

CLASSIFIER = "classifier.json"
FORMAT = 2
BATCH = 256  # pairs

Operators = Annotated[int, Field(ge=0, le=1000)]  # number of operators of a formula

_SIGNS = tuple(RELATIONS)  # in the order of the classes
_IDS = {token: number for number, token in enumerate(TOKENS)}


@dataclass(frozen=True)
class InferenceSettings(Settings):
    """The content of `classifier.json`."""

    model: ModelConfig
    classifier: ClassifierSettings
    maximum_operators: Operators = TRAINED_OPERATORS  # largest number of operators in the training pairs
    format: int = FORMAT

    def build(self) -> PairClassifier:
        """Returns a classifier with new random weights."""
        return PairClassifier(self.model, self.classifier, len(TOKENS), len(_SIGNS))


@dataclass(frozen=True)
class StoredClassifier:
    """A pair classifier of formulas, and its settings."""

    classifier: PairClassifier
    settings: InferenceSettings


class EncodedPairs:
    """Formula pairs as token ids, and their relations as classes, (n,)."""

    def __init__(self, pairs: Sequence[FormulaPair]) -> None:
        self.left, self.right = ([_encoded(side) for side in sides] for sides in zip(*map(_sides, pairs), strict=True))
        self.relations = torch.tensor([_SIGNS.index(pair.relation) for pair in pairs])

    def __len__(self) -> int:
        return len(self.relations)

    def batch(self, places: Sequence[int]) -> PairBatch:
        """Returns the pairs with these indices, with their relations as classes."""
        left, right = ([side[place] for place in places] for side in (self.left, self.right))
        return PairBatch.of(left, right, self.relations[list(places)])


def _sides(pair: FormulaPair) -> tuple[str, str]:
    return pair.left, pair.right


def _encoded(formula: str) -> Tensor:
    return torch.tensor([_IDS[token] for token in formula.split()])


@dataclass(frozen=True)
class InferenceScore:
    """Scores of a set of pairs.

    pairs: number of pairs.  right: number of correct answers.
    majority: number of pairs with the most frequent relation of the file.
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
class InferenceReport(HasRows):
    """A classifier's answers to the pairs of a file.

    answers: the predicted relation of each pair.
    maximum_operators: largest number of operators in the classifier's training pairs.
    """

    source: str
    pairs: tuple[FormulaPair, ...]
    answers: tuple[str, ...]
    maximum_operators: int

    table = INFERENCE_ACCURACIES

    @property
    def majority(self) -> str:
        """The most frequent relation of the file, which the baseline predicts for all pairs."""
        return Counter(pair.relation for pair in self.pairs).most_common(1)[0][0]

    def score(self, operators: range | None = None, relation: str | None = None) -> InferenceScore:
        """Scores the pairs with these numbers of operators and with this relation; None: any."""
        some = [
            (pair.relation, answer)
            for pair, answer in zip(self.pairs, self.answers, strict=True)
            if (operators is None or pair.operators in operators) and relation in (None, pair.relation)
        ]
        right, majority = sum(sign == answer for sign, answer in some), self.majority
        return InferenceScore(len(some), right, sum(sign == majority for sign, _ in some))

    def by_operators(self) -> dict[int, InferenceScore]:
        """Returns the scores for each number of operators in the file."""
        numbers = sorted({pair.operators for pair in self.pairs})
        return {number: self.score(range(number, number + 1)) for number in numbers}

    def by_relation(self) -> dict[str, InferenceScore]:
        return {sign: self.score(relation=sign) for sign in RELATIONS}

    def trained_and_longer(self) -> tuple[InferenceScore, InferenceScore]:
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
        groups: dict[str, dict[str, InferenceScore]] = {
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
            lines += [_row(name, score) for name, score in rows if score.pairs]
            lines.append("")
        return "\n".join(lines[:-1])


def _row(name: str, score: InferenceScore) -> str:
    shares = 100 * score.right / score.pairs, 100 * score.majority / score.pairs
    return f"{name:<22}{score.pairs:>8,}{shares[0]:>8.1f}{shares[1]:>12.1f}"


def answers(classifier: PairClassifier, pairs: EncodedPairs, device: torch.device | str = "cpu") -> list[int]:
    """Returns the most probable class of every pair, in order. The classifier stays in evaluation mode."""
    classifier.eval()
    found: list[int] = []
    with torch.inference_mode():
        for start in progress_bar(range(0, len(pairs), BATCH), "classifying, batches of pairs"):
            batch = pairs.batch(range(start, min(start + BATCH, len(pairs))))
            found += classifier(batch.to(device))[0].argmax(-1).tolist()
    return found


def evaluate_inference(
    stored: StoredClassifier, path: str | Path, device: torch.device | str = "cpu"
) -> InferenceReport:
    """Evaluates a classifier on the pairs of a file.

    device: where the classifier is run.
    Raises InputError for the reasons of `read_formula_pairs`.
    """
    pairs = read_formula_pairs(path)
    found = answers(stored.classifier.to(device), EncodedPairs(pairs), device)
    return InferenceReport(
        str(path), tuple(pairs), tuple(_SIGNS[answer] for answer in found), stored.settings.maximum_operators
    )


def write_classifier_settings(folder: Path, settings: InferenceSettings) -> None:
    """Writes `classifier.json`. The folder is created if it does not exist."""
    make_folder(folder)
    write_text(to_json(dataclasses.asdict(settings), indent=2) + "\n", folder / CLASSIFIER, stored=True)


def write_classifier_weights(folder: Path, classifier: PairClassifier) -> None:
    """Writes the weights of a classifier to its folder, atomically."""
    write_tensors(folder / WEIGHTS, {name: tensor.cpu() for name, tensor in classifier.state_dict().items()})


def read_classifier(folder: str | Path) -> StoredClassifier:
    """Reads the pair classifier in a folder, in evaluation mode on the CPU.

    Raises InputError with the file that is missing or damaged, or that does not fit the other file.
    """
    path = Path(folder) / CLASSIFIER
    if not path.exists():
        raise InputError(
            f"{folder}: not a pair classifier: {CLASSIFIER} is missing. Train one with syntaxlm train and a recipe for"
            " logical inference"
        )
    settings = read_config(InferenceSettings, path, FORMAT)
    weights = Path(folder) / WEIGHTS
    if not weights.exists():
        raise InputError(
            f"{folder}: {WEIGHTS} is missing: training has not reached its first validation. Resume it with"
            f" syntaxlm train --resume {folder}"
        )
    try:
        shapes = shapes_of(settings.build)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    misfit = f"the weights do not fit {CLASSIFIER}"

    def check(file: TensorFile) -> None:
        refuse(file.path, misfit, tensor_faults(distinct_tensors(shapes), renamed(file.stored, _present_name)))

    tensors, _ = read_tensors(weights, check)
    classifier = settings.build()
    put_tensors(classifier, renamed(tensors, _present_name), str(weights), misfit)
    return StoredClassifier(classifier.eval(), settings)


def _present_name(name: str) -> str:
    """Returns the present name of a weight, which may have another name in format 1."""
    if name.startswith(("embedding.", "core.")):
        return f"encoder.{present_name(name)}"
    return name
