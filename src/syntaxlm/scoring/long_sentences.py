"""Limits for models that compare all spans of a sentence: their time grows with the cube of its length."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.trees.charts import MAXIMUM_WORDS
from syntaxlm.trees.matching import beginning

LONG_SENTENCE = 400  # words; the time for longer sentences is extrapolated
TRIED_WORDS = 100  # words that are computed for this
PARSING = "Parsing", "parse it with a model of syntactic distances"
SCORING = "Scoring", "score it with a model that reads one word after the other, such as an lstm"


def check_long_sentence(
    words: Sequence[str], number: int, name: str, doing: tuple[str, str], attempt: Callable[[int], object]
) -> None:
    """Check a sentence of more than `LONG_SENTENCE` words before memory is taken for its spans.

    The time is extrapolated from that of its first words.

    Args:
        words: of the sentence.
        number: of the sentence in its source.
        name: of the model type.
        doing: PARSING or SCORING.
        attempt: computes the first n words.

    Raises:
        InputError: if it has too many words, and warns if it takes minutes.
    """
    task, instead = doing
    reported = f"sentence {number}: found {len(words):,} words ({beginning(words)})"
    reason = f"because {name} models compare all spans"
    if len(words) > MAXIMUM_WORDS:
        raise InputError(f"{reported}; expected at most {MAXIMUM_WORDS:,}, {reason}. Split the sentence, or {instead}.")
    attempt(TRIED_WORDS)  # warm-up
    started = time.perf_counter()
    attempt(TRIED_WORDS)
    minutes = (time.perf_counter() - started) * (len(words) / TRIED_WORDS) ** 3 / 60
    if minutes > 1:
        slow = f"{reported}. {task} the sentence takes about {minutes:,.0f} minutes, {reason}. Split it, or {instead}."
        warnings.warn(InputWarning(slow), stacklevel=3)


@contextmanager
def fitting_in_memory(sentence: Callable[[], tuple[int, int]], doing: tuple[str, str]) -> Iterator[None]:
    """Raise InputError if memory is exhausted in the block.

    Args:
        sentence: returns the number of the longest sentence that is being computed, and its words.
        doing: PARSING or SCORING.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:  # torch raises the second
        if not isinstance(error, MemoryError) and "memory" not in str(error):
            raise
        number, words = sentence()
        raise InputError(
            f"sentence {number}: found {words:,} words; the scores of its spans do not fit in memory. Split the"
            f" sentence, or {doing[1]}."
        ) from error
