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
        decoder: decoding algorithm. Distances: biased (default), as in published results, which favours right
            branching; unbiased, the default of structformer and of models trained with trees. Span scores:
            greedy-right, the default of palm, which splits where the right span scores highest, as published;
            greedy-sum, the default of other models, which splits where both spans together score highest; cky, the tree
            with the highest total score. Span probabilities: mbr (default), the tree with the highest sum of span
            probabilities; viterbi, the single most probable tree (slow). Dependency trees: heads (default), each head
            with all its descendants; heads-binary, a binary tree in which heads join their right dependents first;
            heads-binary-left, their left ones first. With several models, the decoder applies to those that support it;
            the others use their default
        layer: layer whose distances are used, from 1; default: as for published trees, 2 for an on-lstm with several
            layers, otherwise 1; models without distances have no layers
        ties: how to choose among equally good splits in an average: random (default), each with the same probability
            and reproducibly; first, which favours right branching
        marks: whether punctuation marks that the model does not read are evidence of constituents. A span with such a
            mark inside is avoided if no mark or edge of the sentence is at its end (end), at its start (start), at
            either of them (either), or at both (both: less strictly if only one is missing); none, marks are ignored;
            auto (default): both, or the side with which the model was trained, if it was trained with marks
    """

    decoder: Decoder | None = None
    layer: Layers | None = None
    ties: Ties = "random"
    marks: MarkUse = "auto"


@dataclass(frozen=True, kw_only=True)
class ParseOptions(DecodingOptions, TextOptions):
    """How text is parsed.

    Attributes:
        labels: write induced labels in brackets and JSON, (NT-17 (T-3 the) (T-8 dog)); requires a single model with
            labels (a PCFG)
        best: number of trees of each sentence, the best first, each with its confidence: the mean probability of its
            constituents. Requires models of span probabilities and the decoder mbr; 1 to 100
        samples: number of trees of each sentence, drawn from their probabilities given the sentence, instead of the
            best; requires a single model with probabilities of trees (a PCFG, a span parser, a combination of these,
            ccm) and the decoder mbr; at most 10,000
        sample_seed: random seed of the samples
        pretokenised: each string between white space is one word of the tree, as in evaluate parse; for text that was
            written by data words or by a tokeniser. No word is split or left out: one that the model would split or not
            read, such as cannot or =, is an unknown word unless the vocabulary has it
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
