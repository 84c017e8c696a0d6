"""The processes of a run: devices, communication between ranks, and the lifetime of the process group."""

from __future__ import annotations

import gc
import inspect
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from syntaxlm.errors import InputError


class Processes:
    """The processes of a run: one process, or all that torchrun started.

    accelerator: "auto", "cpu", "cuda" or "mps".  precision: "32" or "bf16-mixed".
    wait: longest time in seconds that a process waits for the others.
    Raises InputError for an accelerator that is not available.
    """

    def __init__(self, accelerator: str, precision: str, wait: float = 1800.0) -> None:
        if (accelerator == "cuda" and not torch.cuda.is_available()) or (
            accelerator == "mps" and not torch.backends.mps.is_available()
        ):
            raise InputError(
                f"run.accelerator: found {accelerator}, which is not available; expected an accelerator that torch can"
                " use on this machine, or auto"
            )
        # Importing Lightning takes seconds, and most users of this package's recipes and results do not train.
        from lightning.fabric import Fabric
        from lightning.fabric.strategies import DDPStrategy

        for name in ("lightning.fabric", "lightning.pytorch"):  # their messages repeat the recipe
            logging.getLogger(name).setLevel(logging.WARNING)
        parallel = int(os.environ.get("WORLD_SIZE", "1")) > 1
        self.fabric = Fabric(
            accelerator=accelerator,
            devices=int(os.environ.get("LOCAL_WORLD_SIZE", "1")) if parallel else 1,
            num_nodes=int(os.environ.get("GROUP_WORLD_SIZE", "1")) if parallel else 1,
            strategy=DDPStrategy(**_unsynchronised_buffers(), timeout=timedelta(seconds=wait)) if parallel else "auto",
            precision="bf16-mixed" if precision == "bf16-mixed" else "32-true",
        )
        self.fabric.launch()

    @property
    def rank(self) -> int:
        return int(self.fabric.global_rank)

    @property
    def count(self) -> int:
        return int(self.fabric.world_size)

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    @property
    def device(self) -> torch.device:
        return self.fabric.device

    def on_rank_zero(self, action: Callable[[], None]) -> None:
        """Calls `action` in the first process. If it raises InputError, all processes raise it, so none waits."""
        fault = None
        if self.is_first:
            try:
                action()
            except InputError as error:
                fault = str(error)
        fault = self.fabric.broadcast(fault)
        if fault is not None:
            raise InputError(fault)

    def any_rank(self, wanted: bool) -> bool:
        """Whether `wanted` is true in any process. Returns the same value everywhere, so that all stop together."""
        return self.mean(float(wanted))[0] > 0

    def mean(self, *values: float) -> list[float]:
        """Returns the mean of each value over all processes."""
        if self.count == 1:
            return list(values)
        reduced = self.fabric.all_reduce(torch.tensor(values, dtype=torch.float64), reduce_op="mean")
        assert isinstance(reduced, Tensor)
        return reduced.tolist()

    def gathered(self, value: Any) -> list[Any]:
        """Returns the values of all processes, by rank."""
        found = [value] * self.count
        if self.count > 1:
            torch.distributed.all_gather_object(found, value)
        return found


def _unsynchronised_buffers() -> dict[str, Any]:
    """Returns the argument that keeps buffers of processes apart. Newer versions of torch deprecate the old name."""
    new, old = "forward_sync_buffers", "broadcast_buffers"
    return {new if new in inspect.signature(DistributedDataParallel).parameters else old: False}


@contextmanager
def process_group() -> Iterator[None]:
    """Destroys a process group that was started inside the context.

    If its threads were still alive at exit, they could abort Python.
    Raises InputError if the connection to another process fails inside the context.
    """
    distributed = torch.distributed
    started_before = distributed.is_available() and distributed.is_initialized()
    try:
        yield
    except RuntimeError as error:
        if not _is_connection_error(error):
            raise
        reason = str(error).strip().partition("\n")[0]
        raise InputError(
            f"process {os.environ['RANK']} of {os.environ['WORLD_SIZE']}: the connection to another process of the run"
            f" failed: {reason}. It was stopped, or its machine or the network is down; all processes of the run end."
            " The last checkpoint is intact: start all of them again with train --resume"
        ) from error
    finally:
        if distributed.is_available() and distributed.is_initialized() and not started_before:
            gc.collect()  # the wrapped model refers to the group, and hooks create reference cycles
            distributed.destroy_process_group()


def _is_connection_error(error: RuntimeError) -> bool:
    """Whether another process of the run cannot be reached. Gloo, unlike NCCL, raises a plain RuntimeError."""
    distributed = torch.distributed
    if not distributed.is_available() or int(os.environ.get("WORLD_SIZE", "1")) < 2:
        return False
    return isinstance(error, distributed.DistError) or "gloo" in str(error).lower() or "Timed out" in str(error)
