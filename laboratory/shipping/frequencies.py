"""Counts the words of the text of the bundled English models, for `--frequencies en`.

    python -m laboratory.shipping.frequencies TRAIN

TRAIN: train.txt of `shipping.english_text`. Words that occur once are left out.
"""

from __future__ import annotations

import lzma
import sys

from syntaxlm.data.frequencies import BUNDLED, Frequencies
from syntaxlm.storage.bundled import bundled_folder

LEAST = 2  # occurrences of a word that is listed


def main() -> None:
    """Writes the list; see the module."""
    counts = Frequencies.read(sys.argv[1]).counts
    rows = sorted((-int(count), word) for word, count in counts.items() if word and count >= LEAST)
    lines = "".join(f"{word}\t{-count}\n" for count, word in rows)
    (bundled_folder("en") / BUNDLED).write_bytes(lzma.compress(f"word\tcount\n{lines}".encode(), preset=9))


if __name__ == "__main__":
    main()
