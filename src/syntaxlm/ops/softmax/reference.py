"""The softmax over the vocabulary as its equation: slow, differentiated by autograd, the reference of all tests."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import linear


def target_log_probs(rows: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    """Return natural log-probability of each row's target under softmax(rows weight^T + bias).

    rows: (n, E); weight: (V, E); bias: (V,); targets: (n,) int64. Returns (n,).
    """
    log_probs = torch.log_softmax(linear(rows, weight, bias).to(weight.dtype), dim=-1)
    return log_probs.gather(1, targets[:, None])[:, 0]
