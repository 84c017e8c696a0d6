"""A model folder: weights in safetensors, settings and vocabulary in JSON. Nothing is unpickled from it."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from syntaxlm.errors import InputError
from syntaxlm.files import make_folder, replaced, write_text
from syntaxlm.models.contract import LanguageModel
from syntaxlm.models.registry import ModelConfig, build_model
from syntaxlm.settings import Settings, T, read_settings
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.vocabulary import Vocabulary

CONFIG, VOCABULARY, WEIGHTS = "config.json", "vocabulary.json", "weights.safetensors"
LABELS = "labels.json"  # of the edges of trees, for a model that reads these
OF_VOCABULARY = "vocabulary"  # the note beside weights that says of which vocabulary they are
FORMAT = 2

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
class ModelSettings(Settings):
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
    write_text(json.dumps(dataclasses.asdict(settings), indent=2, ensure_ascii=False) + "\n", folder / CONFIG)
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
    if labels is not None and model.label_count not in (None, len(labels)):
        raise InputError(
            f"{folder / WEIGHTS}: the weights are of {model.label_count} labels, {folder / LABELS} has {len(labels)}"
        )
    return ModelBundle(model.eval(), settings, vocabulary, labels)


def load_weights(model: LanguageModel, tensors: dict[str, Tensor], source: str) -> None:
    """Puts named tensors into a model. Raises InputError telling the first few that do not fit."""
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


def distinct_tensors(model: LanguageModel) -> dict[str, Tensor]:
    """Weights and buffers by name, tied ones once, under their first name."""
    seen: dict[int, str] = {}
    result = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if seen.setdefault(id(tensor), name) == name:
            result[name] = tensor.detach()
    return result
