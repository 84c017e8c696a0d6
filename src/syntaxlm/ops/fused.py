"""Fuses pointwise operations into few GPU kernels: one kernel per torch operator is dominated by launch time."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

import torch
from torch import Tensor

from syntaxlm.ops.native import SWITCH

Result = TypeVar("Result")


def fused(function: Callable[..., Result]) -> Callable[..., Result]:
    """Return decorator that makes torch compile a function of tensors on its first use on a GPU.

    The function must not modify its arguments, and none of them may need a gradient.
    Elsewhere, with SYNTAXLM_NATIVE=0, and if compilation fails (reported once), the function runs uncompiled. A
    compiled version works for any number of rows (the first dimension) above one; one row, and every other size and
    dtype, has its own version.
    """
    assert isinstance(function, FunctionType)
    compiled: dict[tuple[Any, ...], Callable[..., Result]] = {}
    failed = False

    @functools.wraps(function)
    def call(*arguments: Any) -> Result:
        nonlocal failed
        if failed or not worthwhile(arguments[0]):
            return function(*arguments)
        key = tuple(_signature(argument) if isinstance(argument, Tensor) else argument for argument in arguments)
        try:
            if key not in compiled:
                compiled[key] = torch.compile(_copy(function), fullgraph=True, dynamic=False)
                arguments = tuple(
                    _sample(argument) if isinstance(argument, Tensor) else argument for argument in arguments
                )
            return compiled[key](*arguments)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # compilers raise errors of many classes
            failed = True
            reason = str(error).strip().partition("\n")[0]
            warnings.warn(f"{function.__name__} could not be compiled and runs more slowly: {reason}", stacklevel=2)
            return function(*arguments)

    return call


def worthwhile(tensor: Tensor) -> bool:
    """Return whether to compile work on this tensor's device. The CPU has C kernels instead."""
    return tensor.is_cuda and os.environ.get(SWITCH) != "0"


def _signature(tensor: Tensor) -> tuple[torch.Size, torch.dtype, bool]:
    return tensor.shape[1:], tensor.dtype, len(tensor) == 1


def _sample(tensor: Tensor) -> Tensor:
    """Return a copy of the tensor to compile for: any number of rows, and not a view, whose offset would matter."""
    sample = tensor.clone()
    torch._dynamo.maybe_mark_dynamic(sample, 0)
    return sample


def _copy(function: FunctionType) -> FunctionType:
    """Return the function with its own code object: torch caches compiled code per code object, and at most eight
    versions.
    """
    return FunctionType(function.__code__.replace(), function.__globals__, function.__name__, function.__defaults__)
