"""Parsing of whole texts, some thousand lines at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from syntaxlm.data.corpora import GivenText, read_sentences
from syntaxlm.errors import InputError
from syntaxlm.model_io import ModelBundle
from syntaxlm.models.abilities import Distances
from syntaxlm.models.abilities import Parses as ParsingModel
from syntaxlm.parsing.parse import Parses, parse_lines, parse_lines_together
from syntaxlm.parsing.structure import Rule
from syntaxlm.progress import progress_bar
from syntaxlm.text.reader import AS_TOKENISED
from syntaxlm.text.treebank_style import TreebankStyle
from syntaxlm.text_files import line_bytes, no_sentence, plain_size, source_name
from syntaxlm.trees import TieBreaking

PARSED_TOGETHER = 20_000  # lines at a time: few enough for memory and for early output
SCORED_TOGETHER = 2_000  # the same for models that score spans, because a long sentence has thousands of spans


def parse_text(
    stored: Sequence[ModelBundle],
    text: str | Path | GivenText,
    decoder: Rule | None = None,
    layer: int | None = None,
    labels: bool = False,
    names: Sequence[str] = (),
    ties: TieBreaking = "random",
    style: TreebankStyle = AS_TOKENISED,
) -> Iterator[Parses]:
    """Parses a text with one sentence per line, showing a progress bar, and yields the parses of consecutive lines.

    stored: one model, or several models whose trees are averaged.
    decoder, layer, labels, style: see `parse_lines`; averages have no labels.
    names, ties: for several models, see `parse_lines_together`.
    Raises InputError for the reasons of these functions, if labels are requested of an average, and for an empty text.
    """
    if labels and len(stored) > 1:
        raise InputError(f"found {len(stored)} models; expected one, because averaged trees have no labels")
    normalisers = [one.normaliser for one in stored]
    reader = next((one for one in normalisers if one.units == "tags"), normalisers[0])
    lines = (line for _, line in read_sentences(text, reader))
    together = lines_together(stored)
    chunks = iter(lambda: list(islice(lines, together)), [])
    first = 1
    size = None if isinstance(text, GivenText) else plain_size(text)
    amount = len if size is None else _bytes_of
    for chunk in progress_bar(chunks, f"parsing {source_name(text)}", size, amount, percent=size is not None):
        if len(stored) > 1:
            yield parse_lines_together(stored, chunk, decoder, first, layer, names, ties, style)
        else:
            yield parse_lines(stored[0], chunk, decoder, first, layer, labels, style)
        first += len(chunk)
    if first == 1:
        raise no_sentence(text)


def lines_together(stored: Sequence[ModelBundle]) -> int:
    """The number of lines that these models parse at a time. Raises InputError for a model that does not parse."""
    of_distances = all(one.require(ParsingModel, "parsing").structure_type is Distances for one in stored)
    return PARSED_TOGETHER if of_distances else SCORED_TOGETHER


def _bytes_of(lines: Sequence[str]) -> int:
    return sum(map(line_bytes, lines))
