"""Tagged text: `word_TAG` tokens, one sentence per line. The tag follows the last underscore."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator

from syntaxlm.errors import InputError, InputWarning
from syntaxlm.text.normaliser import UntaggedTokenError, has_tag, split_words

MOST_UNTAGGED = 0.01  # share of the tokens read so far; corpora contain words with white space, such as ". . ._..."


def tagged_lines(source: str, lines: Iterable[tuple[int, str]], warn: bool = True) -> Iterator[tuple[int, str]]:
    """Lines of tagged text with their numbers, without tokens that have no tag.

    source: name of the text in messages. warn: whether an InputWarning reports the omitted tokens.
    Raises InputError naming line and token if more than 1% of the tokens so far have no tag.
    """
    tokens = untagged = 0
    first = ""
    for number, line in lines:
        pieces = split_words(line)
        tokens += len(pieces)
        without = [piece for piece in pieces if not has_tag(piece)]
        if without:
            untagged += len(without)
            if untagged > MOST_UNTAGGED * tokens:
                raise _error(source, number, without[0], untagged, tokens)
            first = first or f"{without[0][:40]!r} in line {number:,}"
            line = " ".join(filter(has_tag, pieces))
        yield number, line
    if untagged and warn:
        found = f"{source}: {untagged:,} of {tokens:,} tokens have no tag and are omitted; the first is {first}"
        warnings.warn(InputWarning(found), stacklevel=2)


def _error(source: str, number: int, token: str, untagged: int, tokens: int) -> InputError:
    place = f"{source}, line {number}"
    return UntaggedTokenError(token).at(
        place if untagged == 1 else f"{place} ({untagged:,} of {tokens:,} tokens so far have no tag)"
    )
