"""Threads that take turns often, so that a race between them is seen in seconds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def short_turns() -> Iterator[None]:
    """Threads take turns after some instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
