"""Figures of sentence completion: accuracies with intervals, interpolated models, one report for several."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from syntaxlm.data.completion import CompletionQuestion
from syntaxlm.evaluation.pairs import FEW_KNOWN, Credits, Flags, compare_credits
from syntaxlm.scoring.engine import LogProbs
from syntaxlm.text.treebank_style import TreebankStyle
from syntaxlm.trees import BootstrapResult

INTERPOLATED = "interpolated"

Weights = npt.NDArray[np.float64]

_AS_WRITTEN = TreebankStyle()
_NORMAL_QUANTILE = 1.959963984540054  # of 97.5%


@dataclass(frozen=True)
class Accuracy:
    """What questions earned.  credit: their sum; a tie of k with the right one among them is 1/k."""

    credit: float
    questions: int

    @classmethod
    def of(cls, credits: Credits) -> Accuracy:
        """credits: (n,), 0 to 1 each."""
        return cls(float(credits.sum()), len(credits))

    @property
    def fraction(self) -> float | None:
        """None of no questions."""
        return self.credit / self.questions if self.questions else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """95%, a binomial's score interval (Wilson 1927): credits of ties vary less, so it is wide enough for them."""
        fraction = self.fraction
        if fraction is None:
            return None
        size, squared = self.questions, _NORMAL_QUANTILE**2
        middle = (fraction + squared / (2 * size)) / (1 + squared / size)
        spread = math.sqrt(fraction * (1 - fraction) / size + squared / (4 * size**2)) / (1 + squared / size)
        return max(0.0, middle - _NORMAL_QUANTILE * spread), min(1.0, middle + _NORMAL_QUANTILE * spread)

    def to_dict(self) -> dict[str, Any]:
        """interval: null of no questions, as the accuracy."""
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
    """The scores of one model, or of several together, for q questions of at most k candidates.

    log_probs: (q, k), natural, of the candidates, in their order; -inf where a question has fewer.
    sizes: (q,), how many candidates each question has. right: (q,), which of them, 0 first.
    differing_known: (q, k), whether the vocabulary has the words of a candidate that not all of its question have.
    all_known: (q, k), whether it has all its words. Both are true where there is no candidate.
    given_trees: whether they are of words given their trees. ends: whether ends of sentences are predicted.
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
        """(q, k): which candidates share the highest log-probability."""
        there = np.arange(self.log_probs.shape[1]) < self.sizes[:, None]
        return (self.log_probs == self.log_probs.max(1, keepdims=True)) & there

    @cached_property
    def credits(self) -> Credits:
        """(q,): 1/k where the right one is among the k chosen, else 0."""
        return np.where(self.chosen[np.arange(len(self.right)), self.right], 1 / self.chosen.sum(1), 0.0)

    @property
    def ties(self) -> Flags:
        """(q,): where more than one is chosen."""
        return self.chosen.sum(1) > 1

    def accuracy(self, among: Flags | None = None) -> Accuracy:
        """among: (q,), the questions that count; None for all."""
        return Accuracy.of(self.credits if among is None else self.credits[among])

    def to_dict(self) -> dict[str, Any]:
        """All figures, for JSON."""
        return {
            "model": self.name,
            "given_trees": self.given_trees,
            "ends_predicted": self.ends,
            **{name: self.accuracy(part).to_dict() for name, part in self.parts().items()},
            "ties": int(self.ties.sum()),
            "ties_with_right": int((self.ties & (self.credits > 0)).sum()),
            "candidates_with_unknown_words": int((~self.all_known).sum()),
            "candidates_with_unknown_differing_words": int((~self.differing_known).sum()),
        }

    def parts(self) -> dict[str, Flags]:
        """(q,) each: the questions that figures cover."""
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
    """Several models together.

    weights: of each, by its name; they add up to 1. is_tuned: whether they were chosen on the first half of the
    questions; else they were given.
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
            return f"{INTERPOLATED}: {mixture}, the best on the first half; so its figure is that of the second half"
        return f"{INTERPOLATED}: {mixture}, as given"


@dataclass(frozen=True, eq=False)
class CompletionReport:
    """Several models on the same questions.

    interpolation: of the models; None of one. sources: the files of questions and of answers. style: what was done to
    the text before the models. per_token: whether log-probabilities are means over tokens, not sums.
    """

    questions: tuple[CompletionQuestion, ...]
    models: tuple[CompletionScores, ...]
    interpolation: Interpolation | None
    sources: tuple[str, str]
    style: TreebankStyle = _AS_WRITTEN
    per_token: bool = False

    @property
    def candidate_count(self) -> int:
        return sum(map(len, self.questions))

    @property
    def chance(self) -> float:
        """The accuracy of guessing, a fraction."""
        return float(np.mean([1 / len(question) for question in self.questions]))

    @property
    def columns(self) -> tuple[CompletionScores, ...]:
        """The models, and the interpolation of them."""
        return self.models if self.interpolation is None else (*self.models, self.interpolation.scores)

    def compared(self) -> dict[str, dict[str, BootstrapResult]]:
        """The interpolation's accuracy minus each model's, by part of the questions, then by the model's name.

        On the second half alone where the weights were chosen on the first.
        """
        if self.interpolation is None:
            return {}
        part = "second_half" if self.interpolation.is_tuned else "all"
        scores = self.interpolation.scores
        among = scores.parts()[part]
        return {part: {one.name: compare_credits(scores.credits[among], one.credits[among]) for one in self.models}}

    def to_dict(self) -> dict[str, Any]:
        """All figures, for JSON: fractions from 0 to 1, null of no questions."""
        return {
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

    def __str__(self) -> str:
        measure = "mean log-probability of a token" if self.per_token else "total log-probability"
        parses = self.questions[0].parses if any(model.given_trees for model in self.models) else ""
        lines = [
            f"{self.sources[0]}   questions {len(self.questions):,}   candidates {self.candidate_count:,}   "
            f"chance {100 * self.chance:.1f}",
            f"chosen: the candidate of the highest {measure}{self._readings()}; k equal ones earn 1/k",
            f"text: {self.style}; then each model's own normaliser",
            *([f"trees: {parses}, words as they stand there"] if parses else []),
            *self._warnings(),
            "",
            *self._table(),
        ]
        if self.interpolation is not None:
            lines += ["", str(self.interpolation)]
        lines += [
            f"{INTERPOLATED} against {name}, {_PARTS[part]}: {one}"
            for part, results in self.compared().items()
            for name, one in results.items()
        ]
        return "\n".join(lines)

    def _readings(self) -> str:
        """What a log-probability is of; where models differ, by their names."""
        names: dict[str, list[str]] = {}
        for model in self.models:
            reading = (
                "of its words given its tree, P(S | T)" if model.given_trees
                else f"its end {'included' if model.ends else 'left out'}; state reset at each sentence"
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
            f"hardly any question has only words that are known to {', '.join(foreign)}: a model of other text, or of"
            " treebank text, which wants contractions split"
        ]

    def _table(self) -> list[str]:
        columns = self.columns
        width = max(27, *(len(column.name) for column in columns))
        rows = [("accuracy, 95% interval, of how many questions", [column.name for column in columns])]
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
    "differing_words_known": "questions whose differing words are all known",
    "all_words_known": "questions whose words are all known",
}
_COUNTS = {
    "ties": "questions with a tie for the highest",
    "ties_with_right": "of these, with the right one in it",
    "candidates_with_unknown_words": "candidates with an unknown word",
    "candidates_with_unknown_differing_words": "candidates whose differing word is unknown",
}


def first_half(questions: int) -> Flags:
    """(q,): the questions that weights are chosen on; of an odd number, the middle one is in the second half."""
    return np.arange(questions) < questions // 2
