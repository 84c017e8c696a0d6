"""Iterables in parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the items in lists of `size`, the last of which may be shorter. Nothing is read before it is needed."""
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        yield batch
