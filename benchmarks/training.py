"""What benchmarks of training share: a model that takes whole training steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from benchmarks.timing import Contestant
from syntaxlm.models.base import NeuralModel
from syntaxlm.models.contract import LanguageModel, TokenBatch
from syntaxlm.ops.softmax.reference import target_log_probs as plain_log_probs
from syntaxlm.training.recipe import OptimiserSettings
from syntaxlm.training.schedule import build_optimiser

WORDS = 10_000  # of the vocabulary


def with_plain_softmax(model: NeuralModel) -> None:
    """Puts the softmax as it is written in the place of the fast one."""
    decoder = model.decoder
    decoder.log_probs = lambda rows, targets: plain_log_probs(rows, decoder.weight, decoder.bias, targets)  # type: ignore[method-assign]


def contestant(
    build: Callable[[], LanguageModel],
    batches: Sequence[TokenBatch],
    form: str,
    precision: str,
    settings: OptimiserSettings,
    tokens: Sequence[int] | None = None,
) -> Contestant:
    """Training on the batches in turn: forward, loss, backward, clipping, optimiser.

    build: makes the model, its weights fresh; tokens: real ones of each batch, where padding hides them.
    """
    tokens = tokens or [batch.token_count() for batch in batches]
    torch.manual_seed(0)
    model = build().train()
    optimiser = build_optimiser(model, settings)

    def step() -> None:
        for batch, real in zip(batches, tokens, strict=True):
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16-mixed"):
                output = model(batch)
                loss = sum(output.penalties.values()) - output.log_probs(batch.targets).sum() / real
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
            optimiser.step()

    return Contestant(form, precision, step, sum(tokens))
