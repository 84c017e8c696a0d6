"""Renderers of results by name, so that a result can show itself in a notebook without importing what draws it.

A notebook asks an object for `_repr_svg_` or `_repr_html_`. Results are defined in low packages and drawn in a higher
one, which they must not import: they call `render`. The top-level package, which runs before any module below it,
registers where the renderers are. A renderer's module is imported when a notebook first asks for it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

_renderers: dict[str, str] = {}


def register(renderers: Mapping[str, str]) -> None:
    """Add renderers. renderers: by name, functions that return text, written "package.module:function"."""
    _renderers.update(renderers)


def render(name: str, *arguments: Any, **options: Any) -> str:
    """Call a renderer. Raises KeyError for a name that is not registered."""
    module, _, function = _renderers[name].partition(":")
    text: str = getattr(importlib.import_module(module), function)(*arguments, **options)
    return text


def registered() -> dict[str, str]:
    """All renderers by name."""
    return dict(_renderers)
