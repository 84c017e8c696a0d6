"""A classifier of sentence pairs on top of any sentence encoder.

As in Shen et al. 2019 (ON-LSTM), section 5.4: u and v are the states after the last tokens of the two sentences; a
network with one hidden layer reads u, v, u * v and |u - v|. (Bowman, Manning, Potts 2015 use a tanh layer over u, v.)
Shapes: B pairs, T time, F features of a state, L classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from syntaxlm.core.settings import Fraction, Settings, Size
from syntaxlm.models.abilities import Criterion, Encoding, LearnsFromRewards, Loss, Model, TrainsByGradient
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.models.registry import ModelConfig, build_encoder


@dataclass(frozen=True)
class ClassifierSettings(Settings, section="classifier"):
    """The layers above the encoder."""

    hidden_size: Size = 400  # neurons of the hidden layer
    dropout: Fraction = 0.2  # rate on the input and output of the hidden layer


@dataclass(frozen=True)
class PairBatch:
    """Sentence pairs, all sentences in one batch.

    sentences: 2B columns, longest first.  places: (2B,), the column of each left sentence, then of each right one.
    classes: (B,) int64, the class of each pair; None where unknown.
    """

    sentences: TokenBatch
    places: Tensor
    classes: Tensor | None = None

    @property
    def carries(self) -> bool:
        """Pairs are independent: no state is carried."""
        return False

    @classmethod
    def of(cls, left: Sequence[Tensor], right: Sequence[Tensor], classes: Tensor | None = None) -> PairBatch:
        """Return a batch of pairs. left, right: B sentences each, int64 token ids, none of them empty."""
        both = [*left, *right]
        lengths, order = torch.tensor([len(one) for one in both]).sort(descending=True, stable=True)
        tokens = nn.utils.rnn.pad_sequence([both[place] for place in order.tolist()])
        return cls(TokenBatch(tokens, tokens, lengths), order.argsort(), classes)

    def to(self, device: torch.device | str) -> PairBatch:
        classes = None if self.classes is None else self.classes.to(device)
        return PairBatch(self.sentences.to(device), self.places.to(device), classes)


class PairClassifier(Model, TrainsByGradient):
    """An encoder of any model type that encodes sentences, and a classifier on top of it.

    config: settings of the encoder.  tokens: vocabulary size.  classes: L.
    Raises InputError for settings out of range and for a model type that does not encode sentences.
    """

    criterion = Criterion("accuracy", "fraction of pairs", maximise=True)

    def __init__(self, config: ModelConfig, settings: ClassifierSettings, tokens: int, classes: int) -> None:
        super().__init__()
        self.vocabulary_size = tokens
        self.encoder = build_encoder(config, tokens)
        features = 4 * self.encoder.feature_size
        self.layers = nn.Sequential(
            nn.Dropout(settings.dropout),
            nn.Linear(features, settings.hidden_size),
            nn.ELU(),
            nn.Dropout(settings.dropout),
            nn.Linear(settings.hidden_size, classes),
        )

    def forward(self, pairs: PairBatch) -> tuple[Tensor, Encoding]:
        """Return logits, (B, L), and the encoding of all sentences."""
        encoding = self.encoder.encode(pairs.sentences)
        left, right = encoding.features[pairs.places].chunk(2)
        features = torch.cat([left, right, left * right, (left - right).abs()], dim=-1)
        return self.layers(features), encoding

    def loss(self, batch: PairBatch, state: State = None) -> Loss:
        """Return cross-entropy in training mode; number of correct answers in evaluation mode.

        An encoder that learns from rewards gets the log-probability of the pair's class for each of its sentences.
        """
        assert batch.classes is not None, "training batches must have classes"
        logits, encoding = self(batch)
        count = len(batch.classes)
        if not self.training:
            return Loss((logits.argmax(-1) == batch.classes).sum(), count, count)
        nats, penalties = cross_entropy(logits, batch.classes, reduction="none"), encoding.penalties
        if encoding.decisions is not None:
            assert isinstance(self.encoder, LearnsFromRewards)
            rewards = torch.empty_like(nats).repeat(2).index_put((batch.places,), -nats.detach().repeat(2))
            penalties = penalties | self.encoder.policy_terms(encoding.decisions, rewards)
        return Loss(nats.sum(), count, count, penalties)
