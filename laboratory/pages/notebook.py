"""Notebooks: run their cells and store the outputs; show them as pages.

`python -m laboratory.pages.notebook docs/notebooks/*.ipynb` runs notebooks and stores their outputs. Cells are plain
Python, so no kernel is needed: a cell gives what it prints and the value of its last expression, as a picture if it has
one.
"""

from __future__ import annotations

import ast
import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

Output = dict[str, Any]


def outputs_of(path: Path) -> list[list[Output]]:
    """Run a notebook in its folder, and return the outputs of each code cell. The error of a cell is not caught."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    names = {"__name__": "__main__"}
    sources = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    with chdir(path.parent):
        return [_run(source, number, names) for number, source in enumerate(sources, 1)]


def _run(source: str, number: int, names: dict[str, Any]) -> list[Output]:
    """Run a cell.  number: of the cell, from 1.  names: the variables of the notebook."""
    body, printed = ast.parse(source).body, io.StringIO()
    last = ast.Expression(body.pop().value) if body and isinstance(body[-1], ast.Expr) else None
    value = None
    with redirect_stdout(printed):
        exec(compile(ast.Module(body, []), f"<cell {number}>", "exec"), names)
        if last is not None:
            value = eval(compile(last, f"<cell {number}>", "eval"), names)
    outputs: list[Output] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())})
    if value is not None:
        data = {"text/plain": _lines(repr(value))}
        if hasattr(value, "_repr_svg_"):
            data = {"image/svg+xml": _lines(value._repr_svg_()), **data}
        outputs.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def store_outputs(path: Path) -> None:
    """Run a notebook and replace its stored outputs."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, (cell, outputs) in enumerate(zip(cells, outputs_of(path), strict=True), 1):
        cell |= {"outputs": outputs, "execution_count": number}
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def notebook_page(path: Path) -> str:
    """The notebook as Markdown, with a link to its file at the top. Raises ValueError for an output of another type."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    first, *rest = (part for cell in cells for part in _cell(cell))
    return "\n\n".join([first, f"This page is a notebook: [{path.name}]({path.name}).", *rest]) + "\n"


def _cell(cell: dict[str, Any]) -> Iterator[str]:
    """Yield the parts of a cell as Markdown: its text, or its code and outputs."""
    source = "".join(cell["source"]).strip()
    if cell["cell_type"] == "markdown":
        yield source
        return
    yield f"```python\n{source}\n```"
    for output in cell["outputs"]:
        yield _output(output)


def _output(output: dict[str, Any]) -> str:
    """An output as Markdown."""
    data = output.get("data", {})
    if "image/svg+xml" in data:
        return f'<div class="picture">{"".join(data["image/svg+xml"])}</div>'
    text = output["text"] if output["output_type"] == "stream" else data.get("text/plain")
    if text is None:
        raise ValueError(f"notebook output {output['output_type']!r} cannot be shown on a page")
    return f"```text\n{''.join(text).rstrip()}\n```"


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"  # the number of threads changes the last digits
    for name in sys.argv[1:]:
        store_outputs(Path(name))
