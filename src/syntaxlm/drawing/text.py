"""Width and direction of text, and visible forms of invisible characters.

No font is read, because readers have fonts of their own. Widths are estimates for common sans-serif fonts, rather too
wide than too narrow, from Unicode's East Asian width (annex 11), category and script.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

ELLIPSIS = "…"
UNKNOWN = "not in the model's vocabulary"
UNKNOWN_MARK = "*"
RIGHT_TO_LEFT_MARK = "\u200f"
_JOINER = "\u200d"
_ZERO_WIDTH_SPACE = "\u200b"
_DOTTED_CIRCLE = "◌"
_REPLACEMENT = "\ufffd"
_NARROW = frozenset("iljftrI.,:;'`|!()[]{}/\\ -‘’·\"“”")
_BROAD = frozenset("mwMW@%&—…")
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_FLAG_LETTERS = range(0x1F1E6, 0x1F200)


def text_width(text: str, size: float) -> float:
    """The width of one line of text in pixels. size: font size in pixels."""
    total = 0.0
    joined = False
    for character in text:
        # An emoji after a joiner is part of the one before it.
        total += 0.0 if joined and unicodedata.category(character) == "So" else _ems(character)
        joined = character == _JOINER and total > 0
    return total * size


@lru_cache(maxsize=2**16)
def _ems(character: str) -> float:
    """A character's width as a multiple of the font size."""
    category = unicodedata.category(character)
    if category in ("Mn", "Me", "Cf") or ord(character) in _SKIN_TONES:
        return 0.0
    if ord(character) in _FLAG_LETTERS:
        return 0.7
    if unicodedata.east_asian_width(character) in "WF":
        return 1.3 if category == "So" else 1.02  # emoji are broader than ideographs
    if character in _NARROW:
        return 0.42
    if character in _BROAD:
        return 1.0
    if ord(character) < 0x250 and category == "Lu":
        return 0.72
    if category in ("So", "Sm", "Co"):
        return 0.9
    return 0.64 if ord(character) < 0x700 else 0.8


def right_to_left(texts: Iterable[str]) -> bool:
    """Whether most letters of the texts are in a right-to-left script."""
    balance = 0
    for text in texts:
        for character in text:
            kind = unicodedata.bidirectional(character)
            balance += 1 if kind in ("R", "AL") else -1 if kind == "L" else 0
    return balance > 0


def directed(text: str, within_right_to_left: bool = False) -> str:
    """Text with its direction: if it starts in a right-to-left script, it is put between right-to-left marks.

    within_right_to_left: the direction of text without letters, whose brackets are then mirrored.
    Marks are used because renderers other than browsers ignore `direction`.
    """
    runs_left = within_right_to_left
    for character in text:
        kind = unicodedata.bidirectional(character)
        if kind in ("L", "R", "AL"):
            runs_left = kind != "L"
            break
    return f"{RIGHT_TO_LEFT_MARK}{text}{RIGHT_TO_LEFT_MARK}" if runs_left else text


def visible(word: str) -> str:
    """A word as it is drawn: white space, lone combining marks and invisible characters become visible."""
    if any(_ems(character) and not character.isspace() for character in word) or not word:
        return printable(word)
    if any(character.isspace() or character == _ZERO_WIDTH_SPACE for character in word):
        return "␣"
    if any(unicodedata.category(character).startswith("M") for character in word):
        return _DOTTED_CIRCLE + word
    return "+".join(f"U+{ord(character):04X}" for character in word)


def printable(text: str) -> str:
    """Text with symbols for control characters, and U+FFFD for characters that XML cannot hold."""
    return text if text.isprintable() else "".join(map(_printable, text))


def _printable(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    wrong = unicodedata.category(character) in ("Cc", "Cs") or code & 0xFFFE == 0xFFFE
    return _REPLACEMENT if wrong else character


def marked(words: Sequence[str], known: Sequence[bool]) -> list[str]:
    """Words with a mark behind those that a model does not know. Raises ValueError unless known has one per word."""
    return [word if is_known else word + UNKNOWN_MARK for word, is_known in zip(words, known, strict=True)]


def shortened(text: str, most: int) -> str:
    """Text of at most `most` characters; a longer one keeps its start and end around an ellipsis."""
    if len(text) <= most:
        return text
    head = (most - 1) * 2 // 3
    tail = len(text) - (most - 1 - head)
    while head > 1 and _continues_previous(text, head):
        head -= 1
    while tail < len(text) and _continues_previous(text, tail):
        tail += 1
    return text[:head] + ELLIPSIS + text[tail:]


def _continues_previous(text: str, place: int) -> bool:
    return _ems(text[place]) == 0.0 or text[place - 1] == _JOINER


def figure(value: float, scale: tuple[float, float]) -> str:
    """A number with as few digits as distinguish values on a scale. scale: its least and greatest value."""
    if value == 0:
        return "0"
    least, greatest = scale
    size = max(abs(least), abs(greatest))
    if not 1e-3 <= size < 1e5:
        return f"{value:.1e}"
    if size >= 10:
        return f"{value:.4g}"
    decimals = 1 - math.floor(math.log10((greatest - least) * 1.0001)) if greatest > least else 2
    return f"{value:.{min(max(2, decimals), 6)}f}"
