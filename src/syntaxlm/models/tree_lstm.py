"""A binary Tree-LSTM cell: the state of a constituent from the states of its two children.

Tai, Socher, Manning 2015, section 3.2, with the gates of Bowman et al. 2016 (SPINN), equations 2 to 4, and Choi, Yoo,
Lee 2018, equations 6 to 8. A state is one tensor of 2D features: the hidden state h, then the memory c.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class TreeLSTMCell(nn.Module):
    """All gates read the hidden states of both children and, if `context_size` is not 0, a context vector.

    size: D.  Initial biases are 1 for the two forget gates, else 0.
    """

    def __init__(self, size: int, context_size: int = 0) -> None:
        super().__init__()
        self.size = size
        self.gates = nn.Linear(2 * size + context_size, 5 * size)
        with torch.no_grad():
            self.gates.bias.zero_()
            self.gates.bias[size : 3 * size] = 1

    def forward(self, left: Tensor, right: Tensor, context: Tensor | None = None) -> Tensor:
        """Return left, right: (..., 2D).  context: (..., C), None without context.  Returns the parent's state, (...,
        2D).
        """
        (left_hidden, left_memory), (right_hidden, right_memory) = left.chunk(2, -1), right.chunk(2, -1)
        read = [left_hidden, right_hidden] if context is None else [left_hidden, right_hidden, context]
        written, left_kept, right_kept, shown, content = self.gates(torch.cat(read, -1)).chunk(5, -1)
        memory = left_memory * left_kept.sigmoid() + right_memory * right_kept.sigmoid()
        memory = memory + written.sigmoid() * content.tanh()
        return torch.cat([shown.sigmoid() * memory.tanh(), memory], -1)
