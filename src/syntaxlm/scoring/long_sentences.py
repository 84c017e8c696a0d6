"""Limits for models that compare all spans of a sentence: their time grows with its square to its cube."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from syntaxlm.core.errors import InputError, warn_caller
from syntaxlm.trees.charts import MAXIMUM_WORDS
from syntaxlm.trees.matching import beginning

LONG_SENTENCE = 400  # words; the time for longer sentences is extrapolated
TRIED_WORDS = 160  # words that are computed for this, and twice as many: charts of 150 words are long ones


class Operation(NamedTuple):
    """What is done with sentences, for messages.

    Attributes:
        name: such as "Parsing".
        alternative: what users can do with a long sentence instead.
    """

    name: str
    alternative: str


PARSING = Operation("Parsing", "parse it with a model of syntactic distances")
SCORING = Operation("Scoring", "score it with a model that reads one word after the other, such as an lstm")


def check_long_sentence(
    words: Sequence[str], number: int, name: str, operation: Operation, attempt: Callable[[int], object]
) -> None:
    """Check a sentence of more than `LONG_SENTENCE` words before memory is taken for its spans.

    Warns if the sentence takes minutes. The time is extrapolated from that of its first words.

    Args:
        words: the words of the sentence.
        number: the number of the sentence in its source.
        name: the name of the model type.
        attempt: computes the first n words.

    Raises:
        InputError: if the sentence has too many words.
    """
    reported = f"sentence {number}: found {len(words):,} words ({beginning(words)})"
    reason = f"because {name} models compare all spans"
    if len(words) > MAXIMUM_WORDS:
        raise InputError(
            f"{reported}; expected at most {MAXIMUM_WORDS:,}, {reason}. Split the sentence, or {operation.alternative}."
        )
    attempt(TRIED_WORDS)  # warm-up
    short, long = (_seconds(attempt, count) for count in (TRIED_WORDS, 2 * TRIED_WORDS))
    power = min(3.0, max(2.0, math.log2(long / short)))  # of the length, with which the time grows
    minutes = long * (len(words) / (2 * TRIED_WORDS)) ** power / 60
    if minutes > 1:
        warn_caller(
            f"{reported}. {operation.name} the sentence takes about {minutes:,.0f} minutes, {reason}. Split it, or"
            f" {operation.alternative}."
        )


def _seconds(attempt: Callable[[int], object], words: int) -> float:
    """Return the time of an attempt."""
    started = time.perf_counter()
    attempt(words)
    return time.perf_counter() - started


@contextmanager
def fitting_in_memory(sentence: Callable[[], tuple[int, int]], operation: Operation) -> Iterator[None]:
    """Raise InputError if memory is exhausted in the block.

    Args:
        sentence: returns the number of the longest sentence that is being computed, and its number of words.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:  # torch raises the second
        if not isinstance(error, MemoryError) and "memory" not in str(error):
            raise
        number, words = sentence()
        raise InputError(
            f"sentence {number}: found {words:,} words; the scores of its spans do not fit in memory. Split the"
            f" sentence, or {operation.alternative}."
        ) from error
