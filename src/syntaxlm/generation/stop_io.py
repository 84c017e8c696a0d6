"""Stop classifiers in a model folder: settings in JSON, weights in safetensors."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

import torch

from syntaxlm.errors import InputError
from syntaxlm.files import to_json, write_text
from syntaxlm.generation.stops import tree_model
from syntaxlm.model_io import ModelBundle, distinct_tensors, put_tensors, read_config
from syntaxlm.models.abilities import Model
from syntaxlm.models.sizes import shapes_of
from syntaxlm.models.stop_classifiers import FORMAT, Stops, StopSettings
from syntaxlm.tensor_files import TensorFile, read_tensors, refuse, tensor_faults, write_tensors

STOPS, STOP_WEIGHTS = "stops.json", "stops.safetensors"
OF_MODEL = "model"  # metadata key of their weights: the fingerprint of the model they were trained for


def write_stops(folder: Path, stops: Stops, model: Model) -> None:
    """Writes classifiers to their model's folder, each file atomically, the weights last."""
    write_text(to_json(dataclasses.asdict(stops.settings), indent=2) + "\n", folder / STOPS, stored=True)
    tensors = {name: tensor.cpu() for name, tensor in stops.state_dict().items()}
    write_tensors(folder / STOP_WEIGHTS, tensors, {OF_MODEL: fingerprint(model)})


def read_stops(folder: str | Path, stored: ModelBundle) -> Stops:
    """The classifiers in a model's folder, in evaluation mode on the CPU.

    Raises InputError if they have not been trained, or were trained for other weights of the model, and for a file that
    is damaged or does not fit the other.
    """
    folder = Path(folder)
    model = tree_model(stored)
    train = f"syntaxlm tune stops {folder} TRAIN --valid VALID"
    if not (folder / STOPS).exists() or not (folder / STOP_WEIGHTS).exists():
        raise InputError(
            f"{folder}: to generate trees, the model needs stop classifiers, which predict where a tree ends."
            f" Train them on dependency trees:\n  {train}"
        )
    settings = read_config(StopSettings, folder / STOPS, FORMAT)
    expected = model.state_size, model.word_size, model.input_size, model.label_count or 0
    found = settings.state_size, settings.word_size, settings.input_size, settings.labels
    if found != expected or settings.hidden_size < 1:
        raise InputError(
            f"{folder / STOPS}: found state, word, input sizes and labels {found}, hidden_size {settings.hidden_size};"
            f" expected {expected} as in the model, and hidden_size 1 or more"
        )
    shapes = shapes_of(lambda: Stops(settings))
    misfit = f"the weights do not fit {STOPS}"

    def check(file: TensorFile) -> None:
        if file.notes.get(OF_MODEL) != fingerprint(model):
            raise InputError(
                f"{file.path}: the classifiers were trained for other model weights. Train them again:\n  {train}"
            )
        refuse(file.path, misfit, tensor_faults(distinct_tensors(shapes), file.stored))

    tensors, _ = read_tensors(folder / STOP_WEIGHTS, check)
    stops = Stops(settings)
    put_tensors(stops, tensors, str(folder / STOP_WEIGHTS), misfit)
    return stops.to(next(model.parameters()).dtype).eval()


def fingerprint(model: Model) -> str:
    """An identifier of a model's weights: a hash of names, shapes and values."""
    found = hashlib.sha256()
    for name, tensor in distinct_tensors(model).items():
        found.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        found.update(tensor.cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()
