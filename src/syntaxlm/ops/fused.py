"""Pointwise work as few kernels on a GPU, where each of torch's operators is one, and to launch it costs the most."""

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
    """Has torch compile a function of tensors when it is first used on a GPU.

    The function changes none of the tensors, and none of them needs a gradient.
    Elsewhere, with SYNTAXLM_NATIVE=0, and where compiling fails, which is reported once, it runs as it is written. A
    compiled form serves any number of rows, the tensors' first dimension, but for one row, which has a form of its own;
    so has every other size and type.
    """
    assert isinstance(function, FunctionType)
    forms: dict[tuple[Any, ...], Callable[..., Result]] = {}
    failed = False

    @functools.wraps(function)
    def call(*arguments: Any) -> Result:
        nonlocal failed
        if failed or not worthwhile(arguments[0]):
            return function(*arguments)
        key = tuple(_kind(argument) if isinstance(argument, Tensor) else argument for argument in arguments)
        try:
            if key not in forms:
                forms[key] = torch.compile(_copy(function), fullgraph=True, dynamic=False)
                arguments = tuple(
                    _sample(argument) if isinstance(argument, Tensor) else argument for argument in arguments
                )
            return forms[key](*arguments)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # a compiler's faults are of many classes
            failed = True
            reason = str(error).strip().partition("\n")[0]
            warnings.warn(f"{function.__name__} could not be compiled; it is slower without: {reason}", stacklevel=2)
            return function(*arguments)

    return call


def worthwhile(tensor: Tensor) -> bool:
    """Whether to compile work on a tensor: on a processor there are kernels in C for it."""
    return tensor.is_cuda and os.environ.get(SWITCH) != "0"


def _kind(tensor: Tensor) -> tuple[torch.Size, torch.dtype, bool]:
    return tensor.shape[1:], tensor.dtype, len(tensor) == 1


def _sample(tensor: Tensor) -> Tensor:
    """The same tensor to compile by: any number of rows, and no part of another tensor, whose place would count."""
    sample = tensor.clone()
    torch._dynamo.maybe_mark_dynamic(sample, 0)
    return sample


def _copy(function: FunctionType) -> FunctionType:
    """With a code object of its own: torch keeps what it compiled by that, and but eight forms of one."""
    return FunctionType(function.__code__.replace(), function.__globals__, function.__name__, function.__defaults__)
