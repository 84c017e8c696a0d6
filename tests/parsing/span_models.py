"""Small models that compute scores or probabilities of spans, and the registered models that score spans."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from torch import Tensor, nn

from syntaxlm.models.abilities import (
    FindsBestTrees,
    LabelledSpans,
    LabelsSpans,
    Model,
    ParsesSentences,
    ScoresTokens,
    TokenScores,
)
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.models.structures import SpanMarginals, SpanScores
from syntaxlm.ops.charts import marginals
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.trees.charts import best, spans_in
from tests.fresh_models import fresh
from tests.models.variants import TEXT_MODELS, WORDS, built

NAMES = [
    "ends",
    *(
        name
        for name in TEXT_MODELS
        if isinstance(built(name), ParsesSentences) and built(name).structure_type is SpanScores
    ),
]


class Ends(Model, ParsesSentences, ScoresTokens):
    """Scores spans by first and last token, length and the token after them; words have equal probabilities."""

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


class UnlabelledBrackets(Model, FindsBestTrees, ScoresTokens):
    """A distribution over all binary trees of a sentence. The weight of a tree is the sum of the weights of its spans.

    A span's weight is a function of its first and last token and its length.
    """

    structure_type = SpanMarginals
    is_labelled = False

    def __init__(self, vocabulary_size: int) -> None:
        super().__init__()
        self.vocabulary_size = vocabulary_size
        self.of_tokens = nn.Parameter(3 * torch.randn(vocabulary_size, 2))
        self.viterbi_calls = 0

    def weights(self, tokens: list[int]) -> np.ndarray:
        """Converts (n(n + 1)/2, 1) to a chart of `trees.charts`."""
        starts, ends = spans_in(len(tokens))
        first, last = self.of_tokens.detach().numpy().T
        words = np.array(tokens)
        return 3 * np.sin(first[words[starts]] + 2 * last[words[ends - 1]] + ends - starts)[:, None]

    def label(self, tokens: list[int], first: int, last: int) -> int:
        if len(tokens) == 1 or not self.is_labelled:
            return -1
        return 5 + tokens[first] % 3 if first == last else (tokens[first] + 2 * tokens[last]) % 5

    def structure(self, batch: TokenBatch) -> SpanMarginals:
        sentences = self._sentences(batch)
        longest = max(map(len, sentences))
        values = torch.zeros(len(sentences), longest, longest)
        labels = torch.full(values.shape, -1)
        for column, tokens in enumerate(sentences):
            found = marginals(torch.from_numpy(self.weights(tokens))).spans[:, 0].tolist()
            for start, end, value in zip(*spans_in(len(tokens)), found, strict=True):
                labels[column, start, end - 1] = self.label(tokens, start, end - 1)
                if end - start > 1:
                    values[column, start, end - 1] = value
        return SpanMarginals(values, labels if self.is_labelled else None)

    def best_trees(self, batch: TokenBatch) -> list[LabelledSpans]:
        self.viterbi_calls += 1
        return [self._best_tree(tokens) for tokens in self._sentences(batch)]

    def _best_tree(self, tokens: list[int]) -> LabelledSpans:
        if len(tokens) == 1:
            return []
        chosen = best(self.weights(tokens))[1][:, 0]
        spans = [(start, end - 1) for start, end in zip(*spans_in(len(tokens)), strict=True)]
        return [(*span, self.label(tokens, *span)) for span, kept in zip(spans, chosen, strict=True) if kept]

    @staticmethod
    def _sentences(batch: TokenBatch) -> list[list[int]]:
        """Without BOS and EOS."""
        steps = [len(batch.tokens)] * batch.tokens.shape[1] if batch.lengths is None else batch.lengths.tolist()
        return [batch.tokens[1 : count - 1, column].tolist() for column, count in enumerate(steps)]

    def token_log_probs(self, batch: TokenBatch, state: State = None) -> TokenScores:
        uniform = -torch.log(torch.tensor(float(self.vocabulary_size)))
        return TokenScores(uniform * batch.mask(), {"none": torch.zeros(1)})


class Brackets(UnlabelledBrackets, LabelsSpans):
    """The same with labels, which depend on the first and last token of a span.

    Words have labels of their own; a sentence of one word has none.
    """

    labels = tuple(f"NT-{number}" for number in range(5)) + tuple(f"T-{number}" for number in range(3))
    is_labelled = True

    def structure(self, batch: TokenBatch) -> SpanMarginals:
        return SpanMarginals(self.labelled_structure(batch).values)

    def labelled_structure(self, batch: TokenBatch) -> SpanMarginals:
        return super().structure(batch)


def bracketing(labelled: bool = True, seed: int = 5) -> ModelBundle:
    """A model with span probabilities, as if it had been read from a folder."""
    torch.manual_seed(seed)
    return dataclasses.replace(fresh("lstm"), model=(Brackets if labelled else UnlabelledBrackets)(WORDS).eval())
