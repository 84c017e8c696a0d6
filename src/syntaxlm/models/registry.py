"""All model types by name. The only module that refers to all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import Field

from syntaxlm.core.errors import InputError
from syntaxlm.models import (
    backbone,
    ccm,
    combination,
    diora,
    dmv,
    dmv_ccm,
    gumbel_tree_lstm,
    lstm,
    ngram,
    on_lstm,
    palm,
    pcfg,
    prpn,
    rl_spinn,
    tree_rnn,
)
from syntaxlm.models.abilities import LACKS, EncodesSentences, Model, TrainsByCounting, TrainsByGradient
from syntaxlm.models.batches import Reads
from syntaxlm.models.sizes import shapes_of
from syntaxlm.models.structures import Distances

ModelConfig = Annotated[
    prpn.PRPNConfig
    | lstm.LSTMConfig
    | on_lstm.ONLSTMConfig
    | palm.PaLMConfig
    | pcfg.SimplePCFGConfig
    | pcfg.TensorPCFGConfig
    | pcfg.NeuralPCFGConfig
    | pcfg.CompoundPCFGConfig
    | diora.DIORAConfig
    | ngram.NGramConfig
    | ccm.CCMConfig
    | dmv.DMVConfig
    | dmv_ccm.DMVCCMConfig
    | tree_rnn.TreeRNNConfig
    | gumbel_tree_lstm.GumbelTreeLSTMConfig
    | rl_spinn.RLSPINNConfig
    | combination.CombinationConfig,
    Field(discriminator="name"),
]


@dataclass(frozen=True)
class ModelType:
    """A model type.

    classes: the classes that `build` may return, depending on the settings.  encoder: builds an encoder without a
    decoder; None for a type that does not encode sentences.
    """

    config: type
    build: Callable[[Any, int], Model]
    classes: tuple[type[Model], ...]
    encoder: Callable[[Any, int], EncodesSentences] | None = None

    @property
    def reads(self) -> Reads:
        return self.classes[0].reads


def _neural(config: type, make: Callable[[Any], backbone.Backbone], *classes: type[backbone.NeuralModel]) -> ModelType:
    """Return a model type with a backbone. make: builds the backbone from settings."""

    def encoder(settings: Any, size: int) -> backbone.NeuralEncoder:
        read = make(settings)
        kind = backbone.ParsingEncoder if read.structure_type is Distances else backbone.NeuralEncoder
        return kind(read, size, settings.embedding_size, settings.init_range)

    return ModelType(
        config, lambda settings, size: backbone.neural_model(make(settings), settings, size), classes, encoder
    )


def _encoder(config: type, build: Callable[[Any, int], Any], kind: type[Model]) -> ModelType:
    """Return a model type that only encodes sentences and parses, and is trained in a pair classifier."""
    return ModelType(config, build, (kind,), build)


def _build_scorer(config: Any, vocabulary_size: int) -> backbone.NeuralModel:
    model = MODELS[config.name].build(config, vocabulary_size)
    assert isinstance(model, backbone.NeuralModel)
    return model


MODELS: dict[str, ModelType] = {
    "prpn": _neural(
        prpn.PRPNConfig,
        prpn.PRPNBackbone,
        backbone.NeuralModel,
        backbone.NeuralModelWithMaps,
        backbone.NeuralParserWithMaps,
    ),
    "lstm": _neural(lstm.LSTMConfig, lstm.LSTMBackbone, backbone.NeuralModel),
    "on-lstm": _neural(
        on_lstm.ONLSTMConfig, on_lstm.ONLSTMBackbone, backbone.NeuralModel, backbone.NeuralParserWithMaps
    ),
    "palm": _neural(palm.PaLMConfig, palm.PaLMBackbone, backbone.NeuralParserWithMaps),
    "simple-pcfg": ModelType(pcfg.SimplePCFGConfig, pcfg.build, (pcfg.PCFG,)),
    "tensor-pcfg": ModelType(pcfg.TensorPCFGConfig, pcfg.build, (pcfg.PCFG,)),
    "neural-pcfg": ModelType(pcfg.NeuralPCFGConfig, pcfg.build, (pcfg.PCFG,)),
    "compound-pcfg": ModelType(pcfg.CompoundPCFGConfig, pcfg.build, (pcfg.SentencePCFG,)),
    "diora": ModelType(diora.DIORAConfig, diora.build, (diora.DIORA,), diora.build_encoder),
    "ngram": ModelType(ngram.NGramConfig, ngram.build, (ngram.NGramModel,)),
    "ccm": ModelType(ccm.CCMConfig, ccm.build, (ccm.CCM,)),
    "dmv": ModelType(dmv.DMVConfig, dmv.build, (dmv.DMV,)),
    "dmv-ccm": ModelType(dmv_ccm.DMVCCMConfig, dmv_ccm.build, (dmv_ccm.DMVCCM,)),
    "tree-rnn": ModelType(tree_rnn.TreeRNNConfig, tree_rnn.build, (tree_rnn.TreeRNN,)),
    "gumbel-tree-lstm": _encoder(
        gumbel_tree_lstm.GumbelTreeLSTMConfig, gumbel_tree_lstm.build, gumbel_tree_lstm.GumbelTreeLSTM
    ),
    "rl-spinn": _encoder(rl_spinn.RLSPINNConfig, rl_spinn.build, rl_spinn.RLSPINN),
    "combination": ModelType(
        combination.CombinationConfig,
        lambda settings, size: combination.build(settings, size, _build_scorer),
        (combination.Combination,),
    ),
}


def model_types_with(*abilities: type) -> list[str]:
    """Return the names of the model types that have all the given abilities, at least under some settings."""
    return [
        name
        for name, model_type in MODELS.items()
        if any(all(issubclass(one, ability) for ability in abilities) for one in model_type.classes)
    ]


Ability = TypeVar("Ability")


def require(model: object, ability: type[Ability], name: str, use: str, alternative: type | None = None) -> Ability:
    """Return the model, typed as having the ability.

    name: model type.  use: what needs the ability, for the message, such as "score".  alternative: another ability
    that would do, for the message.
    Raises InputError for a model without the ability; the message lists the model types that have it.
    """
    if isinstance(model, ability):
        return model
    fit = {*model_types_with(ability), *(model_types_with(alternative) if alternative else ())}
    others = [other for other in MODELS if other in fit and other != name]
    settings = " with these settings" if name in model_types_with(ability) else ""
    can = f" Model types that can: {', '.join(others)}." if others else ""
    raise InputError(f"this {name} model{settings} {LACKS[ability]}, so {use} cannot use it.{can}")


def is_trained(config: ModelConfig) -> bool:
    """Return whether models of this type are trained; a combination is made of trained models."""
    return any(issubclass(one, (TrainsByGradient, TrainsByCounting)) for one in MODELS[config.name].classes)


def encodes(config: ModelConfig) -> bool:
    """Return whether models of this type can be the encoder of a pair classifier."""
    return MODELS[config.name].encoder is not None


def reads(config: ModelConfig) -> Reads:
    """Return the type of batches that a model with these settings reads."""
    return MODELS[config.name].reads


def build_model(config: ModelConfig, vocabulary_size: int) -> Model:
    """Return a model with fresh weights. Raises InputError if it does not fit in memory."""
    return _built(MODELS[config.name].build, config, vocabulary_size)


def model_shapes(config: ModelConfig, vocabulary_size: int) -> Model:
    """Return the model on torch's meta device, without values or memory. Raises InputError like `build_model`."""
    return shapes_of(lambda: MODELS[config.name].build(config, vocabulary_size))


def build_encoder(config: ModelConfig, vocabulary_size: int) -> EncodesSentences:
    """Return a sentence encoder with fresh weights: a model without its decoder. Raises InputError like
    `build_model`.
    """
    encoder = MODELS[config.name].encoder
    if encoder is None:
        can = ", ".join(name for name, one in MODELS.items() if one.encoder is not None)
        raise InputError(f"{config.name}: this model type {LACKS[EncodesSentences]}. Model types that can: {can}.")
    return _built(encoder, config, vocabulary_size)


Built = TypeVar("Built")


def _built(build: Callable[[Any, int], Built], config: ModelConfig, vocabulary_size: int) -> Built:
    shapes_of(lambda: build(config, vocabulary_size))  # raises an error if it does not fit in memory
    try:
        return build(config, vocabulary_size)
    except RuntimeError as error:  # torch's error for a tensor that does not fit in memory
        raise InputError(f"a model of these sizes cannot be built: {str(error).splitlines()[0]}") from error
