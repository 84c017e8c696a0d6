"""The progress of a piece of work: what is done, and how much there is to do."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass
class Progress:
    """How far some work is, for display.

    Attributes:
        what: description of the work.
        total: amount of work; None if it is unknown.
        percent: show the finished amount in percent instead of a number.
        done: finished amount.
        note: additional text.
        counted: show the finished amount.
        started: when the work started, by `time.monotonic`.
    """

    what: str
    total: float | None = None
    percent: bool = False
    done: float = 0.0
    note: str = ""
    counted: bool = True
    started: float = field(default_factory=time.monotonic)

    @property
    def amount(self) -> str:
        """The finished amount: "1,200/5,000", "1,200" without a total, or "24%"."""
        if not self.counted or (self.percent and not self.total):
            return ""
        if self.percent:
            return f"{100 * min(1, self.done / (self.total or 1)):.0f}%"
        return f"{self.done:,.0f}" + ("" if self.total is None else f"/{self.total:,.0f}")
