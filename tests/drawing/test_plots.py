"""Plots: their data, what is written on them, and their files."""

from __future__ import annotations

import math
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.drawing.svg import COLOURS, SERIES

from .reading import read_svg

matplotlib = pytest.importorskip("matplotlib", reason="the extra plot is not installed")
from matplotlib.colors import to_hex  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

from syntaxlm.drawing import plots  # noqa: E402
from syntaxlm.drawing.surprisal_plot import plot_surprisals  # noqa: E402
from syntaxlm.scoring.surprisal import WordSurprisal  # noqa: E402

LINES = {"a": [(0.0, 5.0), (1.0, math.nan), (2.0, 3.0)], "_b": [(0.0, 4.0), (2.0, 2.0)]}


def line_plot(**options):
    plot = plots.new_plot("Loss $5 & <more>", **options)
    plot.add_legend(plots.draw_lines(plot.axes[0], LINES))
    plots.label_axes(plot.axes[0], "epoch", "costs $1 or $2")
    return plot


def test_lines_have_the_points_of_their_series_and_styles_of_their_own():
    lines = line_plot().axes[0].lines
    assert [line.get_xdata().tolist() for line in lines] == [[0, 1, 2], [0, 2]]
    assert lines[0].get_ydata() == pytest.approx([5, math.nan, 3], nan_ok=True)
    assert len({(line.get_color(), line.get_marker(), str(line.get_linestyle())) for line in lines}) == 2
    long = plots.new_plot("")
    plots.draw_lines(long.axes[0], {"a": [(x, 0.0) for x in range(50)]})
    assert long.axes[0].lines[0].get_marker() in ("None", None)
    with pytest.raises(InputError, match="more than 7 series"):
        plots.draw_lines(long.axes[0], {str(number): [(0.0, 1.0)] for number in range(8)})


def test_every_series_is_named_outside_the_panel_and_no_text_is_mathematics():
    document = line_plot().svg()
    texts = [element.text for element in read_svg(document).iter() if element.tag.endswith("text")]
    assert {"a", "_b", "epoch", "costs $1 or $2"} <= set(texts)
    assert "<title>Loss $5 &amp; &lt;more&gt;</title>" in document


def test_bars_have_the_values_of_their_series_and_unknown_words_are_pale():
    plot = plots.new_plot("", size=plots.bars_size(["x"], 2))
    handles = plots.draw_bars(plot.axes[0], ["x", "y"], {"a": [1.0, -2.0], "b": [math.nan, 4.0]}, unknown=[1])
    heights = [[bar.get_height() for bar in bars] for bars in handles.values()]
    assert heights == [[1, -2], [pytest.approx(math.nan, nan_ok=True), 4]]
    assert [bar.get_alpha() for bar in handles["a"]] == [None, 0.35]
    assert [label.get_text() for label in plot.axes[0].get_xticklabels()] == ["x", "y"]
    edges = sorted((bar.get_x(), bar.get_x() + bar.get_width()) for bars in handles.values() for bar in bars)
    assert all(end <= start for (_, end), (start, _) in pairwise(edges))


@pytest.mark.parametrize(("names", "turned"), [(["a", "b"], 0), (["a name much longer than its bar"] * 12, 40)])
def test_long_names_are_turned(names, turned):
    plot = plots.new_plot("", size=plots.bars_size(names))
    plots.draw_bars(plot.axes[0], names, {"a": [1.0] * len(names)})
    assert {label.get_rotation() for label in plot.axes[0].get_xticklabels()} == {turned}


def test_points_have_their_intervals():
    ax = plots.new_plot("").axes[0]
    points = plots.draw_intervals(ax, [(1, 5), (2, 6)], [(4, 7), (5, 8)], fill="none", line=False)
    assert (points.get_ydata().tolist(), points.get_linestyle()) == ([5, 6], "None")
    assert [segment[:, 1].tolist() for segment in ax.collections[0].get_segments()] == [[4, 7], [5, 8]]


def test_ticks_of_a_logarithmic_axis_are_plain_numbers():
    plot = plots.new_plot("")
    plots.draw_lines(plot.axes[0], {"a": [(1, 80.0), (2, 1500.0)]})
    plots.scale_by_factors(plot.axes[0], "y")
    plot.figure.draw_without_rendering()
    texts = [label.get_text() for label in plot.axes[0].get_yticklabels()]
    assert {"100", "200", "500", "1,000"} <= set(texts)


def test_ticks_of_millions_are_powers_of_ten_so_that_they_do_not_overlap():
    plot = plots.new_plot("")
    plots.draw_lines(plot.axes[0], {"a": [(1e5, 1.2), (1e7, 1.5)]})
    plots.scale_by_factors(plot.axes[0], "x")
    plots.scale_by_factors(plot.axes[0], "y")
    plot.figure.draw_without_rendering()
    names = [label.get_text() for label in plot.axes[0].get_xticklabels()]
    assert {"100,000", "1,000,000", "10,000,000"} <= set(names)
    assert "200,000" not in names
    assert {"1.2", "1.5"} <= {label.get_text() for label in plot.axes[0].get_yticklabels()}


def test_users_may_give_axes_of_their_own_which_keep_their_style():
    figure = Figure()
    left, right = figure.subplots(1, 2)
    plot = line_plot(ax=right)
    assert plot.figure is figure
    assert not left.lines
    assert right.spines["top"].get_visible()
    with pytest.raises(InputError, match="found 2 axes; expected 1"):
        line_plot(ax=[left, right])


@pytest.mark.long
def test_two_plots_on_a_page_share_no_ids_and_style_nothing_else():
    first, second = line_plot(), line_plot()
    plots.draw_lines(second.axes[0], {"c": [(0, 1), (1, 3)]})
    pages = first.svg(), second.svg()
    assert pages[0] == first.svg()
    ids = [re.findall(r' id="([^"]*)"', page) for page in pages]
    references = [re.findall(r'(?:href="#|url\(#)([^")]*)', page) for page in pages]
    assert not set(ids[0]) & set(ids[1])
    assert [set(used) for used in references] == [set(given) for given in ids]
    assert all(rule.startswith((".syntaxlm-plot", "@media")) for rule in re.findall(r"<style>(.*?)\{", pages[0]))


def test_colours_follow_the_theme_and_are_restored():
    plot = line_plot()
    auto, dark = plot.svg(), plot.svg("dark")
    assert "prefers-color-scheme:dark" in auto
    assert "prefers-color-scheme" not in dark
    used = [set(re.findall(r"(?:fill|stroke): (#\w+)", text)) for text in (plot.svg("light"), dark)]
    pairs = [*COLOURS.values(), *SERIES]
    assert used[0] <= {light for light, _ in pairs}
    assert used[1] == {dark for light, dark in pairs if light in used[0]}
    assert [to_hex(line.get_color()) for line in plot.axes[0].lines] == [light for light, _ in SERIES[:2]]


@pytest.mark.parametrize(("suffix", "start"), [(".pdf", b"%PDF"), (".png", b"\x89PNG"), (".html", b"<!doctype html>")])
def test_plots_are_written_as_files(tmp_path, suffix, start):
    line_plot().save(tmp_path / f"plot{suffix}")
    content = (tmp_path / f"plot{suffix}").read_bytes()
    assert content.startswith(start)
    assert suffix != ".pdf" or b"/FontFile2" in content  # an embedded TrueType font
    with pytest.raises(InputError, match=r"expected one of \.svg, \.pdf, \.png, \.html"):
        line_plot().save(tmp_path / "plot.gif")


@pytest.mark.parametrize("dpi", [100, pytest.param(450, marks=pytest.mark.long)])
def test_a_png_has_the_dots_of_its_width_in_millimetres(tmp_path, dpi):
    line_plot().save(tmp_path / "plot.png", width=127, dpi=dpi)
    header = (tmp_path / "plot.png").read_bytes()[:24]
    assert int.from_bytes(header[16:20], "big") == 5 * dpi


@pytest.mark.long
def test_characters_without_a_font_are_warned_of_where_they_become_boxes(tmp_path):
    plot = plots.new_plot("")
    plots.draw_bars(plot.axes[0], ["\U0010fffd"], {"a": [1.0]})
    assert "\U0010fffd" in plot.svg()
    with pytest.warns(InputWarning, match="Install a font"):
        plot.save(tmp_path / "plot.png")


def test_threads_may_draw_at_once_and_settings_of_matplotlib_stay():
    before = dict(matplotlib.rcParams)
    with ThreadPoolExecutor(4) as pool:
        documents = set(pool.map(lambda _: line_plot().svg(), range(8)))
    assert len(documents) == 1
    assert dict(matplotlib.rcParams) == before


def test_the_error_without_the_library_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InputError, match=r"pip install 'syntaxlm\[plot\]'"):
        plots.new_plot("")


def test_an_infinite_surprisal_has_a_number_but_no_bar():
    words = [
        WordSurprisal(1, 1, "a", 0, 1, "a", True, 3.0, 3.0, 0.0, 1),
        WordSurprisal(1, 2, "b.", 2, 4, "b .", True, math.inf, math.inf, 1.0, 2),
    ]
    (panel,) = plot_surprisals([words]).axes
    assert [bar.get_height() for bar in panel.patches] == [3, 0]
    assert [text.get_text() for text in panel.texts] == ["3.0", "inf"]
    assert panel.get_ylim()[1] < 4


@pytest.mark.parametrize(("sentence", "is_mirrored"), [("הילד הלך הביתה", True), ("the boy went", False)])
def test_the_first_word_of_a_sentence_is_on_the_side_where_its_script_begins(sentence, is_mirrored):
    words = [WordSurprisal(1, place, word, 0, 1, word, True, 3.0) for place, word in enumerate(sentence.split(), 1)]
    (panel,) = plot_surprisals([words]).axes
    assert [label.get_text() for label in panel.get_xticklabels()] == sentence.split()
    assert panel.xaxis_inverted() == is_mirrored
