"""Checks of what Python programs give to methods: texts, files and models; other objects are refused by their types."""

from __future__ import annotations

import inspect
import operator
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import fields
from functools import wraps
from itertools import starmap
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from syntaxlm.core.declarations import Options
from syntaxlm.core.errors import InputError, closest_match, listed, warn_caller
from syntaxlm.core.files import repeated_file
from syntaxlm.core.text_files import check_encodable
from syntaxlm.data.input_table import InputTable, frame_columns, is_frame
from syntaxlm.data.tables import input_columns
from syntaxlm.reports.report import HasRows
from syntaxlm.reports.tables import Columns
from syntaxlm.storage.folder import ModelBundle

Chosen = TypeVar("Chosen")
Parameters = ParamSpec("Parameters")
AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])

_VALUE_CHARACTERS = 60  # characters of a value in a message
_FEWEST_WORDS = 3  # texts of one word that are likely to be the words of one sentence
_LIST = "a text or several: str or a list of str"


def texts_of(text: str | Iterable[str], method: str, expected: str = _LIST) -> Iterator[str]:
    """Return one text, or several.

    Gives an InputWarning for a text that is the name of a file.

    Args:
        method: its name, for messages.
        expected: what the method takes, for messages.

    Raises:
        TypeError: for anything but strings.
        InputError: for one that is not Unicode text.
    """
    if remedy := _remedy(text):
        raise TypeError(f"{method}: found {_type(text)}; expected {expected}. {remedy}".removesuffix(". "))

    def checked(number: int, item: Any) -> str:
        item = item.as_py() if hasattr(item, "as_py") else item  # a scalar of pyarrow
        if not isinstance(item, str):
            raise TypeError(f"{method}, text {number}: found {_type(item)}; expected str. {_remedy_of_item(item)}")
        check_encodable(item, f"text {number}")
        return item

    if isinstance(text, str) and not any(map(str.isspace, text)) and os.path.isfile(text):
        message = f"{text}: is read as a sentence, although a file has this name. For its lines, pass open({text!r})"
        warn_caller(message)
    if isinstance(text, list | tuple) and len(text) >= _FEWEST_WORDS and all(map(_is_word, text)):
        message = f"{method}: each of {len(text)} texts is one word. For one sentence, pass ' '.join(words)"
        warn_caller(message)
    return starmap(checked, enumerate([text] if isinstance(text, str) else text, 1))


def texts_in(table: Any, column: str, method: str) -> list[str]:
    """Return the texts in a column of a data frame or of the file of a table: one per row, "" for a missing value.

    Args:
        method: its name, for messages.

    Raises:
        TypeError: for other objects.
        InputError: if there is no such column, and as `InputTable.read` does.
    """
    check_names(column=column)
    check_table(table, method)
    return InputTable.read(table, keep_empty=True).column(column, "--column")


def texts_and_cells(
    table: Any, column: str, method: str, columns: Columns
) -> tuple[list[str], Columns, list[dict[str, Any]]]:
    """Return the texts of a table as `texts_in` does, the columns of a result, and what is copied to the rows of each.

    Args:
        columns: the columns of the result without the other columns of the table, which are added.
    """
    check_names(column=column)
    check_table(table, method)
    read = InputTable.read(table, keep_empty=True)
    texts = read.column(column, "--column")
    place = read.names.index(column)
    cells = [[*row[:place], *row[place + 1 :]] for row in read.values]
    further = input_columns(list(columns), [name for name in read.names if name != column], cells)
    return texts, columns.beside(further), [dict(zip(further, row, strict=True)) for row in cells]


def _is_word(text: object) -> bool:
    return isinstance(text, str) and text.split() == [text]


def _type(value: object) -> str:
    """Return the type of a value for messages, with its package."""
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    return kind.__name__ if package in ("builtins", "pathlib", "__main__") else f"{package}.{kind.__name__}"


def _remedy(text: object) -> str:
    """Return what to do with an object that is not a text or several; "" for texts."""
    if isinstance(text, str):
        return ""
    if hasattr(text, "words"):
        return "Pass its words: ' '.join(parse.words)"
    if is_frame(text):
        names = frame_columns(text) or ("text",)
        likely = next((name for name in names if name in ("sentence", "text")), "...")
        shown = repr(likely) if likely in names else likely
        return f"Choose the column with the sentences, among {listed(map(repr, names))}: column={shown}"
    if isinstance(text, HasRows):
        return "Pass the sentences that the results are of"
    if isinstance(text, bytes | bytearray | memoryview):
        return "Decode it: text.decode()"
    if isinstance(text, os.PathLike):
        return f"For the lines of a file, pass open({os.fspath(text)!r})"
    if isinstance(text, Mapping):
        return "For the values, pass list(texts.values())"
    if isinstance(text, Set) and not _is_view(text):
        return "A set has no order; pass a list"
    if getattr(text, "ndim", 1) != 1:
        return "Pass one list of sentences, such as array.ravel()"
    if not isinstance(text, Iterable):
        return "Pass a sentence in quotes, or a list of sentences"
    return ""


def _is_view(value: object) -> bool:
    """Return whether a set is the keys of a dict, which have an order."""
    return type(value).__name__ == "dict_keys"


def _remedy_of_item(item: object) -> str:
    """Return what to do with an object that is not a text, among several."""
    if item is None or (isinstance(item, float) and item != item) or type(item).__name__ in ("NAType", "NaTType"):
        return "It is a missing value: leave such texts out, or replace them by ''"
    if isinstance(item, bytes):
        return "Decode it, or open the file as text"
    if isinstance(item, list | tuple):
        return "Join the words of a sentence: ' '.join(words); or pass one list of sentences"
    if hasattr(item, "words"):
        return "Pass its words: ' '.join(parse.words)"
    if isinstance(getattr(item, "text", None), str):
        return "Pass its text: doc.text"
    return "Pass sentences as str"


def check_names(**values: object) -> None:
    """Raise TypeError for a parameter that is neither one text nor None."""
    for name, value in values.items():
        if not isinstance(value, str | None):
            raise TypeError(f"{name}: found {_shown(value)}; expected str or None")


def check_table(table: Any, name: str) -> None:
    """Raise TypeError for anything but a file or a data frame.

    Args:
        name: the name of the parameter.
    """
    if not is_frame(table) and not isinstance(table, str | os.PathLike):
        remedy = "series.to_frame()" if hasattr(table, "to_frame") else "pandas.DataFrame(rows)"
        raise TypeError(
            f"{name}: found {_shown(table)}; expected the name of a file, or a data frame, such as {remedy}"
        )


def files_of(files: Any, name: str) -> list[str | Path]:
    """Return one file or several as a list.

    Args:
        name: the name of the parameter.

    Raises:
        TypeError: for anything but paths.
        InputError: for a file that is named twice.
    """
    if isinstance(files, str | os.PathLike):
        return [Path(files) if not isinstance(files, str) else files]
    remedy = " Write the table to a file first: frame.to_csv('pairs.csv', index=False)" if is_frame(files) else ""
    is_list = isinstance(files, Iterable) and not isinstance(files, bytes | bytearray | Mapping | Set) and not remedy
    paths = list(files) if is_list else []
    wrong = next((path for path in paths if not isinstance(path, str | os.PathLike)), None)
    if not is_list or wrong is not None:
        found = _shown(files if wrong is None else wrong)
        raise TypeError(f"{name}: found {found}; expected the name of a file, or a list of names.{remedy}")
    if twice := repeated_file(paths):
        raise InputError(f"{name}: found {os.fspath(twice[0])} twice; expected each file once, so that it counts once")
    return [path if isinstance(path, str) else Path(path) for path in paths]


def file_of(file: Any, name: str) -> str | Path:
    """Return a file. Raises TypeError for anything but a path."""
    if not isinstance(file, str | os.PathLike):
        raise TypeError(f"{name}: found {_shown(file)}; expected the name of a file")
    return file if isinstance(file, str) else Path(file)


def names_of(names: Any, name: str) -> list[str]:
    """Return one name of a column, or several, as a list. Raises TypeError for anything but strings."""
    columns = [names] if isinstance(names, str) else names
    if not isinstance(columns, Iterable) or isinstance(columns, bytes | Mapping) or is_frame(columns):
        raise TypeError(f"{name}: found {_shown(names)}; expected str or a list of str")
    columns = list(columns)
    if wrong := [column for column in columns if not isinstance(column, str)]:
        raise TypeError(f"{name}: found {_shown(wrong[0])}; expected str or a list of str")
    return columns


def check_model(model: Any, name: str) -> None:
    """Raise TypeError for anything but a loaded model.

    Args:
        name: the name of the parameter.
    """
    if not isinstance(model, ModelBundle):
        raise TypeError(f"{name}: found {_shown(model)}; expected a loaded model: syntaxlm.load(...)")


def check_models(also: Any) -> Sequence[ModelBundle]:
    """Return `also`, a list of loaded models. Raises TypeError for anything else."""
    if not isinstance(also, Sequence) or not all(isinstance(model, ModelBundle) for model in also):
        raise TypeError(f"also: found {_shown(also)}; expected a list of loaded models: [syntaxlm.load(...)]")
    return also


def check_integer(value: Any, name: str) -> None:
    """Raise TypeError for anything but a whole number. name: the name of the parameter."""
    try:
        operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: found {value!r}; expected a whole number") from None


def models_by_name(models: Any) -> dict[str, ModelBundle]:
    """Return one model, or several by name, as a dict; a single model is named by its folder or its type.

    Args:
        models: a loaded model, or a dict from names to loaded models.

    Raises TypeError for anything else, InputError for an empty dict.
    """
    if isinstance(models, ModelBundle):
        return {model_names([models])[0]: models}
    if not isinstance(models, Mapping):
        raise TypeError(f"models: found {_shown(models)}; expected a loaded model, or a dict from names to models")
    if not models:
        raise InputError("found no model; expected one model or more")
    for name, model in models.items():
        check_model(model, f"models[{name!r}]")
    return dict(models)


def model_names(models: Sequence[ModelBundle]) -> list[str]:
    """Return the names of models in messages: their folders, or their types."""
    folders = [getattr(model, "folder", None) for model in models]
    return [model.name if folder is None else str(folder) for model, folder in zip(models, folders, strict=True)]


_OF_SEVERAL = {
    "callbacks",
    "condition",
    "frequencies",
    "group",
    "measures",
    "regions",
}  # parameters of one name or several


def suggests_parameters(function: Callable[Parameters, Chosen]) -> Callable[Parameters, Chosen]:
    """Name the closest parameter in the TypeError for a keyword that a function does not have.

    The parameter of names is also accepted in the other number: `conditions` for `condition`, `region` for `regions`.
    """
    names = list(inspect.signature(function).parameters)
    several = {name for name in names if name in _OF_SEVERAL}

    @wraps(function)
    def checked(*arguments: Parameters.args, **options: Parameters.kwargs) -> Chosen:
        for name in set(options).difference(names):
            other = f"{name}s" if f"{name}s" in several else name.removesuffix("s")
            if other not in several or other in options:
                known = [known for known in names if known != "self"]
                hint = _with_settings(function, name)
                hint = hint or closest_match(name, known, f"Its parameters: {', '.join(known)}")
                raise TypeError(f"{function.__name__}: found the unexpected parameter {name!r}. {hint}")
            options[other] = options.pop(name)
        return function(*arguments, **options)

    return checked


def _with_settings(function: Callable[..., Any], name: str) -> str:
    """Return how a parameter that belongs to the settings of a function is written, "" for others."""
    names = vars(inspect.getmodule(inspect.unwrap(function)))
    for parameter in inspect.signature(function).parameters.values():
        for word in re.findall(r"\w+", str(parameter.annotation)):
            declared = names.get(word)
            if not (isinstance(declared, type) and issubclass(declared, Options)):
                continue
            if name in {field.name for field in fields(declared)}:
                return f"Write {parameter.name}=syntaxlm.{word}({name}=...)"
    return ""


def shows_options(options: type[Options], keywords: type) -> Callable[[AnyFunction], AnyFunction]:
    """Let `help` and completion show the parameters that a function takes as `**options`, with their defaults.

    So each list of options is written twice, as the dataclass and for type checkers, and not in every method.

    Args:
        options: what the function makes of them.
        keywords: the TypedDict of the same names, whose types are shown; those of the dataclass have limits.
    """
    defaults = {field.name: field.default for field in fields(options)}
    kind = inspect.Parameter.KEYWORD_ONLY
    shown = [
        inspect.Parameter(name, kind, default=defaults[name], annotation=getattr(hint, "__forward_arg__", hint))
        for name, hint in keywords.__annotations__.items()
    ]

    def with_signature(function: AnyFunction) -> AnyFunction:
        written = inspect.signature(function)
        parameters = [each for each in written.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        vars(function)["__signature__"] = written.replace(parameters=[*parameters, *shown])
        return function

    return with_signature


def _shown(value: object) -> str:
    """Return a small value of a usual type as it is written, and the type of others."""
    shown = repr(value) if type(value).__module__ == "builtins" else ""
    return shown if 0 < len(shown) <= _VALUE_CHARACTERS else _type(value)
