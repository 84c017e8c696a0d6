"""Agreement of models on the trees of a text, and the model that agrees least. No gold tree is needed.

Seeds of one recipe may end in different grammars at the same likelihood. Comparing their trees shows this: seeds that
found the same structure agree with each other, and a seed that found another structure agrees with none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from syntaxlm.data.corpora import read_sentences
from syntaxlm.errors import InputError
from syntaxlm.model_io import ModelBundle
from syntaxlm.parsing.collapse import branching_side
from syntaxlm.parsing.parse import parse_lines
from syntaxlm.parsing.structure import Rule, rules_for
from syntaxlm.settings import check_number
from syntaxlm.text_files import no_sentence
from syntaxlm.trees import (
    PROTOCOLS,
    AgreementMatrix,
    BranchingF1,
    Protocol,
    SpanSets,
    agreement,
    branching_f1,
)

SENTENCES = 1000  # of the text that are parsed unless another number is given
_APART = 0.10  # a model is an outlier if its mean agreement is lower than that among the others by more than this


@dataclass(frozen=True, eq=False)
class Agreement:
    """The agreement of the trees of several models of the same sentences.

    names, decoders: of the k models.  source: the text.
    matrix: between each two models.  branching: F1 of each model's trees against right- and left-branching trees.
    """

    names: Sequence[str]
    decoders: Sequence[str]
    source: str
    matrix: AgreementMatrix
    branching: Sequence[BranchingF1]

    @property
    def odd_one_out(self) -> int | None:
        """The model that agrees least with the others; None for two models."""
        return None if len(self.names) < 3 else int(self.matrix.with_others.argmin())

    @property
    def stands_apart(self) -> bool:
        """Whether that model agrees much less with the others than these do with each other; never with two models."""
        odd = self.odd_one_out
        if odd is None:
            return False
        rest = np.delete(np.arange(len(self.names)), odd)
        among = self.matrix.values[np.ix_(rest, rest)]
        mean = (among.sum() - len(rest)) / (len(rest) * (len(rest) - 1))
        return bool(self.matrix.with_others[odd] < mean - _APART)

    def collapsed(self) -> dict[int, str]:
        """The models whose trees are nearly all right or left branching, and the side."""
        sides = [branching_side(found.right, found.left) for found in self.branching]
        return {number: side for number, side in enumerate(sides) if side is not None}

    def reasons_to_omit(self) -> dict[int, str]:
        """The models that have collapsed or stand apart, and why. Empty if fewer than two others would remain."""
        reasons = {number: f"its trees are nearly all {side} branching" for number, side in self.collapsed().items()}
        if self.stands_apart and self.odd_one_out is not None:
            reasons.setdefault(self.odd_one_out, "it is an outlier; the others agree much more with each other")
        return reasons if len(self.names) - len(reasons) >= 2 else {}

    def to_dict(self) -> dict[str, Any]:
        """All figures, for JSON."""
        return {
            "models": list(self.names),
            "decoders": list(self.decoders),
            "text": self.source,
            **self.matrix.to_dict(),
            "right_branching": [found.right for found in self.branching],
            "left_branching": [found.left for found in self.branching],
            "odd_one_out": None if self.odd_one_out is None else self.names[self.odd_one_out],
            "stands_apart": self.stands_apart,
            "collapsed": {self.names[number]: side for number, side in self.collapsed().items()},
        }

    def __str__(self) -> str:
        names = [f"{name} ({decoder})" for name, decoder in zip(self.names, self.decoders, strict=True)]
        sides = {side: [getattr(found, side) for found in self.branching] for side in ("right", "left")}
        lines = [*self.matrix.lines(names, sides), "", self._verdict()]
        lines += [
            f"{self.names[number]}: its trees are nearly all {side} branching; the model has collapsed"
            for number, side in self.collapsed().items()
        ]
        return "\n".join(lines)

    def _verdict(self) -> str:
        if self.odd_one_out is None:
            return "Two models: neither can be called the odd one out. Three or more can be compared."
        odd = self.names[self.odd_one_out]
        if self.stands_apart:
            return f"{odd} is an outlier: the others agree much more with each other than with it."
        return f"{odd} agrees least with the others, but is not an outlier."


def measure_agreement(
    stored: Sequence[ModelBundle],
    text: str | Path,
    names: Sequence[str],
    protocol: Protocol = PROTOCOLS["wsj-test"],
    decoder: Rule | None = None,
    sentences: int = SENTENCES,
) -> Agreement:
    """Parses the first sentences of a text with each model and compares the trees.

    names: of the models.  decoder: of the models that have it; the others use their defaults.
    Raises InputError for fewer than two models, models that do not parse or read different words, and an empty text.
    """
    if len(stored) < 2:
        raise InputError(f"found {len(stored)} model; expected two or more to compare")
    check_number("sentences", sentences, 1)
    rules = rules_for(stored, decoder)
    lines = [line for _, line in islice(read_sentences(text, stored[0].normaliser), sentences)]
    predicted: list[SpanSets] = []
    for one, name, rule in zip(stored, names, rules, strict=True):
        spans = parse_lines(one, lines, rule).spans
        if spans is None:
            raise no_sentence(text)
        if predicted and not np.array_equal(spans.lengths, predicted[0].lengths):
            raise InputError(
                f"{name} and {names[0]} read different words in {text}; models that are compared must split and drop"
                " words in the same way (text.normaliser of their recipes)"
            )
        predicted.append(spans)
    return Agreement(
        list(names),
        [str(rule) for rule in rules],
        str(text),
        agreement(predicted, protocol),
        [branching_f1(one, protocol) for one in predicted],
    )
