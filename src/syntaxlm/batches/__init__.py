"""Batches of corpora. All have the same interface: they iterate over an epoch from any batch on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from syntaxlm.batches.text import SentenceBatches, StreamBatches
from syntaxlm.batches.trees import TreeBatches

__all__ = ["Batches", "SentenceBatches", "StreamBatches", "TreeBatches"]


class Batches(Protocol):
    """The interface of batches in training.

    Attributes:
        carries_state: whether batches continue the previous ones.
    """

    @property
    def carries_state(self) -> bool: ...

    def count(self, epoch: int = 0) -> int:
        """Return the number of batches of an epoch."""

    def iterate(self, epoch: int = 0, start: int = 0) -> Iterator[Any]:
        """Return the batches of an epoch from number `start` on; both count from 0."""
