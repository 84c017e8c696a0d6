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
# The backends of forms; other forms use compiled kernels.
BACKENDS: dict[str, Backend] = {"reference": "reference", "torch": "torch", "uncompiled": "torch"}


def random_stream(words: int, steps: int, columns: int, carries: bool = False) -> list[TokenBatch]:
    """A stream of random tokens, as one batch.

    words: size of the vocabulary.  steps, columns: of the batch.  carries: whether the batch continues the one before.
    """
    tokens = torch.randint(words, (steps + 1, columns), generator=torch.Generator().manual_seed(0))
    return [TokenBatch(tokens[:-1], tokens[1:], carries=carries)]


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

    build: creates the model with fresh weights.  form: chooses from `BACKENDS`.  tokens: number of tokens of each batch
    without padding; None: batches without padding.
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
        for batch, count in zip(batches, tokens, strict=True):
            autocast = torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16-mixed")
            with autocast, using(BACKENDS.get(form, "compiled")):
                computed: Loss = model.loss(batch, state if batch.carries else None)  # type: ignore[operator]
                loss = sum(computed.penalties.values()) + computed.total / count
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), settings.gradient_clip)
            optimiser.step()
            state = computed.state

    return Contestant(form, precision, step, sum(tokens))
