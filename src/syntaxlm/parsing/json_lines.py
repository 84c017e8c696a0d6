"""Parses of consecutive lines as JSON lines, column by column: each distinct word or place is formatted once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress, pairwise
from json.encoder import encode_basestring as encoded
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from syntaxlm.core.files import to_json
from syntaxlm.parsing.result import ParseBatch
from syntaxlm.trees.spans import AnyIntegers, Integers, offsets_of

_SCALE = 1e6  # six decimals
_LARGEST_SCALED = 1e6  # numbers that are rounded by scaling them; larger ones lose precision
_ROUNDING_ERROR = 1e-3  # above that of the product of such a number with _SCALE


def json_lines(parses: ParseBatch) -> list[str]:
    """Return `Parse.to_dict` of each line as JSON; null for a line without words."""
    spans = parses.spans
    structure = parses.structure
    read = parses.read
    word_values = {} if structure is None else structure.word_values(parses.layer)
    values = {name: np.asarray(numbers) for name, numbers in word_values.items()}
    has_more = parses.labelled or parses.alternatives or (structure is not None and structure.compares_spans)
    if spans is None or has_more or not all(np.isfinite(numbers).all() for numbers in values.values()):
        return [to_json(parse.to_dict() if parse else None) for parse in parses]

    # The values of words, of all lines together.
    is_read = read.is_read
    flags = is_read.tolist()
    is_known = ~parses.reader.vocabulary.is_unknown(read.ids[is_read])
    items: dict[str, Iterable[str]] = {
        "words": _texts(list(compress(read.written, flags))),
        "tokens": _texts(list(compress(cast(Sequence[str], read.tokens), flags))),
        **{name: map(repr, _rounded(numbers)) for name, numbers in values.items()},
        "offsets": _pairs(read.starts[is_read], read.ends[is_read]),
        "known": map(("false", "true").__getitem__, is_known.tolist()),
    }
    columns = {name: _lists(texts, read.places) for name, texts in items.items()}
    unread = [
        f'{{"text": {encoded(read.written[place])}, "start": {read.starts[place]}, "end": {read.ends[place]}}}'
        for place in np.flatnonzero(~is_read).tolist()
    ]
    columns["not_read"] = _lists(unread, offsets_of(~is_read)[read.offsets])

    # The spans, of lines with words.
    spans = spans.in_preorder(smallest=2)
    has_words = np.diff(read.places) > 0
    counts = np.zeros(len(has_words), np.int64)
    counts[has_words] = np.diff(spans.offsets)
    columns["spans"] = _lists(_pairs(spans.starts, spans.ends), offsets_of(counts))

    row = "".join(['{"number": %d', *(f', "{name}": %s' for name in columns), "}"])
    rows = enumerate(zip(*columns.values(), strict=True), parses.first)
    return [
        row % (number, *cells) if is_parsed else "null"
        for (number, cells), is_parsed in zip(rows, has_words, strict=True)
    ]


def _texts(texts: Sequence[str]) -> Iterable[str]:
    written = {text: encoded(text) for text in dict.fromkeys(texts)}
    return map(written.__getitem__, texts)


def _rounded(values: npt.NDArray[Any]) -> list[float]:
    """Return numbers rounded to six decimals as `round` does: exactly, also in the middle of two results."""
    if values.dtype.kind != "f":
        return cast(list[float], values.tolist())
    scaled = values * _SCALE
    whole = np.rint(scaled)
    rounded = whole / _SCALE
    doubtful = (np.abs(np.abs(scaled - whole) - 0.5) < _ROUNDING_ERROR) | (np.abs(values) > _LARGEST_SCALED)
    rounded[doubtful] = [round(value, 6) for value in values[doubtful].tolist()]
    return cast(list[float], rounded.tolist())


def _pairs(starts: AnyIntegers, ends: AnyIntegers) -> Iterable[str]:
    width = int(ends.max(initial=0)) + 1
    distinct, places = np.unique(starts * np.int64(width) + ends, return_inverse=True)
    written = [f"[{start}, {end}]" for start, end in (divmod(code, width) for code in distinct.tolist())]
    return map(written.__getitem__, places.tolist())


def _lists(items: Iterable[str], offsets: Integers) -> list[str]:
    """Return the items of each line as a list.

    Args:
        offsets: (L + 1,) of the items of each line.
    """
    items = list(items)
    return [f"[{', '.join(items[start:end])}]" for start, end in pairwise(offsets.tolist())]
