"""The real tokens of a padded batch as rows, so that operations on single tokens never see padding."""

from __future__ import annotations

import torch
from torch import Tensor


class Rows:
    """Converts between (T, B, ...) and (n, ...), the real tokens in time-major order.

    counts: number of real columns at each step; these come first, as lengths are in descending order.
    index: (n,), the index of each row in the flattened (T * B); None without padding.
    """

    def __init__(self, steps: int, columns: int, lengths: Tensor | None, device: torch.device) -> None:
        self.steps, self.columns = steps, columns
        if lengths is None:
            self.counts, self.index = [columns] * steps, None
            return
        mask = torch.arange(steps)[:, None] < lengths.cpu()
        self.counts = [count for count in mask.sum(1).tolist() if count]
        self.index = mask.flatten().nonzero()[:, 0].to(device)

    def of(self, padded: Tensor) -> Tensor:
        """(T, B, ...) -> (n, ...)."""
        flat = padded.flatten(0, 1)
        return flat if self.index is None else flat[self.index]

    def padded(self, rows: Tensor) -> Tensor:
        """(n, ...) -> (T, B, ...), zeros for padding."""
        shape = self.steps, self.columns, *rows.shape[1:]
        if self.index is None:
            return rows.view(shape)
        flat = rows.new_zeros(self.steps * self.columns, *rows.shape[1:])
        return flat.index_copy(0, self.index, rows).view(shape)

    def column_of_each(self, device: torch.device) -> Tensor:
        """The column of each row, (n,)."""
        if self.index is None:
            return torch.arange(self.columns, device=device).repeat(self.steps)
        return self.index % self.columns

    def changes(self, rows: Tensor) -> Tensor:
        """Differences between each row and the previous step of its column, except for first steps: (n - B, F)."""
        before = [rows[:0]]
        start = 0
        for count, after in zip(self.counts, self.counts[1:], strict=False):
            before.append(rows[start : start + after])
            start += count
        return rows[self.counts[0] :] - torch.cat(before)
