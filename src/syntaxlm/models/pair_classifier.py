"""Two sentences, one encoder, and a choice between classes: the core of any language model, put to another use.

As in Shen et al. 2019 (ON-LSTM), section 5.4: u and v are the states after the last tokens of both sentences; a network
of one hidden layer reads u, v, u * v and |u - v|. (Bowman, Manning, Potts 2015 compare by a tanh layer over u and v.)
Shapes: B pairs, T time, F features of a state, L classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from syntaxlm.errors import InputError
from syntaxlm.models.backbone import NeuralModel
from syntaxlm.models.contract import TokenBatch
from syntaxlm.models.registry import ModelConfig, build_model
from syntaxlm.settings import Fraction, Settings, Size


@dataclass(frozen=True)
class ClassifierSettings(Settings, section="classifier"):
    """The layers above the encoder."""

    hidden_size: Size = 400  # neurons of the hidden layer
    dropout: Fraction = 0.2  # rate on the input and the output of that layer


@dataclass(frozen=True)
class PairBatch:
    """Pairs of sentences, all sentences in one batch.

    sentences: 2B columns, longest first. places: (2B,), the column of each left sentence, then of each right one.
    """

    sentences: TokenBatch
    places: Tensor

    @classmethod
    def of(cls, left: Sequence[Tensor], right: Sequence[Tensor]) -> PairBatch:
        """left, right: B sentences each, int64 token ids, none of them empty."""
        both = [*left, *right]
        lengths, order = torch.tensor([len(one) for one in both]).sort(descending=True, stable=True)
        tokens = nn.utils.rnn.pad_sequence([both[place] for place in order.tolist()])
        return cls(TokenBatch(tokens, tokens, lengths), order.argsort())

    def to(self, device: torch.device | str) -> PairBatch:
        return PairBatch(self.sentences.to(device), self.places.to(device))


class PairClassifier(nn.Module):
    """An encoder, which is the embedding and the core of a model of the registry, and the layers above it.

    config: of the encoder; tokens: how many there are; classes: L.
    Raises InputError for settings out of range.
    """

    def __init__(self, config: ModelConfig, settings: ClassifierSettings, tokens: int, classes: int) -> None:
        super().__init__()
        model = build_model(config, tokens)  # its decoder is not used
        if not isinstance(model, NeuralModel):
            raise InputError(f"a model of the kind {config.name!r} has no states to classify pairs by")
        self.embedding, self.core = model.embedding, model.core
        features = 4 * model.core.output_size
        self.layers = nn.Sequential(
            nn.Dropout(settings.dropout),
            nn.Linear(features, settings.hidden_size),
            nn.ELU(),
            nn.Dropout(settings.dropout),
            nn.Linear(settings.hidden_size, classes),
        )

    def forward(self, pairs: PairBatch) -> tuple[Tensor, dict[str, Tensor]]:
        """Returns (B, L), logits, and the encoder's penalties to add to the training loss."""
        batch = pairs.sentences
        reading = self.core(self.core.embed(self.embedding, batch.tokens), batch, None)
        left, right = reading.hidden[batch.last_rows()[pairs.places]].chunk(2)
        features = torch.cat([left, right, left * right, (left - right).abs()], dim=-1)
        return self.layers(features), reading.penalties
