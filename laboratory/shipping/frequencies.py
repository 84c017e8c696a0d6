"""Counts the words of the text of the bundled English models, for `--frequencies en`."""

from __future__ import annotations

import lzma
from pathlib import Path

from syntaxlm.data.frequencies import BUNDLED, Frequencies
from syntaxlm.storage.bundled import bundled_folder

LEAST = 2  # occurrences of a word that is listed


def write_frequencies(text: Path) -> None:
    """Stores how often each word occurs in a text, except for words that occur fewer than `LEAST` times.

    Args:
        text: train.txt of `shipping.english_text`.
    """
    counts = Frequencies.read(str(text)).counts
    rows = sorted((-int(count), word) for word, count in counts.items() if word and count >= LEAST)
    lines = "".join(f"{word}\t{-count}\n" for count, word in rows)
    (bundled_folder("en") / BUNDLED).write_bytes(lzma.compress(f"word\tcount\n{lines}".encode(), preset=9))
