"""Sampling of whole sentences, and the vocabulary ids of models that read whole sentences.

Their vocabularies are those of `Vocabulary.build`: unknown, BOS, EOS, then words. Sentences are sampled as words
without BOS and EOS, numbered from 0, the unknown word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from syntaxlm.core.errors import InputError

BOS, EOS = 1, 2
SPECIALS = 2  # BOS and EOS, which are not words

_TRIES = 1000  # attempts to sample a sentence that is short enough

Sums = npt.NDArray[np.float64]


def token_of(word: int) -> int:
    """Return the vocabulary id of a word."""
    return word + SPECIALS if word else 0


class Sample(NamedTuple):
    """A sentence sampled from a grammar.

    spans: (first word, last word, nonterminal) in pre-order, both words inclusive.
    word_labels: the preterminal of each word, numbered after the nonterminals; empty for a sentence of one word, which
    the grammar does not generate.
    """

    words: tuple[int, ...]
    spans: tuple[tuple[int, int, int], ...]
    word_labels: tuple[int, ...] = ()


def draw_short(draw: Callable[[], Sample | None], longest: int) -> Sample:
    """Return the first sample that is not None.  longest: the limit of `draw`, in words, for the message.

    Raises InputError if none of 1,000 samples is short enough.
    """
    for _ in range(_TRIES):
        sample = draw()
        if sample is not None:
            return sample
    raise InputError(f"none of {_TRIES:,} sampled sentences has at most {longest} words; allow longer sentences")


def draw_from(sums: Sums, generator: np.random.Generator, omitted: int = 0) -> int:
    """Sample an index from a distribution's cumulative sums. omitted: number of the first indices not allowed."""
    below = float(sums[omitted - 1]) if omitted else 0.0
    point = below + generator.random() * (float(sums[-1]) - below)
    return min(int(np.searchsorted(sums, point, side="right")), len(sums) - 1)
