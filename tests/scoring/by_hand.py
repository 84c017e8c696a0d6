"""A text read token by token, as the oracle of all scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from syntaxlm.models.batches import TextMode, TokenBatch
from syntaxlm.storage.folder import ModelBundle


def read_by_hand(
    stored: ModelBundle, lines: Sequence[str], mode: TextMode
) -> Iterator[list[tuple[Tensor, int, float]]]:
    """For each token of each line: the decoder's input, the token, its log-probability. A line without tokens has no
    end.
    """
    vocabulary = stored.vocabulary
    state, before = None, vocabulary.begin_id
    for line in lines:
        if not mode.carry_state:
            state, before = None, vocabulary.begin_id
        tokens, read = vocabulary.encode(stored.normaliser.tokens(line)), []
        for token in [*tokens, vocabulary.end_id] if tokens else []:
            batch = TokenBatch(torch.tensor([[before]]), torch.tensor([[token]]))
            with torch.no_grad():
                scores = stored.model.token_log_probs(batch, state)
            read.append((None if scores.hidden is None else scores.hidden[0], token, scores.log_probs.item()))
            state, before = scores.state, token
        yield read
