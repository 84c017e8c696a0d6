"""Checkpoints: the whole state of a run in one safetensors file, which can be replaced atomically.

Every field is checked when it is read, because the file may be damaged or edited.
"""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import to_json
from syntaxlm.core.settings import LARGEST_COUNT, Bounds, Finite, NonNegative, read_settings
from syntaxlm.core.tensor_files import (
    check_finite,
    read_metadata,
    read_tensors,
    refuse,
    tensor_faults,
    write_tensors,
)
from syntaxlm.models.abilities import Model
from syntaxlm.models.batches import State
from syntaxlm.models.layers import value_faults
from syntaxlm.storage.folder import distinct_tensors, load_weights
from syntaxlm.training.recipe import OptimiserSettings, ScheduleSettings
from syntaxlm.training.result import CHECKPOINT, Numbers

Number = Annotated[int, Bounds(ge=0, le=2**62)]
Sum = Annotated[float, Bounds(ge=-1e300, le=1e300)]

_ADAM = {"step", "exp_avg", "exp_avg_sq"}  # Adam's state of each parameter


@dataclass
class Plateau:
    """Reduces the learning rate by a factor after `plateau_patience` validations without a better loss.

    With `plateau_repeats`, it is then reduced after every validation.

    Attributes:
        best: lowest loss so far.
        waited: validations since then, or since the last reduction.
        scale: product of all reductions so far.
    """

    best: float | None = None
    waited: int = 0
    scale: float = 1.0

    def seen(self, loss: float, settings: ScheduleSettings) -> bool:
        """Record a loss. Returns whether the learning rate is reduced."""
        margin = settings.plateau_threshold and settings.plateau_threshold * abs(self.best or 0)
        better = self.best is None or loss < self.best - margin
        self.best = loss if self.best is None else min(self.best, loss)
        if not (settings.plateau_repeats and self.scale < 1):
            self.waited = 0 if better else self.waited + 1
            if self.waited < settings.plateau_patience:
                return False
        self.waited = 0
        self.scale *= settings.plateau_factor
        return True


@dataclass
class Averaging:
    """The state of averaged SGD in a run.

    Averaging starts when the validation loss stops improving (NT-ASGD; Merity, Keskar, Socher 2018, section 3,
    algorithm 1), and may be fine-tuned from the average (section 5). SGD continues with its own weights; their average
    is validated and kept.

    Attributes:
        began: the optimiser step after which averaging started; None: it has not started.
        restarted: the step after which fine-tuning started; None: it has not started.
        losses: the losses of validations since the run or fine-tuning started, in order.
    """

    began: int | None = None
    restarted: int | None = None
    losses: list[float] = field(default_factory=list)

    def count(self, steps: int) -> int:
        """Return the number of averaged steps after `steps` optimiser steps; 0 if weights are not averaged."""
        since = self.began if self.restarted is None else self.restarted
        return 0 if since is None else steps - since

    def is_averaged(self, step: int) -> bool:
        """Return whether the weights that were validated after a step were averaged."""
        return self.began is not None and step > self.began

    def seen(
        self, loss: float, steps: int, epochs: float, settings: OptimiserSettings
    ) -> Literal["begins", "restarts", "ends"] | None:
        """Record the loss of a validation after `steps` optimiser steps and `epochs` epochs.

        Returns:
            Its effect: averaging begins, restarts from the average (fine-tuning), or the run ends.
        """
        patience = settings.average_patience
        last = settings.finetune_epoch
        first = settings.average_from_epoch
        risen = patience is not None and len(self.losses) > patience and loss > min(self.losses[:-patience])
        self.losses.append(loss)
        if self.restarted is not None:
            return "ends" if risen else None
        if last is not None and epochs >= last:
            self.began = steps if self.began is None else self.began
            self.restarted = steps
            self.losses = []
            return "restarts"
        if self.began is None and (risen or (first is not None and epochs >= first)):
            self.began = steps
            return "begins"
        return None


@dataclass
class TrainerState:
    """The progress of a run.

    Attributes:
        epoch: the epoch of the next batch, from 0.
        batch: index of the next batch, from 0.
        steps: optimiser steps.
        seconds: training time, including the time before the run was resumed.
        loss_sum: sum of the training loss over the tokens (or items) since the last validation.
        loss_count: number of these tokens (or items).
        first_loss: training loss of the first step, per token (or item).
        best_loss: validation cost of the weights that are kept.
        best_step: step of the weights that are kept.
        best_epoch: epoch of the weights that are kept.
        lowest_loss: lowest validation cost.
        without_best: validations since the lowest cost.
        valid_words: number of words of the validation data whose evaluation fits into schedule.minutes; None: all.
        metrics_bytes: length of this run's metrics.jsonl.
        finished: whether training has ended.
        plateau: state of the reductions of the learning rate.
        averaging: state of averaged SGD.
        round_figures: values that the last round returned, for a model that is trained by counting.
    """

    epoch: Number = 0
    batch: Number = 0
    steps: Number = 0
    seconds: NonNegative = 0.0
    loss_sum: Sum = 0.0
    loss_count: Number = 0
    first_loss: Finite | None = None
    best_loss: Finite | None = None
    best_step: Number = 0
    best_epoch: NonNegative = 0.0
    lowest_loss: Finite | None = None
    without_best: Number = 0
    valid_words: Number | None = None
    metrics_bytes: Number = 0
    finished: bool = False
    plateau: Plateau = field(default_factory=Plateau)
    averaging: Averaging = field(default_factory=Averaging)
    round_figures: dict[str, Numbers] = field(default_factory=dict)


def tensors_of_process(state: State, model: Model | None = None) -> dict[str, Tensor]:
    """Return the tensors of one process, on the CPU: the carried state of its columns, the state of its random number
    generators, and the buffers of its model.

    Args:
        model: None for the first process, whose model is stored.
    """
    own = {f"state/{name}": value for name, value in (state or {}).items()}
    own |= {f"buffer/{name}": value for name, value in ({} if model is None else _buffers(model)).items()}
    tensors = {name: value.detach().cpu().clone() for name, value in own.items()}
    tensors["random"] = torch.get_rng_state()
    if torch.cuda.is_available():
        tensors["random/cuda"] = torch.cuda.get_rng_state()
    if torch.backends.mps.is_available():
        tensors["random/mps"] = torch.mps.get_rng_state()
    return tensors


def _buffers(model: Model) -> dict[str, Tensor]:
    """Return what a model stores besides its parameters, such as the statistics of batch normalisation."""
    parameters = {name for name, _ in model.named_parameters()}
    return {name: tensor for name, tensor in distinct_tensors(model).items() if name not in parameters}


def write_checkpoint(
    folder: Path,
    model: Model,
    optimisers: Sequence[torch.optim.Optimizer],
    processes: Sequence[dict[str, Tensor]],
    progress: TrainerState,
    average: Mapping[str, Tensor] = MappingProxyType({}),
) -> None:
    """Write the state of a run.

    Args:
        optimisers: none for a model that is trained by counting. Their settings are those of the recipe.
        processes: `tensors_of_process` of every process, by rank.
        average: averages of the parameters by name, if any.

    Raises:
        InputError: if the file cannot be written.
    """
    tensors = {f"model/{name}": tensor for name, tensor in distinct_tensors(model).items()}
    for first, optimiser in _with_first_index(optimisers):
        for index, values in optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser/{first + index}/{name}": value for name, value in values.items()}
    tensors |= {f"average/{name}": mean for name, mean in average.items()}
    for rank, process_tensors in enumerate(processes):
        tensors |= {_prefix(rank) + name: tensor for name, tensor in process_tensors.items()}
    write_tensors(folder / CHECKPOINT, tensors, {"progress": to_json(dataclasses.asdict(progress))})


def _weights(optimiser: torch.optim.Optimizer) -> list[Tensor]:
    return [weight for group in optimiser.param_groups for weight in group["params"]]


def _with_first_index(optimisers: Sequence[torch.optim.Optimizer]) -> Iterator[tuple[int, torch.optim.Optimizer]]:
    """Yield each optimiser with the index of its first weight among the weights of all."""
    first = 0
    for optimiser in optimisers:
        yield first, optimiser
        first += len(_weights(optimiser))


def _prefix(rank: int) -> str:
    """Return the prefix of the names of a process's tensors."""
    return f"process {rank}/" if rank else ""


def read_trainer_state(folder: Path) -> TrainerState:
    """Read only the progress of a run, which determines the optimiser for `read_checkpoint`.

    Raises:
        InputError: if the checkpoint is missing or damaged.
    """
    path = folder / CHECKPOINT
    return _trainer_state(read_metadata(path), path)


def _trainer_state(metadata: Mapping[str, str], path: Path) -> TrainerState:
    try:
        fields = json.loads(metadata["progress"])
    except (KeyError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: not a valid checkpoint: {error!r}") from None
    progress = read_settings(TrainerState, fields, f"{path}: progress", most=LARGEST_COUNT)  # with all validations
    began = progress.averaging.began
    restarted = progress.averaging.restarted
    in_order = 0 <= (began or 0) <= (restarted or began or 0) <= progress.steps
    if (began is None and restarted is not None) or not in_order:
        raise InputError(
            f"{path}: progress: averaging: found began {began}, restarted {restarted}; expected increasing steps, up to"
            f" {progress.steps}"
        )
    return progress


def read_checkpoint(
    folder: Path,
    model: Model,
    optimisers: Sequence[torch.optim.Optimizer] = (),
    rank: int = 0,
    ranks: int = 1,
) -> tuple[State, TrainerState, dict[str, Tensor]]:
    """Restore model, optimisers and random number generators from a checkpoint.

    Args:
        rank: number of this process, from 0.
        ranks: number of processes.

    Returns:
        The carried state of this process, the progress of the run, and the averages of the parameters, if any.

    Raises:
        InputError: if the checkpoint is missing or damaged, or if its run had another number of processes.
    """
    path = folder / CHECKPOINT
    tensors, metadata = read_tensors(path)
    progress = _trainer_state(metadata, path)
    written = 1
    while f"{_prefix(written)}random" in tensors:
        written += 1
    if written != ranks:
        raise InputError(
            f"{path}: found the checkpoint of a run with {written} processes; expected {ranks}. Resume with"
            f" {written} processes"
        )
    parts = _parts(tensors, rank)
    refuse(path, "the checkpoint does not fit the recipe", _misfits(parts, model, optimisers))
    if bool(parts["average"]) != (progress.averaging.count(progress.steps) > 0):
        raise InputError(f"{path}: the averaged weights do not fit the progress (averaging)")
    for name in ("optimiser", "average"):
        check_finite(path, parts[name])
    # Carried states may contain infinite distances, but no NaN.
    if nan := [name for name, tensor in parts["state"].items() if bool(tensor.isnan().any())]:
        raise InputError(f"{path}: the carried state {nan[0]} contains NaN")
    load_weights(model, parts["model"], str(path))
    buffers = {name: buffer for name, buffer in _buffers(model).items() if name in parts["buffer"]}
    refuse(path, "the checkpoint does not fit the recipe", tensor_faults(buffers, parts["buffer"]))
    refuse(path, "the tensors are unusable", value_faults(model, parts["buffer"]))
    for name, buffer in buffers.items():
        buffer.copy_(parts["buffer"][name])
    moments: dict[int, dict[str, Any]] = {}
    for name, tensor in parts["optimiser"].items():
        index, _, field_name = name.partition("/")
        moments.setdefault(int(index), {})[field_name] = tensor
    for first, optimiser in _with_first_index(optimisers):
        own = {place: moments[first + place] for place in range(len(_weights(optimiser))) if first + place in moments}
        optimiser.load_state_dict(optimiser.state_dict() | {"state": own})
    try:
        torch.set_rng_state(parts["random"][""])
        if "cuda" in parts["random"] and torch.cuda.is_available():
            torch.cuda.set_rng_state(parts["random"]["cuda"])
        if "mps" in parts["random"] and torch.backends.mps.is_available():
            torch.mps.set_rng_state(parts["random"]["mps"])
    except RuntimeError as error:
        raise InputError(f"{path}: the state of the random number generator is damaged: {error}") from None
    state = {name: tensor.to(model.device) for name, tensor in parts["state"].items()}
    names = (name for name, _ in model.named_parameters() if name in parts["average"])  # in the order of the model
    average = {name: parts["average"][name].to(model.device, copy=True) for name in names}
    return state or None, progress, average


def _parts(tensors: Mapping[str, Tensor], rank: int) -> dict[str, dict[str, Tensor]]:
    """Group the tensors of a process by their part: "model", "optimiser", "average", "state", "buffer" or "random"."""
    prefix = _prefix(rank)
    process_tensors = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    parts: dict[str, dict[str, Tensor]] = defaultdict(dict)
    for name, tensor in {**tensors, **process_tensors}.items():
        part, _, rest = name.partition("/")
        parts[part][rest] = tensor
    return parts


def _misfits(
    parts: Mapping[str, Mapping[str, Tensor]], model: Model, optimisers: Sequence[torch.optim.Optimizer]
) -> list[str]:
    """Return a message for each tensor that does not fit model or optimisers."""
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
    # Sizes of buffers may depend on the text; `load_weights` checks them.
    faults = tensor_faults(parameters, {name: part for name, part in parts["model"].items() if name in parameters})
    if parts["average"]:
        faults += tensor_faults(parameters, parts["average"])
    random, usual = parts["random"].get(""), torch.get_rng_state()
    if random is None or random.dtype != usual.dtype or random.shape != usual.shape:
        faults.append(f"random: expected {len(usual):,} bytes")
    weights = [weight for optimiser in optimisers for weight in _weights(optimiser)]
    of_adam = [isinstance(optimiser, torch.optim.Adam) for optimiser in optimisers for _ in _weights(optimiser)]
    fields: dict[str, set[str]] = {}  # of the weights that Adam updates
    for name, tensor in parts["optimiser"].items():
        index, _, field_name = name.partition("/")
        place = int(index) if index.isascii() and index.isdigit() and len(index) < 10 else len(weights)
        if place >= len(weights):
            shape = None
        elif field_name == "step":
            shape = torch.Size()
        else:
            shape = weights[place].shape
        if place < len(weights) and of_adam[place]:
            fields.setdefault(index, set()).add(field_name)
        if tensor.shape != shape or not tensor.is_floating_point():
            faults.append(f"optimiser/{name} does not fit any weight of this model")
    return faults + [f"optimiser/{index} lacks its state" for index, names in fields.items() if not names >= _ADAM]
