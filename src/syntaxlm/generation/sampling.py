"""What all sampled sentences share: settings, limits, and how tokens become text."""

from __future__ import annotations

from dataclasses import dataclass

from syntaxlm.errors import InputError
from syntaxlm.settings import Count, NonNegative, Seed, Settings
from syntaxlm.text.normaliser import Normaliser

MAXIMUM = {"words": 100, "characters": 500, "tags": 100}  # tokens sampled of a sentence where no limit is given


@dataclass(frozen=True)
class Sampling(Settings):
    """How the next token is drawn."""

    temperature: NonNegative = 1.0  # log-probabilities are divided by it; 0: always the most probable token
    top_k: Count | None = None  # draw from so many most probable tokens only; None: from all
    seed: Seed = 0  # a sentence depends on this and on its number, not on how many are drawn
    maximum_words: Count | None = None  # words (characters) drawn at most, besides the prompt's; None: `MAXIMUM`
    keep_unknown: bool = False  # whether the unknown token may be drawn


def check_count(count: int) -> None:
    """Raises InputError for a number of sentences under 1."""
    if count < 1:
        raise InputError(f"count: found {count}; expected 1 or more")


def as_text(normaliser: Normaliser, tokens: list[str]) -> str:
    """Tokens as a line of text: words by a space apart, characters together and white space as a space."""
    if normaliser.units != "characters":
        return " ".join(tokens)
    if normaliser.space is None:
        return "".join(tokens)
    written = {normaliser.space: " ", f"\\{normaliser.space}": normaliser.space}
    return "".join(written.get(token, token) for token in tokens)
