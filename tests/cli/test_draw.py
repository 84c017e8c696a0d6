"""The command `draw`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import syntaxlm
from syntaxlm.drawing.files import _has_fonts
from syntaxlm.storage.folder import write_model
from syntaxlm.trees.tree import parse_brackets
from tests.drawing.reading import drawn, of_role, read_svg
from tests.grammar_models import grammar

SENTENCE = "the cat sees a dog"
GOLD = "(S (NP (DT the) (NN cat)) (VP (VBZ sees) (NP (DT a) (NN dog))))"


@pytest.fixture
def draw(trained, tmp_path, run):
    """Draws with the small PRPN; returns exit code, the file, stderr."""

    def draw(*arguments: object, name: str = "out.svg", model: Path = trained.prpn) -> tuple[int, Path, str]:
        code, out, error = run("draw", model, *arguments, "-o", tmp_path / name)
        assert out == ""
        return code, tmp_path / name, error

    return draw


def test_a_sentence_is_drawn_as_svg(draw):
    code, path, said = draw(SENTENCE)
    assert (code, said) == (0, "")
    root = read_svg(path.read_text(encoding="utf-8"))
    words = of_role(root, "word") + of_role(root, "unknown")
    assert sorted(map(drawn, words)) == sorted(SENTENCE.split())
    assert len(of_role(root, "bar")) == 4


def test_the_command_of_readme_draws_its_first_picture(run, tmp_path):
    text = "The keys to the cabinet are on the table."
    path = tmp_path / "keys.svg"
    assert run("draw", "en", text, "--surprisal", "--no-chart", "-o", path) == (0, "", "")
    written, shown = (
        re.sub("<style>.*?</style>", "", file.read_text(encoding="utf-8"), flags=re.DOTALL)
        for file in (path, Path("docs/images/one-sentence.svg"))
    )
    assert written == shown


@pytest.mark.parametrize("given", [["--gold", GOLD], [SENTENCE, "--pretokenised"]])
def test_surprisals_are_drawn_below_a_sentence_as_score_reads_it(draw, given):
    code, path, error = draw(*given, "--surprisal")
    assert code == 2
    assert "expected a SENTENCE, which is read as by score" in error
    assert not path.exists()


def test_the_name_of_a_file_is_not_drawn_as_a_sentence(refused, trained, tmp_path):
    (tmp_path / "a.txt").write_text("a b\n")
    assert "a.txt: found a file; expected a sentence" in refused("draw", trained.prpn, tmp_path / "a.txt")


def test_a_gold_tree_is_drawn_and_determines_the_words(draw):
    code, path, said = draw("--gold", GOLD, "--decoder", "unbiased")
    assert (code, said) == (0, "")
    root = read_svg(path.read_text(encoding="utf-8"))
    assert [drawn(heading) for heading in of_role(root, "heading")] == ["induced", "gold"]
    assert len(of_role(root, "word") + of_role(root, "unknown")) == 10


def test_a_tree_of_a_gold_file_is_chosen_by_its_number_and_cleaned_up(draw, toy):
    code, path, _ = draw("--gold", toy / "test.mrg", "--number", 2, "--preprocessing", "letters")
    assert code == 0
    gold = parse_brackets((toy / "test.mrg").read_text(encoding="utf-8"))[1]
    root = read_svg(path.read_text(encoding="utf-8"))
    kept = [word for word in gold.words if any(map(str.isalnum, word))]
    assert len(of_role(root, "word") + of_role(root, "unknown")) == 2 * len(kept)


def test_maps_are_drawn_with_the_tree(draw):
    code, path, _ = draw(SENTENCE, "--maps")
    assert code == 0
    titles = [drawn(title) for title in of_role(read_svg(path.read_text(encoding="utf-8")), "title")]
    assert titles == ["memory gate", "attention of layer 1", "attention of layer 2", "next gate", "predict attention"]


@pytest.mark.parametrize(
    ("arguments", "name", "start", "part", "count"),
    [
        ([SENTENCE, "--maps"], "out.html", "<!doctype html>", "<svg", 6),
        (["--gold", GOLD], "out.tex", "", r"\begin{forest}", 2),
        ([SENTENCE], "out.svg", "<svg", "prefers-color-scheme", 1),
        ([SENTENCE, "--theme", "dark"], "out.svg", "<svg", "prefers-color-scheme", 0),
    ],
)
def test_the_extension_selects_the_format_and_the_theme_fixes_the_colours(draw, arguments, name, start, part, count):
    code, path, _ = draw(*arguments, name=name)
    content = path.read_text(encoding="utf-8")
    assert code == 0
    assert content.startswith(start)
    assert content.count(part) == count


@pytest.mark.parametrize(("name", "start"), [("out.PNG", b"\x89PNG\r\n\x1a\n"), ("out.pdf", b"%PDF")])
def test_a_picture_is_written_as_png_or_pdf(draw, name, start):
    pytest.importorskip("resvg_py", reason="the extra draw is not installed")
    if not _has_fonts():
        pytest.skip("this machine has none of the usual fonts")
    code, path, _ = draw(SENTENCE, name=name)
    assert code == 0
    assert path.read_bytes().startswith(start)


@pytest.mark.parametrize(
    ("arguments", "name", "said"),
    [
        ([], "out.svg", "found neither"),
        ([SENTENCE, "--gold", GOLD], "out.svg", "found both"),
        ([SENTENCE, "--number", "1"], "out.svg", "--gold is missing"),
        ([SENTENCE], "out.gif", "out.gif: found the extension '.gif'; expected one of .svg, .pdf, .png, .html"),
        ([SENTENCE], "out", "found no extension"),
        ([SENTENCE, "--maps"], "out.tex", "LaTeX output contains only trees"),
        ([SENTENCE, "--layer", "2"], "out.svg", "layer: found 2; expected 1 to 1"),
        ([" "], "out.svg", "found no words that the model reads"),
        (["--gold", "(S (A a)"], "out.svg", "the gold tree, line 1"),
        (["--gold", "nowhere.mrg"], "out.svg", "nowhere.mrg: cannot be read"),
        (["--gold", GOLD, "--preprocessing", "nonsense"], "out.svg", "preprocessing 'nonsense'"),
        ([SENTENCE], "no/folder/out.svg", "cannot be written"),
    ],
)
def test_what_cannot_be_drawn_is_reported_and_nothing_is_written(draw, tmp_path, arguments, name, said):
    code, path, error = draw(*arguments, name=name)
    assert code == 2
    assert said in error
    assert error.count("error:") == 1
    assert not path.exists()


def test_a_model_that_does_not_parse_is_reported(draw, trained):
    code, path, error = draw(SENTENCE, model=trained.lstm)
    assert code == 2
    assert "does not parse" in error
    assert not path.exists()


@pytest.mark.parametrize("of_gold", [["--gold", GOLD], [SENTENCE, "--beliefs"]])
def test_marks_are_refused_where_they_are_not_used(draw, of_gold):
    code, path, error = draw(*of_gold, "--marks", "both")
    assert code == 2
    assert f"{'--beliefs' if '--beliefs' in of_gold else '--gold'}: found --marks" in error
    assert not path.exists()


def test_a_drawing_of_beliefs_refuses_what_it_does_not_use(refused, trained, tmp_path):
    assert "--beliefs: found --decoder, --maps" in refused(
        "draw", trained.prpn, SENTENCE, "--beliefs", "--maps", "--decoder", "biased"
    )
    assert "expected one of .svg, .pdf, .png, .html" in refused(
        "draw", trained.prpn, SENTENCE, "--beliefs", "-o", tmp_path / "a.tex"
    )
    assert "gives no probabilities of constituents after each word" in refused(
        "draw", trained.prpn, SENTENCE, "--beliefs"
    )


def test_a_drawing_of_beliefs_names_the_model_in_the_present_folder(run, tmp_path, monkeypatch):
    folder = tmp_path / "mine"
    write_model(folder, grammar("simple-pcfg"))
    monkeypatch.chdir(folder)
    code, svg, _ = run("draw", ".", SENTENCE, "--beliefs")
    assert code == 0
    assert "Model: mine." in svg
    assert "Model: mine." in syntaxlm.load(".").draw_beliefs(SENTENCE).svg()
