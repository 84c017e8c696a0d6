"""What README shows is what Python prints, and its table and its plot are those of the stored results."""

from __future__ import annotations

import doctest
import re
import shlex

import pytest
from laboratory.pages.models_plot import BOTH, ONLY_TREES, ONLY_WORDS
from laboratory.pages.pictures import IMAGES, PICTURES, seeds, trees_as_signal
from laboratory.pages.signal import compared
from laboratory.pages.specified import specifications, specified_table
from laboratory.pages.stored_results import all_parsed, parsed, trained, trained_of

import syntaxlm
from syntaxlm.cli import main
from syntaxlm.drawing.plot import Plot
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


def test_the_plot_of_readme_has_a_dot_per_seed_and_a_name_per_model():
    plot = PICTURES["models.svg"]()
    assert isinstance(plot, Plot)
    assert_same_plot(IMAGES / "models.svg", plot.svg())
    assert "docs/images/models.svg" in README.read_text(encoding="utf-8")
    panels = [BOTH, ONLY_TREES, [model for row in ONLY_WORDS for model in row]]
    for axes, models in zip(plot.axes[:3], panels, strict=True):
        shown = sum(len(line.get_xdata()) for line in axes.lines if line.get_marker() not in ("None", None))
        assert shown == sum(len(model.f1() if model.decoder else model.perplexities()) for model in models) > 0
        assert {model.label.text for model in models if model.label} <= {text.get_text() for text in axes.texts}


def test_the_plot_of_readme_shows_the_perplexity_of_the_models_whose_trees_are_scored():
    for model in BOTH:
        assert len(model.f1()) == len(model.perplexities())
        own = parsed(model.experiment, "wsj", model.run, model.decoder).first["protocol"]
        assert own == "wsj-test"
        tokens = trained(model.experiment, model.run).first["test"]["tokens"]
        assert tokens in (82_430, 81_858)  # of PTB's test text, with and without the marks $ and #


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
    ("name", "texts"), [("one-sentence.svg", {"keys", "cabinet", "13.5"}), ("beliefs.svg", {"child", "54→12"})]
)
def test_the_picture_of_a_sentence_is_what_is_drawn_today(name, texts):
    stored, today = ((IMAGES / name).read_text(encoding="utf-8"), PICTURES[name]().svg())
    found = [[drawn(one) for one in read_svg(text).iter() if one.tag.endswith("text")] for text in (stored, today)]
    assert found[0] == found[1]
    assert texts <= set(found[0])
