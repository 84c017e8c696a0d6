"""Options of sampling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, TypedDict

from syntaxlm.core.declarations import Bounds, Count, Options, Seed, Shown


@dataclass(frozen=True, kw_only=True)
class SamplingOptions(Options):
    """How words are sampled. A sentence depends on the seed and its number, not on the number of sentences.

    Attributes:
        temperature: Sample at this temperature. Values below 1 favour probable words, values above 1 improbable ones,
            and 0 always takes the most probable word. Default: 1.
        top_k: Draw only from the K most probable words. Default: all words.
        seed: Sample with this random seed.
        max_words: Limit each sentence to N words without the prompt, or N characters for a character-level model.
            Longer sentences are cut or, when sampled top-down, redrawn. Default: 100 words or 500 characters.
        keep_unknown: Allow the unknown word to be drawn.
    """

    heading: ClassVar[str] = "Sampling"

    temperature: Annotated[float, Bounds(ge=0), Shown("T")] = 1.0
    top_k: Annotated[Count, Shown("K")] | None = None
    seed: Seed = 0
    max_words: Count | None = None
    keep_unknown: bool = False


class SamplingKeywords(TypedDict, total=False):
    """The options of `SamplingOptions` as keywords of a method, for type checkers."""

    temperature: float
    top_k: int | None
    seed: int
    max_words: int | None
    keep_unknown: bool


@dataclass(frozen=True, kw_only=True)
class TreeSamplingOptions(SamplingOptions):
    """How dependency trees are sampled; `top_k` applies to words only.

    Attributes:
        max_depth: Cut the tree of a dependency-tree model below words with N heads above them, including ROOT. Default:
            30.
        redraw: Redraw the tree of a dependency-tree model instead of cutting it, at most 100 times.
    """

    heading: ClassVar[str] = "Sampling"

    max_depth: Count | None = None
    redraw: bool = False
