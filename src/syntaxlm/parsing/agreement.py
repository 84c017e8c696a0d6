"""How far models agree on the trees of a text, and which of them stands apart. No gold tree is needed.

Seeds of one recipe may end in different grammars at the same likelihood. Their trees tell: seeds that found the same
structure agree, and one that found another agrees with none.
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
from syntaxlm.parsing.collapse import ONE_SIDED
from syntaxlm.parsing.parse import parse_lines
from syntaxlm.parsing.structure import Rule, rules_for
from syntaxlm.trees import PROTOCOLS, Protocol, SpanSets, agreement, left, right, score
from syntaxlm.trees.scoring import Fractions

SENTENCES = 1000  # of the text that are parsed unless another number is given
_APART = 0.10  # mean agreement below the next lowest, from which a model is said to stand apart


@dataclass(frozen=True, eq=False)
class Agreement:
    """The agreement of the trees of several models of the same sentences.

    names: of the k models.  matrix: (k, k) F1 between each two, 0 to 1.
    branching_right, branching_left: (k,) F1 of each model's trees against right- and left-branching ones.
    sentences: how many the F1 is of.  decoders: of each model.  source: the text.
    """

    names: Sequence[str]
    matrix: Fractions
    branching_right: Fractions
    branching_left: Fractions
    protocol: Protocol
    sentences: int
    decoders: Sequence[str]
    source: str

    @property
    def with_others(self) -> Fractions:
        """(k,) the mean agreement of each model with the others."""
        others: Fractions = (self.matrix.sum(1) - 1) / (len(self.names) - 1)
        return others

    @property
    def odd_one_out(self) -> int:
        """The model that agrees least with the others."""
        return int(self.with_others.argmin())

    @property
    def stands_apart(self) -> bool:
        """Whether that model agrees much less with the others than these do with each other; of two models never."""
        if len(self.names) < 3:
            return False
        rest = np.delete(np.arange(len(self.names)), self.odd_one_out)
        among = self.matrix[np.ix_(rest, rest)]
        mean = (among.sum() - len(rest)) / (len(rest) * (len(rest) - 1))
        return bool(self.with_others[self.odd_one_out] < mean - _APART)

    def collapsed(self) -> dict[int, str]:
        """The models whose trees are nearly all right or left branching, and which."""
        sides = {"right": self.branching_right, "left": self.branching_left}
        return {
            number: side
            for number in range(len(self.names))
            for side, shares in sides.items()
            if shares[number] >= ONE_SIDED
        }

    def as_dict(self) -> dict[str, Any]:
        """All figures, for JSON."""
        return {
            "models": list(self.names),
            "decoders": list(self.decoders),
            "text": self.source,
            "sentences": self.sentences,
            "protocol": self.protocol.name,
            "protocol_fields": {name: getattr(self.protocol, name) for name in Protocol.__dataclass_fields__},
            "agreement": self.matrix.tolist(),
            "with_others": self.with_others.tolist(),
            "right_branching": self.branching_right.tolist(),
            "left_branching": self.branching_left.tolist(),
            "odd_one_out": self.names[self.odd_one_out],
            "stands_apart": self.stands_apart,
            "collapsed": {self.names[number]: side for number, side in self.collapsed().items()},
        }

    def __str__(self) -> str:
        """Percentages: one row per model."""
        titles = [*(f"with {number}" for number in range(1, len(self.names) + 1)), "others", "right", "left"]
        lines = [
            f"agreement in unlabelled F1   protocol {self.protocol}   sentences {self.sentences}",
            "",
            "".join(f"{title:>9}" for title in titles),
        ]
        for number, name in enumerate(self.names):
            figures = *self.matrix[number], self.with_others[number], self.branching_right[number]
            row = "".join(f"{100 * value:9.1f}" for value in (*figures, self.branching_left[number]))
            lines.append(f"{row}   {number + 1} {name} ({self.decoders[number]})")
        lines += ["", self._verdict()]
        lines += [
            f"{self.names[number]}: its trees are nearly all {side} branching; the model has collapsed"
            for number, side in self.collapsed().items()
        ]
        return "\n".join(lines)

    def _verdict(self) -> str:
        odd = self.names[self.odd_one_out]
        if len(self.names) < 3:
            return "Two models: neither can be called the odd one out. Three or more can be compared."
        if self.stands_apart:
            return f"{odd} stands apart: the others agree much more with each other than with it."
        return f"{odd} agrees least with the others; it does not stand apart."


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
    Raises InputError for less than two models, models that do not parse or read different words, and an empty text.
    """
    if len(stored) < 2:
        raise InputError(f"found {len(stored)} model; expected two or more to compare")
    if sentences < 1:
        raise InputError(f"sentences: found {sentences}; expected 1 or more")
    rules = rules_for(stored, decoder)
    lines = [line for _, line in islice(read_sentences(text, stored[0].normaliser), sentences)]
    predicted: list[SpanSets] = []
    for one, name, rule in zip(stored, names, rules, strict=True):
        spans = parse_lines(one, lines, rule).spans
        if spans is None:
            raise InputError(f"{text}: no sentence with a word")
        if predicted and not np.array_equal(spans.lengths, predicted[0].lengths):
            raise InputError(
                f"{name} and {names[0]} read different words in {text}; models that are compared must split and drop"
                " words in the same way (text.normaliser of their recipes)"
            )
        predicted.append(spans)
    lengths = predicted[0].lengths

    def against(branching: SpanSets) -> Fractions:
        return np.array([score(one, branching, protocol, details=False).f1 for one in predicted])

    counted = score(predicted[0], predicted[1], protocol, details=False).sentences
    return Agreement(
        list(names),
        agreement(predicted, protocol),
        against(right(lengths)),
        against(left(lengths)),
        protocol,
        counted,
        [str(rule) for rule in rules],
        str(text),
    )
