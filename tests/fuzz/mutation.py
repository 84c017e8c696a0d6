"""Near-valid input: valid files with parts removed, doubled, swapped, or replaced by invalid content."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hypothesis import strategies as st

# Byte-order mark, NUL, line ends of all kinds, spaces of all kinds, invisible and combining characters, a letter whose
# lower-case form has two, joined emoji, right-to-left override, private use, the last code point; invalid UTF-8.
ODD_TEXT = [
    "\ufeff", "\0", "\n", "\r", "\r\n", "\n\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\t", " ", "\xa0",
    "\u3000", "\u200b", "\u200d", "\u00ad", "\u2060", "\u0301", "\u0300\u0301" * 20, "İ", "ß", "ﬁ",
    "👩\u200d👩\u200d👧", "\u202e", "\ue000", "\U0010ffff", "½", "٣", "𝟘",
]  # fmt: skip
NO_TEXT = [b"\x80", b"\xff\xfe", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x1f\x8b\x08"]

_PLACES = 2**16
_LONGEST_PILE = 4000  # bytes

Change = tuple[str, int, int, bytes]


def _change(kind: str, content: bytes, start: int, end: int, odd: bytes) -> bytes:
    """A content with a change at a place. "pile" repeats a piece hundreds of times; brackets become deep nesting."""
    before, piece, after = content[:start], content[start:end], content[end:]
    half = len(piece) // 2
    lines = content.split(b"\n")
    first = content.count(b"\n", 0, start)
    last = min(len(lines) - 1, first + len(piece) % 5)
    if kind == "swap lines":
        lines[first], lines[last] = lines[last], lines[first]
    elif kind == "double line":
        lines.insert(last, lines[first])
    elif kind == "drop lines":
        del lines[first:last]
    elif kind == "join lines":
        lines[first : last + 1] = [b"".join(lines[first : last + 1])]
    changed = {
        "cut": before + after,
        "cut short": before,
        "double": before + piece + piece + after,
        "swap": before + piece[half:] + piece[:half] + after,
        "insert": before + odd + piece + after,
        "replace": before + odd + after,
        "pile": before + (odd * (16 * len(piece)))[:_LONGEST_PILE] + piece + after,
    }
    return changed.get(kind, b"\n".join(lines))


CHANGES = [
    "cut", "cut short", "double", "swap", "insert", "replace", "pile",
    "swap lines", "double line", "drop lines", "join lines",
]  # fmt: skip


def mutated(valid: Sequence[str], own: Sequence[str] = ()) -> st.SearchStrategy[bytes]:
    """Generates valid texts with up to five changes each, and sometimes random bytes.

    own: pieces that are unusual in this type of file, inserted as often as those that are unusual in all files.
    """
    odd = st.sampled_from([text.encode() for text in own] or [b" "]) | st.sampled_from(
        [*(text.encode() for text in ODD_TEXT), *NO_TEXT]
    )
    change = st.tuples(
        st.sampled_from(CHANGES), st.integers(0, _PLACES), st.integers(0, 60), odd | st.binary(max_size=3)
    )
    contents = st.sampled_from([text.encode() for text in valid])
    near = st.builds(apply, contents, st.lists(change, min_size=1, max_size=5))
    return st.one_of(near, near, near, near, st.binary(max_size=200) | st.text(max_size=200).map(str.encode))


def near_valid(seed: int, valid: Sequence[str], own: Sequence[str] = ()) -> bytes:
    """One input like those of `mutated`, from a seed: many times faster, for long runs."""
    source = random.Random(seed)
    odd = [[text.encode() for text in own] or [b" "], [*(text.encode() for text in ODD_TEXT), *NO_TEXT]]
    changes: list[Change] = [
        (
            source.choice(CHANGES), source.randint(0, _PLACES), source.randint(0, 60),
            source.choice(source.choice(odd)) if source.random() < 0.8 else source.randbytes(source.randint(0, 3)),
        )
        for _ in range(source.randint(1, 5))
    ]  # fmt: skip
    return apply(source.choice(valid).encode(), changes)


def apply(content: bytes, changes: Sequence[Change]) -> bytes:
    """Applies all changes to the content; positions are fractions of its length, so they are always valid."""
    for kind, place, length, odd in changes:
        start = place * len(content) // _PLACES
        content = _change(kind, content, start, min(len(content), start + length), odd)
    return content
