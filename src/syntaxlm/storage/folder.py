"""Model folders: weights in safetensors, settings and vocabulary in JSON. Nothing is unpickled."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import torch
from torch import Tensor, nn

from syntaxlm.core.errors import InputError, shortened
from syntaxlm.core.files import (
    check_name,
    make_folder,
    parse_json,
    read_stored,
    to_json,
    write_text,
    written_together,
)
from syntaxlm.core.option_names import option_name
from syntaxlm.core.settings import Bounds, Settings, T, read_settings
from syntaxlm.core.tensor_files import read_tensors, refuse, tensor_faults, write_tensors
from syntaxlm.models.abilities import GeneratesTrees, Model, ParsesSentences
from syntaxlm.models.batches import TextMode
from syntaxlm.models.classifiers import ClassifierSettings, PairClassifier
from syntaxlm.models.layers import value_faults
from syntaxlm.models.registry import MODELS, ModelConfig, require
from syntaxlm.models.sizes import shapes_of
from syntaxlm.storage.bundled import check_folder, find_model
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.normaliser_settings import NormaliserSettings
from syntaxlm.text.vocabulary import Vocabulary

CONFIG = "config.json"
VOCABULARY = "vocabulary.json"
WEIGHTS = "weights.safetensors"
STOPS, STOP_WEIGHTS = "stops.json", "stops.safetensors"  # stop classifiers, beside the model
LABELS = "labels.json"  # edge labels, for models that read dependency trees
OF_VOCABULARY = "vocabulary"  # metadata key of weights: the fingerprint of their vocabulary
FORMAT = 2
LARGEST_CONFIG = 1 << 20  # bytes

CLASSIFIER, CLASSIFIER_FORMAT = "classifier.json", 3
Ability = TypeVar("Ability")
Bundle = TypeVar("Bundle", bound="ModelBundle")
AnyModel = TypeVar("AnyModel", bound=Model)


@dataclass(frozen=True)
class ModelSettings(Settings):
    """The contents of `config.json`: with the vocabulary, all that is needed to read text as the model does.

    carry_state, predict_eos: how the model was trained, see `TextMode`; both are false for dependency-tree models.
    """

    model: ModelConfig
    normaliser: NormaliserSettings
    carry_state: bool = False
    predict_eos: bool = True
    format: int = FORMAT

    @property
    def mode(self) -> TextMode:
        return TextMode(self.carry_state, self.predict_eos)


@dataclass(frozen=True)
class ModelBundle:
    """A model with its settings and vocabulary.

    Attributes:
        labels: the labels of dependency edges; None for a model that reads text.
        is_encoder: whether the model is the encoder of a pair classifier, which has no decoder of words.
        files: the folder with the files of the model, also of a bundled model or, in the cache, of a repository; None
            for a model that was made in memory.
    """

    model: Model
    settings: ModelSettings
    vocabulary: Vocabulary
    labels: Vocabulary | None = None
    is_encoder: bool = False
    files: Path | None = field(default=None, compare=False)

    @property
    def normaliser(self) -> Normaliser:
        return Normaliser.of(self.settings.normaliser)

    @property
    def parser_normaliser(self) -> Normaliser:
        """The normaliser of text that is parsed. It may drop the punctuation that is read to predict words."""
        if not self.settings.model.drop_punctuation:
            return self.normaliser
        return Normaliser.of(dataclasses.replace(self.settings.normaliser, drop_punctuation=True))

    @property
    def name(self) -> str:
        """The name of the model type."""
        return self.settings.model.name

    @property
    def mode(self) -> TextMode:
        """How text was read in training."""
        return self.settings.mode

    @property
    def device(self) -> torch.device:
        """The device that runs the model."""
        return self.model.device

    def to(self: Bundle, device: str | torch.device) -> Bundle:
        """Move the model to a device, and return it.

        Args:
            device: "cpu", "cuda", "cuda:1", "mps", or "auto" for the fastest one available. Models without trained
                parameters (n-gram models) stay on the CPU.

        Raises:
            InputError: for a device that is not available.
        """
        target = find_device(device)
        if next(self.model.parameters(), None) is not None:
            self.model.to(target)
        return self

    @property
    def trained_on(self) -> str:
        return "dependency trees" if self.model.reads == "trees" else str(self.mode)

    def require(self, ability: type[Ability], use: str, alternative: type | None = None) -> Ability:
        """Return the model, typed as having an ability. Arguments and InputError: see `registry.require`."""
        return require(self.model, ability, self.name, use, alternative)

    def _repr_html_(self) -> str:
        """Return the model's type, size and settings as a table, for notebooks."""

        def listed(settings: object) -> str:
            return ", ".join(f"{name} {value}" for name, value in vars(settings).items())

        from syntaxlm.reports.page import table_html  # imported only for notebooks
        from syntaxlm.reports.tables import ReportTable

        facts = {
            "parameters": f"{self.model.parameter_count:,}",
            "vocabulary": f"{len(self.vocabulary):,} tokens, unknown words written {self.vocabulary.unknown}",
            "trained on": self.trained_on,
            "structure": structure_name(self.model),
            "settings": listed(self.settings.model),
            "normaliser": listed(self.settings.normaliser),
        }
        return table_html(ReportTable({"fact": "", "value": ""}, list(facts.items()), f"Model {self.name}"))


def structure_name(model: Model) -> str:
    """Return the structure from which trees are decoded, as text."""
    if not isinstance(model, ParsesSentences):
        return "none"
    name = model.structure_type.corpus.name
    return f"{name} of {model.distance_layers} layers" if model.distance_layers > 1 else name


def write_settings(
    folder: Path,
    settings: ModelSettings | PairClassifierSettings,
    vocabulary: Vocabulary,
    labels: Vocabulary | None = None,
) -> None:
    """Write the JSON files of the folder of a model or pair classifier. The folder is created if it does not exist."""
    check_name(folder)
    make_folder(folder)
    name = CONFIG if isinstance(settings, ModelSettings) else CLASSIFIER
    write_text(to_json(dataclasses.asdict(settings), indent=2) + "\n", folder / name, stored=True)
    vocabulary.write(folder / VOCABULARY)
    if labels is not None:
        labels.write(folder / LABELS)


def write_model(folder: Path, bundle: ModelBundle, dtype: torch.dtype | None = None) -> None:
    """Write a whole model folder, whose files appear together.

    Args:
        dtype: floating-point type of the stored parameters, such as torch.bfloat16; None: that of the model. Models are
            always computed in float32.

    Raises:
        InputError: for a transformers model, and if the folder cannot be written.
    """
    if bundle.vocabulary.is_open:
        raise InputError(f"{folder}: a {bundle.name} model cannot be saved as a model folder; load it by name, hf:NAME")
    if bundle.is_encoder:
        raise InputError(
            f"{folder}: the encoder of a pair classifier cannot be saved without it; copy the classifier's folder"
        )
    check_name(folder)
    with written_together(folder, stored=True) as temporary:
        write_settings(temporary, bundle.settings, bundle.vocabulary, bundle.labels)
        write_weights(temporary, bundle.model, bundle.vocabulary, dtype)


def write_weights(folder: Path, model: Model, vocabulary: Vocabulary, dtype: torch.dtype | None = None) -> None:
    """Write the weights of a model folder, with the fingerprint of their vocabulary, atomically.

    Args:
        dtype: the dtype of weights.
    """
    tensors = distinct_tensors(model)
    if dtype is not None:
        parameters = {name for name, _ in model.named_parameters()}
        tensors = {name: value.to(dtype) if name in parameters else value for name, value in tensors.items()}
    write_tensors(folder / WEIGHTS, tensors, {OF_VOCABULARY: vocabulary.fingerprint()})


def read_config(kind: type[T], path: Path, form: int) -> T:
    """Return settings from a JSON file whose entry `format` is `form`. Raises InputError."""
    data = parse_json(read_stored(path, LARGEST_CONFIG), str(path))
    if isinstance(data, dict):  # checked before the settings, which may differ
        if "format" not in data:
            raise InputError(
                f"{path}: format: found no such entry; expected {form}. The file is damaged, or another program wrote"
                " it"
            )
        if data["format"] != form:
            shown = shortened(repr(data["format"]), 40)
            expected = f"expected {form}. The file needs another version of syntaxlm"
            raise InputError(f"{path}: format: found {shown}; {expected}")
    return read_settings(kind, data, str(path))


def find_device(device: str | torch.device) -> torch.device:
    """Return a device of this machine. Raises InputError if it is not available, naming those that are."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if device == "auto":
        return torch.device(next(name for name, is_available in available.items() if is_available))
    names = ", ".join(name for name, is_available in available.items() if is_available)
    try:
        wanted = torch.device(device)
    except RuntimeError:
        raise InputError(f"device {device!r}: no such device; available here: {names}") from None
    if not available.get(wanted.type, False):
        raise InputError(f"device {str(wanted)!r}: not available; available here: {names}")
    if wanted.type == "cuda" and (wanted.index or 0) >= torch.cuda.device_count():
        raise InputError(f"device {str(wanted)!r}: not available; this machine has {torch.cuda.device_count()} GPUs")
    return wanted


def read_model(folder: str | Path) -> ModelBundle:
    """Read a model folder. The model is in evaluation mode on the CPU.

    The weights are checked against settings and vocabulary before memory is allocated.

    Args:
        folder: a folder, or the name of a bundled model. A model folder that exists comes before a bundled model. The
            model of a pair classifier's folder is its encoder.

    Raises:
        InputError: the message names the file that is missing, damaged, or does not fit the others.
    """
    folder = find_model(folder)
    if (folder / CLASSIFIER).exists():
        return read_classifier(folder).encoder
    check_folder(folder)
    settings = read_config(ModelSettings, folder / CONFIG, FORMAT)
    refuse(folder / CONFIG, "the settings contradict each other", _contradictions(settings))
    vocabulary = Vocabulary.read(folder / VOCABULARY)
    special = vocabulary.unknown_id, vocabulary.begin_id, vocabulary.end_id
    if MODELS[settings.model.name].reads == "sentences" and special != (0, 1, 2):
        raise InputError(
            f"{folder / VOCABULARY}: found the unknown token, BOS and EOS at places {special}; expected (0, 1, 2), as"
            f" {settings.model.name} models have them"
        )
    build = partial(MODELS[settings.model.name].build, settings.model)
    model = _read_weights(folder, folder / CONFIG, vocabulary, build)
    labels = Vocabulary.read(folder / LABELS) if model.reads == "trees" else None
    if labels is not None and isinstance(model, GeneratesTrees) and model.label_count not in (None, len(labels)):
        raise InputError(
            f"{folder / WEIGHTS}: found weights of {model.label_count} labels; expected {len(labels)}, as in"
            f" {folder / LABELS}"
        )
    return ModelBundle(model, settings, vocabulary, labels, files=folder)


def _contradictions(settings: ModelSettings) -> list[str]:
    """Return a line for each way in which the model cannot read text as it is stored."""
    name = settings.model.name
    model_reads = MODELS[settings.model.name].reads
    faults = []
    if settings.carry_state and model_reads != "tokens":
        what = "dependency trees" if model_reads == "trees" else "whole sentences"
        faults.append(f"carry_state: found true; expected false, because {name} models read {what}")
    if not settings.predict_eos and (settings.carry_state or model_reads == "sentences"):
        reason = "a stream has ends of sentences" if settings.carry_state else f"{name} models read ends of sentences"
        faults.append(f"predict_eos: found false; expected true, because {reason}")
    if model_reads == "trees" and settings.normaliser.units == "characters":
        faults.append("normaliser.units: found characters; expected words, because dependency trees have words")
    return faults


# ---- weights


def _read_weights(folder: Path, config: Path, vocabulary: Vocabulary, build: Callable[[int], AnyModel]) -> AnyModel:
    """Return the model of a folder in evaluation mode. Its sizes are checked before memory is allocated.

    Args:
        config: the file of the settings.
        build: returns a model with fresh weights from the vocabulary size.
    """
    weights = folder / WEIGHTS
    if not weights.exists():
        raise InputError(
            f"{folder}: {WEIGHTS} is missing: training has not reached its first validation. Resume it with"
            f" {option_name('syntaxlm train --resume', str(folder))}"
        )
    try:
        model = shapes_of(lambda: build(len(vocabulary)))
    except InputError as error:
        raise InputError(f"{config}: {error}") from error
    tensors, metadata = read_tensors(weights)
    load_weights(model, tensors, str(weights))
    if metadata.get(OF_VOCABULARY) not in (None, vocabulary.fingerprint()):
        raise InputError(f"{weights}: the weights belong to a different vocabulary than {folder / VOCABULARY}")
    return model.eval()


_WEIGHTS_DO_NOT_FIT = "the weights do not fit the settings and the vocabulary ({size} words)"


def load_weights(model: Model, tensors: Mapping[str, Tensor], source: str) -> None:
    """Load named tensors into a model. Raises InputError if they do not fit or have NaN or impossible values."""
    faults = model.resize_buffers(tensors)
    put_tensors(model, tensors, source, _WEIGHTS_DO_NOT_FIT.format(size=model.vocabulary_size), faults)


def put_tensors(
    module: nn.Module, tensors: Mapping[str, Tensor], source: str, misfit: str, faults: Sequence[str] = ()
) -> None:
    """Load named tensors into a module. A module on the meta device takes them as its own; others copy them.

    Args:
        module: its tensors keep their dtypes, and tied ones stay tied.
        tensors: by name; tied ones only under their first name.
        source: the file, for messages.
        misfit: the message if the tensors do not fit.
        faults: reasons, found before, why they do not fit.

    Raises:
        InputError: if they do not fit, and for NaN, infinite or impossible values, see `models.layers.value_faults`.
    """
    expected = distinct_tensors(module)
    refuse(source, misfit, [*faults, *tensor_faults(expected, tensors)])
    values: dict[int, Tensor] = {}
    state = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        if id(tensor) not in values:
            value = tensors[name].to(tensor.dtype, copy=True)  # copied because the bytes of a file may not be aligned
            is_parameter = isinstance(tensor, nn.Parameter)
            values[id(tensor)] = nn.Parameter(value, tensor.requires_grad) if is_parameter else value
        state[name] = values[id(tensor)]
    module.load_state_dict(state, assign=any(tensor.is_meta for tensor in expected.values()))
    # After the conversion, in which float64 may overflow.
    refuse(source, "the tensors are unusable", value_faults(module, distinct_tensors(module)))


def distinct_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return weights and buffers by name; tied ones only once, under their first name."""
    seen: dict[int, str] = {}
    result = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if seen.setdefault(id(tensor), name) == name:
            result[name] = tensor.detach()
    return result


# ---- pair classifiers

Operators = Annotated[int, Bounds(ge=0, le=1000)]  # number of operators of a formula
Labels = Annotated[tuple[str, ...], Bounds(min_length=1, max_length=10_000)]
PairTask = Literal["logic", "sentences"]
"""The format of files of pairs: formulas as written by `syntaxlm data logic`; or sentence1, sentence2, label."""


@dataclass(frozen=True)
class PairClassifierSettings(Settings):
    """The contents of `classifier.json`.

    labels: the labels in the order of the classes.
    maximum_operators: largest number of operators in the training pairs of formulas.
    """

    model: ModelConfig
    classifier: ClassifierSettings
    task: PairTask
    labels: Labels
    normaliser: NormaliserSettings
    maximum_operators: Operators
    format: int = CLASSIFIER_FORMAT

    def contradictions(self) -> list[str]:
        label, count = Counter(self.labels).most_common(1)[0]
        return [f"labels: found {label[:40]!r} {count} times; expected different labels"] if count > 1 else []

    def build(self, tokens: int) -> PairClassifier:
        """Return a classifier with new random weights.

        Args:
            tokens: vocabulary size.
        """
        return PairClassifier(self.model, self.classifier, tokens, len(self.labels))


@dataclass(frozen=True)
class ClassifierBundle:
    """A pair classifier with its settings and vocabulary."""

    classifier: PairClassifier
    settings: PairClassifierSettings
    vocabulary: Vocabulary

    @property
    def encoder(self) -> ModelBundle:
        """The encoder as a model that reads text."""
        settings = ModelSettings(self.settings.model, self.settings.normaliser, predict_eos=False)
        return ModelBundle(self.classifier.encoder, settings, self.vocabulary, is_encoder=True)


def logic_vocabulary() -> Vocabulary:
    """Return the tokens of formulas, then the special tokens."""
    return Vocabulary([*"()abcdef", "and", "or", "not", "<unk>", "<s>", "</s>"])


def read_classifier(folder: str | Path) -> ClassifierBundle:
    """Read the pair classifier in a folder, in evaluation mode on the CPU.

    Raises:
        InputError: with the file that is missing or damaged, or that does not fit the other files.
    """
    folder = Path(folder)
    path = folder / CLASSIFIER
    if not path.exists():
        raise InputError(
            f"{folder}: not a pair classifier: {CLASSIFIER} is missing. Train one with syntaxlm train and a recipe for"
            " sentence pairs"
        )
    settings = read_config(PairClassifierSettings, path, CLASSIFIER_FORMAT)
    vocabulary = Vocabulary.read(folder / VOCABULARY)
    return ClassifierBundle(_read_weights(folder, path, vocabulary, settings.build), settings, vocabulary)
