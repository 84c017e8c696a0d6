"""The end bias: which words end constituents, estimated from the words that end sentences."""

from __future__ import annotations

import torch
from torch import Tensor

PSEUDO_COUNT = 10.0  # added occurrences of each word, with the overall rate of sentence ends


def end_scores(words: Tensor, final_words: Tensor) -> Tensor:
    """(V,) float64 log-weights, at most 0, of constituents that end in each word but not at the sentence's end.

    words, final_words: (V,) number of occurrences of each word in sentences of two or more words, and as their last
    word. The log-weight is min(0, log(p(end | w) / p(end))), estimated from plain text: words that rarely end
    sentences, such as articles, prepositions and auxiliaries, rarely end constituents. As a bias in the first part of
    training, it makes grammars attach such words to what follows them, whatever the random seed. The bias falls to 0,
    so the final grammar is trained on the likelihood alone.
    """
    counts, ends = words.double(), final_words.double()
    rate = ends.sum() / counts.sum()
    shares = (ends + PSEUDO_COUNT * rate) / (counts + PSEUDO_COUNT)
    return torch.log(shares / rate).clamp(max=0)


def end_weights(scores: Tensor, words: Tensor, lengths: tuple[int, ...]) -> Tensor:
    """(B, n, n) log-weights of spans, indexed by first and last word, inclusive; 0 for spans that end the sentence.

    scores: (V,) from `end_scores`.  words: (N,) of all sentences, concatenated.  lengths: of the B sentences.
    """
    sizes = torch.tensor(lengths, device=words.device)
    longest = int(sizes.max())
    places = torch.arange(longest, device=words.device)
    of_last = scores.new_zeros(len(lengths), longest)
    of_last[places < sizes[:, None]] = scores[words]
    of_last[places == sizes[:, None] - 1] = 0
    return of_last[:, None].expand(-1, longest, -1)
