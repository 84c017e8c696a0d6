"""Texts of a training that are not yet files: objects of Python, and data sets of the Hugging Face hub.

Each becomes the name of a file, so that the recipe of a run names what was read, and the run can be resumed. Texts of
Python are written to a file in the cache that is named by the hash of its content: the same texts have the same name.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from syntaxlm.core.errors import InputError, listed
from syntaxlm.core.files import UNENCODABLE, replaced
from syntaxlm.core.remote_files import address_of, files_below, folder_in_cache
from syntaxlm.core.text_files import PARQUET, content_suffix
from syntaxlm.data.arguments import texts_of
from syntaxlm.data.input_table import frame_columns, is_frame
from syntaxlm.data.parquet import TEXT_COLUMN, lines_of

_DATA_SET = re.compile(r"hf://datasets/[^/]+/[^/]+/?")  # without a file
SPLITS = {"train": ("train",), "valid": ("valid", "validation", "dev", "val"), "test": ("test",)}
_EXPECTED = "a file or a pattern, an iterable of sentences, or a table with a column text"
_NUMBER = re.compile(r"\d+(?=-of-\d+)")  # of a shard: train-00000-of-00002.parquet


def text_file(text: Any, split: str) -> Any:
    """Return the name of the file of a text that a setting names, or of other values what they are.

    Args:
        text: an iterable of sentences (str), a data set or data frame with the column `text`, or only one column, or
            the address of a data set of the hub, hf://datasets/OWNER/NAME, of which the file of the split is chosen, or
            the pattern of its numbered files.
        split: "train", "valid" or "test".

    Raises:
        TypeError: for objects that are not texts.
        InputError: for data without a column of texts, and unless a data set of the hub has one file of the split, or
            numbered files.
    """
    if isinstance(text, str | os.PathLike):
        address = address_of(os.fspath(text))
        return text if address is None or not _DATA_SET.fullmatch(address) else _file_of_split(address, split)
    if text is None or isinstance(text, bool | int | float):  # the check of settings refuses numbers
        return text
    return str(_written(_lines(text, f"text.{split}")))


def _lines(text: Any, name: str) -> Iterator[str]:
    """Yield the lines of texts of Python.

    Args:
        name: of the setting, for messages.
    """
    texts = texts_of(_column(text, name) if is_frame(text) else text, name, _EXPECTED)
    for number, sentence in enumerate(texts):
        if number == 0 and os.path.isfile(sentence):
            raise InputError(f"{name}: found a list with the name of a file, {sentence!r}; expected {_EXPECTED}")
        yield from lines_of(sentence)


def _column(frame: Any, name: str) -> Iterable[Any]:
    """Return the texts of a data set of the library datasets, or of a data frame of another library."""
    if isinstance(frame.column_names if hasattr(frame, "column_names") else (), Mapping):
        splits = listed(map(repr, frame.column_names))
        raise InputError(f"{name}: found several splits; expected one of {splits}, such as data['train']")
    columns = frame_columns(frame)
    if TEXT_COLUMN not in columns and len(columns) != 1:
        found = f"the columns {listed(map(repr, columns))}; expected a column {TEXT_COLUMN!r}, or only one column"
        raise InputError(f"{name}: found {found}. For another column, give its values: data['...']")
    column = TEXT_COLUMN if TEXT_COLUMN in columns else columns[0]
    if hasattr(frame, "features"):  # of datasets, perhaps read as a stream
        return (row[column] for row in frame)
    import narwhals.stable.v2 as narwhals

    values: Iterable[Any] = narwhals.from_native(frame).lazy().collect()[column]
    return values


def _written(lines: Iterable[str]) -> Path:
    """Write lines to a file in the cache, and return its path."""
    folder = folder_in_cache("texts")
    digest = hashlib.sha256()
    unnamed = folder / f"{os.getpid()}-{os.urandom(8).hex()}"
    with replaced(unnamed) as temporary, open(temporary, "wb") as file:
        for line in lines:
            data = (line + "\n").encode(errors=UNENCODABLE)
            digest.update(data)
            file.write(data)
    path = folder / f"{digest.hexdigest()[:32]}.txt"
    os.replace(unnamed, path)
    return path


def _file_of_split(address: str, split: str) -> str:
    """Return the address of the only text or Parquet file of a data set of the hub that has the split in its name.

    For files that differ in their number only, such as train-00000-of-00002.parquet, their pattern is returned.

    Raises:
        InputError: if there is none, or several that are not numbered.
    """
    files = [file for file in files_below(address) if content_suffix(file) in (".txt", PARQUET)]
    names = {file: set(re.split(r"[^a-z]+", file[len(address) :].lower())) for file in files}
    chosen = [file for file in files if names[file].intersection(SPLITS[split])]
    if len(chosen) == 1:
        return chosen[0]
    if len(patterns := {_NUMBER.sub("*", file) for file in chosen}) == 1:
        return patterns.pop()
    found = f"{len(chosen)}: {listed(chosen)}" if chosen else f"none among {listed(files) or 'its files'}"
    raise InputError(
        f"text.{split}: {address}: expected one text or Parquet file with {' or '.join(SPLITS[split])} in its"
        f" name; found {found}. Give the address of a file or, in Python, the data set:"
        f" datasets.load_dataset(...)['{split}']"
    )
