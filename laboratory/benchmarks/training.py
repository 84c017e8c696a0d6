"""Common code of training benchmarks: a model that takes whole training steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from laboratory.benchmarks.timing import PROCESSOR, Contestant
from syntaxlm.core.systems import keep_freed_memory
from syntaxlm.models.abilities import Loss, Model
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.ops.backend import Backend, using
from syntaxlm.training.loop import build_optimisers
from syntaxlm.training.recipe import OptimiserSettings

WORDS = 10_000  # vocabulary size


BACKENDS: dict[str, Backend] = {
    "reference": "reference",
    "torch": "torch",
    "uncompiled": "torch",
}  # by form; else compiled


def contestant(
    build: Callable[[], Model],
    batches: Sequence[TokenBatch],
    form: str,
    precision: str,
    settings: OptimiserSettings,
    tokens: Sequence[int] | None = None,
    device: torch.device = PROCESSOR,
) -> Contestant:
    """Trains on the batches in turn: forward, loss, backward, clipping, optimiser. A batch that carries state continues
    the previous one, the first batch the last one of the previous round.

    build: creates the model with fresh weights; form: chooses from `BACKENDS`; tokens: number of real ones per batch,
    if there is padding.
    """
    keep_freed_memory()  # as in training
    tokens = tokens or [batch.token_count() for batch in batches]
    torch.manual_seed(0)
    model = build().train().to(device)
    (optimiser,) = build_optimisers(model, settings)
    if device.type == "cuda":
        for group in optimiser.param_groups:
            group["capturable"] = True  # Adam needs this for CUDA graphs
    batches = [batch.to(device) for batch in batches]

    state: State = None

    def step() -> None:
        nonlocal state
        for batch, real in zip(batches, tokens, strict=True):
            low = torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16-mixed")
            with low, using(BACKENDS.get(form, "compiled")):
                found: Loss = model.loss(batch, state if batch.carries else None)  # type: ignore[operator]
                loss = sum(found.penalties.values()) + found.total / real
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), settings.gradient_clip)
            optimiser.step()
            state = found.state

    return Contestant(form, precision, step, sum(tokens))
