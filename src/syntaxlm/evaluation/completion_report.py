"""Results of sentence completion: accuracies with confidence intervals, interpolation, a report for several models."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from syntaxlm.core.tables import Column, Columns, HasRows
from syntaxlm.data.completion import CompletionQuestion
from syntaxlm.evaluation.pairs import FEW_KNOWN, Credits, Flags, compare_credits
from syntaxlm.scoring.engine import LogProbs
from syntaxlm.text.reader import AS_TOKENISED
from syntaxlm.text.treebank_style import TreebankStyle
from syntaxlm.trees.significance import BootstrapResult

INTERPOLATED = "interpolated"

COMPLETION_ACCURACIES = Columns(
    "sentence completion",
    "model and subset of the questions",
    {
        "model": Column("text", "name of the model, or interpolated"),
        "part": Column("text", "subset: all, first_half, second_half, differing_words_known, or all_words_known"),
        "accuracy": Column("number", "share of correct answers, 0 to 1; missing without questions"),
        "low": Column("number", "lower end of the 95% interval of the accuracy"),
        "high": Column("number", "upper end of the 95% interval of the accuracy"),
        "credit": Column("number", "number of correct answers; a tie of k candidates counts 1/k"),
        "questions": Column("integer", "number of questions"),
    },
)

Weights = npt.NDArray[np.float64]

_NORMAL_QUANTILE = 1.959963984540054  # of 97.5%


@dataclass(frozen=True)
class Accuracy:
    """Accuracy on a number of questions.

    credit: the sum of the credits of the questions. A question has credit 1 if the model chooses the correct candidate,
    and 1/k if the correct candidate is among k tied ones.
    """

    credit: float
    questions: int

    @classmethod
    def of(cls, credits: Credits) -> Accuracy:
        """Return credits: (n,), 0 to 1 each."""
        return cls(float(credits.sum()), len(credits))

    @property
    def fraction(self) -> float | None:
        """The accuracy, 0 to 1; None if there are no questions."""
        return self.credit / self.questions if self.questions else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95% score interval of a binomial proportion (Wilson 1927); None if there are no questions.

        The credits of ties vary less than a binomial's outcomes, so the interval covers them, too.
        """
        fraction = self.fraction
        if fraction is None:
            return None
        size, squared = self.questions, _NORMAL_QUANTILE**2
        middle = (fraction + squared / (2 * size)) / (1 + squared / size)
        spread = math.sqrt(fraction * (1 - fraction) / size + squared / (4 * size**2)) / (1 + squared / size)
        return max(0.0, middle - _NORMAL_QUANTILE * spread), min(1.0, middle + _NORMAL_QUANTILE * spread)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures for JSON; accuracy and interval are None if there are no questions."""
        interval = list(self.interval) if self.interval else None
        return {"accuracy": self.fraction, "interval": interval, "credit": self.credit, "questions": self.questions}

    def __str__(self) -> str:
        count = f"({self.questions:,})"
        if self.fraction is None or self.interval is None:
            return f"-{'':14}{count:>9}"
        low, high = (f"{100 * end:.1f}" for end in self.interval)
        return f"{100 * self.fraction:.1f}  {low:>4} to {high:>4}{count:>9}"


@dataclass(frozen=True, eq=False)
class CompletionScores:
    """The scores of one model, or of an interpolation, for q questions with at most k candidates.

    log_probs: (q, k), natural log-probabilities of the candidates, padded with -inf.
    sizes: (q,), the number of candidates of each question.
    right: (q,), the index of the correct candidate, from 0.
    differing_known: (q, k), whether the vocabulary has those words of a candidate that other candidates of the question
        lack; true for padding.
    all_known: (q, k), whether the vocabulary has all words of a candidate; true for padding.
    given_trees: whether the log-probabilities are of the words given their trees.
    ends: whether the end of each sentence is predicted.
    """

    name: str
    log_probs: LogProbs
    sizes: npt.NDArray[np.int64]
    right: npt.NDArray[np.int64]
    differing_known: Flags
    all_known: Flags
    given_trees: bool = False
    ends: bool = True

    @cached_property
    def chosen(self) -> Flags:
        """(q, k): the candidates with the highest log-probability."""
        there = np.arange(self.log_probs.shape[1]) < self.sizes[:, None]
        return (self.log_probs == self.log_probs.max(1, keepdims=True)) & there

    @cached_property
    def credits(self) -> Credits:
        """(q,): 1/k if the correct candidate is among the k chosen ones, else 0."""
        return np.where(self.chosen[np.arange(len(self.right)), self.right], 1 / self.chosen.sum(1), 0.0)

    @property
    def ties(self) -> Flags:
        """(q,): whether more than one candidate is chosen."""
        return self.chosen.sum(1) > 1

    def accuracy(self, among: Flags | None = None) -> Accuracy:
        """Return the accuracy.  among: (q,), the questions to include; None: all."""
        return Accuracy.of(self.credits if among is None else self.credits[among])

    def to_dict(self) -> dict[str, Any]:
        """Return all figures for JSON."""
        return {
            "model": self.name,
            "given_trees": self.given_trees,
            "eos_predicted": self.ends,
            **{name: self.accuracy(part).to_dict() for name, part in self.parts().items()},
            "ties": int(self.ties.sum()),
            "ties_with_correct": int((self.ties & (self.credits > 0)).sum()),
            "candidates_with_unknown_words": int((~self.all_known).sum()),
            "candidates_with_unknown_differing_words": int((~self.differing_known).sum()),
        }

    def parts(self) -> dict[str, Flags]:
        """Return the subsets of the questions for which accuracies are reported, (q,) each, by name."""
        first = first_half(len(self.right))
        return {
            "all": np.ones_like(first),
            "first_half": first,
            "second_half": ~first,
            "differing_words_known": np.all(self.differing_known, axis=1),
            "all_words_known": np.all(self.all_known, axis=1),
        }


@dataclass(frozen=True, eq=False)
class Interpolation:
    """The scores of several interpolated models.

    weights: the weight of each model by name; they sum to 1.
    is_tuned: whether the weights were tuned on the first half of the questions; otherwise the user gave them.
    """

    scores: CompletionScores
    weights: dict[str, float]
    is_tuned: bool

    def to_dict(self) -> dict[str, Any]:
        figures = {name: value for name, value in self.scores.to_dict().items() if name != "model"}
        return {"weights": self.weights, "tuned_on": "first_half" if self.is_tuned else None, **figures}

    def __str__(self) -> str:
        mixture = " + ".join(f"{weight:.2f} {name}" for name, weight in self.weights.items())
        if self.is_tuned:
            return f"{INTERPOLATED}: {mixture}; weights tuned on the first half, so use the accuracy on the second half"
        return f"{INTERPOLATED}: {mixture}; weights as given"


@dataclass(frozen=True, eq=False)
class CompletionReport(HasRows):
    """The results of several models on the same questions.

    interpolation: the interpolated models; None for a single model.
    sources: the files of the questions and of the answers.
    style: how the text was changed before the models' normalisers read it.
    per_token: whether log-probabilities are means over tokens; otherwise they are sums.
    """

    questions: tuple[CompletionQuestion, ...]
    models: tuple[CompletionScores, ...]
    interpolation: Interpolation | None
    sources: tuple[str, str]
    style: TreebankStyle = AS_TOKENISED
    per_token: bool = False

    columns = COMPLETION_ACCURACIES

    @property
    def candidate_count(self) -> int:
        return sum(map(len, self.questions))

    @property
    def chance(self) -> float:
        """The accuracy of guessing, a fraction."""
        return float(np.mean([1 / len(question) for question in self.questions]))

    @property
    def all_scores(self) -> tuple[CompletionScores, ...]:
        """The scores of each model and, if there are several, of their interpolation."""
        return self.models if self.interpolation is None else (*self.models, self.interpolation.scores)

    def compared(self) -> dict[str, dict[str, BootstrapResult]]:
        """Compare the interpolation's accuracy with each model's, by subset of the questions, then by model name.

        The subset is the second half if the weights were tuned on the first half, otherwise all questions.
        """
        if self.interpolation is None:
            return {}
        part = "second_half" if self.interpolation.is_tuned else "all"
        scores = self.interpolation.scores
        among = scores.parts()[part]
        return {part: {one.name: compare_credits(scores.credits[among], one.credits[among]) for one in self.models}}

    def to_dict(self) -> dict[str, Any]:
        """Return all figures for JSON, as fractions from 0 to 1; None for a subset without questions."""
        return {
            "schema_version": 2,  # 1 had "ties_with_right", "ends_predicted"
            "questions_file": self.sources[0],
            "answers_file": self.sources[1],
            "questions": len(self.questions),
            "candidates": self.candidate_count,
            "chance": self.chance,
            "punctuation": self.style.punctuation,
            "contractions": self.style.contractions,
            "per_token": self.per_token,
            "models": [model.to_dict() for model in self.models],
            "interpolated": None if self.interpolation is None else self.interpolation.to_dict(),
            "interpolated_against": {
                part: {name: one.to_dict() for name, one in results.items()}
                for part, results in self.compared().items()
            },
        }

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the accuracies of every model and of the interpolation, with the columns of `COMPLETION_ACCURACIES`."""
        for column in self.all_scores:
            for part, among in column.parts().items():
                one = column.accuracy(among)
                low, high = one.interval or (None, None)
                yield {
                    "model": column.name,
                    "part": part,
                    "accuracy": one.fraction,
                    "low": low,
                    "high": high,
                    "credit": one.credit,
                    "questions": one.questions,
                }

    def __str__(self) -> str:
        measure = "mean log-probability of a token" if self.per_token else "total log-probability"
        parses = self.questions[0].parses if any(model.given_trees for model in self.models) else ""
        lines = [
            f"{self.sources[0]}   questions {len(self.questions):,}   candidates {self.candidate_count:,}   "
            f"chance {100 * self.chance:.1f}",
            f"each model chooses the candidate with the highest {measure}{self._readings()}; a tie of k earns 1/k",
            f"text: {self.style}; then each model's own normaliser",
            *([f"trees and words of dependency-tree models: {parses}"] if parses else []),
            *self._warnings(),
            "",
            *self._table(),
        ]
        if self.interpolation is not None:
            lines += ["", str(self.interpolation)]
        lines += [
            f"{INTERPOLATED} compared with {name}, {_PARTS[part]}: {one}"
            for part, results in self.compared().items()
            for name, one in results.items()
        ]
        return "\n".join(lines)

    def _readings(self) -> str:
        """Describe how the log-probabilities are computed, for each model if the models differ."""
        names: dict[str, list[str]] = {}
        for model in self.models:
            reading = (
                "of its words given its tree, P(S | T)" if model.given_trees
                else f"end of sentence {'included' if model.ends else 'excluded'}, state reset at each sentence"
            )  # fmt: skip
            names.setdefault(reading, []).append(model.name)
        if len(names) == 1:
            (reading,) = names
            return f" {reading}" if self.models[0].given_trees else f", {reading}"
        readings = "; ".join(", ".join(those) + f": {reading}" for reading, those in names.items())
        return f" ({readings})"

    def _warnings(self) -> list[str]:
        foreign = [model.name for model in self.models if np.all(model.all_known, axis=1).mean() < FEW_KNOWN]
        if not foreign:
            return []
        return [
            f"warning: hardly any question has only words in the vocabulary of {', '.join(foreign)}. The model was"
            " trained on text of another style; a model of treebank text needs split contractions"
        ]

    def _table(self) -> list[str]:
        columns = self.all_scores
        width = max(27, *(len(column.name) for column in columns))
        rows = [("accuracy, 95% interval (number of questions)", [column.name for column in columns])]
        rows += [
            (title, [str(column.accuracy(column.parts()[part])) for column in columns])
            for part, title in _PARTS.items()
        ]
        figures = [column.to_dict() for column in columns]
        rows += [(title, [f"{one[name]:,}" for one in figures]) for name, title in _COUNTS.items()]
        wide = max(len(label) for label, _ in rows)
        return [f"{label:<{wide}}" + "".join(f"     {cell:>{width}}" for cell in row) for label, row in rows]


_PARTS = {
    "all": "all questions",
    "first_half": "first half",
    "second_half": "second half",
    "differing_words_known": "questions with all differing words known",
    "all_words_known": "questions with all words known",
}
_COUNTS = {
    "ties": "questions with a tie for the highest",
    "ties_with_correct": "ties that include the correct candidate",
    "candidates_with_unknown_words": "candidates with an unknown word",
    "candidates_with_unknown_differing_words": "candidates with an unknown differing word",
}


def first_half(questions: int) -> Flags:
    """Return the questions on which weights are tuned, (q,).

    If the number of questions is odd, the middle one belongs to the second half.
    """
    return np.arange(questions) < questions // 2
