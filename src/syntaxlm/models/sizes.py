"""The size of a model before it is allocated: built on torch's meta device, where tensors have only shapes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from syntaxlm.core.errors import InputError
from syntaxlm.core.systems import available_memory, memory_size

CHART_MEMORY = "SYNTAXLM_CHART_MEMORY"
_LARGE_CHART = 1 << 30  # bytes; smaller ones are not compared with the free memory, which takes time
MOST_TENSORS = 5_000  # in a model; the largest language models have about a thousand

Built = TypeVar("Built")


class _WithoutValues(TorchFunctionMode):
    """Skips functions that draw or fill values: meta tensors have none, but torch takes a second on the first draw."""

    skipped = frozenset({
        "uniform_", "normal_", "trunc_normal_", "kaiming_uniform_", "xavier_uniform_", "orthogonal_",
        "fill_", "zero_", "zeros_", "ones_", "constant_", "copy_",
    })  # fmt: skip

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function is torch.arange and len(args) == 1 and isinstance(args[0], int):
            return torch.empty(args[0], dtype=kwargs.get("dtype", torch.int64))
        if getattr(function, "__name__", "") in self.skipped:
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return function(*args, **kwargs)


class _OfThread(threading.local):
    """What a thread calls with each tensor of its new modules."""

    count: Callable[[Tensor | None], None] | None = None


_of_thread = _OfThread()


def _registered(module: nn.Module, name: str, tensor: Tensor | None) -> None:
    if _of_thread.count is not None:
        _of_thread.count(tensor)


# For the whole process: torch fails if they change while another thread builds a module.
nn.modules.module.register_module_parameter_registration_hook(_registered)
nn.modules.module.register_module_buffer_registration_hook(_registered)


@contextmanager
def without_memory() -> Iterator[None]:
    """Return a context in which new modules and tensors have shapes and dtypes but no values.

    Raises:
        InputError: if the new modules have more than `MOST_TENSORS` tensors or do not fit in this machine's memory.
    """
    size = 0
    seen: dict[int, Tensor] = {}

    def count(tensor: Tensor | None) -> None:
        nonlocal size
        if tensor is None or id(tensor) in seen:
            return
        seen[id(tensor)] = tensor
        size += tensor.nbytes
        if len(seen) > MOST_TENSORS:
            raise InputError(f"the model has over {MOST_TENSORS:,} weight tensors; expected fewer or smaller layers")
        if size > memory_size():
            raise InputError(
                f"the model has over {size // 4:,} parameters ({size / 2**30:,.1f} GiB), but this machine has"
                f" {memory_size() / 2**30:,.1f} GiB of memory. Choose smaller layers or a smaller vocabulary"
            )

    before, _of_thread.count = _of_thread.count, count
    try:
        with torch.device("meta"), _WithoutValues():
            yield
    except (RuntimeError, OverflowError, TypeError) as error:  # torch's errors for shapes that overflow
        if isinstance(error, TypeError) and "argument 'size'" not in str(error):
            raise
        raise InputError(f"a model of these sizes cannot be built: {str(error).splitlines()[0]}") from error
    finally:
        _of_thread.count = before


def chart_limit() -> int | None:
    """Return the most bytes that charts may take together, from the environment variable `SYNTAXLM_CHART_MEMORY`.

    Returns None if the variable is not set. A sentence may then take all of the free memory.

    Raises:
        InputError: if the variable is not a positive number of GiB.
    """
    text = os.environ.get(CHART_MEMORY, "").strip()
    if not text:
        return None
    try:
        size = float(text) * 2**30
    except ValueError:
        size = 0.0
    if not 1 <= size < 2**62:
        raise InputError(f"the environment has {CHART_MEMORY}={text!r}; expected a number of GiB, such as 2 or 0.5")
    return int(size)


def check_chart(words: int, size: int, otherwise: str = "") -> None:
    """Raise InputError if the chart of a sentence, of `size` bytes, is larger than `chart_limit` allows, or does not
    fit in this machine's free memory.

    Args:
        otherwise: what else than splitting the sentence would do, for the message.
    """
    limit = chart_limit()
    found = f"found a sentence of {words:,} words, whose chart needs about {size / 2**30:,.1f} GiB"
    if limit is not None and size > limit:
        raise InputError(
            f"{found}, but {CHART_MEMORY}={os.environ[CHART_MEMORY].strip()} limits charts to as many GiB; split the"
            f" sentence or set a larger number{otherwise}"
        )
    if size > memory_size() or (size > _LARGE_CHART and size > available_memory()):
        raise InputError(
            f"{found}, but this machine has {memory_size() / 2**30:,.0f} GiB of memory, of which"
            f" {available_memory() / 2**30:,.0f} GiB are free; split the sentence{otherwise}"
        )


def allocated(build: Callable[[], Built]) -> Built:
    """Return a new module. Raises InputError if it does not fit in the free memory."""
    try:
        return build()
    except RuntimeError as error:  # torch's error for a tensor that does not fit in memory
        raise InputError(f"a model of these sizes cannot be built: {str(error).splitlines()[0]}") from error


def shapes_of(build: Callable[[], Built]) -> Built:
    """Return a module without values, on the meta device. Raises InputError if the real one would be too large."""
    with without_memory():
        return build()
