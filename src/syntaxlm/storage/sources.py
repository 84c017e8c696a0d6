"""A trained model by its name: a folder, a bundled model, a repository of the hub, or a model of transformers."""

from __future__ import annotations

from pathlib import Path

import torch

from syntaxlm.core.declarations import TRANSFORMERS
from syntaxlm.core.errors import InputError, shortened
from syntaxlm.core.files import named_path, system_error
from syntaxlm.storage.folder import ModelBundle, find_device, read_model
from syntaxlm.storage.hub import is_repository_name


def read_named(
    name_or_folder: str | Path,
    device: str | torch.device = "cpu",
    revision: str | None = None,
    token: str | None = None,
) -> tuple[ModelBundle, Path | None]:
    """Return the model that a name stands for, on a device, and its folder if it has one. See `syntaxlm.load`."""
    target = find_device(device)  # before the slow reading
    folder = named_path(name_or_folder).expanduser()
    try:
        exists = folder.exists()
    except OSError as error:  # such as a name that is too long
        raise system_error(shortened(str(folder), 80), "read", error) from error
    if isinstance(name_or_folder, str) and name_or_folder.startswith(TRANSFORMERS):
        from syntaxlm.storage.transformers import read_transformers

        return read_transformers(name_or_folder.removeprefix(TRANSFORMERS), target, revision, token), None
    if isinstance(name_or_folder, str) and is_repository_name(name_or_folder) and not exists:
        from syntaxlm.storage.hub import read_repository

        return read_repository(name_or_folder, revision, token).to(target), None
    if revision is not None:
        raise InputError(f"revision {revision}: found the folder {folder}; only repositories have revisions")
    return read_model(folder).to(target), folder
