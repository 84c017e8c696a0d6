"""The public names of the package, with their docstrings: signature, explanation and the example that tests run."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any

import syntaxlm
from laboratory.pages.markdown import as_markdown, plain, table

_WIDTH = 100  # characters of a signature in one line
_ANNOTATED = re.compile(r"Annotated\[([^\[,]+(?:\[[^\]]*\])?), .*\]$")
_STARS = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def name_section(name: str) -> str:
    """A public name, or "LanguageModel.METHOD": heading, signature and docstring."""
    named = _named(name)
    heading = name if "." in name else f"syntaxlm.{name}"
    return f"### `{heading}`\n\n```python\n{_signature(named, name)}\n```\n\n{as_markdown(inspect.getdoc(named) or '')}"


def method_table() -> str:
    """The public methods of a model that have no section of their own, with the first sentence about each."""
    rows = []
    for name, method in vars(syntaxlm.LanguageModel).items():
        description = inspect.getdoc(method) or ""
        has_section = ">>>" in description and name not in syntaxlm.__all__
        if inspect.isroutine(method) and not name.startswith("_") and not has_section:
            rows.append([f"`{name}`", plain(description.splitlines()[0])])
    return table(["method", "what it does"], rows)


def _named(name: str) -> Any:
    """The object of a public name."""
    named: Any = syntaxlm
    for part in name.split("."):
        named = getattr(named, part)
    return named


def _signature(named: Any, name: str) -> str:
    """How a function or class is called; of an exception, its base class."""
    if inspect.isclass(named) and issubclass(named, Exception):
        return f"class {name}({named.__base__.__name__})"
    signature = inspect.signature(named)
    texts = _texts([parameter for parameter in signature.parameters.values() if parameter.name != "self"])
    start = ("class " if inspect.isclass(named) else "") + name.rpartition(".")[2]
    returned = signature.return_annotation
    arrow = f" -> {returned}" if isinstance(returned, str) and not inspect.isclass(named) else ""
    line = f"{start}({', '.join(texts)}){arrow}"
    if len(line) <= _WIDTH:
        return line
    return f"{start}(\n" + "".join(f"    {text},\n" for text in texts) + f"){arrow}"


def _texts(parameters: list[inspect.Parameter]) -> list[str]:
    """Parameters as they are written, with a star before the first keyword-only one."""
    texts = [
        _STARS.get(parameter.kind, "") + parameter.name + _typed(parameter.annotation) + _default(parameter.default)
        for parameter in parameters
    ]
    kinds = [parameter.kind for parameter in parameters]
    if inspect.Parameter.KEYWORD_ONLY in kinds:
        texts.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    return texts


def _typed(annotation: Any) -> str:
    """A type without the limits and texts of the command line that are attached to it."""
    return ": " + _ANNOTATED.sub(r"\1", annotation) if isinstance(annotation, str) else ""


def _default(value: Any) -> str:
    """The default of a parameter, as it is written."""
    if value is inspect.Parameter.empty:
        return ""
    if dataclasses.is_dataclass(value):
        return f" = {type(value).__name__}(...)"
    return " = ..." if repr(value).startswith("<") else f" = {value!r}"
