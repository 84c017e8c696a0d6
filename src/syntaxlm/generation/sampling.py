"""Settings and limits of sampling, and the conversion of sampled tokens to text."""

from __future__ import annotations

from dataclasses import dataclass

from syntaxlm.errors import InputError
from syntaxlm.settings import Count, NonNegative, Seed, Settings
from syntaxlm.text.normaliser import Normaliser

MAXIMUM = {"words": 100, "characters": 500, "tags": 100}  # default limits of the tokens of a sampled sentence


@dataclass(frozen=True)
class Sampling(Settings):
    """Settings for sampling the next token."""

    temperature: NonNegative = 1.0  # log-probabilities are divided by it; 0: always the most probable token
    top_k: Count | None = None  # number of most probable tokens to sample from; None: all
    seed: Seed = 0  # a sentence depends on the seed and its number, not on the number of sentences
    maximum_words: Count | None = None  # most words (or characters) sampled, in addition to the prompt; None: `MAXIMUM`
    keep_unknown: bool = False  # whether the unknown token may be sampled


def check_count(count: int) -> None:
    """Raises InputError for fewer than one sentence."""
    if count < 1:
        raise InputError(f"count: found {count}; expected 1 or more")


def as_text(normaliser: Normaliser, tokens: list[str]) -> str:
    """Tokens as a line of text: words separated by spaces; characters without separators, white space as a space."""
    if normaliser.units != "characters":
        return " ".join(tokens)
    if normaliser.space is None:
        return "".join(tokens)
    written = {normaliser.space: " ", f"\\{normaliser.space}": normaliser.space}
    return "".join(written.get(token, token) for token in tokens)
