"""A model folder: weights in safetensors, settings and vocabulary in JSON. Nothing is unpickled from it."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from syntaxlm import display
from syntaxlm.errors import InputError
from syntaxlm.files import make_folder, replaced, write_text
from syntaxlm.models.abilities import GeneratesTrees, Model, Parses, SpanScores
from syntaxlm.models.batches import TextMode
from syntaxlm.models.registry import ModelConfig, build_model, require
from syntaxlm.settings import Settings, T, read_settings
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.vocabulary import Vocabulary

CONFIG, VOCABULARY, WEIGHTS = "config.json", "vocabulary.json", "weights.safetensors"
LABELS = "labels.json"  # of the edges of trees, for a model that reads these
OF_VOCABULARY = "vocabulary"  # the note beside weights that says of which vocabulary they are
FORMAT = 2

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
    return "distances" if model.distance_layers == 1 else f"distances of {model.distance_layers} layers"


def write_settings(
    folder: Path, settings: ModelSettings, vocabulary: Vocabulary, labels: Vocabulary | None = None
) -> None:
    """Writes the JSON files of a model folder, which is made where it is not there."""
    make_folder(folder)
    write_text(json.dumps(dataclasses.asdict(settings), indent=2, ensure_ascii=False) + "\n", folder / CONFIG)
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


def write_tensors(path: Path, tensors: dict[str, Tensor], notes: dict[str, str] | None = None) -> None:
    """Writes named tensors, and short texts beside them, as one safetensors file, atomically."""
    with replaced(path) as temporary:
        temporary.touch()
        usual_mode = temporary.stat().st_mode
        try:
            safetensors.torch.save_file({name: t.contiguous() for name, t in tensors.items()}, temporary, notes)
            temporary.chmod(usual_mode)  # safetensors lets nobody but the owner read it
        except safetensors.SafetensorError as error:  # how it reports a full disk
            raise OSError(str(error)) from error


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and texts of a safetensors file. Raises InputError when it is missing or damaged."""
    try:
        with safetensors.safe_open(path, "pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (safetensors.SafetensorError, OSError) as error:
        raise InputError(f"{path}: damaged or cut short: {error}") from None


def read_config(kind: type[T], path: Path, newest: int) -> T:
    """Settings of a JSON file with an entry `format`, which is `newest` in what is returned.

    Old names of settings are accepted with a warning. Raises InputError, also for a format above `newest`.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError, OSError) as error:
        raise InputError(f"{path}: damaged or cut short: {error}") from None
    form = data.get("format") if isinstance(data, dict) else None
    if isinstance(form, int) and form > newest:  # before the settings: a newer format may have others
        raise InputError(f"{path}: format {form} is newer than this program's, {newest}")
    if isinstance(form, int):  # an old one is translated
        data["format"] = newest
    return read_settings(kind, data, str(path))


def read_model(folder: str | Path) -> ModelBundle:
    """The model of a folder, in evaluation mode on the processor.

    Raises InputError naming the file that is missing, damaged, or does not fit the others.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder}: no such model folder")
    if not (folder / CONFIG).exists():
        raise InputError(f"{folder}: no model folder: it has no {CONFIG}")
    settings = read_config(ModelSettings, folder / CONFIG, FORMAT)
    vocabulary = Vocabulary.read(folder / VOCABULARY)
    if not (folder / WEIGHTS).exists():
        raise InputError(f"{folder}: no {WEIGHTS} yet: training has not come to its first validation")
    model = build_model(settings.model, len(vocabulary))
    tensors, notes = read_tensors(folder / WEIGHTS)
    load_weights(model, tensors, str(folder / WEIGHTS))
    if notes.get(OF_VOCABULARY, vocabulary.fingerprint()) != vocabulary.fingerprint():
        raise InputError(f"{folder / WEIGHTS}: the weights are of another vocabulary than {folder / VOCABULARY}")
    labels = Vocabulary.read(folder / LABELS) if model.reads == "trees" else None
    if labels is not None and isinstance(model, GeneratesTrees) and model.label_count not in (None, len(labels)):
        raise InputError(
            f"{folder / WEIGHTS}: the weights are of {model.label_count} labels, {folder / LABELS} has {len(labels)}"
        )
    return ModelBundle(model.eval(), settings, vocabulary, labels)


def load_weights(model: Model, tensors: dict[str, Tensor], source: str) -> None:
    """Puts named tensors into a model. Raises InputError with the first few that do not fit."""
    tensors = {present_name(name): tensor for name, tensor in tensors.items()}
    faults = model.resize_buffers(tensors)
    expected = distinct_tensors(model)
    faults += [f"{name} is missing" for name in expected if name not in tensors]
    faults += [f"{name} is not of this model" for name in tensors if name not in expected]
    faults += [
        f"{name} has shape {tuple(tensors[name].shape)}, expected {tuple(tensor.shape)}"
        for name, tensor in expected.items()
        if name in tensors and tensors[name].shape != tensor.shape
    ]
    if faults:
        rest = f" (and {len(faults) - 3} more)" if len(faults) > 3 else ""
        raise InputError(
            f"{source}: the weights do not fit settings and vocabulary ({model.vocabulary_size} words): "
            + "; ".join(faults[:3])
            + rest
        )
    with torch.no_grad():
        for name, tensor in expected.items():
            tensor.copy_(tensors[name])


def present_name(name: str) -> str:
    """The name of a weight, which format 1 may have stored under another."""
    return f"backbone.{name.removeprefix('core.')}" if name.startswith("core.") else name


def distinct_tensors(model: Model) -> dict[str, Tensor]:
    """Weights and buffers by name, tied ones once, under their first name."""
    seen: dict[int, str] = {}
    result = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if seen.setdefault(id(tensor), name) == name:
            result[name] = tensor.detach()
    return result
