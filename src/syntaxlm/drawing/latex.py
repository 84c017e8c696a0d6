"""Trees as LaTeX: constituency trees for the package forest, dependency trees for tikz-dependency."""

from __future__ import annotations

from syntaxlm.drawing.layout import INDUCED_LABEL, DrawableDependencies, DrawableTree
from syntaxlm.reports.latex import latex_text


def format_latex(tree: DrawableTree) -> str:
    """Return the tree as a forest environment; words are in a row at the bottom, induced nodes have no label."""
    opened: dict[int, list[str]] = {}
    closed = [0] * (len(tree.words) + 1)
    if len(tree.words) > 1 and (not tree.constituents or tree.constituents[0][1:] != (0, len(tree.words))):
        opened[0] = ["["]  # a forest environment has one root
        closed[-1] = 1
    for label, start, end in tree.constituents:
        opened.setdefault(start, []).append("[" + ("" if label == INDUCED_LABEL else _latex_text(label)))
        closed[end] += 1
    pieces = []
    for place, (word, tag) in enumerate(zip(tree.words, tree.tags, strict=True)):
        leaf = f"[{_latex_text(word)}, tier=word]"
        pieces.append(" ".join([*opened.get(place, []), f"[{_latex_text(tag)} {leaf}]" if tag else leaf]))
        pieces[-1] += "]" * closed[place + 1]
    return "\\begin{forest}\n" + " ".join(pieces) + "\n\\end{forest}"


def format_dependency_latex(tree: DrawableDependencies) -> str:
    """Return the tree as a dependency environment: words in a row, labelled arcs."""
    ampersand = r"\&"  # separates words in the environment, also escaped
    row = rf" {ampersand} ".join(_latex_text(word).replace(ampersand, r"\symbol{38}") for word in tree.words)
    arcs = []
    for word, (head, label) in enumerate(zip(tree.heads, tree.labels, strict=True), 1):
        start = f"\\depedge{{{head}}}" if head else "\\deproot"
        arcs.append(f"{start}{{{word}}}{_latex_text(label or ('' if head else 'root'))}")
    lines = [r"\begin{dependency}", r"\begin{deptext}", rf"{row} \\", r"\end{deptext}", *arcs, r"\end{dependency}"]
    return "\n".join(lines)


def _latex_text(text: str) -> str:
    """Return text as the content of a node, in braces so that the package does not interpret commas and brackets."""
    return "{" + latex_text(text) + "}"
