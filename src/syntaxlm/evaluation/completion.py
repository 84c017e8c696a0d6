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
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import to_json, write_text
from syntaxlm.data.completion import CompletionQuestion, read_questions
from syntaxlm.evaluation.completion_report import (
    INTERPOLATED,
    CompletionReport,
    CompletionScores,
    Interpolation,
    Weights,
    first_half,
)
from syntaxlm.evaluation.pairs import Flags
from syntaxlm.scoring.engine import LogProbs, Scorer
from syntaxlm.scoring.surprisal import log_probs_of_trees
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.text.normaliser import UntaggedTokenError
from syntaxlm.text.reader import AS_TOKENISED, TextReader
from syntaxlm.text.treebank_style import TreebankStyle

SHARES = tuple(number / 100 for number in range(101))  # weights of one model that are tried in tuning


_DIGITS = 9  # sums are rounded to this number of digits before they are compared


def evaluate_completion(
    models: ModelBundle | Mapping[str, ModelBundle],
    questions: str | Path,
    answers: str | Path,
    style: TreebankStyle = AS_TOKENISED,
    shares: Sequence[float] | None = None,
    per_token: bool = False,
    parses: str | Path | None = None,
) -> CompletionReport:
    """Answer sentence completion questions with each model and, if there are several, with their interpolation.

    models: one model, or several by name.
    questions, answers, parses: files, see `read_questions`.
    style: how the text is changed before each model's own normaliser reads it; words of trees are not changed.
    shares: interpolation weights of all models except the first, whose weight is the rest; None: the weights are chosen
        on the first half of the questions.
    per_token: compare candidates by the mean log-probability of their tokens, predicted ends included.
    Raises InputError for the reasons of `read_questions`, for invalid weights, for too few questions to choose weights
    on, for a candidate that a model's normaliser leaves empty or to which a model assigns no number, for a
    dependency-tree model without trees, and for parses that no model reads.
    """
    named = {"model": models} if isinstance(models, ModelBundle) else models
    if not named:
        raise InputError("found no model; expected one model or more")
    if len(named) > 1 and INTERPOLATED in named:
        raise InputError(
            f"a model is named {INTERPOLATED}; expected another name, because the interpolation has this one"
        )
    given = None if shares is None else _weights(shares, len(named))
    if parses is not None and not any(stored.model.reads == "trees" for stored in named.values()):
        raise InputError(f"{parses}: no model reads parses; expected a dependency-tree model, or no parses")
    asked = read_questions(questions, answers, parses)
    if len(named) > 1 and given is None and len(asked) < 2:
        raise InputError(f"{questions}: found one question; expected two or more, to choose weights on the first half")
    scores = tuple(score_questions(stored, asked, style, name, per_token) for name, stored in named.items())
    interpolation = None
    if len(scores) > 1:
        weights = tune_weights(scores, first_half(len(asked))) if given is None else given
        by_name = dict(zip(named, weights.tolist(), strict=True))
        interpolation = Interpolation(interpolate(scores, weights), by_name, given is None)
    return CompletionReport(tuple(asked), scores, interpolation, (str(questions), str(answers)), style, per_token)


def _weights(shares: Sequence[float], models: int) -> Weights:
    """Return the weights of all models from those of all but the first. Raises InputError for invalid weights."""
    shown = ", ".join(f"{share:g}" for share in shares) or "none"
    if len(shares) != models - 1:
        raise InputError(
            f"found {len(shares)} weights ({shown}) for {models} models; expected {models - 1}: one for each model"
            " except the first"
        )
    if not all(0 <= share <= 1 for share in shares) or sum(shares) > 1 + 1e-9:
        raise InputError(
            f"found weights {shown}; expected numbers from 0 to 1 with a sum of at most 1 (the rest is the first"
            " model's)"
        )
    return np.array([max(0.0, 1 - sum(shares)), *shares])


def score_questions(
    stored: ModelBundle,
    questions: Sequence[CompletionQuestion],
    style: TreebankStyle = AS_TOKENISED,
    name: str = "model",
    per_token: bool = False,
) -> CompletionScores:
    """Score questions with one model: their words or, with a dependency-tree model, their trees.

    style: how the text is changed before the model's normaliser reads it.  name: the model's name, for messages.
    per_token: divide log-probabilities by the number of tokens, predicted ends included.
    Raises InputError for a candidate that the normaliser leaves empty, for a candidate without a tree if the model
    reads trees, for a tree with words that have no path to the root, and for a model that returns NaN.
    """
    vocabulary, given_trees = stored.vocabulary, stored.model.reads == "trees"
    ends = stored.mode.predict_eos and not given_trees
    if given_trees:
        read = [_words_of_trees(stored, question, name) for question in questions]
        trees = [tree for question in questions for tree in question.trees]
        log_probs = log_probs_of_trees(stored, trees, questions[0].parses)
    else:
        reader = TextReader.of(stored.normaliser, stored.vocabulary, style)
        read = [_tokens(reader, question, name) for question in questions]
        log_probs = Scorer.of(stored).sentences([tokens for candidates in read for tokens in candidates])
    if per_token:
        log_probs = log_probs / np.array([len(tokens) + ends for candidates in read for tokens in candidates])
    return completion_scores(
        name,
        questions,
        log_probs,
        [all(map(vocabulary.knows, words)) for candidates in read for words in differing_words(candidates)],
        [all(map(vocabulary.knows, tokens)) for candidates in read for tokens in candidates],
        given_trees,
        ends,
    )


def _tokens(reader: TextReader, question: CompletionQuestion, name: str) -> list[tuple[str, ...]]:
    """Return the tokens of each candidate, for a model that reads text."""
    try:
        read = [tuple(reader.tokens(candidate)) for candidate in question.candidates]
    except UntaggedTokenError as error:
        raise error.at(f"{question.place}, question {question.name}: {name} reads tags") from None
    if not all(read):
        empty = question.candidates[read.index(())]
        raise InputError(
            f"{question.place}, question {question.name}: the normaliser of {name} leaves no word of {empty!r}"
        )
    return read


def _words_of_trees(stored: ModelBundle, question: CompletionQuestion, name: str) -> list[tuple[str, ...]]:
    """Return the words of each candidate, for a dependency-tree model."""
    if not question.trees:
        raise InputError(
            f"{question.place}, question {question.name}: found plain text, but {name} reads dependency trees; expected"
            " questions in CoNLL-U (.conllu), or a file with their parses"
        )
    return [tuple(map(stored.normaliser.word, tree.words)) for tree in question.trees]


def completion_scores(
    name: str,
    questions: Sequence[CompletionQuestion],
    log_probs: LogProbs,
    differing_known: Sequence[bool],
    all_known: Sequence[bool],
    given_trees: bool = False,
    ends: bool = True,
) -> CompletionScores:
    """Build `CompletionScores` from the values of all n candidates, in the order of the questions.

    log_probs, differing_known, all_known: (n,), see `CompletionScores`.
    """
    sizes = np.array([len(question) for question in questions])
    there = np.arange(sizes.max()) < sizes[:, None]

    def placed(values: npt.ArrayLike, fill: float | bool) -> Any:
        table = np.full(there.shape, fill)
        table[there] = values
        return table

    right = np.array([question.right for question in questions])
    known = placed(differing_known, True), placed(all_known, True)
    return CompletionScores(name, placed(log_probs, -np.inf), sizes, right, *known, given_trees, ends)


def differing_words(candidates: Sequence[Sequence[str]]) -> list[set[str]]:
    """Return, for each candidate, the words that it has more often than at least one other candidate."""
    counts = [Counter(candidate) for candidate in candidates]
    shared = counts[0].copy()
    for count in counts[1:]:
        shared &= count
    return [set(count - shared) for count in counts]


def interpolate(models: Sequence[CompletionScores], weights: Weights) -> CompletionScores:
    """Return the scores with the weighted sum of the models' log-probabilities, for the same questions.

    weights: (models,).  A word is known if it is in the vocabularies of all models.
    """
    first = models[0]
    # A model with weight 0 is left out: 0 times -inf is NaN.
    parts = [weight * model.log_probs for weight, model in zip(weights, models, strict=True) if weight > 0]
    return CompletionScores(
        INTERPOLATED,
        np.sum(parts, axis=0),
        first.sizes,
        first.right,
        np.logical_and.reduce([model.differing_known for model in models]),
        np.logical_and.reduce([model.all_known for model in models]),
        any(model.given_trees for model in models),
        all(model.ends for model in models),
    )


def tune_weights(models: Sequence[CompletionScores], among: Flags) -> Weights:
    """Return the weights with the highest accuracy on some of the questions: (models,), with sum 1.

    among: (q,), the questions on which the weights are tuned.
    The search is coordinate-wise. It starts with equal weights and sets each weight in turn to the best of SHARES,
    keeping the proportions of the others, until no change improves the accuracy. For two models, it is exhaustive in
    steps of 0.01; for more, it may end in a local optimum. Of weights with equal accuracy, those nearest to equal
    weights are taken, such as (1/2, 1/2) for two models with the same choices.
    """
    count = len(models)
    weights = np.full(count, 1 / count)
    best = _merit(models, weights, among)
    while True:
        before = best
        for place in range(count):
            others = np.where(np.arange(count) == place, 0.0, weights)
            others = others / others.sum() if others.any() else (np.arange(count) != place) / (count - 1)
            for share in SHARES:
                trial = (1 - share) * others
                trial[place] = share
                merit = _merit(models, trial, among)
                if merit > best:
                    weights, best = trial, merit
        if best == before:
            return weights


def _merit(models: Sequence[CompletionScores], weights: Weights, among: Flags) -> tuple[float, float]:
    """Return the credit on some of the questions and the closeness of the weights to equal ones; larger is better."""
    credit = float(interpolate(models, weights).credits[among].sum())
    return round(credit, _DIGITS), -round(float(np.square(weights - 1 / len(weights)).sum()), _DIGITS)


def write_questions(report: CompletionReport, path: str | Path) -> None:
    """Write `scored_questions` as JSON lines, atomically. Raises InputError if the file cannot be written."""
    rows = (to_json(row) for row in scored_questions(report))
    write_text("".join(row + "\n" for row in rows), path)


def scored_questions(report: CompletionReport) -> Iterator[dict[str, Any]]:
    """Yield every question with each model's scores, for JSON.

    right: index of the correct candidate, from 0.
    chosen: indices of the chosen candidate, or of all tied ones.
    log_probs: natural log-probabilities in the order of the candidates; None for probability 0.
    """
    for place, question in enumerate(report.questions):
        size = len(question)
        yield {
            "question": question.name,
            "place": question.place,
            "candidates": list(question.candidates),
            "right": question.right,
            "models": {
                column.name: {
                    "log_probs": [_finite(one) for one in column.log_probs[place, :size].tolist()],
                    "chosen": np.flatnonzero(column.chosen[place]).tolist(),
                    "credit": float(column.credits[place]),
                    "differing_words_known": column.differing_known[place, :size].tolist(),
                    "all_words_known": column.all_known[place, :size].tolist(),
                }
                for column in report.all_scores
            },
        }


def _finite(value: float) -> float | None:
    """Replace minus infinity, which JSON lacks, by None."""
    return value if math.isfinite(value) else None
