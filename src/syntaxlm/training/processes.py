"""The processes of a run: devices, communication between ranks, the process group, and signals that stop a run."""

from __future__ import annotations

import gc
import inspect
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import timedelta
from types import FrameType
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from syntaxlm.core.errors import InputError
from syntaxlm.core.option_names import option_name
from syntaxlm.ops.products import fast_bfloat16

_Value = TypeVar("_Value")


class Processes:
    """The processes of a run: one process, or all that torchrun started.

    Args:
        accelerator: "auto", "cpu", "cuda" or "mps".
        precision: "32" or "bf16-mixed".
        wait: longest time in seconds that a process waits for the others.

    Attributes:
        rank: number of this process, from 0.
        count: number of processes.
        device: the device of this process.

    Raises:
        InputError: for an accelerator that is not available.
    """

    def __init__(self, accelerator: str, precision: str, wait: float = 1800.0) -> None:
        cuda = torch.cuda.is_available()
        mps = torch.backends.mps.is_available()
        if (accelerator == "cuda" and not cuda) or (accelerator == "mps" and not mps):
            raise InputError(
                f"run.accelerator: found {accelerator}, which is not available; expected an accelerator that torch can"
                " use on this machine, or auto"
            )
        self.rank, self.count = rank_and_count()
        if accelerator == "auto":
            fastest_first = {"cuda": cuda, "mps": mps and self.count == 1, "cpu": True}
            accelerator = next(name for name, is_usable in fastest_first.items() if is_usable)
        if accelerator == "mps" and self.count > 1:
            raise InputError(f"run.accelerator: mps runs one process; found {self.count}. Set it to cpu")
        self.device = torch.device(accelerator)
        if accelerator == "cuda":
            number = _whole_number("LOCAL_RANK", 0)
            gpus = torch.cuda.device_count()
            if not 0 <= number < gpus:
                raise InputError(
                    f"process {number + 1} of this machine has no GPU: found {gpus}; start at most one process per GPU,"
                    " or set run.accelerator to cpu"
                )
            torch.cuda.set_device(number)
            self.device = torch.device("cuda", number)
        self._mixed = precision == "bf16-mixed" and fast_bfloat16(self.device)
        if self.count > 1 and not torch.distributed.is_initialized():
            _check_environment()
            backend = "nccl" if self.device.type == "cuda" else "gloo"
            torch.distributed.init_process_group(backend, timeout=timedelta(seconds=wait))

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def on_rank_zero(self, action: Callable[[], None]) -> None:
        """Call `action` in the first process. If it raises InputError, all processes raise it, so none waits."""
        fault = None
        if self.is_first:
            try:
                action()
            except InputError as error:
                fault = str(error)
        fault = self.from_first(fault)
        if fault is not None:
            raise InputError(fault)

    @contextmanager
    def holding(self, take: Callable[[], AbstractContextManager[_Value]]) -> Iterator[_Value | None]:
        """Enter a context in the first process only; the others get None. Its InputError is raised in all processes."""
        with ExitStack() as stack:
            entered: list[_Value] = []
            self.on_rank_zero(lambda: entered.append(stack.enter_context(take())))
            yield entered[0] if entered else None

    def any_rank(self, wanted: bool) -> bool:
        """Return whether `wanted` is true in any process. Returns the same value everywhere, so that all stop
        together.
        """
        return self.mean(float(wanted))[0] > 0

    def mean(self, *values: float) -> list[float]:
        """Return the mean of each value over all processes."""
        if self.count == 1:
            return list(values)
        reduced = torch.tensor(values, dtype=torch.float64, device=self.device)
        torch.distributed.all_reduce(reduced)
        return (reduced / self.count).tolist()

    def from_first(self, value: _Value) -> _Value:
        """Return the value of the first process."""
        if self.count == 1:
            return value
        values = [value]
        torch.distributed.broadcast_object_list(values)
        return values[0]

    def wait(self) -> None:
        """Wait until all processes are here."""
        if self.count > 1:
            torch.distributed.barrier()

    def parallel(self, module: nn.Module) -> nn.Module:
        """Return a module whose backward pass averages the gradients over all processes."""
        if self.count == 1:
            return module
        devices = [self.device] if self.device.type == "cuda" else None
        names = inspect.signature(DistributedDataParallel).parameters
        # Each process keeps its own buffers. Newer versions of torch deprecate the second name.
        setting = "forward_sync_buffers" if "forward_sync_buffers" in names else "broadcast_buffers"
        unsynchronised: dict[str, Any] = {setting: False}
        return DistributedDataParallel(module, device_ids=devices, **unsynchronised)

    def autocast(self) -> torch.autocast:
        """Return the context of a forward pass: matrix products in bfloat16 if the precision is mixed.

        On a processor without instructions for bfloat16 they stay in float32, which is faster there.
        """
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self._mixed)

    def gathered(self, value: Any) -> list[Any]:
        """Return the values of all processes, by rank."""
        values = [value] * self.count
        if self.count > 1:
            torch.distributed.all_gather_object(values, value)
        return values


def rank_and_count() -> tuple[int, int]:
    """Return the number of this process, from 0, and the number of processes that torchrun started; 0 and 1 without it.

    Raises:
        InputError: for environment variables that torchrun would not set.
    """
    count = _whole_number("WORLD_SIZE", 1)
    rank = _whole_number("RANK", 0) if count > 1 else 0
    if count < 1 or not 0 <= rank < count:
        raise InputError(
            f"the environment has WORLD_SIZE={count} and RANK={rank}; expected a rank below the number of processes."
            f" {_TORCHRUN}"
        )
    return rank, count


_TORCHRUN = "Start several processes with torchrun; for one process, unset WORLD_SIZE and RANK."


def _whole_number(name: str, otherwise: int) -> int:
    text = os.environ.get(name, "").strip()
    try:
        return int(text) if text else otherwise
    except ValueError:
        raise InputError(f"the environment has {name}={text!r}; expected a whole number. {_TORCHRUN}") from None


def _check_environment() -> None:
    """Raise InputError if variables are missing that torchrun sets for several processes."""
    needed = ("RANK", "MASTER_ADDR", "MASTER_PORT")
    if missing := [name for name in needed if not os.environ.get(name, "").strip()]:
        raise InputError(
            f"the environment has WORLD_SIZE={os.environ['WORLD_SIZE']} without {', '.join(missing)}. {_TORCHRUN}"
        )
    _whole_number("MASTER_PORT", 0)


@contextmanager
def process_group() -> Iterator[None]:
    """Destroy a process group that was started inside the context.

    If its threads were still alive at exit, they could abort Python.

    Raises:
        InputError: if the connection to another process fails inside the context.
    """
    distributed = torch.distributed
    started_before = distributed.is_available() and distributed.is_initialized()
    try:
        yield
    except RuntimeError as error:
        if not distributed.is_available() or rank_and_count()[1] < 2:
            raise
        is_gloo = "gloo" in str(error).lower() or "Timed out" in str(error)  # it raises a plain RuntimeError
        if not isinstance(error, distributed.DistError) and not is_gloo:
            raise
        reason = str(error).strip().partition("\n")[0]
        raise InputError(
            f"process {os.environ['RANK']} of {os.environ['WORLD_SIZE']}: the connection to another process of the run"
            f" failed: {reason}. It was stopped, or its machine or the network is down; all processes of the run end."
            f" The last checkpoint is intact: start all of them again with {option_name('syntaxlm train --resume')}"
        ) from error
    finally:
        if distributed.is_available() and distributed.is_initialized() and not started_before:
            gc.collect()  # the wrapped model refers to the group, and hooks create reference cycles
            distributed.destroy_process_group()


_received: list[int] = []


def received_signal() -> int | None:
    """Return the last signal that stopped a run in this process, or None."""
    return _received[-1] if _received else None


@contextmanager
def on_stop_signals(ask: Callable[[], None]) -> Iterator[None]:
    """Call `ask` on SIGTERM and Ctrl-C; a second Ctrl-C raises KeyboardInterrupt.

    Does nothing outside the main thread, where Python has no signal handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _received.clear()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    # A program that embeds Python may have a handler of its own, which Python cannot restore.
    before = {number: handler for number, handler in handlers.items() if handler is not None}

    def handle(number: int, frame: FrameType | None) -> None:
        _received.append(number)
        ask()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
