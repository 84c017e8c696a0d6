"""The memory that training by gradient descent needs, estimated before a model is built.

A model that fits in memory may still need many times as much for gradients, for the state of the optimiser, and for
what a batch keeps for the backward pass. The system then ends the process, or swaps for hours.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from syntaxlm.core.errors import InputError
from syntaxlm.core.systems import available_memory
from syntaxlm.models.abilities import TrainsByGradient
from syntaxlm.models.registry import model_shapes

if TYPE_CHECKING:
    from syntaxlm.training.recipe import Recipe

_OVERHEAD = 120 << 20  # bytes of freed blocks that the process keeps, see `keep_freed_memory`, and of small tensors


class BatchShape(NamedTuple):
    """The shape of a batch.

    Attributes:
        tokens: in a batch of training data.
        longest: words of its longest sentence.
    """

    tokens: int
    longest: int


class TrainingMemory(NamedTuple):
    """Bytes that training needs.

    Attributes:
        weights: with gradients and the state of the optimiser.
        batch: to train on one.
    """

    weights: int
    batch: int

    @property
    def total(self) -> int:
        return self.weights + self.batch + _OVERHEAD


def training_memory(recipe: Recipe, vocabulary_size: int, batch: BatchShape) -> TrainingMemory | None:
    """Estimate the memory of a training step, within a factor of two; None for a model that is trained by counting.

    The model is built on torch's meta device, without memory. Evaluation is not included.
    """
    model = model_shapes(recipe.model, vocabulary_size)
    if not isinstance(model, TrainsByGradient):
        return None
    copies = 2 + 2 * (recipe.optimiser.kind != "sgd") + recipe.optimiser.averages
    size = torch.float32.itemsize
    return TrainingMemory(size * copies * model.parameter_count, size * model.step_size(*batch))


def check_memory(recipe: Recipe, vocabulary_size: int, batch: BatchShape, device: torch.device) -> None:
    """Raise InputError if training needs more memory than the device has available. Nothing is allocated.

    The message names the setting that, if it is halved, lowers the estimate most.
    """
    needed = training_memory(recipe, vocabulary_size, batch)
    available = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else available_memory()
    if needed is None or needed.total <= available:
        return
    smaller = dict(_with_smaller_settings(recipe, vocabulary_size, batch))
    name = min(smaller, key=lambda name: smaller[name].total)
    found = getattr(recipe.model, name.removeprefix("model."), f"{batch.tokens:,} tokens")
    raise InputError(
        f"{name}: found {found}; training needs about {_gib(needed.total)} of memory: {_gib(needed.weights)} for"
        f" weights, gradients and optimiser, {_gib(needed.batch)} for a batch of {batch.tokens:,} tokens."
        f" {_gib(available)} are available. Lower this setting, or use a machine with more memory"
    )


def _with_smaller_settings(
    recipe: Recipe, vocabulary_size: int, batch: BatchShape
) -> Iterator[tuple[str, TrainingMemory]]:
    """Yield the memory with half a batch, and with half of each size of the model (of a list, the largest)."""
    estimates: dict[str, tuple[Any, BatchShape]] = {"batches": (recipe, batch._replace(tokens=batch.tokens // 2))}
    for field in dataclasses.fields(recipe.model):
        value = getattr(recipe.model, field.name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 1:
            value //= 2
        elif isinstance(value, tuple) and value and all(isinstance(size, int) for size in value):
            value = tuple(size // 2 if size == max(value) > 1 else size for size in value)
        else:
            continue
        try:
            model = dataclasses.replace(recipe.model, **{field.name: value})
        except ValueError:  # other settings need the larger value
            continue
        estimates[f"model.{field.name}"] = dataclasses.replace(recipe, model=model), batch
    for name, (smaller, smaller_batch) in estimates.items():
        if (needed := training_memory(smaller, vocabulary_size, smaller_batch)) is not None:
            yield name, needed


def _gib(size: int) -> str:
    return f"{size / 2**30:,.1f} GiB"
