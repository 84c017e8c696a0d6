"""The stack of a reader that builds a binary tree word by word.

After each word, the stack has complete subtrees, its items, that cover the tokens so far from left to right. A word is
pushed as an item of its own. A closing decision then merges the topmost items from some item on, from right to left:

    item_1 ... item_k item_{k+1} ... item_m  ->  item_1 ... item_{k-1} (item_k (item_{k+1} ... item_m))

The decision is written as the first token of item_k; the word's own position means that nothing is merged. Token 0
comes before the sentence (BOS). It stays an item of its own, at the bottom.

The index of a token is the number of items above its item, 0 at the top. Its depth is the number of constituents of its
item around it. `pushed` and `merged` follow these for one word; `stack_tables` computes them for all words of known
trees at once, from the boundaries between items, so that training needs one forward pass.

Shapes: B sentences, T tokens, n words, k spans.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad


class StackTables(NamedTuple):
    """What each token t sees of the stack, (B, T, T): at [b, t, j] of token j <= t; 0 for later tokens.

    Attributes:
        index_before: of each token's item, when token t has just been pushed.
        depth_before: of each token in its item, then.
        begins_item: whether the token is the first of its item, then; False for token 0 except at t = 0.
        index_after: index after the decision of token t.
        depth_after: depth after it.
    """

    index_before: Tensor
    depth_before: Tensor
    begins_item: Tensor
    index_after: Tensor
    depth_after: Tensor


def stack_tables(firsts: Tensor) -> StackTables:
    """Return the tables of given decisions.

    Args:
        firsts: (B, T), the first token of the item that each token's decision leaves on top.
    """
    tokens = torch.arange(firsts.shape[1], device=firsts.device)
    is_read = tokens <= tokens[:, None]

    # After the decision of t, a token begins an item if no decision so far has merged it with the token before it.
    merges = (firsts[:, :, None] < tokens) & is_read
    begins_after = (merges.cumsum(1) == 0) & is_read
    index_after = begins_after.sum(2, keepdim=True) - begins_after.cumsum(2)
    index = pad(index_after[:, :-1] + 1, (0, 0, 1, 0)).tril(-1)
    begins = pad(begins_after[:, :-1], (0, 0, 1, 0)) & (tokens > 0) | (tokens == tokens[:, None])

    # A decision that merges c items deepens the token itself and the next item by c, those below by c - 1, c - 2, ...
    closed = index.gather(2, firsts[:, :, None])
    deepened = (closed - (index - 1).clamp(min=0)).clamp(min=0) * is_read
    depth_after = deepened.cumsum(1)
    depth = pad(depth_after[:, :-1], (0, 0, 1, 0)).tril(-1)
    return StackTables(index, depth, begins, index_after, depth_after)


def pushed(values: Tensor, step: int) -> Tensor:
    """Return indices (step 1) or depths (step 0) of tokens after one more is pushed: (..., t) -> (..., t + 1)."""
    return pad(values + step, (0, 1))


def merged(index: Tensor, depth: Tensor, firsts: Tensor) -> tuple[Tensor, Tensor]:
    """Return index and depth of tokens, (..., t), after a decision, (...)."""
    closed = index.gather(-1, firsts[..., None])
    deeper = depth + (closed - (index - 1).clamp(min=0)).clamp(min=0)
    return (index - closed).clamp(min=0), deeper


def begins_item(index: Tensor) -> Tensor:
    """Return whether each token is the first of its item, (..., t), from the indices of items."""
    before = pad(index[..., :-1], (1, 0), value=-1)
    return index != before


def decisions_of_spans(spans: Tensor, lengths: Tensor, tokens: int) -> Tensor:
    """Return the decisions that build given trees, (B, T). The last word's decision merges all words.

    A decision merges all items from the first word of the largest constituent that ends at its token. A constituent
    with more than two children therefore branches to the right: (a b c) is read as (a (b c)).

    Args:
        spans: (k, 3), column, first and last token of constituents.
        lengths: (B,), tokens of each sentence, with token 0.
    """
    column, first, last = spans.unbind(1)
    firsts = torch.arange(tokens, device=spans.device).repeat(len(lengths), 1)
    firsts.view(-1).scatter_reduce_(0, column * tokens + last, first, "amin")
    last_words = lengths.to(spans.device) - 1
    return firsts.scatter(1, last_words[:, None], last_words.clamp(max=1)[:, None])


def spans_of_decisions(firsts: Tensor) -> Tensor:
    """Return the constituents of two words or more that decisions build: (..., n) -> (..., n, n) bool.

    Args:
        firsts: of the words of sentences, which are counted from 0, without token 0.

    Returns:
        Whether each span, by first and last word, is a constituent.
    """
    words = firsts.shape[-1]
    spans = torch.zeros(*firsts.shape, words, dtype=torch.bool, device=firsts.device)
    index = firsts[..., :0]
    for last in range(words):
        index = pushed(index, 1)
        closed = index.gather(-1, firsts[..., last : last + 1])
        spans[..., : last + 1, last] = begins_item(index) & (index > 0) & (index <= closed)
        index = (index - closed).clamp(min=0)
    return spans
