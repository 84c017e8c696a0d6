"""Neural token models: embedding, backbone, decoder. Models differ only in their backbones.

Shapes: T time, B batch, E embedding size, F features of the decoder's input, n real tokens of a batch, V words.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, TypeAlias, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, rms_norm

from syntaxlm.core.settings import Bounds, Fraction, NonNegative, Positive, Size
from syntaxlm.models.abilities import (
    AnnealsLoss,
    EncodesSentences,
    Encoding,
    HasHiddenStates,
    HasMaps,
    Loss,
    Maps,
    ParsesSentences,
    PredictsNextToken,
    TokenScores,
)
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.models.config import BaseConfig
from syntaxlm.models.layers import (
    AdaptiveDecoder,
    AdaptiveEmbedding,
    Decoder,
    MixtureDecoder,
    Rows,
    locked_dropout,
)
from syntaxlm.models.registry import MODELS, ModelType
from syntaxlm.models.structures import Distances, SpanScores, SplitScores, Structure
from syntaxlm.ops.dropout import dropout_mask
from syntaxlm.ops.tree_losses import distance_ranking, tree_regularisation

_Backbone = TypeVar("_Backbone", bound="Backbone")
Embedding: TypeAlias = nn.Embedding | AdaptiveEmbedding


@dataclass(frozen=True)
class BackboneOutput:
    """Output of a backbone for an embedded batch.

    Attributes:
        hidden: (n, F), the decoder's input at each real step, in the order of `TokenBatch.mask()`.
        penalties: named scalars, already weighted, that training adds to the loss.
        distances: (layers, T, B), detached; None for a backbone without distances.
        tree_states: (T, B, S), the states that TreeReg regularises, by which it parses; None for a backbone without.
        learns_words: whether training has the loss of the next words; otherwise only the penalties have a gradient.
    """

    hidden: Tensor
    state: State
    penalties: dict[str, Tensor] = field(default_factory=dict)
    distances: Tensor | None = None
    tree_states: Tensor | None = None
    maps: Maps = field(default_factory=Maps)
    learns_words: bool = True


_FEATURES_PER_TREE_FEATURE = 4  # the first quarter of the features of a state follows given trees


def with_tree_states(
    output: BackboneOutput, hidden: Tensor, batch: TokenBatch, weight: float, training: bool
) -> BackboneOutput:
    """Return the output with the states that TreeReg regularises, and in training with its loss, if it has a weight.

    The first quarter of the features is used, as in Nandi et al. 2025, scaled to a root mean square of 1: states could
    lower the loss by growing. The state before a sentence, after BOS or an EOS, counts as 0, so that the loss is the
    same in sentences and in a stream, where spans that start in another batch are left out.

    Args:
        output: of the backbone.
        hidden: states, (T, B, F).
        batch: with spans, if there are given trees.
        weight: of the loss; 0: the output is unchanged.
        training: whether the loss is added.
    """
    if not weight:
        return output
    features = hidden[..., : max(1, hidden.shape[-1] // _FEATURES_PER_TREE_FEATURE)]
    states = rms_norm(features, features.shape[-1:], eps=1e-6)
    penalties = output.penalties
    if training and batch.spans is not None:
        spans = batch.span_steps()
        if batch.ends is None:  # sentences: without the state of BOS
            word_states = states[1:]
            spans = spans - torch.tensor([0, 1, 1], device=states.device)
        else:
            word_states = states.masked_fill(batch.ends[..., None], 0)
            spans = spans[spans[:, 1] > 0]
        penalties = penalties | {"trees": weight * tree_regularisation(word_states, spans)}
    return replace(output, tree_states=states, penalties=penalties)


def ranking_penalty(distances: Tensor, batch: TokenBatch, weight: float, margin: float) -> dict[str, Tensor]:
    """Return the weighted ranking loss of distances, (T, B), by name; none without trees or weight."""
    if not weight or batch.spans is None:
        return {}
    lengths = batch.step_counts().to(distances.device)
    return {"trees": weight * distance_ranking(distances, lengths, batch.span_steps(), margin)}


class NeuralConfig(BaseConfig):
    """Base class of the settings of a model with a backbone.

    Attributes:
        embedding_size: features of a word's embedding.
        tied: whether the decoder shares the embedding's weight.
        init_range: initial weights of embedding and decoder are uniform in (-init_range, init_range).
        cutoffs: ids of words from which embeddings are smaller, for an adaptive softmax; (): a plain one.
        mixture: number of softmaxes of a mixture; 1: a plain softmax.
    """

    embedding_size: int
    tied: bool
    init_range: float
    cutoffs: Sequence[int] = ()
    mixture: int = 1


class Backbone(nn.Module, ABC):
    """Maps embedded tokens to the decoder's input.

    Attributes:
        output_size: F.
        structure_type: type of the structure; None if the model does not parse.
        has_maps: whether there are gates or attention to draw. If both depend on the settings, the class has what some
            settings give, and its instances what theirs give.
        changes_loss: whether the loss changes during training, as with `has_maps`.
        distance_layers: see `ParsesSentences`.
        default_layer: see `ParsesSentences`.
        mixes_lengths: see `Model`.
    """

    output_size: int
    structure_type: type[Distances | SpanScores] | None = None
    has_maps: bool = False
    changes_loss: bool = False
    distance_layers: int = 0
    default_layer: int = 1
    mixes_lengths: bool = False

    @abstractmethod
    def forward(self, embedded: Tensor, batch: TokenBatch, state: State) -> BackboneOutput:
        """Return the output for (T, B, E).

        Args:
            state: None at the start of a text; the returned one is detached.
        """

    def embed(self, embedding: Embedding, tokens: Tensor) -> Tensor:
        """Return the input of `forward`, (T, B) -> (T, B, E): embeddings, perhaps with dropout of word types."""
        embedded: Tensor = embedding(tokens)
        return embedded

    def parser_weights(self) -> list[nn.Parameter]:
        """See `TrainsByGradient.parser_weights`."""
        return []

    def set_epoch(self, epochs: float) -> None:
        """See `AnnealsLoss.set_epoch`."""

    def structure(self, batch: TokenBatch, embedding: Embedding) -> Structure:
        """Return the structure of whole sentences; by default from a full forward pass."""
        output = self(self.embed(embedding, batch.tokens), batch, None)
        if output.tree_states is not None:
            return SplitScores.of(output.tree_states, batch.lengths)
        assert output.distances is not None, "a backbone that parses must give distances or override structure()"
        return Distances(output.distances)


def new_embedding(config: NeuralConfig, vocabulary_size: int) -> Embedding:
    """Return the embedding of words that the settings describe."""
    if config.cutoffs:
        adaptive = AdaptiveEmbedding(vocabulary_size, config.embedding_size, config.cutoffs)
        adaptive.initialise(config.init_range)
        return adaptive
    embedding = nn.Embedding(vocabulary_size, config.embedding_size)
    nn.init.uniform_(embedding.weight, -config.init_range, config.init_range)
    return embedding


def new_decoder(
    embedding: Embedding, input_size: int, config: NeuralConfig, vocabulary_size: int
) -> Decoder | AdaptiveDecoder:
    """Return the decoder that the settings describe.

    Args:
        embedding: whose weight it shares if the settings say so.
        input_size: F.
    """
    if isinstance(embedding, AdaptiveEmbedding):
        return AdaptiveDecoder(embedding)
    tied_to = embedding if config.tied else None
    decoder: Decoder
    if config.mixture > 1:
        decoder = MixtureDecoder(config.mixture, input_size, config.embedding_size, vocabulary_size, tied_to)
    else:
        decoder = Decoder(input_size, vocabulary_size, tied_to)
    if not config.tied:
        decoder.initialise(config.init_range)
    return decoder


class NeuralEncoder(EncodesSentences, ParsesSentences):
    """Embedding and backbone. A sentence's vector is the decoder's input after the last token.

    It reads the words without BOS and EOS, as in a pair classifier, and parses if the backbone gives distances.
    """

    def __init__(self, backbone: Backbone, config: NeuralConfig, vocabulary_size: int) -> None:
        super().__init__()
        self.vocabulary_size = vocabulary_size
        self.embedding = new_embedding(config, vocabulary_size)
        self.backbone = backbone
        self.mixes_lengths = backbone.mixes_lengths
        self.feature_size = backbone.output_size
        if backbone.structure_type is not None:
            self.structure_type = backbone.structure_type
        self.distance_layers = backbone.distance_layers
        self.default_layer = backbone.default_layer
        self.lacks = () if backbone.structure_type is Distances else (ParsesSentences,)
        self._ranks_distances = config.supervision > 0 and config.tree_loss == "distances"

    @property
    def decoders(self) -> tuple[str, ...]:
        """As in `ParsesSentences`; `unbiased` comes first if trees ranked the distances of gaps."""
        names = super().decoders
        return names[::-1] if self._ranks_distances else names

    def read(self, batch: TokenBatch, state: State = None) -> BackboneOutput:
        """Return the backbone's output for a batch, starting from `state`."""
        output: BackboneOutput = self.backbone(self.backbone.embed(self.embedding, batch.tokens), batch, state)
        return output

    def encode(self, batch: TokenBatch) -> Encoding:
        output = self.read(batch)
        return Encoding(output.hidden[batch.last_rows()], output.penalties)

    def structure(self, batch: TokenBatch) -> Structure:
        """Return distances of the words; those of BOS and EOS are 0."""
        distances = self.backbone.structure(batch.inner(), self.embedding)
        assert isinstance(distances, Distances)
        return Distances(pad(distances.values, (0, 0, 1, 1)))


class NeuralModel(NeuralEncoder, AnnealsLoss, HasHiddenStates, PredictsNextToken, HasMaps):
    """A language model: an encoder and a decoder. Whether it parses and has maps depends on the backbone."""

    def __init__(self, backbone: Backbone, config: NeuralConfig, vocabulary_size: int) -> None:
        super().__init__(backbone, config, vocabulary_size)
        self.lacks = _lacking(backbone)
        self.decoder = new_decoder(self.embedding, backbone.output_size, config, vocabulary_size)

    def parser_weights(self) -> list[nn.Parameter]:
        return self.backbone.parser_weights()

    def set_epoch(self, epochs: float) -> None:
        self.backbone.set_epoch(epochs)

    def loss(self, batch: TokenBatch, state: State = None) -> Loss:
        output = self.read(batch, state)
        nats = -self._target_log_probs(output, batch).sum()
        if self.training and not output.learns_words:
            nats = nats.detach()
        penalties = output.penalties if self.training else {}
        return Loss(nats, batch.token_count(), batch.sentence_count(), penalties, output.state)

    def token_log_probs(self, batch: TokenBatch, state: State = None) -> TokenScores:
        output = self.read(batch, state)
        values = self._target_log_probs(output, batch)
        if batch.lengths is None:
            values = values.view(batch.targets.shape)
        else:
            zeros = torch.zeros(batch.targets.shape, dtype=values.dtype, device=values.device)
            values = zeros.masked_scatter(batch.mask(), values)
        return TokenScores(values, output.state, output.hidden)

    def next_log_probs(self, batch: TokenBatch, state: State = None) -> tuple[Tensor, State]:
        output = self.read(batch, state)
        return self._log_probs(output.hidden[batch.last_rows()]), output.state

    def each_next_log_probs(self, batch: TokenBatch, state: State = None) -> Iterator[Tensor]:
        yield from map(self._log_probs, self.read(batch, state).hidden.split(batch.tokens.shape[1]))

    def structure(self, batch: TokenBatch) -> Structure:
        return self.backbone.structure(batch, self.embedding)

    def maps(self, batch: TokenBatch) -> Maps:
        return self.read(batch).maps

    def _log_probs(self, rows: Tensor) -> Tensor:
        """Return natural log-probability of every token. (n, F) -> (n, V)."""
        return torch.log_softmax(self.decoder(rows).to(self.decoder.bias.dtype), dim=-1)

    def _target_log_probs(self, output: BackboneOutput, batch: TokenBatch) -> Tensor:
        """Return the log-probabilities of the targets of real steps: (n,)."""
        targets = batch.targets.flatten() if batch.lengths is None else batch.targets[batch.mask()]
        return self.decoder.log_probs(output.hidden, targets)


def neural_model(name: str, config: type[NeuralConfig]) -> Callable[[type[_Backbone]], type[_Backbone]]:
    """Register the decorated backbone as the backbone of a model type.

    Args:
        name: the model type.
        config: class of its settings.
    """

    def register(backbone: Any) -> Any:
        model_type = ModelType(
            config,
            lambda settings, size: NeuralModel(backbone(settings), settings, size),
            NeuralModel,
            _lacking(backbone),
            lambda settings, size: NeuralEncoder(backbone(settings), settings, size),
        )
        MODELS.register(name, model_type)
        return backbone

    return register


def _lacking(backbone: Backbone | type[Backbone]) -> list[type]:
    """Return the abilities that a language model with this backbone lacks."""
    lacks: list[type] = []
    if backbone.structure_type is None:
        lacks.append(ParsesSentences)
    if not backbone.has_maps:
        lacks.append(HasMaps)
    if not backbone.changes_loss:
        lacks.append(AnnealsLoss)
    return lacks


# ---- AWD-LSTM's regularisation: dropout before and after the layers, activation penalties

LayerSizes = Annotated[tuple[Size, ...], Bounds(min_length=1, max_length=100)]
Cutoffs = Annotated[tuple[Size, ...], Bounds(max_length=10)]
Mixture = Annotated[int, Bounds(ge=1, le=100)]


def softmax_faults(cutoffs: Sequence[int], tied: bool, mixture: int) -> list[str]:
    """Return what contradicts the settings of the softmax."""
    faults: list[str] = []
    if cutoffs and not tied:
        faults.append("cutoffs: found without tied weights; expected tied: true")
    if cutoffs and mixture > 1:
        faults.append(f"mixture: found {mixture} with cutoffs; expected 1, because an adaptive softmax is not mixed")
    if list(cutoffs) != sorted(set(cutoffs)):
        faults.append(f"cutoffs: found {', '.join(map(str, cutoffs))}; expected rising numbers")
    return faults


@dataclass(frozen=True)
class AWDConfig(NeuralConfig):
    """Settings of models with AWD-LSTM's regularisation (Merity, Keskar, Socher 2018).

    Attributes:
        embedding_size: features of a token's embedding
        layer_sizes: neurons of each layer; if tied, the last number must equal embedding_size, except with mixture
        tied: whether the decoder shares the embedding's weight
        dropout: rate on the decoder's input; like the next two rates, with one mask for all steps
        layer_dropout: rate between layers, before and after span attention
        input_dropout: rate on the embeddings that the first layer reads
        embedding_dropout: rate of word types whose embedding is 0 for a batch
        weight_drop: rate on the recurrent weights
        ar: activation regularisation, alpha: weight of the mean square of the last layer's states
        tar: temporal AR, beta: weight of the mean square of the states' change per step
        init_range: initial weights of embedding and decoder are uniform in (-init_range, init_range)
        cutoffs: word ids from which embeddings are a quarter, a sixteenth, ... as large, for an adaptive softmax
        mixture: number of softmaxes of a mixture, each of a projection of the last layer's states; 1 is a plain softmax
    """

    name: str = ""
    embedding_size: Size = 200
    layer_sizes: LayerSizes = (400, 400, 200)
    tied: bool = True
    dropout: Fraction = 0.3
    layer_dropout: Fraction = 0.2
    input_dropout: Fraction = 0.3
    embedding_dropout: Fraction = 0.05
    weight_drop: Fraction = 0.2
    ar: NonNegative = 2.0
    tar: NonNegative = 1.0
    init_range: Positive = 0.1
    cutoffs: Cutoffs = ()
    mixture: Mixture = 1

    def contradictions(self) -> list[str]:
        last, size = self.layer_sizes[-1], self.embedding_size
        faults = softmax_faults(self.cutoffs, self.tied, self.mixture)
        if self.tied and last != size and self.mixture == 1:
            faults.insert(0, f"layer_sizes: the last is {last}; tied weights need embedding_size, {size}")
        return faults


class AWDBackbone(Backbone):
    """Layers with locked dropout before and after them, and the activation penalties AR and TAR (section 4.6).

    Args:
        ar_after_dropout: whether AR applies to the last layer's states after the output dropout; otherwise before it.
    """

    def __init__(self, config: AWDConfig, ar_after_dropout: bool) -> None:
        super().__init__()
        self.regularisation = config
        self.ar_after_dropout = ar_after_dropout
        self.output_size = config.layer_sizes[-1]

    @abstractmethod
    def read_layers(self, inputs: Tensor, rows: Rows, batch: TokenBatch, state: State) -> BackboneOutput:
        """Return the states of the last layer, without the dropout after them.

        Args:
            inputs: (n, E), real tokens in the order of `rows`.
            state: None at the start of a text.
        """

    def embed(self, embedding: Embedding, tokens: Tensor) -> Tensor:
        """Return embeddings, some word types set to 0 at all their positions in the batch (section 4.3)."""
        embedded = super().embed(embedding, tokens)
        rate = self.regularisation.embedding_dropout
        if not self.training or rate == 0:
            return embedded
        return embedded * dropout_mask((embedding.num_embeddings, 1), rate, embedding.weight)[tokens]

    def forward(self, embedded: Tensor, batch: TokenBatch, state: State) -> BackboneOutput:
        rows, inputs = self.enter(embedded, batch)
        output = self.read_layers(inputs, rows, batch, state)
        assert output.state is not None
        hidden = locked_dropout(output.hidden, self.regularisation.dropout, rows, self.training)

        # Large states (AR), and large changes of states from step to step (TAR), are penalised.
        penalties = {}
        if self.training and self.regularisation.ar:
            regularised = hidden if self.ar_after_dropout else output.hidden
            penalties["ar"] = self.regularisation.ar * regularised.square().mean()
        if self.training and self.regularisation.tar and len(rows.counts) > 1:  # always of the states before dropout
            penalties["tar"] = self.regularisation.tar * rows.changes(output.hidden).square().mean()

        detached = {name: part.detach() for name, part in output.state.items()}
        return replace(output, hidden=hidden, state=detached, penalties=penalties | output.penalties)

    def enter(self, embedded: Tensor, batch: TokenBatch) -> tuple[Rows, Tensor]:
        """Return the first layer's input: the rows of the real tokens of (T, B, E), and their embeddings, (n, E)."""
        steps, columns, _ = embedded.shape
        rows = Rows(steps, columns, batch.lengths, embedded.device)
        return rows, locked_dropout(rows.of(embedded), self.regularisation.input_dropout, rows, self.training)
