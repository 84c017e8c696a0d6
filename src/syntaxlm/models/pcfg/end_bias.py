"""Which words end constituents, estimated from where sentences end."""

from __future__ import annotations

import torch
from torch import Tensor

PSEUDO_COUNT = 10.0  # of each word, at the overall rate of sentence ends


def end_scores(words: Tensor, final_words: Tensor) -> Tensor:
    """(V,) float64 log-weight of a constituent that ends in each word before the sentence does: 0 or negative.

    words, final_words: (V,) how often each word occurs in sentences of two words or more, and how often as the last.
    Words with which sentences rarely end, such as articles, prepositions and auxiliaries, rarely end constituents: the
    log-weight is min(0, log(p(end | w) / p(end))), of plain text. As a bias of the first part of training it makes
    grammars attach such words to what follows them, whatever the random seed; it falls to 0, so that the final grammar
    is trained on the likelihood alone.
    """
    counts, ends = words.double(), final_words.double()
    rate = ends.sum() / counts.sum()
    shares = (ends + PSEUDO_COUNT * rate) / (counts + PSEUDO_COUNT)
    return torch.log(shares / rate).clamp(max=0)


def end_weights(scores: Tensor, words: Tensor, lengths: tuple[int, ...]) -> Tensor:
    """(B, n, n) log-weights of spans by first and last word, both inclusive; 0 where the sentence ends.

    scores: (V,) as of `end_scores`.  words: (N,) of all sentences, one after another.  lengths: of each of B sentences.
    """
    sizes = torch.tensor(lengths, device=words.device)
    longest = int(sizes.max())
    places = torch.arange(longest, device=words.device)
    of_last = scores.new_zeros(len(lengths), longest)
    of_last[places < sizes[:, None]] = scores[words]
    of_last[places == sizes[:, None] - 1] = 0
    return of_last[:, None].expand(-1, longest, -1)
