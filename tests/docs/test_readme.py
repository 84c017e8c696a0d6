"""What README shows is what the commands print, and its two tables and its plot are those of the stored results."""

from __future__ import annotations

import csv
import doctest
import io
import re
import shlex

import pytest
from laboratory.pages.pictures import IMAGES, PICTURES, seeds, trees_as_signal
from laboratory.pages.signal import compared
from laboratory.pages.specified import specified_table
from laboratory.pages.stored_results import trained

import syntaxlm
from syntaxlm.cli import main
from tests.docs.examples import ROOT
from tests.drawing.reading import assert_same_plot, drawn, read_svg

README = ROOT / "README.md"
(CONSOLE,) = re.findall(r"^```console\n(.*?)^```", README.read_text(encoding="utf-8"), re.M | re.S)


def test_the_commands_print_what_readme_shows(capsys):
    parse, score = re.findall(r"^\$ syntaxlm (.*)\n((?:[^$].*\n)+)", CONSOLE, re.M)
    assert main(shlex.split(parse[0])) == 0
    assert capsys.readouterr().out == parse[1]
    command, cut, head = score[0].split(" | ")
    assert (cut, head) == ("cut -f 3,7,8", "head -n 2")
    assert main(shlex.split(command)) == 0
    printed, shown = (csv.reader(io.StringIO(text), delimiter="\t") for text in (capsys.readouterr().out, score[1]))
    for line, (word, known, bits) in zip(printed, shown, strict=False):
        assert (line[2], line[6]) == (word, known)
        assert line[7] == bits or float(line[7]) == pytest.approx(float(bits), abs=1e-3)


def test_the_check_of_the_installation_prints_what_the_page_shows(capsys):
    page = (ROOT / "docs" / "guides" / "install.md").read_text(encoding="utf-8")
    for command, printed in re.findall(r"^\$ syntaxlm (.*)\n((?:[^$`].*\n)+)", page, re.M):
        if command == "--version":
            assert printed == f"syntaxlm {syntaxlm.__version__}\n"
        else:
            assert main(shlex.split(command)) == 0
            assert capsys.readouterr().out == printed


def test_the_python_of_readme_prints_what_it_shows():
    (block,) = re.findall(r"^```pycon\n(.*?)^```", README.read_text(encoding="utf-8"), re.M | re.S)
    runner = doctest.DocTestRunner()
    found = runner.run(doctest.DocTestParser().get_doctest(block, {}, "README.md", None, None))
    assert found.attempted >= 4
    assert found.failed == 0


def test_perplexities_of_a_row_are_of_one_text_read_as_a_stream():
    rows = specified_table("readme-perplexity").splitlines()[2:]
    pairs = [("on-lstm", "lstm"), ("prpn", "prpn-lstm")]
    for model, baseline in pairs:
        first, second = (trained("converged", name).reports[1] for name in (model, baseline))
        for key in ("tokens", "carry_state", "unknown"):
            assert first["test"][key] == second["test"][key]
        assert first["test"]["carry_state"] is True
        assert first["epochs"] == second["epochs"]
    assert len(rows) == 5
    assert all(len(row.strip("|").split("|")) == 5 for row in rows)


def test_the_plot_has_a_dot_per_seed_and_the_baselines():
    picture = seeds().svg()
    assert_same_plot(IMAGES / "seeds.svg", picture)
    assert sum(len(row.get_xdata()) for row in seeds().axes[0].lines if row.get_marker() == "o") == 25
    assert {"right branching 39.7", "random 17.8", "upper bound 84.4"} <= {
        drawn(one) for one in read_svg(picture).iter()
    }
    assert "(prefers-color-scheme:dark)" in picture


def test_the_plot_of_trees_in_training_has_a_dot_per_run_with_trees():
    assert_same_plot(IMAGES / "trees-as-signal.svg", trees_as_signal().svg())
    shown = sum(len(row.get_xdata()) for row in trees_as_signal().axes[0].lines if row.get_linestyle() == "None")
    runs = [len(row["runs"]) for rows in compared().values() for trees, row in rows.items() if trees != "none"]
    assert shown == sum(runs) > 0


def test_the_picture_of_a_sentence_is_what_is_drawn_today():
    stored, today = ((IMAGES / "one-sentence.svg").read_text(encoding="utf-8"), PICTURES["one-sentence.svg"]().svg())
    texts = [[drawn(one) for one in read_svg(text).iter() if one.tag.endswith("text")] for text in (stored, today)]
    assert texts[0] == texts[1]
    assert {"keys", "cabinet", "12.5"} <= set(texts[0])
