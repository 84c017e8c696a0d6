"""Checkpoints: the whole state of a run in one safetensors file, which can be replaced atomically.

Every field is checked when it is read, because the file may be damaged or edited.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import to_json
from syntaxlm.core.settings import Finite, NonNegative, read_settings
from syntaxlm.core.tensor_files import (
    StoredTensor,
    TensorFile,
    check_finite,
    read_notes,
    read_tensors,
    refuse,
    tensor_faults,
    write_tensors,
)
from syntaxlm.models.abilities import Model
from syntaxlm.models.batches import State
from syntaxlm.storage.folder import distinct_tensors, load_weights
from syntaxlm.training.optimisers import Averaging, Plateau, WeightAverage
from syntaxlm.training.result import are_numbers

CHECKPOINT = "checkpoint.safetensors"

_LARGEST = 1e300  # larger optimiser settings are rejected
_ADAM = {"step", "exp_avg", "exp_avg_sq"}  # Adam's state of each parameter

Number = Annotated[int, Field(ge=0, le=2**62)]


@dataclass
class TrainerState:
    """The progress of a run.

    epoch, batch: epoch and index of the next batch, from 0.
    steps: number of optimiser steps.
    seconds: training time, including the time before the run was resumed.
    loss_sum, loss_count: sum of the training loss and number of tokens (or items) since the last validation.
    first_loss: loss of the first step.
    best_loss, best_step, best_epoch: validation cost, step and epoch of the weights that are kept.
    lowest_loss: lowest validation cost; None: that of the weights that are kept.
    without_best: number of validations since the lowest cost.
    metrics_bytes: length of this run's metrics.jsonl.
    finished: whether training has ended.
    plateau, averaging: state of the learning rate schedule and of weight averaging.
    round_figures: figures of the last round of a model that is trained by counting, for JSON.
    """

    epoch: Number = 0
    batch: Number = 0
    steps: Number = 0
    seconds: NonNegative = 0.0
    loss_sum: Finite = 0.0
    loss_count: Number = 0
    first_loss: Finite | None = None
    best_loss: Finite | None = None
    best_step: Number = 0
    best_epoch: NonNegative = 0.0
    lowest_loss: Finite | None = None
    without_best: Number = 0
    metrics_bytes: Number = 0
    finished: bool = False
    plateau: Plateau = field(default_factory=Plateau)
    averaging: Averaging = field(default_factory=Averaging)
    round_figures: dict[str, Any] = field(default_factory=dict)


def own_tensors(state: State) -> dict[str, Tensor]:
    """Return the tensors of one process, on the CPU: the carried state of its columns and the state of its random
    number generators.
    """
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
    """Write the state of a run.

    optimiser: None for a model that is trained by counting.
    processes: `own_tensors` of every process, by rank.
    average: averaged weights, if any.
    Raises InputError if the file cannot be written.
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
        "progress": to_json(dataclasses.asdict(progress)),
        "groups": to_json(optimiser_state["param_groups"]),
    }
    write_tensors(folder / CHECKPOINT, tensors, notes)


def _of_process(rank: int) -> str:
    return f"process {rank}/" if rank else ""


def _is_of(name: str, rank: int) -> bool:
    return rank > 0 and name.startswith(_of_process(rank))


def read_trainer_state(folder: Path) -> TrainerState:
    """Read only the progress of a run, which determines the optimiser for `read_checkpoint`.

    Raises InputError if the checkpoint is missing or damaged.
    """
    path = folder / CHECKPOINT
    return _trainer_state(read_notes(path), path)


def _trainer_state(notes: Mapping[str, str], path: Path) -> TrainerState:
    fields = _note("progress", notes, path)
    if isinstance(fields, dict):
        fields = {_OLD_FIELDS.get(name, name): value for name, value in fields.items()}
    found = read_settings(TrainerState, fields, f"{path}: progress")
    began, restarted = found.averaging.began, found.averaging.restarted
    if (began is None and restarted is not None) or not 0 <= (began or 0) <= (restarted or began or 0) <= found.steps:
        raise InputError(
            f"{path}: progress: averaging: found began {began}, restarted {restarted}; expected increasing steps, up to"
            f" {found.steps}"
        )
    if not all(map(are_numbers, found.round_figures.values())):
        raise InputError(f"{path}: progress: round_figures: expected numbers, or nested lists of numbers")
    return found


_OLD_FIELDS = {"nats": "loss_sum", "tokens": "loss_count"}


def _note(name: str, notes: Mapping[str, str], path: Path) -> Any:
    """Return a JSON value of the metadata. In format 1, Infinity means that there is no best loss yet."""
    try:
        return json.loads(notes[name], parse_constant=lambda text: None)
    except (KeyError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: not a valid checkpoint: {error!r}") from None


def read_checkpoint(
    folder: Path,
    model: Model,
    optimiser: torch.optim.Optimizer | None,
    rank: int = 0,
    ranks: int = 1,
    average: WeightAverage | None = None,
) -> tuple[State, TrainerState]:
    """Restore model, optimiser, average and random number generators from a checkpoint.

    rank, ranks: number of this process, and number of processes.
    Returns the carried state of this process, and the progress of the run.
    Raises InputError if the checkpoint is missing or damaged, or if its run had another number of processes. In that
    case nothing is changed, except perhaps `average`.
    """
    path = folder / CHECKPOINT

    def check(file: TensorFile) -> None:
        _trainer_state(file.notes, path)
        _note("groups", file.notes, path)
        written = 1
        while f"{_of_process(written)}random" in file.stored:
            written += 1
        if written != ranks:
            raise InputError(
                f"{path}: found the checkpoint of a run with {written} processes; expected {ranks}. Resume with"
                f" {written} processes"
            )
        refuse(path, "the checkpoint does not fit the recipe", _misfits(_parts(file.stored, rank), model, optimiser))

    tensors, notes = read_tensors(path, check)
    progress, groups = _trainer_state(notes, path), _checked_groups(_note("groups", notes, path), optimiser, path)
    parts = _parts(tensors, rank)
    if bool(parts["average"]) != (progress.averaging.count(progress.steps) > 0):
        raise InputError(f"{path}: the averaged weights do not fit the progress (averaging)")
    for name in ("optimiser", "average"):
        check_finite(path, parts[name])
    # Carried states may contain infinite distances, but no NaN.
    if nan := [name for name, tensor in parts["state"].items() if bool(tensor.isnan().any())]:
        raise InputError(f"{path}: the carried state {nan[0]} contains NaN")
    load_weights(model, parts["model"], str(path))
    if average is not None:
        average.load(parts["average"])
    optimiser_state: dict[int, dict[str, Any]] = {}
    for name, tensor in parts["optimiser"].items():
        index, _, what = name.partition("/")
        optimiser_state.setdefault(int(index), {})[what] = tensor
    if optimiser is not None:
        optimiser.load_state_dict({"state": optimiser_state, "param_groups": groups})
    try:
        torch.set_rng_state(parts["random"][""])
        if "cuda" in parts["random"] and torch.cuda.is_available():
            torch.cuda.set_rng_state(parts["random"]["cuda"])
    except RuntimeError as error:
        raise InputError(f"{path}: the state of the random number generator is damaged: {error}") from None
    device = model.device
    state = {name: tensor.to(device) for name, tensor in parts["state"].items()}
    return state or None, progress


def _parts(tensors: Mapping[str, Any], rank: int) -> dict[str, dict[str, Any]]:
    """Group the tensors of a process by their part of the state: "model", "optimiser", "random", ..."""
    own = {name.removeprefix(_of_process(rank)): tensor for name, tensor in tensors.items() if _is_of(name, rank)}
    parts: dict[str, dict[str, Any]] = {"model": {}, "optimiser": {}, "average": {}, "state": {}, "random": {}}
    for name, tensor in (dict(tensors) | own).items():
        kind, _, rest = name.partition("/")
        if kind in parts:
            parts[kind][rest] = tensor
    return parts


def _misfits(
    parts: Mapping[str, Mapping[str, StoredTensor]], model: Model, optimiser: torch.optim.Optimizer | None
) -> list[str]:
    """Return a message for each tensor in the header that does not fit model or optimiser."""
    weights_of_model = {name: one.detach() for name, one in model.named_parameters()}
    stored_model = parts["model"]
    # Sizes of buffers may depend on the text; `load_weights` checks them.
    faults = tensor_faults(
        weights_of_model, {name: one for name, one in stored_model.items() if name in weights_of_model}
    )
    if parts["average"]:
        faults += tensor_faults(weights_of_model, parts["average"])
    random, usual = parts["random"].get(""), torch.get_rng_state()
    if random is None or random.dtype != usual.dtype or random.shape != usual.shape:
        faults.append(f"random: expected {len(usual):,} bytes")
    groups = [] if optimiser is None else optimiser.param_groups
    weights = [weight for group in groups for weight in group["params"]]
    found: dict[str, set[str]] = {}
    for name, stored in parts["optimiser"].items():
        index, _, what = name.partition("/")
        found.setdefault(index, set()).add(what)
        place = int(index) if index.isascii() and index.isdigit() and len(index) < 10 else len(weights)
        shape = None if place >= len(weights) else torch.Size() if what == "step" else weights[place].shape
        if stored.shape != shape or not stored.dtype.is_floating_point:
            faults.append(f"optimiser/{name} does not fit any weight of this model")
    expected = _ADAM if isinstance(optimiser, torch.optim.Adam) else set()
    return faults + [f"optimiser/{index} lacks its state" for index, names in found.items() if not names >= expected]


def _checked_groups(groups: Any, optimiser: torch.optim.Optimizer | None, path: Path) -> list[dict[str, Any]]:
    """Return the optimiser's parameter groups with the stored settings. Raises InputError if they do not fit."""
    own = [] if optimiser is None else optimiser.state_dict()["param_groups"]
    fits = isinstance(groups, list) and len(groups) == len(own) and all(isinstance(group, dict) for group in groups)
    if not fits or any(group.get("params") != usual["params"] for group, usual in zip(groups, own, strict=True)):
        raise InputError(f"{path}: groups: expected those of the {type(optimiser).__name__} optimiser of this model")
    checked = []
    for group, usual in zip(groups, own, strict=True):
        stored = {name: value for name, value in group.items() if name in usual}
        for name, value in stored.items():
            if not _is_like(value, usual[name]):
                raise InputError(
                    f"{path}: groups: {name}: found {str(value)[:40]}; expected a value like {usual[name]}"
                )
        checked.append(usual | stored)
    return checked


def _is_like(value: Any, usual: Any) -> bool:
    """Return whether a setting has the same type as the usual one, and is finite."""
    if isinstance(usual, list | tuple):
        return isinstance(value, list) and len(value) == len(usual) and all(map(_is_like, value, usual))
    if isinstance(usual, float):
        return isinstance(value, float | int) and not isinstance(value, bool) and abs(value) < _LARGEST
    return type(value) is type(usual)
