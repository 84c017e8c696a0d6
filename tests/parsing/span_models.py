"""A small model that scores spans, and the registry's models that do."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor, nn

from syntaxlm.model_io import ModelBundle
from syntaxlm.models.batches import LanguageModel, Output, State, Syntax, TokenBatch
from tests.fresh_models import fresh
from tests.models.test_contract import TEXT_MODELS, WORDS, built

NAMES = ["ends", *(name for name in TEXT_MODELS if built(name).gives_span_scores)]


class Ends(LanguageModel):
    """A span's score is a function of its first and last token, its length and the token after it; words are alike."""

    gives_span_scores = True

    def __init__(self, vocabulary_size: int, both: bool = False) -> None:
        super().__init__()
        self.vocabulary_size = vocabulary_size
        self.distance_layers = 2 * both
        self.of_tokens = nn.Parameter(3 * torch.randn(vocabulary_size, 3))

    def syntax(self, batch: TokenBatch) -> Syntax:
        steps, columns = batch.tokens.shape
        first, last, after = self.of_tokens[batch.tokens].unbind(-1)
        scores = torch.full((steps, columns, steps - 1), torch.nan)  # of spans from before the first token
        for length in range(1, steps):
            inner = first[: steps - length] + 2 * last[length - 1 : steps - 1] + length * after[length:]
            scores[length:, :, length - 1] = inner.sin()
        distances = torch.stack([first, last]) if self.distance_layers else None
        return Syntax(distances=distances, span_scores=scores)

    def forward(self, batch: TokenBatch, state: State = None) -> Output:
        def log_probs(targets: Tensor) -> Tensor:
            return torch.zeros(targets.shape) - torch.log(torch.tensor(float(self.vocabulary_size)))

        return Output(log_probs, {"none": torch.zeros(1)}, syntax=self.syntax(batch))


def scoring(name: str = "ends", both: bool = False) -> ModelBundle:
    """A model that scores spans, as if it had been read from a folder. both: also with two layers of distances."""
    if name != "ends":
        return fresh(name)
    torch.manual_seed(5)
    return dataclasses.replace(fresh("lstm"), model=Ends(WORDS, both).eval())
