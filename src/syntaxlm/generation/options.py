"""Options of sampling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypedDict

from syntaxlm.core.declarations import Bounds, Count, Options, Seed, Shown


@dataclass(frozen=True, kw_only=True)
class SamplingOptions(Options):
    """How words are sampled. A sentence depends on the seed and its number, not on the number of sentences.

    Attributes:
        temperature: sampling temperature: below 1 favours probable words, above 1 improbable ones; 0 always takes the
            most probable word; default 1
        top_k: draw only from the K most probable words
        seed: random seed; default 0
        max_words: maximum length of a sentence, without the prompt, in words (characters for a character-level model);
            default 100 (500). Longer sentences are cut or, when sampled top-down, redrawn
        keep_unknown: allow the unknown word to be drawn
    """

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
        max_depth: for dependency-tree models: cut a tree below words with N heads above them, including ROOT; default
            30
        redraw: for dependency-tree models: redraw a tree instead of cutting it, up to a hundred times
    """

    max_depth: Count | None = None
    redraw: bool = False
