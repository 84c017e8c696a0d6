"""Options of scoring text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from syntaxlm.core.options import Options
from syntaxlm.text.options import TextKeywords, TextOptions

if TYPE_CHECKING:
    from syntaxlm.models.batches import TextMode

Context = Literal["reset", "carry"]


@dataclass(frozen=True, kw_only=True)
class ReadingOptions(Options):
    """How a text of several sentences is read.

    context: read each sentence by itself (reset), or the text as one stream whose state is carried from sentence to
        sentence (carry); default: as in training
    """

    context: Context | None = None

    def mode(self, trained: TextMode) -> TextMode:
        """Return how text is read. trained: as in training."""
        carries = trained.carry_state if self.context is None else self.context == "carry"
        return replace(trained, carry_state=carries)


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(ReadingOptions, TextOptions):
    """How the words of a text are scored.

    context: read each sentence by itself (reset, the default), or the text as one stream whose state is carried from
        sentence to sentence (carry), for running text. A model that was trained on a stream reads a sentence by itself
        after the end of a sentence
    """

    context: Context = "reset"


@dataclass(frozen=True, kw_only=True)
class PerplexityOptions(ReadingOptions):
    """How the perplexity of a text is measured.

    predict_eos: count the ends of sentences (--no-predict-eos: omit them); default: as in training
    """

    predict_eos: bool | None = None

    def mode(self, trained: TextMode) -> TextMode:
        mode = super().mode(trained)
        return mode if self.predict_eos is None else replace(mode, predict_eos=self.predict_eos)


class ScoreKeywords(TextKeywords, total=False):
    """The fields of `ScoreOptions` as keyword arguments."""

    context: Context
