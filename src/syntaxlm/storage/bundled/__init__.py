"""The models that are part of the package: one model folder for each."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent
_CONFIG = "config.json"


def bundled_names() -> list[str]:
    """Return the names of the bundled models."""
    return sorted(path.parent.name for path in _FOLDER.glob(f"*/{_CONFIG}"))


def bundled_folder(name: str) -> Path:
    """Return the folder of a bundled model."""
    return _FOLDER / name


def find_model(name_or_folder: str | Path) -> Path:
    """Return the folder of a model. A model folder that exists comes before a bundled model of the same name.

    name_or_folder: the name of a bundled model, such as "en", or a folder, which need not exist.
    """
    folder = Path(name_or_folder)
    if not (folder / _CONFIG).exists() and str(name_or_folder) in bundled_names():
        return bundled_folder(str(name_or_folder))
    return folder
