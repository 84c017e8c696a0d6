"""Near-valid input: valid files with parts removed, doubled, swapped, or replaced by invalid content."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

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

Change = tuple[Callable[[bytes, int, int, bytes], bytes], int, int, bytes]


def _cut(content: bytes, start: int, end: int, _: bytes) -> bytes:
    return content[:start] + content[end:]


def _cut_short(content: bytes, start: int, _: int, __: bytes) -> bytes:
    return content[:start]


def _double(content: bytes, start: int, end: int, _: bytes) -> bytes:
    return content[:end] + content[start:]


def _swap(content: bytes, start: int, end: int, _: bytes) -> bytes:
    middle = (start + end) // 2
    return content[:start] + content[middle:end] + content[start:middle] + content[end:]


def _sow(content: bytes, start: int, _: int, odd: bytes) -> bytes:
    return content[:start] + odd + content[start:]


def _replace(content: bytes, start: int, end: int, odd: bytes) -> bytes:
    return content[:start] + odd + content[end:]


def _pile(content: bytes, start: int, end: int, odd: bytes) -> bytes:
    """Repeats a piece hundreds of times; brackets become deep nesting."""
    return content[:start] + (odd * (16 * (end - start)))[:_LONGEST_PILE] + content[start:]


def _with_lines(change: Callable[[list[bytes], int, int], None]) -> Callable[[bytes, int, int, bytes], bytes]:
    def changed(content: bytes, start: int, end: int, _: bytes) -> bytes:
        lines = content.split(b"\n")
        first = content.count(b"\n", 0, start)
        change(lines, first, min(len(lines) - 1, first + (end - start) % 5))
        return b"\n".join(lines)

    return changed


def _swap_lines(lines: list[bytes], first: int, second: int) -> None:
    lines[first], lines[second] = lines[second], lines[first]


def _double_line(lines: list[bytes], first: int, second: int) -> None:
    lines.insert(second, lines[first])


def _drop_lines(lines: list[bytes], first: int, second: int) -> None:
    del lines[first:second]


def _join_lines(lines: list[bytes], first: int, second: int) -> None:
    lines[first : second + 1] = [b"".join(lines[first : second + 1])]


CHANGES = [
    _cut, _cut_short, _double, _swap, _sow, _replace, _pile,
    *map(_with_lines, (_swap_lines, _double_line, _drop_lines, _join_lines)),
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
    for change, place, length, odd in changes:
        start = place * len(content) // _PLACES
        content = change(content, start, min(len(content), start + length), odd)
    return content
