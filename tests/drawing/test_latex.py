"""Trees as LaTeX."""

from __future__ import annotations

from syntaxlm.drawing.latex import format_dependency_latex, format_latex
from syntaxlm.trees.tree import Constituent, DependencyTree, Tree, parse_brackets


def test_labels_tags_and_words_are_in_their_brackets():
    (tree,) = parse_brackets("(S (NP (DT the) (NN cat)) (VP (VBD sat)))")
    assert format_latex(tree).splitlines() == [
        r"\begin{forest}",
        "[{S} [{NP} [{DT} [{the}, tier=word]] [{NN} [{cat}, tier=word]]] [{VP} [{VBD} [{sat}, tier=word]]]]",
        r"\end{forest}",
    ]


def test_induced_nodes_have_no_label():
    tree = Tree(("a", "b", "c"), ("",) * 3, (Constituent("X", 0, 3), Constituent("X", 1, 3)))
    assert format_latex(tree).splitlines()[1] == ("[ [{a}, tier=word] [ [{b}, tier=word] [{c}, tier=word]]]")


def test_special_characters_of_latex_and_forest_are_escaped():
    words = ("$5", "50%", "a_b", "{x}", "\\", "~", "^", "#1", "&", "[,]")
    text = format_latex(Tree(words, ("",) * len(words), (Constituent("X", 0, len(words)),)))
    expected = (
        r"{\$5} {50\%} {a\_b} {\{x\}} {\textbackslash{}} {\textasciitilde{}} {\textasciicircum{}} {\#1} {\&} {[,]}"
    )
    assert [piece for piece in expected.split() if f"[{piece}, tier=word]" not in text] == []


def test_a_tree_of_five_thousand_words_closes_every_bracket():
    size = 5000
    tree = Tree(("w",) * size, ("",) * size, tuple(Constituent("X", start, size) for start in range(size - 1)))
    text = format_latex(tree)
    assert text.count("[") == text.count("]") == 2 * size - 1


def test_dependencies_are_words_in_a_row_and_arcs_from_head_to_dependent():
    tree = DependencyTree(("a_b", "&", "c"), ("",) * 3, (2, 0, 2), ("x%", "", "y"))
    assert format_dependency_latex(tree).splitlines() == [
        r"\begin{dependency}",
        r"\begin{deptext}",
        r"{a\_b} \& {\symbol{38}} \& {c} \\",
        r"\end{deptext}",
        r"\depedge{2}{1}{x\%}",
        r"\deproot{2}{root}",
        r"\depedge{2}{3}{y}",
        r"\end{dependency}",
    ]


def test_a_tree_without_an_outermost_constituent_has_one_root():
    tree = Tree(("keys", "to", "cabinet"), ("",) * 3, (Constituent("NP", 0, 2),))
    line = format_latex(tree).splitlines()[1]
    assert line == "[ [{NP} [{keys}, tier=word] [{to}, tier=word]] [{cabinet}, tier=word]]"
    assert format_latex(Tree(("a", "b"), ("",) * 2, ())).splitlines()[1] == "[ [{a}, tier=word] [{b}, tier=word]]"
    assert format_latex(Tree(("a",), ("",), ())).splitlines()[1] == "[{a}, tier=word]"
