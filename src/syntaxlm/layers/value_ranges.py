"""Ranges of values in weights that are read from a file.

A module with tables, such as probabilities, declares their ranges:

    value_ranges = {"unigrams": LOG_PROBS}
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor, nn

_SLACK = 1e-6  # rounded probabilities may slightly exceed 1


class Range(NamedTuple):
    """Smallest and largest value, both included."""

    least: float
    most: float


WEIGHTS = Range(-1e9, 1e9)  # trained weights are below 1e4; a damaged exponent gives 1e18 and more
PROBABILITIES = Range(0, 1)
LOG_PROBS = Range(-1e9, 0)
LOG_WEIGHTS = Range(-math.inf, 1e9)  # logarithms of weights that may be 0
NON_NEGATIVE = Range(0, math.inf)


def value_faults(module: nn.Module, tensors: Mapping[str, Tensor]) -> list[str]:
    """Returns a line for each tensor that has NaN, infinite or impossible values.

    module: declares the ranges; other floating-point tensors have `WEIGHTS`.  tensors: its weights and buffers by name.
    """
    ranges = {
        f"{prefix}.{name}" if prefix else name: one
        for prefix, part in module.named_modules()
        for name, one in getattr(part, "value_ranges", {}).items()
    }
    faults = []
    for name, tensor in tensors.items():
        if not tensor.numel() or not (tensor.is_floating_point() or name in ranges):
            continue
        least, most = ranges.get(name, WEIGHTS)
        low, high = (float(value) for value in tensor.aminmax())  # NaN if any value is NaN
        if math.isnan(low):
            faults.append(f"{name} has NaN values")
        elif math.isinf(high) or low == -math.inf != least:
            faults.append(f"{name} has infinite values")
        elif not least <= low <= high <= most + _SLACK:
            expected = f"{least:g} or more" if math.isinf(most) else f"{least:g} to {most:g}"
            faults.append(f"{name} has values from {low:.4g} to {high:.4g}, expected {expected}")
    return faults
