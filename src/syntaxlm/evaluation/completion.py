"""Sentence completion: does a model give the correct candidate of a question the highest probability?

Each candidate is scored as a whole sentence from an empty state, and its end is predicted. A dependency-tree model
scores the words of the candidate given its tree, log P(S | T); the tree determines where the sentence ends. If the
correct candidate is among k candidates that share the highest log-probability, the question earns 1/k. The
log-probabilities of several models are also interpolated. The weights are chosen on the first half of the questions, so
only the accuracy on the second half is unbiased. Zweig & Burges 2011; Zhang, Lu & Lapata 2016, section 4.2
(interpolation of two models).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from syntaxlm.core.arrays import Flags, Integers, Numbers
from syntaxlm.core.errors import InputError
from syntaxlm.core.reading import keeps_readings
from syntaxlm.data.arguments import file_of, models_by_name, suggests_parameters
from syntaxlm.data.completion import CompletionQuestion, read_questions
from syntaxlm.data.dependencies import read_words
from syntaxlm.evaluation.significance import Accuracy, Credits, compare_credits
from syntaxlm.models.abilities import ScoresSentences
from syntaxlm.reports.report import HasReport, Report
from syntaxlm.reports.tables import PERCENT, RIGHT, Column, Columns, ReportTable, format_value
from syntaxlm.scoring.engine import TIE, LogProbs, Scorer
from syntaxlm.scoring.surprisal import log_probs_of_trees
from syntaxlm.statistics.bootstrap import BootstrapResult
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.text.normaliser import UntaggedTokenError
from syntaxlm.text.options import Contractions, Punctuation, TextOptions
from syntaxlm.text.reader import AS_TOKENISED, TextReader

INTERPOLATED = "interpolated"
FEW_KNOWN = 0.01  # share of items with only known words, below which the text has another style than the model's
SHARES = tuple(number / 100 for number in range(101))  # weights of one model that are tried in tuning

_DIGITS = 9  # sums are rounded to this number of digits before they are compared

COMPLETION_ACCURACIES = Columns(
    "sentence completion",
    "model and subset of the questions",
    {
        "model": Column("text", "name of the model, or interpolated"),
        "part": Column("text", "subset: all, first_half, second_half, differing_words_known, or all_words_known"),
        "accuracy": Column("number", "share of correct answers, 0 to 1; missing without questions", PERCENT),
        "low": Column("number", "lower end of the 95% interval of the accuracy", PERCENT),
        "high": Column("number", "upper end of the 95% interval of the accuracy", PERCENT),
        "credit": Column("number", "number of correct answers; a tie of k candidates counts 1/k"),
        "questions": Column("integer", "number of questions"),
    },
)
_TITLES = {
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


@dataclass(frozen=True, eq=False)
class CompletionScores:
    """The scores of one model, or of an interpolation, for q questions with at most k candidates.

    Attributes:
        log_probs: (q, k), natural log-probabilities of the candidates, padded with -inf.
        sizes: (q,), the number of candidates of each question.
        correct: (q,), the index of the correct candidate, from 0.
        differing_known: (q, k), whether the vocabulary has those words of a candidate that other candidates of the
            question lack; true for padding.
        all_known: (q, k), whether the vocabulary has all words of a candidate; true for padding.
        given_trees: whether the log-probabilities are of the words given their trees.
        ends: whether the end of each sentence is predicted.
    """

    name: str
    log_probs: LogProbs
    sizes: Integers
    correct: Integers
    differing_known: Flags
    all_known: Flags
    given_trees: bool = False
    ends: bool = True

    @cached_property
    def chosen(self) -> Flags:
        """(q, k): the candidates with the highest log-probability."""
        is_candidate = np.arange(self.log_probs.shape[1]) < self.sizes[:, None]
        return (self.log_probs >= self.log_probs.max(1, keepdims=True) - TIE) & is_candidate

    @cached_property
    def credits(self) -> Credits:
        """(q,): 1/k if the correct candidate is among the k chosen ones, else 0."""
        is_chosen = self.chosen[np.arange(len(self.correct)), self.correct]
        return np.where(is_chosen, 1 / self.chosen.sum(1), 0.0)

    @property
    def parts(self) -> dict[str, Flags]:
        """The subsets of the questions for which accuracies are reported, (q,) each, by name."""
        first = first_half(len(self.correct))
        return {
            "all": np.ones_like(first),
            "first_half": first,
            "second_half": ~first,
            "differing_words_known": np.all(self.differing_known, axis=1),
            "all_words_known": np.all(self.all_known, axis=1),
        }

    def accuracy(self, part: str = "all") -> Accuracy:
        """Return the accuracy on a subset of the questions, a key of `parts`."""
        return Accuracy.of(self.credits[self.parts[part]])

    def to_dict(self) -> dict[str, Any]:
        """Return all figures for JSON."""
        ties = self.chosen.sum(1) > 1
        return {
            "model": self.name,
            "given_trees": self.given_trees,
            "eos_predicted": self.ends,
            **{part: _figures(self.accuracy(part)) for part in self.parts},
            "ties": int(ties.sum()),
            "ties_with_correct": int((ties & (self.credits > 0)).sum()),
            "candidates_with_unknown_words": int((~self.all_known).sum()),
            "candidates_with_unknown_differing_words": int((~self.differing_known).sum()),
        }


def _figures(accuracy: Accuracy) -> dict[str, Any]:
    """Return the figures for JSON; accuracy and interval are None if there are no questions."""
    fraction, interval = accuracy.fraction, accuracy.interval
    return {"accuracy": fraction, "interval": interval, "credit": accuracy.correct, "questions": accuracy.items}


@dataclass(frozen=True, eq=False)
class Interpolation:
    """The scores of several interpolated models.

    Attributes:
        weights: the weight of each model by name; they sum to 1.
        is_tuned: whether the weights were tuned on the first half of the questions; otherwise the user gave them.
    """

    scores: CompletionScores
    weights: dict[str, float]
    is_tuned: bool

    def to_dict(self) -> dict[str, Any]:
        figures = self.scores.to_dict()
        del figures["model"]
        return {"weights": self.weights, "tuned_on": "first_half" if self.is_tuned else None, **figures}

    def __str__(self) -> str:
        mixture = " + ".join(f"{weight:.2f} {name}" for name, weight in self.weights.items())
        tuned = "weights tuned on the first half, so use the accuracy on the second half"
        return f"{INTERPOLATED}: {mixture}; {tuned if self.is_tuned else 'weights as given'}"


@dataclass(frozen=True, eq=False)
class CompletionReport(HasReport):
    """The results of several models on the same questions.

    Attributes:
        interpolation: the interpolated models; None for a single model.
        sources: the files of the questions and of the answers.
        style: how the text was changed before the models' normalisers read it.
        per_token: whether log-probabilities are means over tokens; otherwise they are sums.
    """

    questions: tuple[CompletionQuestion, ...]
    models: tuple[CompletionScores, ...]
    interpolation: Interpolation | None
    sources: tuple[str, str]
    style: TextOptions = AS_TOKENISED
    per_token: bool = False

    @property
    def chance(self) -> float:
        """The accuracy of guessing, a fraction."""
        return float(np.mean([1 / len(question) for question in self.questions]))

    @property
    def all_scores(self) -> tuple[CompletionScores, ...]:
        """The scores of each model and, if there are several, of their interpolation."""
        return self.models if self.interpolation is None else (*self.models, self.interpolation.scores)

    @cached_property
    def compared(self) -> dict[str, dict[str, BootstrapResult]]:
        """The interpolation's accuracy compared with each model's, by subset of the questions, then by model name.

        The subset is the second half if the weights were tuned on the first half, otherwise all questions.
        """
        if self.interpolation is None:
            return {}
        part = "second_half" if self.interpolation.is_tuned else "all"
        scores = self.interpolation.scores
        among = scores.parts[part]
        return {
            part: {model.name: compare_credits(scores.credits[among], model.credits[among]) for model in self.models}
        }

    def report(self) -> Report:
        """Return the accuracies of every model and of the interpolation, by subset of the questions."""
        rows = []
        for scores in self.all_scores:
            for part in scores.parts:
                figures = _figures(scores.accuracy(part))
                low, high = figures.pop("interval") or (None, None)
                rows.append({"model": scores.name, "part": part, **figures, "low": low, "high": high})
        shown = [
            [title, *(_shown(scores.accuracy(part)) for scores in self.all_scores)] for part, title in _TITLES.items()
        ]
        all_figures = [scores.to_dict() for scores in self.all_scores]
        shown += [[title, *(figures[name] for figures in all_figures)] for name, title in _COUNTS.items()]
        headings = {"accuracy, 95% interval (number of questions)": ""} | {
            scores.name: RIGHT for scores in self.all_scores
        }
        notes = [] if self.interpolation is None else [str(self.interpolation)]
        notes += [
            f"{INTERPOLATED} compared with {name}, {_TITLES[part]}: {result}"
            for part, results in self.compared.items()
            for name, result in results.items()
        ]
        counts = {"questions": len(self.questions), "candidates": sum(map(len, self.questions))}
        return Report(
            COMPLETION_ACCURACIES,
            rows,
            {
                "schema_version": 2,
                "questions_file": self.sources[0],
                "answers_file": self.sources[1],
                **counts,
                "chance": self.chance,
                "punctuation": self.style.punctuation,
                "contractions": self.style.contractions,
                "per_token": self.per_token,
                "models": self.models,
                "interpolated": self.interpolation,
                "interpolated_against": self.compared,
            },
            {**counts, "chance": format_value(self.chance, PERCENT)},
            self._explanation(),
            [ReportTable(headings, shown)],
            notes,
            warnings=self._warnings(),
            data=self.sources[:1],
        )

    def _explanation(self) -> list[str]:
        names: dict[str, list[str]] = {}  # of models by how their log-probabilities are computed
        for model in self.models:
            reading = (
                " of its words given its tree, P(S | T)" if model.given_trees
                else f", end of sentence {'included' if model.ends else 'excluded'}, state reset at each sentence"
            )  # fmt: skip
            names.setdefault(reading, []).append(model.name)
        readings = "".join(names)
        if len(names) > 1:
            listed = (f"{', '.join(of_reading)}: {reading.lstrip(', ')}" for reading, of_reading in names.items())
            readings = f" ({'; '.join(listed)})"
        measure = "mean log-probability of a token" if self.per_token else "total log-probability"
        lines = [
            f"each model chooses the candidate with the highest {measure}{readings}; a tie of k earns 1/k",
            f"text: {self.style}; then each model's own normaliser",
        ]
        if any(model.given_trees for model in self.models):
            lines.append(f"trees and words of dependency-tree models: {self.questions[0].parses}")
        return lines

    def _warnings(self) -> list[str]:
        foreign = [model.name for model in self.models if np.all(model.all_known, axis=1).mean() < FEW_KNOWN]
        if not foreign:
            return []
        return [
            f"hardly any question has only words in the vocabulary of {', '.join(foreign)}. The model was trained on"
            " text of another style; a model of treebank text needs split contractions"
        ]

    def details(self) -> Iterator[dict[str, Any]]:
        """Yield every question with each model's scores.

        correct: index of the correct candidate, from 0.
        chosen: indices of the chosen candidate, or of all tied ones.
        log_probs: natural log-probabilities in the order of the candidates; None for probability 0.
        """
        for place, question in enumerate(self.questions):
            size = len(question)
            models = {}
            for scores in self.all_scores:
                log_probs = scores.log_probs[place, :size].tolist()
                models[scores.name] = {
                    "log_probs": [value if math.isfinite(value) else None for value in log_probs],
                    "chosen": np.flatnonzero(scores.chosen[place]).tolist(),
                    "credit": float(scores.credits[place]),
                    "differing_words_known": scores.differing_known[place, :size].tolist(),
                    "all_words_known": scores.all_known[place, :size].tolist(),
                }
            yield {
                "question": question.name,
                "place": question.place,
                "candidates": list(question.candidates),
                "correct": question.correct,
                "models": models,
            }


def _shown(accuracy: Accuracy) -> str:
    """Return the percentage with its interval and the number of questions."""
    if accuracy.interval is None:
        return str(accuracy)
    low, high = (format_value(end, PERCENT) for end in accuracy.interval)
    count = f"({accuracy.items:,})"
    return f"{format_value(accuracy.fraction, PERCENT)}  {low:>4} to {high:>4}{count:>9}"


def first_half(questions: int) -> Flags:
    """Return the questions on which weights are tuned, (q,).

    If the number of questions is odd, the middle one belongs to the second half.
    """
    return np.arange(questions) < questions // 2


@suggests_parameters
@keeps_readings
def evaluate_completion(
    models: ModelBundle | Mapping[str, ModelBundle],
    questions: str | Path,
    answers: str | Path,
    *,
    per_token: bool = False,
    parses: str | Path | None = None,
    shares: Sequence[float] | None = None,
    punctuation: Punctuation = "auto",
    contractions: Contractions = "auto",
) -> CompletionReport:
    """Answer sentence-completion questions with each model and, if there are several, with their interpolation.

    Args:
        models: one model, or several by name.
        questions: a file, see `read_questions`.
        answers: a file, see `read_questions`.
        per_token: compare candidates by the mean log-probability of their tokens, predicted ends included.
        parses: a file with the questions' trees, for dependency-tree models.
        shares: interpolation weights of all models except the first, whose weight is the rest; None: the weights are
            chosen on the first half of the questions.
        punctuation: how punctuation marks are split off before a model reads the text, see `TextOptions`.
        contractions: how contractions are split before a model reads the text, see `TextOptions`.

    Raises:
        InputError: for the reasons of `read_questions`, for invalid weights, for too few questions to choose weights
            on, for a candidate that a model's normaliser leaves empty or to which a model assigns no number, for a
            dependency-tree model without trees, and for parses that no model reads.

    Examples:
        >>> report = syntaxlm.evaluate_completion(trained, "questions.txt", "answers.txt")
        >>> len(report.questions)
        1
    """
    questions = file_of(questions, "questions")
    answers = file_of(answers, "answers")
    named = models_by_name(models)
    style = TextOptions(punctuation=punctuation, contractions=contractions)
    if len(named) > 1 and INTERPOLATED in named:
        raise InputError(
            f"found a model with the name {INTERPOLATED}; expected another name, because results of the interpolation"
            " have this one"
        )
    if shares is not None:
        _check_shares(shares, len(named))
    if parses is not None and not any(bundle.model.reads == "trees" for bundle in named.values()):
        raise InputError(
            f"{parses}: found no model that reads parses; expected a dependency-tree model, or no file of parses"
        )
    for bundle in named.values():
        bundle.require(ScoresSentences, "scoring of sentences")  # before the files are read
    asked = read_questions(questions, answers, parses)
    if len(named) > 1 and shares is None and len(asked) < 2:
        raise InputError(f"{questions}: found one question; expected two or more, to choose weights on the first half")
    scores = tuple(score_questions(bundle, asked, style, name, per_token) for name, bundle in named.items())
    interpolation = _interpolation(scores, shares) if len(scores) > 1 else None
    return CompletionReport(tuple(asked), scores, interpolation, (str(questions), str(answers)), style, per_token)


def _check_shares(shares: Sequence[float], models: int) -> None:
    """Raise InputError for weights that do not fit the number of models, or are no shares of a whole."""
    shown = ", ".join(f"{share:g}" for share in shares) or "none"
    if len(shares) != models - 1:
        raise InputError(
            f"found {len(shares)} weights ({shown}) for {models} models; expected {models - 1}, one for each model"
            " except the first"
        )
    if not all(0 <= share <= 1 for share in shares) or sum(shares) > 1 + 1e-9:
        raise InputError(
            f"found weights {shown}; expected numbers from 0 to 1 with a sum of at most 1 (the rest is the first"
            " model's)"
        )


def _interpolation(scores: Sequence[CompletionScores], shares: Sequence[float] | None) -> Interpolation:
    """Return the scores of interpolated models.

    Args:
        shares: the weights of all models except the first; None: chosen on the first half of the questions.
    """
    if shares is None:
        weights = tune_weights(scores, first_half(len(scores[0].correct)))
    else:
        weights = np.array([max(0.0, 1 - sum(shares)), *shares])
    by_name = dict(zip((model.name for model in scores), weights.tolist(), strict=True))
    return Interpolation(interpolate(scores, weights), by_name, shares is None)


def score_questions(
    bundle: ModelBundle,
    questions: Sequence[CompletionQuestion],
    style: TextOptions = AS_TOKENISED,
    name: str = "model",
    per_token: bool = False,
) -> CompletionScores:
    """Score questions with one model: their words or, with a dependency-tree model, their trees.

    Args:
        style: how the text is changed before the model's normaliser reads it.
        name: the model's name, for messages.
        per_token: divide log-probabilities by the number of tokens, predicted ends included.

    Raises:
        InputError: for a candidate that the normaliser leaves empty, for a candidate without a tree if the model reads
            trees, for a tree with words that have no path to the root, and for a model that returns NaN.
    """
    knows = bundle.vocabulary.knows
    given_trees = bundle.model.reads == "trees"
    ends = bundle.mode.predict_eos and not given_trees
    if given_trees:
        _check_trees(questions, name)
        word = bundle.normaliser.word
        read = [
            [
                tuple(word(written, written) for written in read_words(tree, bundle.normaliser))
                for tree in question.trees
            ]
            for question in questions
        ]
        trees = [tree for question in questions for tree in question.trees]
        log_probs = log_probs_of_trees(bundle, trees, questions[0].parses)
    else:
        reader = TextReader.of(bundle.normaliser, bundle.vocabulary, style)
        read = [
            candidate_tokens(reader, question.candidates, f"{question.place}, question {question.name}", name)
            for question in questions
        ]
        log_probs = Scorer.of(bundle).sentences([tokens for candidates in read for tokens in candidates])
    if per_token:
        log_probs = log_probs / np.array([len(tokens) + ends for candidates in read for tokens in candidates])
    sizes = np.array([len(question) for question in questions])
    is_candidate = np.arange(sizes.max()) < sizes[:, None]

    def placed(values: npt.ArrayLike, fill: float | bool) -> Any:
        table = np.full(is_candidate.shape, fill)
        table[is_candidate] = values
        return table

    return CompletionScores(
        name,
        placed(log_probs, -np.inf),
        sizes,
        np.array([question.correct for question in questions]),
        placed([all(map(knows, words)) for candidates in read for words in differing_words(candidates)], True),
        placed([all(map(knows, tokens)) for candidates in read for tokens in candidates], True),
        given_trees,
        ends,
    )


def _check_trees(questions: Sequence[CompletionQuestion], name: str) -> None:
    """Raise InputError for a question without trees, which the model with this name reads."""
    for question in questions:
        if not question.trees:
            raise InputError(
                f"{question.place}, question {question.name}: found plain text, but {name} reads dependency trees;"
                " expected questions in CoNLL-U (.conllu), or a file with their parses"
            )


def candidate_tokens(reader: TextReader, sentences: Sequence[str], place: str, name: str) -> list[tuple[str, ...]]:
    """Return the tokens of candidate sentences.

    Args:
        place: their place, for messages.
        name: the model's name, for messages.
    """
    try:
        read = [tuple(reader.tokens(sentence)) for sentence in sentences]
    except UntaggedTokenError as error:
        raise error.at(f"{place}: {name} reads tags") from None
    if not all(read):
        raise InputError(f"{place}: the normaliser of {name} leaves no word of {sentences[read.index(())]!r}")
    return read


def differing_words(candidates: Sequence[Sequence[str]]) -> list[set[str]]:
    """Return, for each candidate, the words that it has more often than at least one other candidate."""
    counts = [Counter(candidate) for candidate in candidates]
    shared = counts[0].copy()
    for count in counts[1:]:
        shared &= count
    return [set(count - shared) for count in counts]


def interpolate(models: Sequence[CompletionScores], weights: Numbers) -> CompletionScores:
    """Return the scores with the weighted sum of the models' log-probabilities, for the same questions.

    A word is known if it is in the vocabularies of all models.

    Args:
        weights: (models,).
    """
    # A model with weight 0 is left out: 0 times -inf is NaN.
    parts = [weight * model.log_probs for weight, model in zip(weights, models, strict=True) if weight > 0]
    return replace(
        models[0],
        name=INTERPOLATED,
        log_probs=np.sum(parts, axis=0),
        differing_known=np.logical_and.reduce([model.differing_known for model in models]),
        all_known=np.logical_and.reduce([model.all_known for model in models]),
        given_trees=any(model.given_trees for model in models),
        ends=all(model.ends for model in models),
    )


def tune_weights(models: Sequence[CompletionScores], among: Flags) -> Numbers:
    """Return the weights with the highest accuracy on some of the questions: (models,), with sum 1.

    The search is coordinate-wise. It starts with equal weights and sets each weight in turn to the best of SHARES,
    keeping the proportions of the others, until no change improves the accuracy. For two models, it is exhaustive in
    steps of 0.01; for more, it may end in a local optimum. Of weights with equal accuracy, those nearest to equal
    weights are taken, such as (1/2, 1/2) for two models with the same choices.

    Args:
        among: (q,), the questions on which the weights are tuned.
    """
    count = len(models)

    def merit(weights: Numbers) -> tuple[float, float]:
        """Return the credit and the closeness of the weights to equal ones; larger is better."""
        credit = float(interpolate(models, weights).credits[among].sum())
        return round(credit, _DIGITS), -round(float(np.square(weights - 1 / count).sum()), _DIGITS)

    weights = np.full(count, 1 / count)
    best = merit(weights)
    while True:
        before = best
        for place in range(count):
            others = np.where(np.arange(count) == place, 0.0, weights)
            others = others / others.sum() if others.any() else (np.arange(count) != place) / (count - 1)
            for share in SHARES:
                trial = (1 - share) * others
                trial[place] = share
                if merit(trial) > best:
                    weights, best = trial, merit(trial)
        if best == before:
            return weights
