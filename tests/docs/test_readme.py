"""What README shows is what Python prints, and its table and its plot are those of the stored results."""

from __future__ import annotations

import doctest
import re
import shlex

import pytest
from laboratory.pages.pictures import IMAGES, PICTURES, seeds, trees_as_signal
from laboratory.pages.signal import compared
from laboratory.pages.specified import specifications, specified_table
from laboratory.pages.stored_results import all_parsed, parsed, trained, trained_of

import syntaxlm
from syntaxlm.cli import main
from tests.docs.examples import ROOT
from tests.drawing.reading import assert_same_plot, drawn, read_svg

README = ROOT / "README.md"


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
    assert found.attempted == 4
    assert found.failed == 0


def test_f1_and_perplexity_of_a_row_are_of_the_same_models_and_beside_an_lstm_that_read_the_same_text():
    facts = [line for line in specifications()["readme-models"]["lines"] if line["experiment"] != "shipped"]
    for line in facts:
        if "perplexity_of_parsed" in line.get("without", ()) or "only" in line:
            continue
        if line.get("if_stored") and not all_parsed(line["experiment"], "wsj", run=line["run"]):
            continue
        decoder = line["decoder"][0] if isinstance(line["decoder"], list) else line["decoder"]
        scored = parsed(line["experiment"], line.get("scored_on", "wsj"), line.get("run", ""), decoder)
        own = trained_of(scored, line["experiment"], line.get("run", ""))
        assert own.seeds == scored.seeds
        if "beside" in line:
            other = trained(line["beside"]["experiment"], line["beside"].get("run", ""))
            for key in ("tokens", "carry_state", "unknown"):
                assert own.first["test"][key] == other.first["test"][key]
            assert own.first["epochs"] == other.first["epochs"] or line["experiment"] == "trees-as-signal"


def test_both_runs_of_one_command_are_in_the_table():
    """The command was run on two processors, with the same seed."""
    rows = specified_table("readme-models")
    reports = [parsed("trees-as-signal", "wsj", name).first["f1"] for name in ("sentences", "again")]
    assert all(f"| {100 * f1:.1f} |" in rows for f1 in reports)
    assert abs(reports[0] - reports[1]) > 0.05


def test_the_plot_has_a_dot_per_seed_and_the_baselines():
    picture = seeds().svg()
    assert_same_plot(IMAGES / "seeds.svg", picture)
    prpn = [
        found
        for run in ("resolution-0.1", "resolution-0.5")
        for found in all_parsed("prpn-ptb-parsing", "wsj", run=run)
    ]
    dots = 5 + 2 * 5 + 2 * sum(found.count for found in prpn)  # SN-PCFG, and two decoders of ON-LSTM and PRPN
    assert sum(len(row.get_xdata()) for row in seeds().axes[0].lines if row.get_marker() == "o") == dots
    assert {"right branching 39.7", "random 17.8", "upper bound 84.4"} <= {
        drawn(one) for one in read_svg(picture).iter()
    }
    assert "(prefers-color-scheme:dark)" in picture


def test_the_plot_of_trees_in_training_has_a_dot_per_run_with_trees():
    assert_same_plot(IMAGES / "trees-as-signal.svg", trees_as_signal().svg())
    shown = sum(len(row.get_xdata()) for row in trees_as_signal().axes[0].lines if row.get_linestyle() == "None")
    runs = [len(row["runs"]) for rows in compared().values() for trees, row in rows.items() if trees != "none"]
    assert shown == sum(runs) > 0


@pytest.mark.parametrize(
    ("name", "texts"), [("one-sentence.svg", {"keys", "cabinet", "12.5"}), ("beliefs.svg", {"answer", "60→3"})]
)
def test_the_picture_of_a_sentence_is_what_is_drawn_today(name, texts):
    stored, today = ((IMAGES / name).read_text(encoding="utf-8"), PICTURES[name]().svg())
    found = [[drawn(one) for one in read_svg(text).iter() if one.tag.endswith("text")] for text in (stored, today)]
    assert found[0] == found[1]
    assert texts <= set(found[0])
