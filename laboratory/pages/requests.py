"""The fields of the requests that `serve` answers, from the models that check them."""

from __future__ import annotations

import json
from collections import defaultdict
from importlib.util import find_spec
from typing import Any

from laboratory.pages.markdown import cell, table

_LIMITS = {"minimum": "from", "maximum": "to"}


def request_fields() -> str:
    """A row for each field; one that several requests share has one row. Empty without the extra serve."""
    if find_spec("fastapi") is None:
        return ""
    from fastapi.routing import APIRoute

    from syntaxlm.serve.app import router

    requests: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for route in router.routes:
        assert isinstance(route, APIRoute)
        for body in route.dependant.body_params:
            schema = body.field_info.annotation.model_json_schema()  # type: ignore[union-attr]
            for name, field in schema["properties"].items():
                default = "required" if name in schema.get("required", ()) else f"`{json.dumps(field['default'])}`"
                row = f"`{name}`", _type(field), default, cell(field["description"])
                requests[row].append(f"`{route.path.rpartition('/')[2]}`")
    rows = ([name, ", ".join(paths), *cells] for (name, *cells), paths in requests.items())
    return table(["field", "requests", "type", "default", "meaning"], rows)


def _type(field: dict[str, Any]) -> str:
    """A type of a JSON schema in words: "integer from 1", "`a`, `b` or null", "list of string"."""
    if "anyOf" in field:
        return " or ".join(map(_type, field["anyOf"]))
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if field["type"] == "array":
        return f"list of {_type(field['items'])}"
    return " ".join([field["type"], *(f"{word} {field[limit]:,}" for limit, word in _LIMITS.items() if limit in field)])
