"""A small model that scores spans, and the registry's models that do."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor, nn

from syntaxlm.model_io import ModelBundle
from syntaxlm.models.abilities import Model, Parses, ScoresTokens, SpanScores, TokenScores
from syntaxlm.models.batches import State, TokenBatch
from tests.fresh_models import fresh
from tests.models.variants import TEXT_MODELS, WORDS, built, class_of

NAMES = [
    "ends",
    *(name for name in TEXT_MODELS if issubclass(class_of(name), Parses) and built(name).structure_type is SpanScores),
]


class Ends(Model, Parses, ScoresTokens):
    """A span's score is a function of its first and last token, its length and the token after it; words are alike."""

    structure_type = SpanScores

    def __init__(self, vocabulary_size: int) -> None:
        super().__init__()
        self.vocabulary_size = vocabulary_size
        self.of_tokens = nn.Parameter(3 * torch.randn(vocabulary_size, 3))

    def structure(self, batch: TokenBatch) -> SpanScores:
        steps, columns = batch.tokens.shape
        first, last, after = self.of_tokens[batch.tokens].unbind(-1)
        scores = torch.full((steps, columns, max(1, steps - 1)), -torch.inf, dtype=torch.float64)
        for length in range(1, steps - 1):  # of spans from the second token on: the first is BOS
            inner = first[1 : steps - length] + 2 * last[length : steps - 1] + length * after[length + 1 :]
            scores[length + 1 :, :, length - 1] = inner.sin()
        some = scores.isfinite().any(-1, keepdim=True)
        return SpanScores(torch.where(some, scores.where(some, 0.0).log_softmax(-1), -torch.inf))

    def token_log_probs(self, batch: TokenBatch, state: State = None) -> TokenScores:
        uniform = -torch.log(torch.tensor(float(self.vocabulary_size)))
        values: Tensor = uniform * batch.mask()
        return TokenScores(values, {"none": torch.zeros(1)})


def scoring(name: str = "ends") -> ModelBundle:
    """A model that scores spans, as if it had been read from a folder."""
    if name != "ends":
        return fresh(name)
    torch.manual_seed(5)
    return dataclasses.replace(fresh("lstm"), model=Ends(WORDS).eval())
