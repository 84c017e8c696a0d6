"""`models` and its subcommands."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from syntaxlm.app.cli.options import add_figures, print_result
from syntaxlm.core.tables import Column, Columns, HasRows


def add_models(commands: Any) -> None:
    models = commands.add_parser(
        "models",
        help="list, describe, download or upload models",
        description="List or describe model folders; download and upload models of the Hugging Face hub.",
        epilog="example: syntaxlm models list runs",
    )
    kinds = models.add_subparsers(title="commands", metavar="COMMAND")
    parser = kinds.add_parser(
        "list",
        help="list the model folders below a folder",
        description="List the model folders below a folder, with model type, abilities, number of parameters, size of"
        " the weights on disk, and training text. Weights are not read.",
        epilog="example: syntaxlm models list runs --json",
    )
    parser.add_input(
        "folder",
        nargs="?",
        type=Path,
        metavar="FOLDER",
        help="folder to search; default: the current folder, with the shipped models first",
    )
    add_figures(parser, rows=True)
    parser.set_defaults(run=_list)
    parser = kinds.add_parser(
        "info",
        help="describe a model",
        description="Print a model's type, abilities, size, training text, settings and normaliser, and the"
        " perplexities stored by training.",
        epilog="example: syntaxlm models info runs/toy",
    )
    parser.add_input("model", metavar="MODEL", type=Path, help="model folder, written by train")
    add_figures(parser)
    parser.set_defaults(run=_info)
    _add_download(kinds)
    _add_push(kinds)


def _add_download(kinds: Any) -> None:
    parser = kinds.add_parser(
        "download",
        help="download a model of the Hugging Face hub",
        description="Download a model of the Hugging Face hub. Commands then find it by its name without a network, or,"
        " with --output, as a model folder. Only safetensors, JSON and the model card are downloaded.",
        epilog="example: syntaxlm models download USER/NAME -o my-model",
    )
    parser.add_argument("name", metavar="NAME", help="repository of the hub, user/name")
    parser.add_argument("--revision", metavar="R", help="branch, tag or commit; default: the main branch")
    parser.add_output_folder("-o", "--output", use="empty", help="write a model folder")
    parser.set_defaults(run=_download)


def _add_push(kinds: Any) -> None:
    parser = kinds.add_parser(
        "push",
        help="upload a model folder to the Hugging Face hub",
        description="Upload a model folder to the Hugging Face hub, with a model card. A card (README.md) in the folder"
        " is used as it is; otherwise one is generated. Log in first: hf auth login, or set HF_TOKEN.",
        epilog="example: syntaxlm models push runs/toy USER/NAME --licence mit --language en",
    )
    parser.add_input("folder", type=Path, metavar="FOLDER", help="model folder, written by train")
    parser.add_argument("name", metavar="NAME", help="repository, user/name; it is created if necessary")
    parser.add_argument("--licence", metavar="NAME", help="licence of the model, such as mit, cc-by-4.0 or other")
    parser.add_argument("--language", action="append", metavar="NAME", help="language, such as en; may be repeated")
    parser.add_argument("--data", metavar="NAME", help="training data and their terms, for the card")
    parser.add_argument("--description", metavar="NAME", help="what the model is for, for the card")
    parser.add_argument(
        "--private", action=argparse.BooleanOptionalAction, help="make a new repository private; default: as in your"
        " account"
    )  # fmt: skip
    parser.add_argument("--revision", metavar="R", help="branch; default: the main branch")
    parser.add_argument("--message", metavar="NAME", help="commit message")
    parser.set_defaults(run=_push)


@dataclass(frozen=True)
class Entry:
    """A model folder as `models` describes it, or the reason why it cannot be described."""

    figures: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return {"schema_version": 1, **self.figures}

    def __str__(self) -> str:
        return "\n".join(_lines(self.figures))


MODEL_FOLDERS = Columns(
    "model folders",
    "model folder",
    {
        "folder": Column("text", "folder"),
        "model_type": Column("text", "type of the model; missing after an error"),
        "abilities": Column("list of text", "abilities of the model"),
        "parameters": Column("integer", "number of parameters; missing for models that are counted"),
        "bytes": Column("integer", "size of the weights on disk"),
        "trained_on": Column("text", "training text"),
        "error": Column("text", "why the folder cannot be described"),
    },
)


@dataclass(frozen=True)
class Listing(HasRows):
    """The model folders below a folder."""

    folder: Path
    models: list[dict[str, Any]]

    columns = MODEL_FOLDERS

    def to_dict(self) -> dict[str, Any]:
        return {"schema_version": 1, "folder": str(self.folder), "models": self.models}

    def rows(self) -> Iterator[dict[str, Any]]:
        """Return a row for each folder, with the columns of `MODEL_FOLDERS`."""
        return ({name: model.get(name) for name in MODEL_FOLDERS} for model in self.models)

    def __str__(self) -> str:
        if not self.models:
            return f"{self.folder}: no model folders found"
        heads = ("model", "type", "parameters", "size", "trained on", "abilities")
        rows = [heads, *map(_row, self.models)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
        )


def _row(model: dict[str, Any]) -> tuple[str, ...]:
    if "error" in model:
        return model["folder"], "-", "-", "-", "-", model["error"]
    parameters = "-" if model["parameters"] is None else f"{model['parameters']:,}"
    return (
        model["folder"], model["model_type"], parameters, _size(model["bytes"]), model["trained_on"] or "-",
        ", ".join(model["abilities"]),
    )  # fmt: skip


def _lines(figures: dict[str, Any], indent: str = "") -> list[str]:
    lines = []
    for key, value in figures.items():
        name = indent + key.replace("_", " ")
        if isinstance(value, dict):
            lines += [f"{name}:", *_lines(value, indent + "  ")]
        elif key == "bytes":
            lines.append(f"{indent}size: {_size(value)}")
        elif value not in (None, [], ()):
            lines.append(f"{name}: {_value(value)}")
    return lines


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_value, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}" if isinstance(value, float) else str(value)


def _size(number: int) -> str:
    return f"{number / 2**20:,.1f} MiB" if number >= 2**20 else f"{number / 2**10:,.1f} KiB"


def _list(options: argparse.Namespace) -> None:
    from syntaxlm.app.report.models import describe, model_folders
    from syntaxlm.core.errors import InputError
    from syntaxlm.storage.bundled import shipped_folder, shipped_names

    folder = options.folder or Path()
    models = [] if options.folder else [describe(shipped_folder(name)) | {"folder": name} for name in shipped_names()]
    for path in model_folders(folder):
        try:
            models.append(describe(path))
        except InputError as error:
            models.append({"folder": str(path), "error": str(error).splitlines()[0]})
    print_result(Listing(folder, models), options)


def _info(options: argparse.Namespace) -> None:
    from syntaxlm.app.report.models import describe

    print_result(Entry(describe(options.model, full=True)), options)


def _download(options: argparse.Namespace) -> None:
    from syntaxlm.storage.hub import check_repository_name, download, fetch

    check_repository_name(options.name)
    if options.output is None:
        fetch(options.name, options.revision)
        print(f"{options.name}: downloaded; commands find it by this name")
    else:
        download(options.name, options.output, options.revision)
        print(f"{options.name}: downloaded to {options.output}")


def _push(options: argparse.Namespace) -> None:
    from syntaxlm.api.model import load

    address = load(options.folder).push_to_hub(
        options.name, licence=options.licence, language=options.language, data=options.data,
        description=options.description, private=options.private, revision=options.revision, message=options.message,
    )  # fmt: skip
    print(address)
