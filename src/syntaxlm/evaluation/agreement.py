"""Agreement between the trees of several models, and the model that agrees least. No gold trees are needed.

Seeds of one recipe may end in different grammars at the same likelihood. Comparing their trees shows this: seeds that
found the same structure agree with each other, and a seed that found another structure agrees with none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import cast

import numpy as np

from syntaxlm.core.arrays import Numbers
from syntaxlm.core.errors import InputError
from syntaxlm.core.settings import check_number
from syntaxlm.core.text_files import no_sentence
from syntaxlm.data.corpora import is_longer, read_sentences
from syntaxlm.evaluation.collapse import branching_side
from syntaxlm.parsing.options import Decoder, DecodingOptions, ParseOptions
from syntaxlm.parsing.parse import parse_lines
from syntaxlm.parsing.structure import decodings
from syntaxlm.reports.report import HasReport, Report
from syntaxlm.reports.tables import Column, Columns
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.text.options import AS_WRITTEN
from syntaxlm.trees.averaging import AgreementMatrix, BranchingF1, agreement, branching_f1
from syntaxlm.trees.f1 import PROTOCOLS, Protocol
from syntaxlm.trees.spans import SpanSets

SENTENCES = 1000  # default number of sentences that are parsed
_APART = 0.10  # F1 by which an outlier's mean agreement with the others is below the agreement among the others


MODEL_AGREEMENT = Columns(
    "agreement of models",
    "ordered pair of models",
    {
        "model": Column("text", "model"),
        "decoder": Column("text", "decoder of the model"),
        "other": Column("text", "the other model"),
        "f1": Column("number", "unlabelled F1 between the trees of both models, 0 to 1"),
        "sentences": Column("integer", "number of scored sentences"),
        "protocol": Column("text", "name of the protocol"),
        "text": Column("text", "file of the sentences"),
    },
)


@dataclass(frozen=True, eq=False)
class Agreement(HasReport):
    """Agreement between the trees that several models predict for the same sentences.

    Attributes:
        names: the name of each of the k models.
        decoders: the decoder of each of the k models.
        source: the text.
        matrix: agreement of each pair of models.
        branching: F1 of each model's trees with right- and left-branching trees.
    """

    names: Sequence[str]
    decoders: Sequence[str]
    source: str
    matrix: AgreementMatrix
    branching: Sequence[BranchingF1]

    @property
    def odd_one_out(self) -> int | None:
        """The index of the model that agrees least with the others; None for two models."""
        return None if len(self.names) < 3 else int(self.matrix.with_others.argmin())

    @property
    def stands_apart(self) -> bool:
        """Whether that model is an outlier: it agrees much less with the others than they do with each other.

        Always false for two models.
        """
        return outlier(self.matrix.values, range(len(self.names))) is not None

    def collapsed(self) -> dict[int, str]:
        """Return the side, "right" or "left", by index, of the models whose trees nearly all branch to one side."""
        sides = [branching_side(scores.right, scores.left) for scores in self.branching]
        return {number: side for number, side in enumerate(sides) if side is not None}

    def reasons_to_omit(self, groups: Sequence[Sequence[int]] | None = None) -> dict[int, str]:
        """Return the reason, by index, to omit each model that has collapsed or is an outlier among its like.

        The result is empty if fewer than two models would remain.

        Args:
            groups: indices of models of one kind, seeds of one recipe; default: all are of one kind. Models are
                compared within their group, because kinds that differ help an average. A group that has collapsed as a
                whole is kept: its trees are those of its kind.
        """
        reasons: dict[int, str] = {}
        collapsed = self.collapsed()
        for group in [range(len(self.names))] if groups is None else groups:
            kept = [number for number in group if number not in collapsed]
            if kept or groups is None:
                reasons |= {
                    number: f"its trees are nearly all {collapsed[number]} branching"
                    for number in group
                    if number in collapsed
                }
            while (odd := outlier(self.matrix.values, kept)) is not None:
                reasons[odd] = "it is an outlier; the others agree much more with each other"
                kept.remove(odd)
        return reasons if len(self.names) - len(reasons) >= 2 else {}

    def report(self) -> Report:
        """Return the agreement of each pair of models."""
        matrix = self.matrix
        odd = None if self.odd_one_out is None else self.names[self.odd_one_out]
        shared = {"sentences": matrix.sentences, "protocol": matrix.protocol.name, "text": self.source}
        rows = [
            {"model": name, "decoder": decoder, "other": other, "f1": float(matrix.values[place, column]), **shared}
            for place, (name, decoder) in enumerate(zip(self.names, self.decoders, strict=True))
            for column, other in enumerate(self.names)
            if place != column
        ]
        sides = {side: [getattr(scores, side) for scores in self.branching] for side in ("right", "left")}
        collapsed = {self.names[number]: side for number, side in self.collapsed().items()}
        figures = {
            "models": self.names,
            "decoders": self.decoders,
            "text": self.source,
            **matrix.to_dict(),
            "right_branching": sides["right"],
            "left_branching": sides["left"],
            "odd_one_out": odd,
            "stands_apart": self.stands_apart,
            "collapsed": collapsed,
        }
        verdict = f"{odd} agrees least with the others, but is not an outlier."
        if odd is None:
            verdict = "With two models, no outlier is determined; this takes three or more."
        elif self.stands_apart:
            verdict = f"{odd} is an outlier: the others agree much more with each other than with it."
        names = [f"{name} ({decoder})" for name, decoder in zip(self.names, self.decoders, strict=True)]
        return Report(
            MODEL_AGREEMENT,
            rows,
            figures,
            {"agreement in unlabelled F1": "", "protocol": matrix.protocol, "sentences": matrix.sentences},
            tables=[matrix.table(names, sides)],
            notes=[
                verdict,
                *(
                    f"{name} has collapsed: nearly all its trees are {side} branching."
                    for name, side in collapsed.items()
                ),
            ],
        )


def outlier(values: Numbers, members: Sequence[int]) -> int | None:
    """Return the model among `members` that agrees much less with the others than these with each other, if any.

    Args:
        values: (S, S) F1 of each pair of models, 1 on the diagonal.
        members: indices; of two there is no outlier.
    """
    if len(members) < 3:
        return None
    chosen = values[np.ix_(members, members)]
    odd = int(chosen.sum(1).argmin())
    others = len(members) - 1
    among = (chosen.sum() - 2 * chosen[odd].sum() + 1 - others) / (others * (others - 1))
    return members[odd] if (chosen[odd].sum() - 1) / others < among - _APART else None


def measure_agreement(
    bundles: Sequence[ModelBundle],
    text: str | Path,
    names: Sequence[str],
    protocol: Protocol = PROTOCOLS["wsj-test"],
    options: DecodingOptions = DecodingOptions(),
    sentences: int = SENTENCES,
    longest: int | None = None,
) -> Agreement:
    """Parse the first sentences of a text with each model and compare the trees.

    Args:
        names: the name of each model, for the report.
        options: the decoder applies to the models that have it; the others use their default.
        sentences: maximum number of sentences.
        longest: most words of a sentence; longer ones are left out.

    Raises:
        InputError: for fewer than two models, for models that do not parse or that read different words, and for an
            empty text.
    """
    if len(bundles) < 2:
        raise InputError(f"found {len(bundles)} model; expected two or more models to compare")
    check_number("sentences", sentences, 1)
    chosen = decodings(bundles, options)
    normaliser = bundles[0].parser_normaliser
    read = (line for _, line in read_sentences(text, normaliser))
    if longest is not None:
        read = (line for line in read if not is_longer(line, longest, normaliser))
    lines = list(islice(read, sentences))
    predicted: list[SpanSets] = []
    for bundle, name, (decoder, _) in zip(bundles, names, chosen, strict=True):
        spans = parse_lines(bundle, lines, ParseOptions(decoder=cast(Decoder, decoder), **AS_WRITTEN)).spans
        if spans is None:
            raise no_sentence(text)
        if predicted and not np.array_equal(spans.lengths, predicted[0].lengths):
            raise InputError(
                f"{text}: {name} and {names[0]} read different words; expected models with the same tokenisation"
                " (text.normaliser in their recipes)"
            )
        predicted.append(spans)
    return Agreement(
        list(names),
        [decoding.decoder for decoding in chosen],
        str(text),
        agreement(predicted, protocol),
        [branching_f1(spans, protocol) for spans in predicted],
    )
