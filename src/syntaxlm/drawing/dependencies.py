"""Dependency trees as pictures: arcs over the words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from syntaxlm.drawing import svg
from syntaxlm.drawing.arcs import BEND, Arc, ArcLayout, lay_out_arcs
from syntaxlm.drawing.layout import MARGIN, Word
from syntaxlm.drawing.page import Section, html_page
from syntaxlm.drawing.svg import TEXT_SIZES, Picture, Theme
from syntaxlm.drawing.text import right_to_left, text_width
from syntaxlm.drawing.writing import write_picture
from syntaxlm.trees.latex import format_dependency_latex
from syntaxlm.trees.tree import DependencyTree

ARROW = 7.0, 3.2  # pixels: length of an arrow's head, half its width


def dependency_svg(tree: DependencyTree, theme: Theme = "auto") -> str:
    """A dependency tree as an SVG document; see `dependency_picture`."""
    return dependency_picture(tree).svg(theme)


def dependency_picture(tree: DependencyTree) -> Picture:
    """Words and tags in a row, with a labelled arc above them from each head to its dependent.

    The root has an arrow from above. Arcs that make a tree non-projective have a different colour.
    Raises InputError for a word that is its own head.
    """
    layout = lay_out_arcs(tree)
    descriptions = [_description(tree, word) for word in range(1, len(tree) + 1)]
    lower_last = sorted(layout.arcs, key=lambda arc: arc.top)
    elements = [element for arc in lower_last for element in _arc(arc, layout, descriptions[arc.word - 1])]
    elements += [
        svg.text(arc.label_x, arc.label_y, arc.label, f"relation{'' if arc.head else '-root'}", "middle")
        for arc in layout.arcs
        if arc.label
    ]
    elements += [_text(word, "word", layout.mirrored) for word in layout.words]
    elements += [_text(tag, "tag", False) for tag in layout.tags]
    title = f"Dependency tree: {' '.join(tree.words)}"
    return Picture(layout.width, layout.height, tuple(elements), title, "; ".join(descriptions))


def _description(tree: DependencyTree, word: int) -> str:
    """The arc to a word as text, such as "cat: nsubj of sleeps"."""
    head, label = tree.heads[word - 1], tree.labels[word - 1]
    if not head:
        return f"{tree.words[word - 1]}: {label or 'root'}"
    return f"{tree.words[word - 1]}: {label or 'dependent'} of {tree.words[head - 1]}"


def _text(word: Word, role: str, mirrored: bool) -> str:
    title = "" if word.text == word.full else word.full
    return svg.text(word.x, word.y, word.text, role, "middle", title=title, within_right_to_left=mirrored)


def _arc(arc: Arc, layout: ArcLayout, tooltip: str) -> list[str]:
    length, half = ARROW
    foot = layout.foot
    variant = "-crossing" if arc.crossing else "" if arc.head else "-root"
    line: list[str | float] = ["M", arc.start, foot]
    if arc.head:
        bend = min(BEND, abs(arc.end - arc.start) / 2)
        inward = bend if arc.end > arc.start else -bend
        line += ["V", arc.top + bend, "Q", arc.start, arc.top, arc.start + inward, arc.top]
        line += ["H", arc.end - inward, "Q", arc.end, arc.top, arc.end, arc.top + bend]
    else:
        line = ["M", arc.end, arc.top]
    line += ["V", foot - length + 1]
    tip: list[str | float] = ["M", arc.end, foot, "L", arc.end - half, foot - length]
    tip += ["L", arc.end + half, foot - length, "Z"]
    return [svg.path(line, f"arc{variant}", tooltip), svg.path(tip, f"arrow{variant}")]


def write_dependencies(trees: Sequence[DependencyTree], path: Path, theme: Theme = "auto") -> None:
    """Write trees, one below another, as SVG, PNG, HTML or LaTeX, chosen by the extension. Raises InputError."""
    write_picture(
        path,
        lambda: _stacked(trees),
        lambda: _page(trees, theme),
        lambda: "".join(
            ["% \\usepackage{tikz-dependency}\n", *(f"{format_dependency_latex(tree)}\n" for tree in trees)]
        ),
        theme,
    )


def _stacked(trees: Sequence[DependencyTree]) -> Picture:
    if len(trees) == 1:
        return dependency_picture(trees[0])
    mirrored = right_to_left(word for tree in trees for word in tree.words)
    return svg.stacked([_headed(tree) for tree in trees], "Dependency trees", gap=4, align_right=mirrored)


def _headed(tree: DependencyTree) -> Picture:
    """A tree with its name above it, on the side where the sentence starts."""
    picture = dependency_picture(tree)
    height = TEXT_SIZES["heading"] + MARGIN
    width = max(picture.width, text_width(tree.name, TEXT_SIZES["heading"]) + 2 * MARGIN)
    if right_to_left(tree.words):
        element = svg.text(picture.width - MARGIN, height, tree.name, "heading", "end")
    else:
        element = svg.text(MARGIN, height, tree.name, "heading")
    heading = Picture(width, height, (element,), picture.title)
    both = svg.stacked([heading, picture], gap=0)
    return Picture(both.width, both.height, both.elements, picture.title, picture.description)


def _page(trees: Sequence[DependencyTree], theme: Theme) -> str:
    sections = [
        Section(
            tree.name if len(trees) > 1 else "",
            (dependency_picture(tree),),
            " ".join(tree.words) if len(trees) > 1 else "",
        )
        for tree in trees
    ]
    return html_page("Dependency trees" if len(trees) > 1 else " ".join(trees[0].words), sections, theme)
