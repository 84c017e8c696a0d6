"""The stop classifiers in a model's folder, beside its weights: sizes in JSON, their own weights in safetensors."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path

import torch

from syntaxlm.errors import InputError
from syntaxlm.files import write_text
from syntaxlm.generation.stops import tree_model
from syntaxlm.model_io import ModelBundle, distinct_tensors, read_config, read_tensors, write_tensors
from syntaxlm.models.abilities import Model
from syntaxlm.models.stop_classifiers import FORMAT, Stops, StopSettings

STOPS, STOP_WEIGHTS = "stops.json", "stops.safetensors"
OF_MODEL = "model"  # the note beside their weights that says over which model's states they were trained


def write_stops(folder: Path, stops: Stops, model: Model) -> None:
    """Writes classifiers into the folder of their model, each file atomically, the weights last."""
    settings = json.dumps(dataclasses.asdict(stops.settings), indent=2) + "\n"
    write_text(settings, folder / STOPS)
    tensors = {name: tensor.cpu() for name, tensor in stops.state_dict().items()}
    write_tensors(folder / STOP_WEIGHTS, tensors, {OF_MODEL: fingerprint(model)})


def read_stops(folder: str | Path, stored: ModelBundle) -> Stops:
    """The classifiers of a model's folder, in evaluation mode on the processor.

    Raises InputError where they were not trained yet, or over other weights of the model; and naming the file that is
    damaged or does not fit the other.
    """
    folder = Path(folder)
    model = tree_model(stored)
    train = f"syntaxlm tune stops {folder} TRAIN --valid VALID"
    if not (folder / STOPS).exists() or not (folder / STOP_WEIGHTS).exists():
        raise InputError(
            f"{folder}: the model is given trees and does not know where they end. Train classifiers that say so, on"
            f" dependency trees:\n  {train}"
        )
    settings = read_config(StopSettings, folder / STOPS, FORMAT)
    expected = model.state_size, model.word_size, model.input_size, model.label_count or 0
    found = settings.state_size, settings.word_size, settings.input_size, settings.labels
    if found != expected or settings.hidden_size < 1:
        raise InputError(
            f"{folder / STOPS}: found state, word, input sizes and labels {found}, hidden_size {settings.hidden_size};"
            f" the model has {expected}, and hidden_size is 1 or more"
        )
    tensors, notes = read_tensors(folder / STOP_WEIGHTS)
    if notes.get(OF_MODEL) != fingerprint(model):
        raise InputError(
            f"{folder / STOP_WEIGHTS}: the classifiers are of other weights than the model has now. Train them anew:"
            f"\n  {train}"
        )
    stops = Stops(settings)
    try:
        stops.load_state_dict(tensors)
    except RuntimeError as error:  # its text has a line for every tensor that does not fit
        first = str(error).splitlines()[-1].strip()
        raise InputError(f"{folder / STOP_WEIGHTS}: the weights do not fit {STOPS}: {first}") from None
    return stops.to(next(model.parameters()).dtype).eval()


def fingerprint(model: Model) -> str:
    """What tells a model's weights from all others: a hash of names, shapes and values."""
    found = hashlib.sha256()
    for name, tensor in distinct_tensors(model).items():
        found.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        found.update(tensor.cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()
