"""The kernels of span_attention.c, called on torch tensors."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from syntaxlm.ops.native import address
from syntaxlm.ops.span_attention.work import Gradients, Work

_INTEGERS = ("size", "scorer", "maximum", "width")
_POINTERS = (
    "places", "rows", "features", "tape", "score_weight", "scores", "attentions", "contexts", "tape_grads",
    "feature_grads", "context_grads", "score_grads", "attention_grads",
)  # fmt: skip


class _Layer(ctypes.Structure):
    """The struct `Layer` of span_attention.c, which the C functions read and write."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in _INTEGERS),
        ("half", ctypes.c_int),
        ("threads", ctypes.c_int),
        ("released", ctypes.c_int),
        *((name, ctypes.c_void_p) for name in _POINTERS),
    )


class NativeKernels:
    """Compiled functions over a `Work`: float32 on the CPU; contiguous."""

    def __init__(self, library: ctypes.CDLL, work: Work, gradients: Gradients | None = None) -> None:
        self.library, self.work, self.gradients = library, work, gradients
        tensors: dict[str, Tensor | None] = {
            name: getattr(work, name)
            for name in ("places", "rows", "features", "tape", "score_weight", "scores", "attentions", "contexts")
        }
        if gradients is not None:
            tensors |= {
                "tape_grads": gradients.tape,
                "feature_grads": gradients.features,
                "context_grads": gradients.contexts,
                "score_grads": gradients.scores,
                "attention_grads": gradients.attentions,
            }
        self._layer = _Layer(
            size=work.size,
            scorer=work.scorer,
            maximum=work.maximum,
            width=work.features.shape[1],
            half=work.features.dtype == torch.bfloat16,
            threads=torch.get_num_threads(),
            released=work.released,
            **{name: address(tensor) for name, tensor in tensors.items()},
        )

    def tape(self, product: Tensor, places: Tensor) -> None:
        self._call("span_tape", product, product.shape[1], places, len(places))

    def tape_backward(self, product: Tensor, grads: Tensor, places: Tensor) -> None:
        self._call("span_tape_backward", product, grads, product.shape[1], places, len(places))

    def represent(self, first: int, last: int) -> Tensor:
        work = self.work
        spans = work.features.new_empty(last - first, work.maximum, work.size)
        self._call("span_represent", first, last, spans)
        return spans

    def attend(self, first: int, last: int, spans: Tensor, hidden: Tensor | None) -> None:
        self._call("span_attend", first, last, spans, hidden)

    def attend_backward(self, first: int, last: int, spans: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        grads, hidden_grads = self.work.tape.new_empty(last - first, self.work.maximum), torch.empty_like(hidden)
        self._call("span_attend_backward", first, last, spans, hidden, grads, hidden_grads)
        return grads, hidden_grads

    def represent_backward(self, first: int, last: int, spans: Tensor, product: Tensor | None) -> None:
        self._call("span_represent_backward", first, last, spans, product)

    def _call(self, name: str, *arguments: Tensor | int | None) -> None:
        converted = (ctypes.c_int64(one) if isinstance(one, int) else address(one) for one in arguments)
        getattr(self.library, name)(ctypes.byref(self._layer), *converted)
