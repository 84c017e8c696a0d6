"""Results as data frames of pandas or polars, which are optional and imported when a data frame is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from syntaxlm.errors import InputError

LIBRARIES = ("pandas", "polars")

# Types of columns whose values may all be missing, or that may be empty.
_PANDAS = {"integer": "int64", "number": "float64", "text": "str", "boolean": "bool"}
_POLARS = {"integer": "Int64", "number": "Float64", "text": "String", "boolean": "Boolean"}


def dataframe(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | Mapping[str, str] = ()) -> Any:
    """Rows as a pandas.DataFrame or, where pandas is not installed, a polars.DataFrame.

    rows: all with the same keys. columns: their names where there may be no row, or their types by name ("integer",
    "number", "text", "boolean"; others follow from the values); otherwise the keys of the first row.
    Raises InputError where neither library is installed.
    """
    library = _library()
    rows = list(rows)
    names = list(columns) or (list(rows[0]) if rows else [])
    types = columns if isinstance(columns, Mapping) else {}
    values = {name: [row[name] for row in rows] for name in names}
    if library.__name__ == "polars":
        schema = {name: getattr(library, _POLARS[types[name]]) for name in names if types.get(name) in _POLARS}
        return library.DataFrame(values, schema_overrides=schema)
    return library.DataFrame({name: _series(library, values[name], types.get(name, "")) for name in names})


def _series(pandas: Any, values: list[Any], type: str) -> Any:
    """A pandas.Series. Only numbers have a missing value, NaN; other types with missing values are as pandas has it."""
    is_typed = type == "number" or (type in _PANDAS and None not in values)
    return pandas.Series(values, dtype=_PANDAS[type] if is_typed else None if values else "object")


def _library() -> Any:
    for name in LIBRARIES:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:  # installed, but broken
                raise
    raise InputError("to_dataframe needs pandas or polars, and neither is installed: pip install 'syntaxlm[dataframe]'")
