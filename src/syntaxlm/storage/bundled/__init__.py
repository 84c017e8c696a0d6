"""The models that are part of the package: one model folder for each."""

from __future__ import annotations

from pathlib import Path

from syntaxlm.core.errors import InputError

_FOLDER = Path(__file__).parent
_CONFIG = "config.json"
_SHOWN = 5  # model folders in a message


def bundled_names() -> list[str]:
    """Return the names of the bundled models."""
    return sorted(path.parent.name for path in _FOLDER.glob(f"*/{_CONFIG}"))


def bundled_folder(name: str) -> Path:
    """Return the folder of a bundled model."""
    return _FOLDER / name


def find_model(name_or_folder: str | Path) -> Path:
    """Return the folder of a model. A model folder that exists comes before a bundled model of the same name.

    Args:
        name_or_folder: the name of a bundled model, such as "en", or a folder, which need not exist.
    """
    folder = Path(name_or_folder)
    if not (folder / _CONFIG).exists() and str(name_or_folder) in bundled_names():
        return bundled_folder(str(name_or_folder))
    return folder


def check_folder(folder: Path) -> None:
    """Raise InputError if this is not a model folder, naming the model folders inside it."""
    bundled = f", or the name of a bundled model: {', '.join(names)}" if (names := bundled_names()) else ""
    expected = f"expected a folder written by syntaxlm train, with {_CONFIG} and weights{bundled}"
    if not folder.exists():
        is_code = len(str(folder)) in (2, 3) and str(folder).isalpha()  # of a language, such as es
        advice = ". For another language, train a model on your text, or name a model of transformers, hf:NAME"
        raise InputError(f"{folder}: no such model folder; {expected}{advice if is_code else ''}")
    if not folder.is_dir():
        raise InputError(f"{folder}: found a file; {expected}")
    if not (folder / _CONFIG).exists():
        inside = sorted(str(path.parent) for pattern in ("*", "*/*") for path in folder.glob(f"{pattern}/{_CONFIG}"))
        shown = ", ".join(inside[:_SHOWN]) + (", ..." if len(inside) > _SHOWN else "")
        advice = f". It contains model folders: {shown}" if inside else f"; {expected}"
        raise InputError(f"{folder}: not a model folder: {_CONFIG} is missing{advice}")
