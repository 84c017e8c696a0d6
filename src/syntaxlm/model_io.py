"""A model folder: weights in safetensors, settings and vocabulary in JSON. Nothing is unpickled from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn

from syntaxlm import display
from syntaxlm.errors import InputError
from syntaxlm.files import make_folder, parse_json, read_stored, to_json, write_text
from syntaxlm.models.abilities import GeneratesTrees, Model, Parses, SpanMarginals, SpanScores
from syntaxlm.models.arpa import NGramSummary, read_arpa, write_arpa
from syntaxlm.models.batches import TextMode
from syntaxlm.models.ngram import NGramModel
from syntaxlm.models.registry import ModelConfig, build_model, model_shapes, require
from syntaxlm.models.sizes import without_memory
from syntaxlm.settings import Settings, T, read_settings
from syntaxlm.tensor_files import TensorFile, check_finite, read_tensors, refuse, renamed, tensor_faults, write_tensors
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.vocabulary import Vocabulary

CONFIG, VOCABULARY, WEIGHTS = "config.json", "vocabulary.json", "weights.safetensors"
LABELS = "labels.json"  # of the edges of trees, for a model that reads these
OF_VOCABULARY = "vocabulary"  # metadata of weights: the fingerprint of their vocabulary
FORMAT = 2
LARGEST_CONFIG = 1 << 24  # bytes

Ability = TypeVar("Ability")


@dataclass(frozen=True)
class ModelSettings(Settings):
    """The contents of `config.json`: all that is needed, besides the vocabulary, to read text as the model does.

    carry_state, predict_eos: how the model was trained, see `TextMode`; both false for dependency-tree models.
    """

    model: ModelConfig
    normaliser: Normaliser
    carry_state: bool = False
    predict_eos: bool = True
    format: int = FORMAT

    @property
    def mode(self) -> TextMode:
        return TextMode(self.carry_state, self.predict_eos)


@dataclass(frozen=True)
class ModelBundle:
    """A model with what it needs to read text.  labels: of dependency edges; None for a model that reads text."""

    model: Model
    settings: ModelSettings
    vocabulary: Vocabulary
    labels: Vocabulary | None = None

    @property
    def normaliser(self) -> Normaliser:
        return self.settings.normaliser

    @property
    def name(self) -> str:
        """The name of the model type."""
        return self.settings.model.name

    @property
    def mode(self) -> TextMode:
        """How the model was trained to read text."""
        return self.settings.mode

    @property
    def trained_on(self) -> str:
        return "dependency trees" if self.model.reads == "trees" else str(self.mode)

    def require(self, ability: type[Ability], use: str) -> Ability:
        """The model as one with an ability. Raises InputError as `registry.require`."""
        return require(self.model, ability, self.name, use)

    def _repr_html_(self) -> str:
        """The model's type, size and settings as a table, for notebooks."""

        def listed(settings: object) -> str:
            return ", ".join(f"{name} {value}" for name, value in vars(settings).items() if name[0] != "_")

        facts = {
            "parameters": f"{self.model.parameter_count:,}",
            "vocabulary": f"{len(self.vocabulary):,} tokens, unknown words written {self.vocabulary.unknown}",
            "trained on": self.trained_on,
            "structure": structure_name(self.model),
            "settings": listed(self.settings.model),
            "normaliser": listed(self.settings.normaliser),
        }
        return display.render("facts", f"Model {self.name}", facts)


def structure_name(model: Model) -> str:
    """What trees are decoded from, in words."""
    if not isinstance(model, Parses):
        return "none"
    if model.structure_type is SpanScores:
        return "span scores"
    if model.structure_type is SpanMarginals:
        return "span probabilities"
    return "distances" if model.distance_layers == 1 else f"distances of {model.distance_layers} layers"


def write_settings(
    folder: Path, settings: ModelSettings, vocabulary: Vocabulary, labels: Vocabulary | None = None
) -> None:
    """Writes the JSON files of a model folder, which is made where it is not there."""
    make_folder(folder)
    write_text(to_json(dataclasses.asdict(settings), indent=2) + "\n", folder / CONFIG, stored=True)
    vocabulary.write(folder / VOCABULARY)
    if labels is not None:
        labels.write(folder / LABELS)


def write_model(folder: Path, stored: ModelBundle) -> None:
    """Writes a whole model folder, the weights last: without them it is none yet."""
    write_settings(folder, stored.settings, stored.vocabulary, stored.labels)
    write_weights(folder, stored.model, stored.vocabulary)


def write_weights(folder: Path, model: Model, vocabulary: Vocabulary) -> None:
    """Writes the weights of a model folder, and of which vocabulary they are, atomically."""
    write_tensors(folder / WEIGHTS, distinct_tensors(model), {OF_VOCABULARY: vocabulary.fingerprint()})


def read_config(kind: type[T], path: Path, newest: int) -> T:
    """Settings of a JSON file with an entry `format`, which is `newest` in what is returned.

    Old names of settings are accepted with a warning. Raises InputError, also for a format above `newest`.
    """
    data = parse_json(read_stored(path, LARGEST_CONFIG), str(path))
    form = data.get("format") if isinstance(data, dict) else None
    if isinstance(form, int) and form > newest:  # before the settings: a newer format may have others
        raise InputError(f"{path}: format {form} is newer than this program's, {newest}")
    if isinstance(form, int):  # an old one is translated
        data["format"] = newest
    return read_settings(kind, data, str(path))


def read_model(folder: str | Path) -> ModelBundle:
    """The model of a folder, in evaluation mode on the processor.

    The weights are checked against settings and vocabulary before memory is taken for either.
    Raises InputError naming the file that is missing, damaged, or does not fit the others.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder}: no such model folder")
    if not (folder / CONFIG).exists():
        raise InputError(f"{folder}: no model folder: it has no {CONFIG}")
    settings = read_config(ModelSettings, folder / CONFIG, FORMAT)
    vocabulary = Vocabulary.read(folder / VOCABULARY)
    weights = folder / WEIGHTS
    if not weights.exists():
        raise InputError(f"{folder}: no {WEIGHTS} yet: training has not come to its first validation")
    try:
        shapes = model_shapes(settings.model, len(vocabulary))
    except InputError as error:
        raise InputError(f"{folder / CONFIG}: {error}") from error

    def check(file: TensorFile) -> None:
        _check_shapes(shapes, file)
        if file.notes.get(OF_VOCABULARY, vocabulary.fingerprint()) != vocabulary.fingerprint():
            raise InputError(f"{weights}: the weights are of another vocabulary than {folder / VOCABULARY}")

    tensors, _ = read_tensors(weights, check)
    model = build_model(settings.model, len(vocabulary))
    load_weights(model, tensors, str(weights))
    labels = Vocabulary.read(folder / LABELS) if model.reads == "trees" else None
    if labels is not None and isinstance(model, GeneratesTrees) and model.label_count not in (None, len(labels)):
        raise InputError(
            f"{weights}: the weights are of {model.label_count} labels, {folder / LABELS} has {len(labels)}"
        )
    return ModelBundle(model.eval(), settings, vocabulary, labels)


def _check_shapes(shapes: Model, file: TensorFile) -> None:
    """Raises InputError for stored weights that do not fit a model without values, which takes sizes of theirs."""
    found = renamed(file.stored, present_name)
    with without_memory():
        stored = {name: torch.empty(one.shape, dtype=one.dtype) for name, one in found.items()}
        faults = shapes.resize_buffers(stored)
    faults += tensor_faults(distinct_tensors(shapes), found)
    refuse(file.path, _MISFIT.format(size=shapes.vocabulary_size), faults)


_MISFIT = "the weights do not fit settings and vocabulary ({size} words)"


def load_weights(model: Model, tensors: Mapping[str, Tensor], source: str) -> None:
    """Puts named tensors into a model. Raises InputError where they do not fit, or are NaN or infinite."""
    tensors = renamed(tensors, present_name)
    faults = model.resize_buffers(tensors)
    put_tensors(model, tensors, source, _MISFIT.format(size=model.vocabulary_size), faults)


def put_tensors(
    module: nn.Module, tensors: Mapping[str, Tensor], source: str, misfit: str, faults: list[str] | None = None
) -> None:
    """Puts tensors by name into a module. misfit: the message if they do not fit; faults: those found already.

    Raises InputError where they do not fit, or are NaN or infinite.
    """
    expected = distinct_tensors(module)
    refuse(source, misfit, [*(faults or []), *tensor_faults(expected, tensors)])
    # Buffers may hold logarithms of what never happens.
    check_finite(source, tensors, may_be_minus_infinity=[name for name, _ in module.named_buffers()])
    with torch.no_grad():
        for name, tensor in expected.items():
            tensor.copy_(tensors[name])


def present_name(name: str) -> str:
    """The name of a weight, which format 1 may have stored under another."""
    return f"backbone.{name.removeprefix('core.')}" if name.startswith("core.") else name


def distinct_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Weights and buffers by name, tied ones once, under their first name."""
    seen: dict[int, str] = {}
    result = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if seen.setdefault(id(tensor), name) == name:
            result[name] = tensor.detach()
    return result


def import_arpa(path: str | Path, normaliser: Normaliser | None = None) -> ModelBundle:
    """The n-gram model of an ARPA file.

    normaliser: how the text was made that the model is of; None: words as they stand.
    Raises InputError as `models.arpa.read_arpa` does.
    """
    found = read_arpa(path)
    mode = found.mode
    settings = ModelSettings(found.model.config, normaliser or Normaliser(), mode.carry_state, mode.predict_eos)
    return ModelBundle(found.model, settings, found.vocabulary)


def export_arpa(bundle: ModelBundle, path: str | Path) -> NGramSummary:
    """Writes an n-gram model as an ARPA file. Raises InputError for another model, and as `write_arpa` does."""
    if not isinstance(bundle.model, NGramModel):
        raise InputError(f"this {bundle.name} model has no n-grams; expected an n-gram model (ngram)")
    return write_arpa(bundle.model, bundle.vocabulary, path)
