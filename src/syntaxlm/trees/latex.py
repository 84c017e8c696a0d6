"""Trees as LaTeX, for the package forest."""

from __future__ import annotations

from syntaxlm.trees.tree import Tree

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{character: "\\" + character for character in "&%$#_"},
}


def format_latex(tree: Tree) -> str:
    """The tree as a forest environment; words stand in a row at the bottom, induced nodes have no label."""
    opened: dict[int, list[str]] = {}
    closed = [0] * (len(tree) + 1)
    for part in tree.constituents:
        label = "" if part.label == "X" else _escaped(part.label)
        opened.setdefault(part.start, []).append(f"[{label}")
        closed[part.end] += 1
    pieces = []
    for place, (word, tag) in enumerate(zip(tree.words, tree.tags, strict=True)):
        leaf = f"[{_escaped(word)}, tier=word]"
        pieces.append(" ".join([*opened.get(place, []), f"[{_escaped(tag)} {leaf}]" if tag else leaf]))
        pieces[-1] += "]" * closed[place + 1]
    return "\\begin{forest}\n" + " ".join(pieces) + "\n\\end{forest}"


def _escaped(text: str) -> str:
    """Text as a forest node's content: braces keep commas and brackets from being read as forest's own."""
    return "{" + "".join(_SPECIAL.get(character, character) for character in text) + "}"
