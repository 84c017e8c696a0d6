"""A notebook as a page: its text, its code, and what the code printed and drew."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def notebook_page(path: Path) -> str:
    """The notebook as Markdown, a link to the file at its top. Raises ValueError for an output of another kind."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    first, *rest = (part for cell in cells for part in _cell(cell))
    return "\n\n".join([first, f"This page is a notebook: [{path.name}]({path.name}).", *rest]) + "\n"


def _cell(cell: dict[str, Any]) -> Iterator[str]:
    source = "".join(cell["source"]).strip()
    if cell["cell_type"] == "markdown":
        yield source
        return
    yield f"```python\n{source}\n```"
    for output in cell["outputs"]:
        yield _output(output)


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "image/svg+xml" in data:
        return f'<div class="picture">{"".join(data["image/svg+xml"])}</div>'
    text = output["text"] if output["output_type"] == "stream" else data.get("text/plain")
    if text is None:
        raise ValueError(f"notebook output {output['output_type']!r} cannot be shown on a page")
    return f"```text\n{''.join(text).rstrip()}\n```"
