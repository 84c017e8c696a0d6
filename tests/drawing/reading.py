"""Pictures read back, as XML."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

SPACE = "{http://www.w3.org/2000/svg}"


def read_svg(document: str) -> ElementTree.Element:
    """The root of an SVG document; fails if it is not XML."""
    root = ElementTree.fromstring(document.encode("utf-8"))
    assert root.tag == SPACE + "svg"
    return root


def of_role(root: ElementTree.Element, role: str) -> list[ElementTree.Element]:
    """The elements of a role, in the order they are painted."""
    return [element for element in root.iter() if element.get("class") == f"slm-{role}"]


def tooltip(element: ElementTree.Element) -> str:
    """The tooltip of an element."""
    return element.findtext(SPACE + "title") or ""


def numbers(element: ElementTree.Element, *names: str) -> list[float]:
    """The values of attributes."""
    return [float(element.get(name, "")) for name in names]


def drawn(element: ElementTree.Element) -> str:
    """The text of a text element, without its title and direction marks."""
    title = element.find(SPACE + "title")
    text = (element.text or "") if title is None else (title.tail or "")
    return text.replace("\u200f", "")


def styled_roles(document: str) -> set[str]:
    return set(re.findall(r"\.slm-([a-z0-9-]+)\{", document))


def used_roles(document: str) -> set[str]:
    return set(re.findall(r'class="slm-([a-z0-9-]+)"', document))


def assert_same_plot(stored: Path, document: str) -> None:
    """Fail if a stored plot has other texts or its markers at other places. Versions of matplotlib differ by pixels."""
    first, second = read_svg(stored.read_text(encoding="utf-8")), read_svg(document)
    assert plot_texts(first) == plot_texts(second), "run python -m laboratory.pages"
    places = ([numbers(marker, "x", "y") for marker in root.iter(SPACE + "use")] for root in (first, second))
    np.testing.assert_allclose(*places, atol=3, err_msg="run python -m laboratory.pages")


def plot_texts(root: ElementTree.Element) -> list[str]:
    """The texts of a plot, in the order they are painted."""
    return [drawn(text) for text in root.iter(SPACE + "text")]
