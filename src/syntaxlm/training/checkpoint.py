"""A checkpoint: the whole state of a run in one safetensors file, so that replacing it is one atomic step."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from syntaxlm.errors import InputError
from syntaxlm.model_io import distinct_tensors, load_weights, present_name, read_tensors, write_tensors
from syntaxlm.models.abilities import Model
from syntaxlm.models.batches import State
from syntaxlm.training.averaging import Averaging, WeightAverage
from syntaxlm.training.schedule import Plateau

CHECKPOINT = "checkpoint.safetensors"


@dataclass
class TrainerState:
    """Where a run is.

    epoch, batch: the next batch to train on, from 0. steps: optimiser steps made. seconds: of training, over all
    starts. loss_sum, loss_count: since the last validation. best_loss: the lowest cost of a validation. without_best:
    validations since then. metrics_bytes: length of this run's metrics.jsonl.
    """

    epoch: int = 0
    batch: int = 0
    steps: int = 0
    seconds: float = 0.0
    loss_sum: float = 0.0
    loss_count: int = 0
    best_loss: float | None = None
    best_step: int = 0
    best_epoch: float = 0.0
    without_best: int = 0
    metrics_bytes: int = 0
    finished: bool = False
    plateau: Plateau = field(default_factory=Plateau)
    averaging: Averaging = field(default_factory=Averaging)


def own_tensors(state: State) -> dict[str, Tensor]:
    """What a process has of its own, on the processor: its columns' carried state, its random numbers."""
    tensors = {f"state/{name}": value.detach().cpu().clone() for name, value in (state or {}).items()}
    tensors["random"] = torch.get_rng_state()
    if torch.cuda.is_available():
        tensors["random/cuda"] = torch.cuda.get_rng_state()
    return tensors


def write_checkpoint(
    folder: Path,
    model: Model,
    optimiser: torch.optim.Optimizer | None,
    processes: Sequence[dict[str, Tensor]],
    progress: TrainerState,
    average: WeightAverage | None = None,
) -> None:
    """Writes the run's state: weights, optimiser, trainer state, mean, and `own_tensors` of every process, by rank.

    optimiser: None for a model that counts.
    """
    optimiser_state = optimiser.state_dict() if optimiser else {"state": {}, "param_groups": []}
    tensors = {f"model/{name}": tensor for name, tensor in distinct_tensors(model).items()}
    for index, values in optimiser_state["state"].items():
        tensors |= {f"optimiser/{index}/{name}": value for name, value in values.items()}
    if average is not None:
        tensors |= {f"average/{name}": mean for name, mean in average.means.items()}
    for rank, own in enumerate(processes):
        tensors |= {_of_process(rank) + name: tensor for name, tensor in own.items()}
    notes = {
        "progress": json.dumps(dataclasses.asdict(progress)),
        "groups": json.dumps(optimiser_state["param_groups"]),
    }
    write_tensors(folder / CHECKPOINT, tensors, notes)


def _of_process(rank: int) -> str:
    return f"process {rank}/" if rank else ""


def _is_of(name: str, rank: int) -> bool:
    return rank > 0 and name.startswith(_of_process(rank))


def read_trainer_state(folder: Path) -> TrainerState:
    """Where the run of a checkpoint is: it says which optimiser `read_checkpoint` needs. Raises InputError."""
    path = folder / CHECKPOINT
    return _trainer_state(read_tensors(path)[1], path)


def _trainer_state(notes: dict[str, str], path: Path) -> TrainerState:
    try:
        progress = {_OLD_FIELDS.get(name, name): value for name, value in json.loads(notes["progress"]).items()}
        plateau, averaging = Plateau(**progress.pop("plateau")), Averaging(**progress.pop("averaging", {}))
        return TrainerState(**progress, plateau=plateau, averaging=averaging)
    except (KeyError, TypeError, ValueError) as error:
        raise _foreign(path, error) from None


_OLD_FIELDS = {"nats": "loss_sum", "tokens": "loss_count"}


def _foreign(path: Path, error: Exception) -> InputError:
    return InputError(f"{path}: no checkpoint of this program: {error!r}")


def read_checkpoint(
    folder: Path,
    model: Model,
    optimiser: torch.optim.Optimizer | None,
    rank: int = 0,
    ranks: int = 1,
    average: WeightAverage | None = None,
) -> tuple[State, TrainerState]:
    """Puts a checkpoint into model, optimiser, average and random numbers.

    Returns this process's carried state, and progress.

    Raises InputError when it is missing or damaged, or of a run of another number of processes.
    """
    path = folder / CHECKPOINT
    tensors, notes = read_tensors(path)
    written = 1
    while f"{_of_process(written)}random" in tensors:
        written += 1
    if written != ranks:
        raise InputError(f"{path}: of a run of {written} processes; go on with as many, not {ranks}")
    tensors |= {name.removeprefix(_of_process(rank)): tensors[name] for name in tensors if _is_of(name, rank)}
    parts: dict[str, dict[str, Tensor]] = {"model": {}, "optimiser": {}, "average": {}, "state": {}}
    for name, tensor in tensors.items():
        kind, _, rest = name.partition("/")
        if kind in parts:
            parts[kind][rest] = tensor
    progress = _trainer_state(notes, path)
    try:
        groups = json.loads(notes["groups"])
        random = tensors["random"]
        if average is not None:
            average.load({present_name(name): mean for name, mean in parts["average"].items()})
    except (KeyError, TypeError, ValueError) as error:
        raise _foreign(path, error) from None
    load_weights(model, parts["model"], str(path))
    optimiser_state: dict[int, dict[str, Any]] = {}
    for name, tensor in parts["optimiser"].items():
        index, _, what = name.partition("/")
        optimiser_state.setdefault(int(index), {})[what] = tensor
    if optimiser is not None:
        optimiser.load_state_dict({"state": optimiser_state, "param_groups": groups})
    torch.set_rng_state(random)
    if "random/cuda" in tensors and torch.cuda.is_available():
        torch.cuda.set_rng_state(tensors["random/cuda"])
    device = model.device
    state = {name: tensor.to(device) for name, tensor in parts["state"].items()}
    return state or None, progress
