"""The functions of inside.c in torch: for other devices and dtypes, and if there is no compiler."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from syntaxlm.ops.inside.work import Work

# Entries of splits multiplied at a time: as many as fit in a core's cache; on other devices, enough for few calls.
CACHED = 1 << 20
ON_DEVICE = 1 << 26


class EagerKernels:
    """Functions over a `Work`, with the names and meaning of those in inside.c."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.sums = torch.float64 if work.inside.dtype == torch.float64 else torch.float32

    def inside(self, width: int, block: range) -> None:
        """o and scales of all spans of a width; the block must have all sentences."""
        work, rows = self.work, self.work.layout.of_width(width)
        left, right = (part.to(work.inside.device) for part in work.layout.splits(width, range(1, width)))
        logs = work.scales[left] + work.scales[right]
        greatest = logs.amax(1)
        factors = torch.exp(logs - greatest.clamp(min=torch.finfo(greatest.dtype).min)[:, None]).to(self.sums)
        size = work.size
        for part in self._parts(len(left), width - 1):
            a = work.children[:, :size][left[part]]
            b = work.children[:, size:][right[part]]
            values = torch.einsum("sk,skr->sr", factors[part], (a * b).to(self.sums))
            most = values.amax(1)
            inside = torch.where(most > 0, 1 / most, 0)[:, None] * values
            span = slice(rows.start + part.start, rows.start + part.start + len(values))
            work.inside[span] = inside.to(work.inside.dtype)
            work.scales[span] = greatest[part] + most.to(greatest.dtype).log()
            if work.weights is not None:
                work.scales[span] += work.weights[span]

    def gather(self, width: int, block: range) -> None:
        """No copy is needed; see `scatter`."""

    def scatter(self, width: int, block: range) -> None:
        """Add to H of the children of all spans of a width, whose G is known. `children_grads` must start as zeros."""
        work, size = self.work, self.work.size
        grads, rows = work.children_grads, work.layout.of_width(width)
        assert grads is not None
        assert work.inside_grads is not None
        left, right = (part.to(grads.device) for part in work.layout.splits(width, range(1, width)))
        parent = work.scales[rows, None]
        if work.weights is not None:
            parent = parent - work.weights[rows, None]
        differences = work.scales[left] + work.scales[right] - parent
        factors = torch.where(parent.isfinite(), differences.exp(), 0).to(self.sums)
        for part in self._parts(len(left), width - 1):
            own = work.inside_grads[rows][part, None].to(self.sums) * factors[part, :, None]
            for child, sibling, first in ((left, right, 0), (right, left, size)):
                other = slice(size - first, 2 * size - first)
                values = own * work.children[:, other][sibling[part]].to(self.sums)
                grads[:, first : first + size].index_add_(
                    0, child[part].flatten(), values.flatten(0, 1).to(grads.dtype)
                )

    def span_marginals(self, rows: slice) -> Tensor:
        work = self.work
        assert work.inside_grads is not None
        return (work.inside[rows].to(self.sums) * work.inside_grads[rows].to(self.sums)).sum(1)

    def _parts(self, rows: int, splits: int) -> Iterator[slice]:
        most = CACHED if self.work.inside.device.type == "cpu" else ON_DEVICE
        together = max(1, most // (splits * self.work.size))
        return (slice(first, min(first + together, rows)) for first in range(0, rows, together))
