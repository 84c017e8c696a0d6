"""Model types by name. A model registers itself in its own file, and only the file of a requested type is imported.

    @model("ngram", NGramConfig)
    class NGramModel(Model, TrainsByCounting, PredictsNextToken): ...

A model class is called with its settings and a vocabulary size. Models with a backbone register the backbone, with
`models.backbone.neural_model`. Model types of other packages are registered by importing their module, or by an entry
point of the group `syntaxlm.models`: the name of the model type, and its module.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Annotated, Any, TypeVar

from syntaxlm.core.errors import InputError
from syntaxlm.core.settings import ByName
from syntaxlm.models.abilities import MISSING_ABILITY, EncodesSentences, Model, TrainsByCounting, TrainsByGradient
from syntaxlm.models.batches import Reads
from syntaxlm.models.config import BaseConfig
from syntaxlm.models.sizes import allocated, shapes_of

_MODULES = {
    "prpn": "prpn",
    "lstm": "lstm",
    "on-lstm": "on_lstm",
    "palm": "palm",
    "transformer": "causal_transformer",
    "tree-transformer": "tree_transformer",
    "simple-pcfg": "pcfg.model",
    "holographic-pcfg": "pcfg.model",
    "tensor-pcfg": "pcfg.model",
    "neural-pcfg": "pcfg.model",
    "compound-pcfg": "pcfg.sentence_pcfg",
    "diora": "diora",
    "structformer": "structformer",
    "span-parser": "span_parser",
    "ngram": "ngram",
    "ccm": "ccm",
    "dmv": "dmv",
    "dmv-ccm": "dmv_ccm",
    "tree-rnn": "tree_rnn",
    "gumbel-tree-lstm": "tree_encoders",
    "rl-spinn": "tree_encoders",
    "combination": "combination",
    "parser-combination": "combination",
}  # where the model types of this package are registered
_ENTRY_POINTS = "syntaxlm.models"

_Class = TypeVar("_Class", bound=type)
_Built = TypeVar("_Built", bound=Model)
Ability = TypeVar("Ability")


@dataclass(frozen=True)
class ModelType:
    """A model type.

    Attributes:
        config: class of its settings.
        build: returns a model with fresh weights from settings and a vocabulary size.
        implementation: class of its models.
        lacks: abilities of that class which no model of this type has.
        encoder: like `build`, for a model without its decoder; None for a type that does not encode sentences.
    """

    config: type[BaseConfig]
    build: Callable[[Any, int], Model]
    implementation: type[Model]
    lacks: Collection[type] = ()
    encoder: Callable[[Any, int], EncodesSentences] | None = None

    @property
    def reads(self) -> Reads:
        return self.implementation.reads

    @property
    def is_trained(self) -> bool:
        """Whether models of this type are trained; a combination is made of trained models."""
        return self.has(TrainsByGradient) or self.has(TrainsByCounting)

    def has(self, ability: type) -> bool:
        """Return whether models of this type have an ability, at least under some settings."""
        return issubclass(self.implementation, ability) and ability not in self.lacks


class _ModelTypes(Mapping[str, ModelType]):
    """All model types by name. Looking one up imports its module only."""

    def __init__(self) -> None:
        self._registered: dict[str, ModelType] = {}

    def register(self, name: str, model_type: ModelType) -> None:
        if not issubclass(model_type.config, BaseConfig):
            raise TypeError(f"{name}: the settings {model_type.config.__name__} are no subclass of {BaseConfig}")
        self._registered[name] = model_type

    def __getitem__(self, name: str) -> ModelType:
        if name not in self._registered:
            module = f"syntaxlm.models.{_MODULES[name]}" if name in _MODULES else _installed_modules()[name]
            import_module(module)
        return self._registered[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*_MODULES, *self._registered, *_installed_modules()]))

    def __len__(self) -> int:
        return len(list(iter(self)))


@cache
def _installed_modules() -> dict[str, str]:
    """Return the modules of the model types of installed packages."""
    return {point.name: point.value for point in entry_points(group=_ENTRY_POINTS)}


MODELS = _ModelTypes()


def model(name: str, config: type[BaseConfig]) -> Callable[[_Class], _Class]:
    """Register the decorated class as the models of a type.

    Args:
        config: class of its settings.
    """

    def register(implementation: _Class) -> _Class:
        encoder = implementation.encoder if issubclass(implementation, EncodesSentences) else None
        MODELS.register(name, ModelType(config, implementation, implementation, encoder=encoder))
        return implementation

    return register


def config_among(names: Collection[str]) -> ByName:
    """Mark settings of a model of one of these types."""
    return ByName(lambda: list(names), lambda name: MODELS[name].config if name in names else None)


ModelConfig = Annotated[BaseConfig, config_among(MODELS)]
"""The settings of a model of any type."""


def model_types_with(*abilities: type) -> list[str]:
    """Return the names of the model types that have all the given abilities, at least under some settings."""
    return [name for name, model_type in MODELS.items() if all(map(model_type.has, abilities))]


def require(model: object, ability: type[Ability], name: str, use: str, alternative: type | None = None) -> Ability:
    """Return the model, typed as having the ability.

    Args:
        name: model type.
        use: what needs the ability, for the message, such as "score".
        alternative: another ability that would do, for the message.

    Raises:
        InputError: for a model without the ability; the message lists the model types that have it.
    """
    if isinstance(model, ability):
        return model
    names = model_types_with(ability)
    settings = " with these settings" if name in names else ""
    sufficient = {*names, *(model_types_with(alternative) if alternative else ())}
    able = [model_type for model_type in MODELS if model_type in sufficient and model_type != name]
    can = f" Model types that can: {', '.join(able)}." if able else ""
    reason = getattr(model, "reasons", {}).get(ability, MISSING_ABILITY[ability])
    raise InputError(f"this {name} model{settings} {reason}, so {use} cannot use it.{can}")


def build_model(config: ModelConfig, vocabulary_size: int) -> Model:
    """Return a model with fresh weights. Raises InputError if it does not fit in memory."""
    return _checked(MODELS[config.name].build, config, vocabulary_size)


def model_shapes(config: ModelConfig, vocabulary_size: int) -> Model:
    """Return the model on torch's meta device, without values or memory. Raises InputError like `build_model`."""
    return shapes_of(lambda: MODELS[config.name].build(config, vocabulary_size))


def build_encoder(config: ModelConfig, vocabulary_size: int) -> EncodesSentences:
    """Return a sentence encoder with fresh weights: a model without its decoder. Raises InputError like
    `build_model`, and for a model type that does not encode sentences.
    """
    encoder = MODELS[config.name].encoder
    if encoder is None:
        can = ", ".join(name for name, model_type in MODELS.items() if model_type.encoder is not None)
        missing = MISSING_ABILITY[EncodesSentences]
        raise InputError(f"{config.name}: this model type {missing}. Model types that can: {can}.")
    return _checked(encoder, config, vocabulary_size)


def _checked(build: Callable[[Any, int], _Built], config: ModelConfig, vocabulary_size: int) -> _Built:
    shapes_of(lambda: build(config, vocabulary_size))  # raises an error if it does not fit in memory
    return allocated(lambda: build(config, vocabulary_size))
