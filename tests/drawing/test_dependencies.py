"""Pictures of dependency trees, and the command that draws them."""

from __future__ import annotations

from pathlib import Path

import pytest

from syntaxlm import cli
from syntaxlm.core.errors import InputError
from syntaxlm.drawing.dependencies import dependency_picture
from syntaxlm.parsing.analysis import MOST_TREES, MOST_WORDS, read_trees
from syntaxlm.trees.conllu import write_conllu
from syntaxlm.trees.tree import DependencyTree

from .reading import drawn, of_role, read_svg, styled_roles, tooltip, used_roles

TREE = DependencyTree(
    ("the", "cat", "sleeps", "."), ("DET", "NOUN", "VERB", ""), (2, 3, 0, 3), ("det", "nsubj", "root", ""), "one"
)
OTHER = DependencyTree(("Yes",), ("",), (0,), ("",), "two")
CROSSING = DependencyTree(tuple("abcd"), ("",) * 4, (3, 4, 0, 3), ("x",) * 4, "three")


@pytest.fixture
def draw(tmp_path, capsys):
    """Draws trees of a file; returns exit code, the picture, stderr."""

    def draw(trees: list[DependencyTree], *arguments: object, name: str = "out.svg") -> tuple[int, Path, str]:
        write_conllu(trees, tmp_path / "trees.conllu")
        path = tmp_path / name
        code = cli.main(["draw", str(tmp_path / "trees.conllu"), *map(str, arguments), "-o", str(path)])
        captured = capsys.readouterr()
        assert captured.out == ""
        return code, path, captured.err

    return draw


def test_words_tags_labels_and_an_arrow_for_each_arc_are_drawn():
    document = dependency_picture(TREE).svg()
    root = read_svg(document)
    assert [drawn(word) for word in of_role(root, "word")] == list(TREE.words)
    assert [drawn(tag) for tag in of_role(root, "tag")] == ["DET", "NOUN", "VERB"]
    assert [drawn(label) for label in of_role(root, "relation")] == ["det", "nsubj"]
    assert [drawn(label) for label in of_role(root, "relation-root")] == ["root"]
    assert len(of_role(root, "arc")) == len(of_role(root, "arrow")) == 3
    assert len(of_role(root, "arc-root")) == len(of_role(root, "arrow-root")) == 1
    assert {tooltip(arc) for arc in of_role(root, "arc")} == {
        "the: det of cat", "cat: nsubj of sleeps", ".: dependent of sleeps",
    }  # fmt: skip
    assert used_roles(document) <= styled_roles(document)


def test_arcs_that_make_a_tree_non_projective_are_marked():
    root = read_svg(dependency_picture(CROSSING).svg())
    assert [tooltip(arc) for arc in of_role(root, "arc-crossing")] == ["b: x of d"]


def test_the_arcs_are_described_for_screen_readers():
    picture = dependency_picture(TREE)
    assert picture.description == "the: det of cat; cat: nsubj of sleeps; sleeps: root; .: dependent of sleeps"
    assert picture.title == "Dependency tree: the cat sleeps ."


@pytest.mark.parametrize(
    "words",
    [
        ("<b>", "&amp;", "\"'", "]]>"), ("\x00", "\ud800", "\u202e", "\u200b"), ("ذهب", "الولد", "!", "("),
        ("x" * 300,) * 4,
    ],
)  # fmt: skip
def test_any_words_can_be_drawn(words):
    tree = DependencyTree(words, words, (2, 0, 2, 3), words)
    root = read_svg(dependency_picture(tree).svg())
    assert len(of_role(root, "word")) == len(of_role(root, "tag")) == 4
    assert all(drawn(word) for word in of_role(root, "word"))


def test_a_tree_is_displayed_in_a_notebook():
    assert TREE._repr_svg_() == dependency_picture(TREE).svg()


def test_all_trees_of_a_file_are_drawn_under_their_names_or_one_by_its_number(draw):
    code, path, message = draw([TREE, OTHER, CROSSING])
    assert code == 0
    assert message.endswith("trees.conllu: dependency trees, CoNLL-U, 3 sentences, 9 words\n")
    root = read_svg(path.read_text(encoding="utf-8"))
    assert [drawn(heading) for heading in of_role(root, "heading")] == ["one", "two", "three"]
    assert [drawn(word) for word in of_role(root, "word")] == [*TREE.words, "Yes", *"abcd"]
    code, path, _ = draw([TREE, OTHER, CROSSING], "--number", 2, "--theme", "dark")
    document = path.read_text(encoding="utf-8")
    assert [drawn(word) for word in of_role(read_svg(document), "word")] == ["Yes"]
    assert document == dependency_picture(OTHER).svg("dark")


def test_preprocessing_drops_words(draw):
    _, path, _ = draw([TREE], "--preprocessing", "letters")
    assert [drawn(word) for word in of_role(read_svg(path.read_text(encoding="utf-8")), "word")] == list(TREE.words[:3])


def test_a_page_and_latex_are_written(draw):
    _, path, _ = draw([TREE, OTHER], name="out.html")
    page = path.read_text(encoding="utf-8")
    assert page.count("<svg") == 2
    assert ">two</h2>" in page
    _, path, _ = draw([TREE, OTHER], name="out.tex")
    assert path.read_text(encoding="utf-8").count(r"\begin{dependency}") == 2


@pytest.mark.parametrize(
    ("trees", "arguments", "name", "message"),
    [
        ([TREE], ["the cat"], "out.svg", "found sentence with a file of dependency trees"),
        ([TREE], ["--maps", "--layer", "1"], "out.svg", "found --layer, --maps with a file"),
        ([TREE], [], "out.gif", "found the extension '.gif'"),
        ([TREE, OTHER], ["--number", "3"], "out.svg", "the file has trees 1 to 2"),
        ([TREE] * (MOST_TREES + 1), [], "out.svg", "more than 30 trees; choose one with --number"),
        ([DependencyTree(("a",), ("",), (1,), ("",))], [], "out.svg", "sentence 1: words 1 have no path to a root"),
    ],
)
def test_trees_that_cannot_be_drawn_raise_an_error_and_nothing_is_written(draw, trees, arguments, name, message):
    code, path, error = draw(trees, *arguments, name=name)
    assert code == 2
    assert message in error
    assert error.count("error:") == 1
    assert not path.exists()


@pytest.mark.parametrize("heads", [(2, 1), (1, 0), (2, 3, 2)])
def test_heads_without_a_path_to_a_root_raise_an_error_with_file_and_sentence(heads, tmp_path):
    rows = (f"{number}\tw\t_\t_\t_\t_\t{head}\tdep\t_\t_\n" for number, head in enumerate(heads, 1))
    (tmp_path / "trees.conllu").write_text("".join(rows) + "\n")
    with pytest.raises(InputError, match=r"trees\.conllu, line 1, sentence 1: words .* have no path to a root"):
        read_trees(tmp_path / "trees.conllu")


def test_a_sentence_that_is_too_long_raises_an_error(tmp_path):
    rows = (f"{number}\tw\t_\t_\t_\t_\t{number - 1}\tdep\t_\t_\n" for number in range(1, MOST_WORDS + 2))
    (tmp_path / "trees.conllu").write_text("".join(rows) + "\n")
    with pytest.raises(InputError, match=r"sentence 1: found 1,001 words; expected at most 1000"):
        read_trees(tmp_path / "trees.conllu")
