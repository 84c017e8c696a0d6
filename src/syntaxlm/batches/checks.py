"""Look-ups in a corpus and checks of arguments for batches of streams and of sentences."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.errors import InputError
from syntaxlm.trees.spans import SpanSets

Integers = npt.NDArray[np.int64]


def words_at(corpus: EncodedCorpus, places: Integers) -> Integers:
    """corpus.ids[places] as int64, with arbitrary values for positions out of range, which the caller overwrites."""
    if not len(corpus.ids):
        return np.zeros(places.shape, np.int64)
    return corpus.ids[np.clip(places, 0, len(corpus.ids) - 1)].astype(np.int64)


def check_spans(spans: SpanSets | None, corpus: EncodedCorpus) -> None:
    if spans is not None and not np.array_equal(spans.lengths, corpus.lengths):
        raise ValueError("the spans do not fit the sentences of the corpus")


def check_positive(**sizes: int) -> None:
    faults = [f"{name}: {size}; expected 1 or more" for name, size in sizes.items() if size < 1]
    if faults:
        raise InputError("\n".join(faults))


def check_seed(seed: int) -> None:
    if seed < 0:
        raise InputError(f"seed: {seed}; expected 0 or more")


def check_rank(rank: int, ranks: int) -> None:
    if not 0 <= rank < ranks:
        raise InputError(f"rank {rank} of {ranks} processes; expected 0 to {ranks - 1}")
