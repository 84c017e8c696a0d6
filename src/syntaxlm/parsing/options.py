"""Options of parsing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TypedDict

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
        decoder: Choose the tree of a sentence by this algorithm, which must match the structures that the model
            computes. If there are several models, those that do not support the decoder use their default.
            - Distances: `biased` (default, as in published results) favours right branching, and `unbiased` (default of
              structformer and of models trained with trees) favours neither direction.
            - Span scores: `greedy-right` (default of palm, as published) splits where the right span scores highest,
              `greedy-sum` (default of other models) splits where both spans together score highest, and `cky` finds the
              tree with the highest total score.
            - Span probabilities: `mbr` (default) finds the tree with the highest sum of span probabilities, and
              `viterbi` the single most probable tree (slow).
            - Dependency trees: `heads` (default) joins each head with all its descendants. `heads-binary` makes a
              binary tree in which heads join their right dependents first, and `heads-binary-left` one in which they
              join their left dependents first.
        layer: Use the distances of this layer, counted from 1. Only distance models have layers. Default: 2 for an
            on-lstm with several layers, as in the published results, and otherwise 1.
        ties: Choose among equally good splits in this way when the trees of several models are averaged.
            - `random` (default): each split with the same probability, reproducibly
            - `first`: the first split, which favours right branching
        marks: Use punctuation marks that are not words of the model. Models with `model.reads_marks` read them. For
            others, they are evidence of where constituents start and end: a span with a mark inside is avoided, unless
            a mark or an edge of the sentence is also at these places.
            - `end`: at the end of the span
            - `start`: at the start of the span
            - `either`: at its end or its start
            - `both`: at its end and its start, less strictly if only one is missing
            - `none`: marks are not used, and not read
            - `auto` (default): `both`, or the side with which the model was trained, if marks were evidence in its
              training. No span is avoided for other models, and for models that read marks
    """

    heading: ClassVar[str] = "Trees"

    decoder: Decoder | None = None
    layer: Layers | None = None
    ties: Ties = "random"
    marks: MarkUse = "auto"


@dataclass(frozen=True, kw_only=True)
class ParseOptions(DecodingOptions, TextOptions):
    """How text is parsed.

    Attributes:
        labels: Write the labels that the model has learned in brackets and JSON, such as `(NT-17 (T-3 the) (T-8 dog))`.
            This requires a single model that learns labels, such as a PCFG.
        best: Write the N best trees of each sentence, at most 100, each with its confidence, which is the mean
            probability of its constituents. This requires models of span probabilities and the decoder `mbr`.
        samples: Draw N trees of each sentence at random, at most 10,000, by their probabilities, instead of choosing
            the best tree. This requires the decoder `mbr` and a single model with probabilities of trees, which is a
            PCFG, a span parser, a combination of these, ccm, diora or tree-transformer.
        sample_seed: Draw the samples with this random seed.
        pretokenised: Read each string between white space as one word of the tree, as `evaluate parse` does. Use it for
            text that `data words` or a tokeniser wrote. No word is split or left out. A word that the model would split
            or drop, such as `cannot` or `=`, is an unknown word unless the vocabulary contains it.
    """

    heading: ClassVar[str] = "Trees"

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
