"""Words and constituents as bracketed text, written without recursion.

This module does not depend on `Tree`, which uses it for `__str__`. `trees.brackets` reads such text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from syntaxlm.errors import InputError

INDUCED_LABEL = "X"  # label of a constituent without a label

# Only ASCII white space separates tokens: a no-break space is part of a word.
SPACE = r"[ \t\r\n\f\v]"
_UNSAFE = re.compile(SPACE)
_WRITTEN = {"(": "-LRB-", ")": "-RRB-", "{": "-LCB-", "}": "-RCB-", "\\/": "\\\\/", "\\*": "\\\\*"}
_TO_WRITE = re.compile(r"[(){}]|\\[/*]")

Span = tuple[str, int, int]
"""A labelled span of words, [start, end), 0-based."""


def bracket_text(words: Sequence[str], tags: Sequence[str], constituents: Sequence[Span], labelled: bool = True) -> str:
    """A tree as one line of bracketed text, in the format described in `trees.brackets.format_brackets`.

    words, tags: one tag per word ("" for no tag). constituents: in pre-order.
    Raises InputError for a tree without words and for words or labels that contain white space, ValueError for
    constituents that cross or are not in pre-order.
    """
    if not words:
        raise InputError("found a tree without words, expected at least one")
    if not labelled:
        constituents = [span for span in constituents if span[2] - span[1] > 1]
        tags = [""] * len(words)
    wrapped = len(constituents) > 1 and constituents[0][1:] == constituents[1][1:]
    parts: list[str] = []
    fresh = True  # at the start or after an unlabelled opening bracket: no space before the next token
    for kind, item in walk(words, tags, constituents):
        if kind == "close":
            parts.append(")")
            continue
        if not fresh:
            parts.append(" ")
        fresh = False
        if isinstance(item, int):
            word = escaped(words[item], "word")
            tag = tags[item]
            parts.append(f"({escaped(tag, 'tag')} {word})" if tag else word)
        elif not labelled:
            parts.append("(")
            fresh = True
        else:
            parts.append("(" + ("" if not (item or parts) and wrapped else escaped(item or INDUCED_LABEL, "label")))
    return "".join(parts)


def walk(words: Sequence[str], tags: Sequence[str], constituents: Sequence[Span]) -> Iterator[tuple[str, int | str]]:
    """Visit a tree in order: ("open", label), ("word", position), ("close", "").

    There is always exactly one outermost bracket: a tree without a constituent over all words gets one, labelled X,
    unless it is a single word with a tag. Raises ValueError if the constituents are not a tree in pre-order.
    """
    length = len(words)
    constituents = [span for span in constituents if span[1] < span[2]]
    whole = bool(constituents) and constituents[0][1:] == (0, length)
    if not whole and not (length == 1 and tags[0]):
        constituents.insert(0, (INDUCED_LABEL, 0, length))
    ends: list[int] = []
    following = 0
    for position in range(length):
        while following < len(constituents) and constituents[following][1] == position:
            label, _, end = constituents[following]
            if end > (ends[-1] if ends else length):
                raise ValueError(
                    f"constituent {constituents[following]} crosses the previous one or is not in pre-order"
                )
            ends.append(end)
            following += 1
            yield "open", label
        yield "word", position
        while ends and ends[-1] == position + 1:
            ends.pop()
            yield "close", ""
    if following < len(constituents):
        raise ValueError(f"constituent {constituents[following]} is not in pre-order or not within the {length} words")


def escaped(text: str, what: str) -> str:
    """A word or label as written in bracketed text. Raises InputError if it is empty or contains white space."""
    if not text or _UNSAFE.search(text):
        raise InputError(f"found the {what} {text!r}; in bracketed text it must not be empty or contain white space")
    return _TO_WRITE.sub(lambda match: _WRITTEN[match.group()], text)
