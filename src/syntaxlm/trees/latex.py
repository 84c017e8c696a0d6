"""Trees as LaTeX: constituency trees for the package forest, dependency trees for tikz-dependency."""

from __future__ import annotations

from syntaxlm.trees.tree import DependencyTree, Tree

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{character: "\\" + character for character in "&%$#_"},
}


def format_latex(tree: Tree) -> str:
    """The tree as a forest environment; words are in a row at the bottom, induced nodes have no label."""
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


def format_dependency_latex(tree: DependencyTree) -> str:
    """The tree as a dependency environment: words in a row, labelled arcs."""
    ampersand = r"\&"  # separates words in the environment, also escaped
    words = [_escaped(word).replace(ampersand, r"\symbol{38}") for word in tree.words]
    arcs = [
        f"\\depedge{{{head}}}{{{word}}}{_escaped(label)}" if head else f"\\deproot{{{word}}}{_escaped(label or 'root')}"
        for word, (head, label) in enumerate(zip(tree.heads, tree.labels, strict=True), 1)
    ]
    row = rf" {ampersand} ".join(words)
    lines = [r"\begin{dependency}", r"\begin{deptext}", rf"{row} \\", r"\end{deptext}", *arcs, r"\end{dependency}"]
    return "\n".join(lines)


def _escaped(text: str) -> str:
    """Text as the content of a node, in braces so that the package does not interpret commas and brackets."""
    return "{" + "".join(_SPECIAL.get(character, character) for character in text) + "}"
