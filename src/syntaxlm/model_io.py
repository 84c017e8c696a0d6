"""A model folder: weights in safetensors, settings and vocabulary in JSON. Nothing is unpickled from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from syntaxlm.errors import InputError
from syntaxlm.files import make_folder, parse_json, read_stored, to_json, write_text
from syntaxlm.models.contract import LanguageModel
from syntaxlm.models.registry import ModelConfig, build_model, config_faults, model_shapes
from syntaxlm.models.sizes import without_memory
from syntaxlm.settings import Settings, read_settings
from syntaxlm.tensor_files import TensorFile, check_finite, read_tensors, refuse, tensor_faults, write_tensors
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.vocabulary import Vocabulary

CONFIG, VOCABULARY, WEIGHTS = "config.json", "vocabulary.json", "weights.safetensors"
LABELS = "labels.json"  # of the edges of trees, for a model that reads these
OF_VOCABULARY = "vocabulary"  # the note beside weights that says of which vocabulary they are
FORMAT = 1
LARGEST_CONFIG = 1 << 24  # bytes

Mode = Literal["sentences", "open-sentences", "stream", "trees"]

READING: dict[Mode, str] = {
    "sentences": "sentences, each by itself",
    "open-sentences": "sentences, each by itself, without their ends",
    "stream": "text as one stream",
    "trees": "dependency trees",
}


def predicts_ends(mode: Mode) -> bool:
    """Whether a model that reads so predicts where sentences end."""
    return mode in ("sentences", "stream")


@dataclass(frozen=True)
class ModelSettings:
    """What `config.json` holds: all that is needed to read text as the model does, but the vocabulary.

    mode: how the model was trained, and so is read by default: every sentence by itself, its end predicted or not
        ("open"), text as one stream, or dependency trees.
    """

    model: ModelConfig
    normaliser: Normaliser
    mode: Mode
    format: int = FORMAT


@dataclass(frozen=True)
class ModelBundle:
    """A model with what it needs to read text; labels: of the edges of trees, None for a model that reads none."""

    model: LanguageModel
    settings: ModelSettings
    vocabulary: Vocabulary
    labels: Vocabulary | None = None

    @property
    def normaliser(self) -> Normaliser:
        return self.settings.normaliser

    def _repr_html_(self) -> str:
        """What kind of model it is, its size, its settings: notebooks ask for it."""
        from syntaxlm.drawing.page import facts_html  # a lower room; nothing of it is loaded unless a notebook asks

        def told(settings: object) -> str:
            return ", ".join(f"{name} {value}" for name, value in vars(settings).items() if name[0] != "_")

        weights = self.model.parameter_count
        facts = {
            "weights": f"{weights:,}",
            "vocabulary": f"{len(self.vocabulary):,} tokens, unknown written {self.vocabulary.unknown}",
            "trained on": READING[self.settings.mode],
            "layers of distances": str(self.model.distance_layers),
            "scores of spans": "yes" if self.model.gives_span_scores else "no",
            "settings": told(self.settings.model),
            "normaliser": told(self.settings.normaliser),
        }
        return facts_html(f"Model {self.settings.model.name}", facts)


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


def write_weights(folder: Path, model: LanguageModel, vocabulary: Vocabulary) -> None:
    """Writes the weights of a model folder, and of which vocabulary they are, atomically."""
    write_tensors(folder / WEIGHTS, distinct_tensors(model), {OF_VOCABULARY: vocabulary.fingerprint()})


def read_config(kind: type[Settings], path: Path, newest: int) -> Settings:
    """Settings of a JSON file with an entry `format`. Raises InputError, also for a format above `newest`."""
    data = parse_json(read_stored(path, LARGEST_CONFIG), str(path))
    form = data.get("format") if isinstance(data, dict) else None
    if isinstance(form, int) and form > newest:  # before the settings: a newer form may have others
        raise InputError(f"{path}: format {form} is newer than this program's, {newest}")
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
    faults = config_faults(settings.model)
    if faults:
        raise InputError("\n".join(f"{folder / CONFIG}: {fault}" for fault in faults))
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
    if labels is not None and model.label_count not in (None, len(labels)):
        raise InputError(
            f"{weights}: the weights are of {model.label_count} labels, {folder / LABELS} has {len(labels)}"
        )
    return ModelBundle(model.eval(), settings, vocabulary, labels)


def _check_shapes(shapes: LanguageModel, file: TensorFile) -> None:
    """Raises InputError for stored weights that do not fit a model without values, which takes sizes of theirs."""
    with without_memory():
        stored = {name: torch.empty(one.shape, dtype=one.dtype) for name, one in file.stored.items()}
        faults = shapes.resize_buffers(stored)
    faults += tensor_faults(distinct_tensors(shapes), file.stored)
    refuse(file.path, _MISFIT.format(size=shapes.vocabulary_size), faults)


_MISFIT = "the weights do not fit settings and vocabulary ({size} words)"


def load_weights(model: LanguageModel, tensors: Mapping[str, Tensor], source: str) -> None:
    """Puts named tensors into a model. Raises InputError where they do not fit, or are NaN or infinite."""
    faults = model.resize_buffers(tensors)
    put_tensors(model, tensors, source, _MISFIT.format(size=model.vocabulary_size), faults)


def put_tensors(
    module: nn.Module, tensors: Mapping[str, Tensor], source: str, misfit: str, faults: list[str] | None = None
) -> None:
    """Puts tensors by name into a module. misfit: what to say where they do not fit; faults: those found already.

    Raises InputError where they do not fit, or are NaN or infinite.
    """
    expected = distinct_tensors(module)
    refuse(source, misfit, [*(faults or []), *tensor_faults(expected, tensors)])
    # Buffers may hold logarithms of what never happens.
    check_finite(source, tensors, may_be_minus_infinity=[name for name, _ in module.named_buffers()])
    with torch.no_grad():
        for name, tensor in expected.items():
            tensor.copy_(tensors[name])


def distinct_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Weights and buffers by name, tied ones once, under their first name."""
    seen: dict[int, str] = {}
    result = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if seen.setdefault(id(tensor), name) == name:
            result[name] = tensor.detach()
    return result
