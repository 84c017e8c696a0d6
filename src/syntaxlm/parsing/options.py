"""Options of parsing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypedDict

from syntaxlm.core.declarations import Bounds, Layers, Options, Seed, Shown, With
from syntaxlm.core.errors import InputError
from syntaxlm.text.options import Contractions, Punctuation, TextOptions

Decoder = Literal[
    "biased", "unbiased", "greedy-right", "greedy-sum", "cky", "mbr", "viterbi", "heads", "heads-binary",
    "heads-binary-left",
]  # fmt: skip
Ties = Literal["random", "first"]
Best = Annotated[int, Bounds(ge=1, le=100), Shown("N")]
Samples = Annotated[int, Bounds(ge=0, le=10_000), Shown("N")]
MarkUse = Literal["auto", "none", "both", "either", "end", "start"]


@dataclass(frozen=True, kw_only=True)
class DecodingOptions(Options):
    """How a model's structure becomes trees.

    Attributes:
        decoder: algorithm that turns the model's output into a tree. For distances: biased (default; as published, and
            favours right branching) or unbiased (default of structformer and of models trained with trees). For span
            scores: greedy-right (default of palm, as published), greedy-sum (default of other models) or cky. For span
            probabilities: mbr (default) or viterbi (slow). For dependency trees: heads (default), heads-binary or
            heads-binary-left. With several models, it applies to the models that support it
        layer: layer whose distances are used, from 1; default, as for published trees: 2 for an on-lstm with several
            layers, otherwise 1
        ties: choice among equally good splits in an average: random (default, reproducible) or first (favours right
            branching)
        marks: use of punctuation marks that the model does not read, as evidence of constituents. A span that contains
            such a mark is avoided unless the span has a mark or an edge of the sentence at its end (end), at its start
            (start), at either side (either) or at both sides (both); none ignores marks; auto (default) is both, or
            the side with which the model was trained
    """

    decoder: Decoder | None = None
    layer: Layers | None = None
    ties: Ties = "random"
    marks: MarkUse = "auto"


@dataclass(frozen=True, kw_only=True)
class ParseOptions(DecodingOptions, TextOptions):
    """How text is parsed.

    Attributes:
        labels: write induced labels in brackets and JSON, such as (NT-17 (T-3 the) (T-8 dog)); requires a single model
            with labels (a PCFG)
        best: number of trees per sentence, 1 to 100, the best tree first, each with its confidence (the mean
            probability of its constituents); requires models of span probabilities and the decoder mbr
        samples: number of trees per sentence, at most 10,000, drawn from their probabilities given the sentence instead
            of the best tree; requires a single model with probabilities of trees (a PCFG, a span parser, a combination
            of these, ccm) and the decoder mbr
        sample_seed: random seed of the samples
        pretokenised: take each string between white space as one word of the tree, as evaluate parse does; for text
            written by data words or a tokeniser. Words that the model would split or not read, such as cannot or =, are
            unknown words unless the vocabulary contains them
    """

    labels: bool = False
    best: Best = 1
    samples: Samples = 0
    sample_seed: Annotated[Seed, With(("samples",))] = 0
    pretokenised: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pretokenised:
            given = {"punctuation": self.punctuation, "contractions": self.contractions}
            for name, value in given.items():
                if value in ("split", "drop"):
                    raise InputError(f"pretokenised: found together with {name} {value}; expected one of them")
        if self.samples and self.best > 1:
            raise InputError("samples: found together with best; expected one of them")
        if self.labels and self.several:
            reason = f"found together with {self.several}, whose trees have no labels; expected one of them"
            raise InputError(f"labels: {reason}")
        if self.sample_seed and not self.samples:
            raise InputError("sample_seed: found without samples; expected both, or neither")

    @property
    def several(self) -> str:
        """The option that requests several trees of a sentence, or ""."""
        return "samples" if self.samples else "best" if self.best > 1 else ""


class ParseKeywords(TypedDict, total=False):
    """The options of `ParseOptions` as keywords of a method, for type checkers."""

    decoder: Decoder | None
    layer: int | None
    ties: Ties
    marks: MarkUse
    labels: bool
    best: int
    samples: int
    sample_seed: int
    pretokenised: bool
    punctuation: Punctuation
    contractions: Contractions
