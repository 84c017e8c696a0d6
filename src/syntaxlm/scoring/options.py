"""Options of scoring text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from syntaxlm.text.options import TextKeywords, TextOptions

Context = Literal["reset", "carry"]


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """How a text of several sentences is read.

    context: read each sentence by itself (reset), or the text as one stream whose state is carried from sentence to
        sentence (carry); default: as in training
    """

    context: Context | None = None


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(ReadingOptions, TextOptions):
    """How the words of a text are scored."""


@dataclass(frozen=True, kw_only=True)
class PerplexityOptions(ReadingOptions):
    """How the perplexity of a text is measured.

    predict_eos: count the ends of sentences (--no-predict-eos: omit them); default: as in training
    """

    predict_eos: bool | None = None


class ScoreKeywords(TextKeywords, total=False):
    """The fields of `ScoreOptions` as keyword arguments."""

    context: Context | None
