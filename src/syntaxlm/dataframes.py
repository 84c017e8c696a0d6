"""Results as data frames of pandas or polars, which are optional and imported when a data frame is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from syntaxlm.errors import InputError

LIBRARIES = ("pandas", "polars")


def dataframe(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] = ()) -> Any:
    """Rows as a pandas.DataFrame or, where pandas is not installed, a polars.DataFrame.

    rows: all with the same keys. columns: their names where there may be no row; otherwise the keys of the first row.
    Raises InputError where neither library is installed.
    """
    library = _library()
    rows = list(rows)
    names = list(rows[0]) if rows else columns
    return library.DataFrame({name: [row[name] for row in rows] for name in names})


def _library() -> Any:
    for name in LIBRARIES:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:  # installed, but broken
                raise
    raise InputError("to_dataframe needs pandas or polars, and neither is installed: pip install 'syntaxlm[dataframe]'")
