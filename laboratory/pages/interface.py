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
    found = _named(name)
    shown = name if "." in name else f"syntaxlm.{name}"
    return f"### `{shown}`\n\n```python\n{_signature(found, name)}\n```\n\n{as_markdown(inspect.getdoc(found) or '')}"


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
    found: Any = syntaxlm
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _signature(found: Any, name: str) -> str:
    """How a function or class is called; of an exception, what it is."""
    if inspect.isclass(found) and issubclass(found, Exception):
        return f"class {name}({found.__base__.__name__})"
    signature = inspect.signature(found)
    parameters = [one for one in signature.parameters.values() if one.name != "self"]
    keyword = "class " if inspect.isclass(found) else ""
    returned = signature.return_annotation
    arrow = f" -> {returned}" if isinstance(returned, str) and not keyword else ""
    texts = [*_texts(parameters)]
    line = f"{keyword}{name.rpartition('.')[2]}({', '.join(texts)}){arrow}"
    if len(line) <= _WIDTH:
        return line
    return f"{keyword}{name.rpartition('.')[2]}(\n" + "".join(f"    {text},\n" for text in texts) + f"){arrow}"


def _texts(parameters: list[inspect.Parameter]) -> list[str]:
    """Parameters as they are written, with a star before those that are given by name only."""
    texts = [_STARS.get(one.kind, "") + one.name + _typed(one.annotation) + _default(one.default) for one in parameters]
    named = next((place for place, one in enumerate(parameters) if one.kind is one.KEYWORD_ONLY), None)
    return texts if named is None else [*texts[:named], "*", *texts[named:]]


def _typed(annotation: Any) -> str:
    """A type without the limits and texts of the command line that are attached to it."""
    return ": " + _ANNOTATED.sub(r"\1", annotation) if isinstance(annotation, str) else ""


def _default(value: Any) -> str:
    if value is inspect.Parameter.empty:
        return ""
    if dataclasses.is_dataclass(value):
        return f" = {type(value).__name__}(...)"
    return " = ..." if repr(value).startswith("<") else f" = {value!r}"
