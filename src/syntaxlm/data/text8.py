"""text8: 10^8 bytes of cleaned Wikipedia text, one line of lower-case words, split as in published figures.

The first 99 million characters are the training text, the last million the validation text (Mikolov et al. 2014,
"Learning Longer Memory in Recurrent Neural Networks"; Shen et al. 2018 follow them). The user provides the file.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import make_folder, replaced
from syntaxlm.core.text_files import open_bytes, source_name

BYTES = 100_000_000
TRAINING_BYTES = 99_000_000

_OTHER = re.compile(rb"[^a-z ]")


@dataclass(frozen=True)
class Text8Summary:
    """The written files. train_words, valid_words: number of words, including parts of the word at the cut, `cut`."""

    train: str
    valid: str
    train_words: int
    valid_words: int
    cut: str | None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        parts = f"{self.train}: {self.train_words:,} words\n{self.valid}: {self.valid_words:,} words"
        return parts + (f"\nThe cut is inside the word {self.cut!r}: each file has a part of it." if self.cut else "")


def split_text8(path: str | Path, folder: str | Path) -> Text8Summary:
    """Write folder/train.txt and folder/valid.txt, each atomically and as one line, like the original file.

    Raises InputError if the file does not have 10^8 bytes, or contains other characters than a to z and spaces.
    """
    path, folder = Path(path), Path(folder)
    text = _read(path)
    make_folder(folder)
    train, valid = text[:TRAINING_BYTES], text[TRAINING_BYTES:]
    for name, part in (("valid", valid), ("train", train)):  # the larger last: it is what is missing after a failure
        with replaced(folder / f"{name}.txt") as temporary, open(temporary, "wb") as file:
            file.write(part)
            file.write(b"\n")
    return Text8Summary(
        str(folder / "train.txt"),
        str(folder / "valid.txt"),
        _word_count(train),
        _word_count(valid),
        _word_on_cut(train, valid),
    )


def _read(path: Path) -> bytes:
    with open_bytes(path) as file:
        text = file.read(BYTES + 1)
    if len(text) != BYTES:
        found = f"{len(text):,}" if len(text) < BYTES else f"more than {BYTES:,}"
        raise InputError(f"{source_name(path)}: found {found} bytes; expected the unpacked text8, which has {BYTES:,}")
    other = _OTHER.search(text)
    if other is not None:
        raise InputError(
            f"{source_name(path)}: found byte 0x{other.group()[0]:02x} at offset {other.start():,}; expected text8,"
            " which has only a to z and spaces"
        )
    return text


def _word_count(text: bytes) -> int:
    """Return the number of words, counted without a list: split() would create 17 million strings."""
    letters = np.frombuffer(b" " + text, np.uint8) != ord(" ")
    return int(np.count_nonzero(letters[1:] & ~letters[:-1]))


def _word_on_cut(before: bytes, after: bytes) -> str | None:
    """Return the word that the cut divides."""
    if before.endswith(b" ") or after.startswith(b" "):
        return None
    return (before[before.rfind(b" ") + 1 :] + after.partition(b" ")[0]).decode("ascii")
