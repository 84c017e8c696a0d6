"""Modules that several models share: ranges of weights, rows of real tokens, dropout, normalisation, decoders."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, rms_norm

from syntaxlm.ops.dropout import drop, dropout_mask
from syntaxlm.ops.products import affine
from syntaxlm.ops.softmax import target_log_probs

_ROUNDING_SLACK = 1e-6  # rounded probabilities may slightly exceed 1

# Smallest and largest value of a weight that is read from a file, both included. A module with tables, such as
# probabilities, declares their ranges: `value_ranges = {"unigrams": LOG_PROBS}`.
WEIGHTS = (-1e9, 1e9)  # trained weights are below 1e4; a damaged exponent gives 1e18 and more
PROBABILITIES = (0.0, 1.0)
LOG_PROBS = (-1e9, 0.0)
LOG_WEIGHTS = (-math.inf, 1e9)  # logarithms of weights that may be 0
NON_NEGATIVE = (0.0, math.inf)


def value_faults(module: nn.Module, tensors: Mapping[str, Tensor]) -> list[str]:
    """Return a line for each tensor that has NaN, infinite or impossible values.

    Args:
        module: declares the ranges; other floating-point tensors have `WEIGHTS`.
        tensors: its weights and buffers by name.
    """
    ranges = {
        f"{prefix}.{name}" if prefix else name: limits
        for prefix, part in module.named_modules()
        for name, limits in getattr(part, "value_ranges", {}).items()
    }
    faults = []
    for name, tensor in tensors.items():
        if not tensor.numel() or not (tensor.is_floating_point() or name in ranges):
            continue
        least, most = ranges.get(name, WEIGHTS)
        low, high = (float(value) for value in tensor.detach().aminmax())  # NaN if any value is NaN
        if math.isnan(low):
            faults.append(f"{name} has NaN values")
        elif math.isinf(high) or low == -math.inf != least:
            faults.append(f"{name} has infinite values")
        elif not least <= low <= high <= most + _ROUNDING_SLACK:
            expected = f"{least:g} or more" if math.isinf(most) else f"{least:g} to {most:g}"
            faults.append(f"{name} has values from {low:.4g} to {high:.4g}, expected {expected}")
    return faults


class Rows:
    """The real tokens of a padded batch: converts between (T, B, ...) and (n, ...), in time-major order.

    Operations on single tokens never see padding.

    Attributes:
        counts: number of real columns at each step; these come first, as lengths are in descending order.
        index: (n,), the index of each row in the flattened (T * B); None without padding.
    """

    def __init__(self, steps: int, columns: int, lengths: Tensor | None, device: torch.device) -> None:
        self.steps, self.columns = steps, columns
        if lengths is None:
            self.counts, self.index = [columns] * steps, None
            return
        mask = torch.arange(steps)[:, None] < lengths.cpu()
        self.counts = [count for count in mask.sum(1).tolist() if count]
        self.index = mask.flatten().nonzero()[:, 0].to(device)

    def of(self, padded: Tensor) -> Tensor:
        """Pack the real steps: (T, B, ...) -> (n, ...)."""
        flat = padded.flatten(0, 1)
        return flat if self.index is None else flat[self.index]

    def padded(self, rows: Tensor) -> Tensor:
        """Unpack rows into steps and columns, with zeros for padding: (n, ...) -> (T, B, ...)."""
        shape = self.steps, self.columns, *rows.shape[1:]
        if self.index is None:
            return rows.view(shape)
        flat = rows.new_zeros(self.steps * self.columns, *rows.shape[1:])
        return flat.index_copy(0, self.index, rows).view(shape)

    def changes(self, rows: Tensor) -> Tensor:
        """Return the change of each row since the previous step of its column, except for first steps: (n - B, F)."""
        before = [rows[:0]]
        start = 0
        for count, next_count in pairwise(self.counts):
            before.append(rows[start : start + next_count])
            start += count
        return rows[self.counts[0] :] - torch.cat(before)


def dropout(values: Tensor, rate: float, training: bool) -> Tensor:
    """Set entries to 0 with probability `rate` and scale the others to keep the mean; the identity in evaluation."""
    if not training or rate == 0:
        return values
    return drop(values, rate)


def locked_dropout(hidden: Tensor, rate: float, rows: Rows, training: bool) -> Tensor:
    """Return dropout with one mask for all steps of a column, resampled for each batch.

    Gal & Ghahramani 2016; used as in Merity, Keskar, Socher 2018, section 4.2.

    Args:
        hidden: (n, F), ordered as `rows`.
        rate: of features that are set to 0.
        rows: of the batch.
        training: whether to drop; otherwise the result is `hidden`.
    """
    if not training or rate == 0:
        return hidden
    mask = dropout_mask((rows.columns, hidden.shape[1]), rate, hidden)
    columns = torch.arange(rows.columns, device=hidden.device).repeat(rows.steps) if rows.index is None else rows.index
    return hidden * mask[columns % rows.columns]


def drop_weights(weight: Tensor, rate: float, rescaled: bool, training: bool) -> Tensor:
    """Apply DropConnect: return a weight with entries set to 0 at `rate`, with one mask per forward pass.

    Merity, Keskar, Socher 2018, section 2.

    Args:
        rescaled: whether kept entries are divided by 1 - rate, as in AWD-LSTM. Otherwise, as in the released ON-LSTM
            program, they stay, and evaluation multiplies the whole weight by 1 - rate.
    """
    if rate == 0 or (rescaled and not training):
        return weight
    if not training:
        return weight * (1 - rate)
    mask = dropout_mask(tuple(weight.shape), rate, weight)
    return weight * (mask if rescaled else mask.sign_())


class Linear(nn.Linear):
    """nn.Linear for many rows, (..., in) -> (..., out): see `affine`."""

    def forward(self, input: Tensor) -> Tensor:
        rows = affine(input.flatten(0, -2), self.weight, self.bias)
        return rows.view(*input.shape[:-1], -1)


class RMSNorm(nn.Module):
    """gain x / sqrt(mean(x^2) + 1e-6) over the last axis."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(size))

    def forward(self, rows: Tensor) -> Tensor:
        return rms_norm(rows.to(self.gain.dtype), self.gain.shape, self.gain, 1e-6)


class RowBatchNorm(nn.BatchNorm1d):
    """Batch normalisation over rows, (n, size) -> (n, size), in the dtype of the weights.

    Rows are real tokens only, as padding must not affect the statistics. A single row has no variance: it is normalised
    with the running statistics and does not update them.
    """

    value_ranges: ClassVar = {"running_var": NON_NEGATIVE}

    def forward(self, input: Tensor) -> Tensor:
        rows = input.to(self.weight.dtype)
        if self.training and len(rows) < 2:
            return nn.functional.batch_norm(
                rows, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps
            )
        return super().forward(rows)


class Decoder(nn.Module):
    """A linear layer and a softmax over words.

    Args:
        tied_to: the embedding whose weight the layer shares.
    """

    def __init__(self, size: int, vocabulary_size: int, tied_to: nn.Embedding | None = None) -> None:
        super().__init__()
        if tied_to is not None and tied_to.embedding_dim != size:
            raise ValueError(f"tied weights need inputs of the embedding's size, {tied_to.embedding_dim}, not {size}")
        self.weight = tied_to.weight if tied_to is not None else nn.Parameter(torch.empty(vocabulary_size, size))
        self.bias = nn.Parameter(torch.zeros(vocabulary_size))

    def initialise(self, init_range: float) -> None:
        """Weights uniform in (-init_range, init_range), bias 0."""
        nn.init.uniform_(self.weight, -init_range, init_range)
        nn.init.zeros_(self.bias)

    def forward(self, rows: Tensor) -> Tensor:
        """Return logits. (..., E) -> (..., V)."""
        return linear(rows, self.weight, self.bias)

    def log_probs(self, rows: Tensor, targets: Tensor) -> Tensor:
        """Return the log-probability of each row's target. (n, E), (n,) -> (n,)."""
        return target_log_probs(rows, self.weight, self.bias, targets)


class MixtureDecoder(Decoder):
    """A mixture of softmaxes (Yang et al. 2017, "Breaking the Softmax Bottleneck"), with one weight and bias.

    p(w | g) = sum_k pi_k softmax_w(W tanh(A_k g + a_k) + b) with pi = softmax(P g), of K components.

    Other arguments: see `Decoder`.

    Args:
        input_size: F features of a row g.
        size: E of W, to which each component maps a row.
    """

    def __init__(
        self, components: int, input_size: int, size: int, vocabulary_size: int, tied_to: nn.Embedding | None = None
    ) -> None:
        super().__init__(size, vocabulary_size, tied_to)
        self.latent = nn.Linear(input_size, components * size)
        self.prior = nn.Linear(input_size, components, bias=False)

    def forward(self, rows: Tensor) -> Tensor:
        """Return log-probabilities of all words. (..., F) -> (..., V)."""
        latents, priors = self._components(rows)
        result = None  # one component at a time: those of all words together would need K times the memory
        for latent, prior in zip(latents.unbind(-2), priors.unbind(-1), strict=True):
            part = torch.log_softmax(super().forward(latent).to(prior.dtype), -1) + prior[..., None]
            result = part if result is None else torch.logaddexp(result, part)
        assert result is not None
        return result

    def log_probs(self, rows: Tensor, targets: Tensor) -> Tensor:
        """Return the log-probability of each row's target. (n, F), (n,) -> (n,)."""
        latents, priors = self._components(rows)
        components = priors.shape[-1]
        values = super().log_probs(latents.flatten(0, 1), targets.repeat_interleave(components))
        return torch.logsumexp(values.view(-1, components) + priors, -1)

    def _components(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the input of each softmax, (..., K, E), and its log-probability, (..., K)."""
        latents = torch.tanh(self.latent(rows)).unflatten(-1, (self.prior.out_features, -1))
        return latents, torch.log_softmax(self.prior(rows).to(self.bias.dtype), -1)


class AdaptiveEmbedding(nn.Module):
    """Embeddings whose size falls with the frequency of words (Baevski & Auli 2019, "Adaptive input representations").

    The vocabulary is ordered by frequency. Words before the first cutoff have `size` features; those between two
    cutoffs, a band, have a quarter of the features of the band before, and a linear map to `size` features.

    Attributes:
        bands: the bands of words; their weights are (words, features).
        maps: the maps of all bands but the first, (size, features).
        edges: first words of the bands, and V.
    """

    def __init__(self, vocabulary_size: int, size: int, cutoffs: Sequence[int]) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = vocabulary_size, size
        self.edges = [0, *(cutoff for cutoff in cutoffs if cutoff < vocabulary_size), vocabulary_size]
        features = [max(1, size // 4**number) for number in range(len(self.edges) - 1)]
        words = [after - before for before, after in pairwise(self.edges)]
        self.bands = nn.ParameterList(torch.empty(*shape) for shape in zip(words, features, strict=True))
        self.maps = nn.ParameterList(torch.empty(size, count) for count in features[1:])

    def initialise(self, init_range: float) -> None:
        """Weights uniform in (-init_range, init_range), for words of every band; maps keep their size."""
        for band in self.bands:
            nn.init.uniform_(band, -init_range, init_range)
        for linear_map in self.maps:
            nn.init.normal_(linear_map, std=linear_map.shape[1] ** -0.5)

    @property
    def weight(self) -> Tensor:
        """(V, size), the embeddings of all words."""
        first, *others = self.bands
        return torch.cat([first, *(band @ part.T for band, part in zip(others, self.maps, strict=True))])

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the embeddings of tokens: (...) -> (..., size)."""
        if torch.is_grad_enabled():
            return nn.functional.embedding(tokens, self.weight)

        # Without gradients, only the embeddings of these words are computed.
        flat = tokens.flatten()
        result = self.bands[0].new_empty(len(flat), self.embedding_dim)
        for number, (first, end) in enumerate(pairwise(self.edges)):
            (chosen,) = torch.nonzero((flat >= first) & (flat < end), as_tuple=True)
            embedded = self.bands[number][flat[chosen] - first]
            if number:
                embedded = embedded @ self.maps[number - 1].T
            result[chosen] = embedded.to(result.dtype)
        return result.view(*tokens.shape, self.embedding_dim)


class AdaptiveDecoder(nn.Module):
    """An adaptive softmax (Grave et al. 2017, "Efficient softmax approximation for GPUs") with tied weights.

    The first softmax is over the words of the first band and the other bands; each of these has a softmax of its words.
    The probabilities are exact: those of all words add up to 1.
    """

    def __init__(self, tied_to: AdaptiveEmbedding) -> None:
        super().__init__()
        object.__setattr__(self, "embedding", tied_to)  # not a submodule, so that its weights are stored once
        self.embedding: AdaptiveEmbedding
        edges = tied_to.edges
        self.of_bands = nn.Parameter(torch.zeros(len(edges) - 2, tied_to.embedding_dim))
        self.bias = nn.Parameter(torch.zeros(tied_to.num_embeddings + len(edges) - 2))

    def forward(self, rows: Tensor) -> Tensor:
        """Return log-probabilities of all words. (..., E) -> (..., V)."""
        edges = self.embedding.edges
        # There are two products, because a single one would need a copy of all weights.
        words = linear(rows, self.embedding.bands[0], self.bias[: edges[1]])
        bands = linear(rows, self.of_bands, self.bias[edges[-1] :])
        first = torch.log_softmax(torch.cat([words, bands], -1), -1)
        parts = [first[..., : edges[1]]]
        for number in range(1, len(edges) - 1):
            inside = torch.log_softmax(linear(*self._band(rows, number)), -1)
            parts.append(inside + first[..., edges[1] + number - 1, None])
        return torch.cat(parts, -1)

    def log_probs(self, rows: Tensor, targets: Tensor) -> Tensor:
        """Return the log-probability of each row's target. (n, E), (n,) -> (n,)."""
        edges = self.embedding.edges
        bands = (targets[:, None] >= torch.tensor(edges[1:-1], device=targets.device)).sum(1)
        firsts = torch.where(bands == 0, targets, edges[1] + bands - 1)
        result = target_log_probs(rows, *self._first(), firsts)
        for number in range(1, len(edges) - 1):
            (chosen,) = torch.nonzero(bands == number, as_tuple=True)
            if len(chosen):
                inside = target_log_probs(*self._band(rows[chosen], number), targets[chosen] - edges[number])
                result = result.index_add(0, chosen, inside.to(result.dtype))
        return result

    def _first(self) -> tuple[Tensor, Tensor]:
        """Return weight and bias of the first softmax."""
        words = self.embedding.edges[1]
        bands = self.bias[self.embedding.num_embeddings :]
        return torch.cat([self.embedding.bands[0], self.of_bands]), torch.cat([self.bias[:words], bands])

    def _band(self, rows: Tensor, number: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return the input, weight and bias of the softmax of a band."""
        embedding = self.embedding
        words = slice(embedding.edges[number], embedding.edges[number + 1])
        return rows @ embedding.maps[number - 1], embedding.bands[number], self.bias[words]
