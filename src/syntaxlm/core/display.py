"""Renderers by name, which display results in notebooks.

A notebook calls an object's `_repr_svg_` or `_repr_html_`. Results are defined in low-level packages and drawn in
`drawing`, which these must not import; so they call `render`. The top-level package, which is imported before all its
modules, registers the renderers. A renderer's module is imported on first use.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

_renderers: dict[str, str] = {}


def register(renderers: Mapping[str, str]) -> None:
    """Add renderers. renderers: name -> "package.module:function", a function that returns text."""
    _renderers.update(renderers)


def render(name: str, *arguments: Any, **options: Any) -> str:
    """Call a renderer. Raises KeyError for a name that is not registered."""
    module, _, function = _renderers[name].partition(":")
    text: str = getattr(importlib.import_module(module), function)(*arguments, **options)
    return text


def registered() -> dict[str, str]:
    """Return all renderers by name."""
    return dict(_renderers)
