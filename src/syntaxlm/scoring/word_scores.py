"""Scores of words that are not surprisals given the words before, by models with the ability `ScoresWords`.

These are masked models, which give pseudo-log-likelihoods, and the decoders of sequence-to-sequence models. Columns
have the names of the scores, see `WordScoreType`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from syntaxlm.core.declarations import Masking
from syntaxlm.core.errors import InputError
from syntaxlm.core.option_names import option_name
from syntaxlm.models.abilities import MasksTokens, ScoresWords, WordScoreType
from syntaxlm.reports.tables import Column, Columns
from syntaxlm.scoring.engine import Scorer
from syntaxlm.scoring.options import ScoreOptions
from syntaxlm.scoring.surprisal import SURPRISALS, WordSurprisal, lines_scorer
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.text.reader import REMEMBERED_WORDS

_OF_SURPRISALS = ("surprisal", "surprisal_word", "surprisal_marks")


class WordScore(NamedTuple):
    """One word of a text with its score.

    Attributes:
        sentence: number of the line, from 1.
        position: number of the word in the line, from 1.
        word: the word as written, line[begin:end].
        begin: start of the word in the line, in code points.
        end: end of the word in the line, in code points.
        token: what the model reads of the word.
        in_vocabulary: whether the model knows all sub-tokens of the word; None if it reads nothing of the word.
        bits: the negative score in bits; None if the model reads nothing of the word.
        tokens: number of its sub-tokens.
        name: what the score is: "pseudo_surprisal" or "decoder_surprisal".
    """

    sentence: int
    position: int
    word: str
    begin: int
    end: int
    token: str
    in_vocabulary: bool | None
    bits: float | None
    tokens: int
    name: str

    @classmethod
    def of(cls, word: WordSurprisal, name: str) -> WordScore:
        """Return the score of a word, which is in the place of its surprisal."""
        return cls(*word[:7], word.surprisal, word.tokens, name)

    def row(self) -> dict[str, Any]:
        """Return the row, with the columns of `score_columns`."""
        values = self._asdict()
        bits = values.pop("bits")
        tokens = values.pop("tokens")
        return {**values, values.pop("name"): bits, "tokens": tokens}

    def to_dict(self) -> dict[str, Any]:
        """Return the row with rounded numbers."""
        return {name: round(value, 6) if isinstance(value, float) else value for name, value in self.row().items()}


def score_columns(score_type: WordScoreType) -> Columns:
    """Return the columns of words with their scores."""
    columns: dict[str, Column] = {}
    for name, column in SURPRISALS.items():
        if name == "surprisal":
            column = Column("number", f"negative score in bits, {score_type.meaning}", ".2f")
            columns[score_type.word] = column
        elif name not in _OF_SURPRISALS:
            columns[name] = column
    return Columns("scores of words", "word", columns)


def with_masking(bundles: Mapping[str, ModelBundle], masking: Masking | None, use: str) -> dict[str, ModelBundle]:
    """Return the models by name, masked ones with this masking; None: their own.

    Args:
        use: what the models are used for, for the message.

    Raises:
        InputError: if no model has masks.
    """
    if masking is None:
        return dict(bundles)
    if not any(isinstance(bundle.model, MasksTokens) for bundle in bundles.values()):
        next(iter(bundles.values())).require(MasksTokens, f"{use} with {option_name('--masking')}")
    return {
        name: replace(bundle, model=bundle.model.with_masking(masking))
        if isinstance(bundle.model, MasksTokens)
        else bundle
        for name, bundle in bundles.items()
    }


def scored_lines(
    bundle: ModelBundle, lines: Iterable[str], options: ScoreOptions = ScoreOptions()
) -> Iterator[list[WordSurprisal]]:
    """Yield the words of each line with their score in the place of their surprisal; the caller names it.

    Args:
        lines: one sentence per line, each of which is read by itself.
        options: without carried context, further measures and next words.

    Raises:
        InputError: for other options, and for a model that gives surprisals.
    """
    model = bundle.require(ScoresWords, "scores of words")
    name = model.score_type.word
    given: Mapping[str, object] = {
        option_name("--context", "carry"): options.context == "carry",
        option_name("--measure"): options.measures,
        option_name("--next-words"): options.next_words,
    }
    for option in (option for option, value in given.items() if value):
        raise InputError(f"{option}: found with a model that gives {name}; expected a model that gives surprisals")
    scorer = Scorer.of(bundle, options.mode(bundle.mode), takes_scores=True)
    score = lines_scorer(scorer, bundle, options)
    knows = lru_cache(REMEMBERED_WORDS)(model.knows)
    return ([_described(word, knows(word.token)) for word in words] for words in score(lines))


def _described(word: WordSurprisal, is_known: bool) -> WordSurprisal:
    """Return a word without parts of its score."""
    known = is_known if word.tokens else None
    return word._replace(in_vocabulary=known, surprisal_word=None, surprisal_marks=None)
