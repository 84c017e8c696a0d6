"""The matrix products of a step: how many operations, and how much of its time.

Products in compiled kernels of syntaxlm (the charts of PCFGs in bfloat16) are not seen: they are no operators of torch.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

# Operators by name, and the place of the left argument, whose last dimension is the inner one of the product.
_OPERATORS = {
    "aten.mm": 0, "aten.bmm": 0, "aten.linear": 0, "aten.addmm": 1, "aten.baddbmm": 1, "aten.addbmm": 1,
    "mkldnn._linear_pointwise": 0,
}  # fmt: skip
_RECURRENT = ("aten.mkldnn_rnn_layer", "aten.mkldnn_rnn_layer_backward", "aten._thnn_fused_lstm_cell")


@dataclass(frozen=True)
class Products:
    """The products of a step. operations: floating-point, by dtype (an addition and a multiplication are two).

    share: of the time of the step.  complete: False if the step also has recurrent operators, which contain products.
    """

    operations: dict[torch.dtype, float]
    share: float
    complete: bool


def products_of(step: Callable[[], None]) -> Products:
    """Runs a step twice and measures its products the second time: the first one loads what only the recorder needs.

    The time of a product includes that of finding the operator.
    """
    for _ in range(2):
        started = time.perf_counter()
        with _Recorder() as recorder:
            step()
        share = recorder.seconds / (time.perf_counter() - started)
    return Products(dict(recorder.operations), share, recorder.complete)


class _Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.operations: Counter[torch.dtype] = Counter()
        self.seconds, self.complete = 0.0, True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = ".".join(str(func).split(".")[:2])
        self.complete &= name not in _RECURRENT
        place = _OPERATORS.get(name)
        started = time.perf_counter()
        result = func(*args, **(kwargs or {}))
        if place is not None:
            self.seconds += time.perf_counter() - started
            left: Tensor = args[place]
            self.operations[left.dtype] += 2 * result.numel() * left.shape[-1]
        return result
