"""The report on a model: its content, missing sections, and accessibility."""

from __future__ import annotations

import functools
import json
import math
import re
import shutil
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syntaxlm.api.model_report import (
    DRAWN_WORDS,
    _flattened,
    best_and_worst,
    key_figures,
    page_of,
    read_run,
    training_section,
    write_report,
)
from syntaxlm.core.errors import InputError
from syntaxlm.drawing.sentence import Drawing
from syntaxlm.evaluation.trees import evaluate_parsing
from syntaxlm.parsing.analysis import analyse
from syntaxlm.parsing.options import DecodingOptions, ParseOptions
from syntaxlm.reports import page as report_page
from syntaxlm.storage.folder import read_model
from syntaxlm.training.learning_curves import POINTS, read_metrics, thinned
from syntaxlm.training.recipe import recipe_from
from syntaxlm.training.result import read_result
from syntaxlm.training.run import train
from syntaxlm.trees.f1 import PROTOCOLS
from syntaxlm.trees.spans import trees_of
from tests.fresh_models import layered

PARTS = [
    "Training", "Perplexity", "Unlabelled F1", "F1 by length", "Recall by label", "Depth and branching",
    "Best sentences", "Worst sentences", "Settings",
]  # fmt: skip


class Read:
    """A parsed page; fails if an element is not closed or closed in the wrong place."""

    def __init__(self, page: str) -> None:
        closed = re.sub(r"<((?:meta|link)\b[^>]*)>", r"<\1/>", page.removeprefix("<!doctype html>"))
        self.elements = [(each.tag.rpartition("}")[2], each) for each in ElementTree.fromstring(closed).iter()]
        self.text = text_of(self.elements[0][1])
        self.headings = [(tag, text_of(each)) for tag, each in self.elements if tag in ("h1", "h2", "h3")]
        self.parts = [text for tag, text in self.headings if tag == "h2"]
        tables = [each for tag, each in self.elements if tag == "table"]
        self.tables = {
            text_of(one.find("caption")): [list(map(text_of, row)) for row in one.iter("tr")] for one in tables
        }
        assert len(self.tables) == len(tables), "two tables of one name"

    def all(self, tag: str) -> list[dict[str, str]]:
        return [each.attrib for name, each in self.elements if name == tag]


def text_of(element: ElementTree.Element) -> str:
    return "".join(element.itertext())


@pytest.fixture(scope="module")
def parsing(trained, toy):
    return evaluate_parsing(read_model(trained.prpn), toy / "test.mrg")


@pytest.fixture(scope="module")
def page(parsing, trained):
    return page_of(read_model(trained.prpn), read_run(trained.prpn), parsing)


@pytest.fixture(scope="module")
def html_of(page):
    """The page by its theme."""
    return functools.cache(page.html)


@pytest.fixture(scope="module")
def html(html_of):
    return html_of("auto")


@pytest.fixture(scope="module")
def read(html):
    return Read(html)


@pytest.fixture
def run_folder(trained, tmp_path):
    """A copy of the trained PRPN's folder, to be damaged."""
    return Path(shutil.copytree(trained.prpn, tmp_path / "model"))


def percents(*values: float) -> list[str]:
    return [f"{100 * value:.1f}" for value in values]


def test_the_page_has_all_sections_in_order_and_nothing_missing(page, read):
    assert read.parts == PARTS
    assert page.left_out == {}


def test_without_matplotlib_the_page_has_tables_and_says_what_to_install(trained, monkeypatch):
    monkeypatch.setattr("syntaxlm.api.model_report.has_matplotlib", lambda: False)
    note, *blocks = training_section(read_run(trained.prpn), "").blocks[1:]
    assert "pip install 'syntaxlm[plot]'" in note.text
    assert [block.kind for block in blocks] == ["table"]


@pytest.mark.parametrize(
    "theme", ["auto", *(pytest.param(theme, marks=pytest.mark.long) for theme in ("light", "dark"))]
)
def test_the_page_is_self_contained_without_scripts(html_of, theme):
    html = html_of(theme)
    links = [
        value for _, element in Read(html).elements for name, value in element.attrib.items()
        if name.rpartition("}")[2] in ("src", "href", "srcset", "action")
    ]  # fmt: skip
    assert {link.rstrip("0123456789abcdef-") for link in links} == {"data:,", "#section", "#plot"}
    assert not re.search(r"<script|@import|url\((?!#)|\bon\w+=", html)
    assert set(re.findall(r"https?://[^\"' <]*", html)) == {"http://www.w3.org/2000/svg"}


@pytest.mark.long
def test_the_theme_fixes_the_colours_of_page_and_pictures(html_of):
    auto, light, dark = map(html_of, ("auto", "light", "dark"))
    assert "color-scheme:light dark" in auto
    assert auto.count("prefers-color-scheme:dark") == 1 + auto.count("<svg")
    assert "prefers-color-scheme" not in light + dark
    assert light != dark


def test_the_page_is_accessible_to_screen_readers(read):
    """Headings without gaps, names of pictures, tables and parts, heads of rows and columns, targets of links."""
    assert read.all("html")[0]["lang"] == "en"
    levels = [int(tag[1]) for tag, _ in read.headings]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    for picture in read.all("svg"):
        assert picture["role"] == "img"
        assert picture["aria-label"]
    assert len(read.all("caption")) == len(read.all("table"))
    assert all(rows for rows in read.tables.values())
    heads = [attributes.get("scope") for attributes in read.all("th")]
    assert heads.count("col") == sum(len(rows[0]) for rows in read.tables.values())
    assert heads.count("row") == sum(len(rows) - 1 for rows in read.tables.values())
    names = [element.get("id") for _, element in read.elements if "id" in element.attrib]
    assert len(names) == len(set(names))
    pointed = [attributes["href"].removeprefix("#") for attributes in read.all("a")]
    pointed += [attributes["aria-labelledby"] for attributes in read.all("section")]
    assert set(pointed) == {name for name in names if name.startswith("section-")}
    assert len(read.all("figure")) == len(read.all("figcaption"))


def test_the_table_of_f1_has_both_decoders_baselines_and_bounds(html, read, parsing):
    rows = {row[0]: row[1:] for row in read.tables["Unlabelled F1, percent"][1:]}
    base = parsing.baselines
    expected = {
        "biased (chosen)": parsing.scores["biased"],
        "unbiased": parsing.scores["unbiased"],
        "right branching": base.right,
        "left branching": base.left,
        "balanced": base.balanced,
        "binary upper bound": base.binary_bound,
        "reachable by the biased decoder": base.biased_bound,
    }
    for name, scores in expected.items():
        assert rows.pop(name) == [*percents(scores.f1, scores.precision, scores.recall), "", "", ""]
    untrained = {f"random weights, {name}": one for name, one in parsing.random_weights.f1_by_decoder().items()}
    assert rows == {
        name: [*percents(one.mean), "", "", *percents(one.std, one.max), str(one.count)]
        for name, one in {**base.random_rows(), **untrained}.items()
    }
    for decoder, result in parsing.right_by_decoder.items():
        assert f"{decoder} compared with right branching: {result}" in html


def test_a_model_of_several_layers_has_a_table_of_their_f1(read, toy, tmp_path):
    stored = layered()
    parsing = evaluate_parsing(stored, toy / "test.mrg", layer=3)
    built = page_of(stored, read_run(tmp_path), parsing)
    html = built.html()
    heads, *rows = Read(html).tables["F1 by layer, percent"]
    assert heads == ["distances", "biased", "unbiased"]
    names = ["layer 1", "layer 2", "layer 3 (chosen)"]
    expected = [percents(values["biased"], values["unbiased"]) for values in parsing.f1_by_layer.values()]
    assert rows == [[name, *values] for name, values in zip(names, expected, strict=True)]
    assert built.key_figures[0].source.endswith("layer 3")
    assert html.count("distances of layer 3, decoded by") == 4
    assert html.count("distances of each layer, decoded by") == 1
    assert "F1 by layer, percent" not in read.tables
    # The bars of a drawn sentence are the distances of that layer.
    (best, *_), *_ = best_and_worst(parsing, parsing.details())
    words = parsing.details()[best].words
    drawn = next(block for section in built.sections[-3:-1] for block in section.blocks if block.kind == "figure")
    own = Drawing(analyse(stored, words, ParseOptions(layer=3)), parsing.gold.trees[best])
    assert drawn.picture.svg() == own.tree_picture().svg()


def test_f1_by_length_recall_by_label_and_shapes_are_those_of_the_scores(read, parsing):
    tables = read.tables
    biased, unbiased = parsing.scores["biased"], parsing.scores["unbiased"]
    head, *by_length = tables["F1 by length: F1, percent"]
    for row in by_length:
        f1, count = biased.f1_by_length[row[0]]
        assert row[1:4] == [str(count), *percents(f1, unbiased.f1_by_length[row[0]][0])]
    assert head[-1] == "right branching"
    weighted = sum(int(row[1]) * float(row[-1]) for row in by_length) / sum(int(row[1]) for row in by_length)
    assert weighted == pytest.approx(100 * parsing.baselines.right.f1, abs=0.05)
    by_label = tables["Recall by label: recall, percent"]
    assert [row[0] for row in by_label[1:]] == list(biased.recall_by_label)
    for row in by_label[1:]:
        recall, count = biased.recall_by_label[row[0]]
        assert row[1:4] == [str(count), *percents(recall, unbiased.recall_by_label[row[0]][0])]
    shapes = {row[0]: row[1:] for row in tables["Shape of the trees"][1:]}
    assert shapes.keys() == {"biased", "unbiased", "right branching", "gold"}
    assert shapes["gold"][0] == f"{biased.gold_shape.depth:.1f}"
    assert shapes["unbiased"][0] == f"{unbiased.predicted_shape.depth:.1f}"
    assert shapes["right branching"][1:] == ["0.0", "100.0"]


def test_every_figure_of_the_trees_has_its_data_and_protocol(html, parsing):
    sources = re.findall(r'<(?:figcaption|p class="source")>(.*?)</', html)
    of_trees = [source for source in sources if "protocol wsj-test" in source]
    assert len(of_trees) == 4 + 6  # four measures, six sentences
    for source in of_trees:
        assert parsing.gold.source in source
        assert "preprocessing ptb-keep" in source
    assert sum("15 sentences of" in source and "distances of layer 1" in source for source in of_trees) == 4


def test_protocol_decoder_and_limit_are_used(trained, toy, tmp_path):
    protocol = replace(PROTOCOLS["evalb"], max_words=9)
    write_report(trained.prpn, tmp_path, toy / "test.mrg", protocol, DecodingOptions(decoder="unbiased"), "letters")
    text = Read((tmp_path / "report.html").read_text(encoding="utf-8")).text
    assert "protocol evalb (corpus, whole-sentence span kept, up to 9 words)" in text
    assert "preprocessing letters" in text
    assert "unbiased (chosen)" in text
    assert "biased (chosen)" not in text.replace("unbiased", "")
    assert re.search(r"sentences of \d to 9 words", text)


def test_trees_of_a_decoder_with_marks_are_drawn(trained, tmp_path):
    bank = tmp_path / "marks.mrg"
    bank.write_text("(S (NP (DT the) (NN cat)) (, ,) (VP (VBZ sees) (NP (DT a) (NN dog))) (. .))\n")
    html = write_report(trained.prpn, tmp_path / "out", bank, options=DecodingOptions(marks="both")).path.read_text()
    assert "5 words; biased with marks (both) decoder" in html


def test_the_settings_are_those_of_the_recipe(read, trained):
    tables = read.tables
    recipe = read_run(trained.prpn).recipe
    assert ["hidden_size", str(recipe.model.hidden_size)] in tables["model"]
    assert ["train", recipe.text.train] in tables["text"]
    assert ["minutes", "none"] in tables["schedule"]
    assert ["tied", "true"] in tables["model"]
    assert ["unicode_form", "NFC"] in tables["text.normaliser"]
    assert {"text.vocabulary", "batches", "optimiser", "run"} < tables.keys()
    assert ["structure", "distances"] in tables["summary"]


def test_the_settings_of_each_parser_of_a_combination_are_a_table():
    settings = {"model": {"name": "combination", "parsers": [{"name": "simple-pcfg"}, {"name": "span-parser"}]}}
    assert list(_flattened(settings)) == [
        ("model", {"name": "combination"}),
        ("model.parsers 1", {"name": "simple-pcfg"}),
        ("model.parsers 2", {"name": "span-parser"}),
    ]


def test_the_curves_are_those_of_the_metrics(html, read, trained):
    lines = [json.loads(line) for line in (trained.prpn / "metrics.jsonl").read_text().splitlines()]
    metrics = read_metrics(trained.prpn / "metrics.jsonl")
    assert metrics == lines
    valid = [line for line in lines if line["event"] == "valid"]
    panel = read_result(trained.prpn).plot().axes[0]
    drawn = [list(map(tuple, line.get_xydata().tolist())) for line in panel.lines]
    assert drawn[0] == [(line["epoch"], line["train_loss"]) for line in lines]
    assert drawn[1] == [(line["epoch"], line["valid_loss"]) for line in valid]
    (perplexities,) = panel.child_axes
    for place, name in zip(perplexities.get_yticks(), perplexities.get_yticklabels(), strict=True):
        assert math.exp(place) == pytest.approx(float(name.get_text().replace(",", "")))
    rows = read.tables["All validations"][1:]
    assert [row[3] for row in rows] == [f"{line['valid_loss']:.4f}" for line in valid]
    assert rows[-1][4] == "saved"
    assert f"{min(line['valid_loss'] for line in valid):.4f} nats per token" in html


def test_the_weights_of_the_last_validation_are_named_where_the_recipe_keeps_them(trained):
    run = read_run(trained.prpn)
    lines = [line for line in run.metrics if line["event"] == "valid"]
    unit = {"criterion": "masked negative log-likelihood, nats per masked word"}
    metrics = [line | unit | {"valid_loss": 1.0 + number} for number, line in enumerate(lines * 2)]
    metrics[-1] = metrics[-1] | {"step": 1234}
    kept = replace(run.recipe, schedule=replace(run.recipe.schedule, keep="last"))
    section = training_section(replace(run, recipe=kept, metrics=metrics), "text")
    assert "The lowest validation loss is 1.0000 nats per masked word" in section.blocks[0].text
    assert section.blocks[0].text.endswith("The model has the weights of the last validation (step 1,234).")
    assert [row[-1] for row in section.blocks[1].table.table.rows] == [""] * (len(metrics) - 1) + ["saved"]


def test_perplexity_is_that_of_the_result_beside_a_known_floor(page, read, prpn, trained):
    result = json.loads((trained.prpn / "result.json").read_text())
    rows = read.tables["Scores of the saved weights"][1:]
    for row, part in zip(rows, ("valid", "test"), strict=True):
        assert row[0] == f"{part} ({result[part]['source']})"
        assert row[1] == f"{result[part]['perplexity']:,.2f}"
        assert row[4] == f"{result[part]['tokens']:,}"
    assert "sentence by sentence" in read.text
    assert (page.key_figures[0].name, page.key_figures[0].value) == ("test perplexity", rows[1][1])
    assert "lowest possible perplexity" not in read.text
    floor = result["test"]["perplexity"] / 2
    assert "this model has 2.00 times that" in page_of(prpn, read_run(trained.prpn), None, floor=floor).html()


def test_best_and_worst_are_the_ends_of_the_order_by_f1(parsing):
    sentences = parsing.details()
    best, worst, rule = best_and_worst(parsing, sentences)
    eligible = [place for place, sentence in enumerate(sentences) if sentence.length in DRAWN_WORDS]
    ordered = sorted(sentences[place].f1 for place in eligible)
    assert [sentences[place].f1 for place in worst] == ordered[:3]
    assert [sentences[place].f1 for place in best] == ordered[:-4:-1]
    assert not set(best) & set(worst)
    assert f"among the {len(eligible)} sentences of 6 to 25 words" in rule


def test_no_sentence_is_both_best_and_worst(prpn, tmp_path):
    bank = tmp_path / "two.mrg"
    bank.write_text("(S (NP (DT the) (NN cat)) (VP (VBZ sees) (NP (DT a) (NN dog))))\n(S (NN dogs) (VBP bark))\n")
    parsing = evaluate_parsing(prpn, bank)
    best, worst, rule = best_and_worst(parsing, parsing.details())
    assert (best, worst) == ([0], [])  # a sentence of two words has no scored spans
    assert "among all 1 sentences" in rule
    page = page_of(prpn, read_run(tmp_path), parsing)
    assert "Worst sentences" in page.left_out
    assert "Best sentences" not in page.left_out


def test_the_sentences_are_drawn_as_they_were_scored(page, html, prpn, parsing):
    sentences = parsing.details()
    best, worst, _ = best_and_worst(parsing, sentences)
    blocks = [block for section in page.sections[-3:-1] for block in section.blocks if block.kind == "figure"]
    rows = parsing.scores["biased"].by_sentence
    for place, block in zip([*best, *worst], blocks, strict=True):
        one = sentences[place]
        assert block.heading == " ".join(one.words)
        f1, precision, recall = percents(one.f1, one.precision, one.recall)
        assert block.source.startswith(f"F1 {f1}, precision {precision}, recall {recall}. Sentence {one.number} of")
        counts = (rows.matched_spans, rows.predicted_spans, rows.gold_spans)
        matched, induced, gold = (int(values[place]) for values in counts)
        assert re.search(rf"{matched} spans? in both trees: of {induced} induced and {gold} gold", html)
        assert block.picture.svg().count('class="slm-bar"') == one.length - 1
        (tree,) = trees_of(parsing.predicted["biased"].select(rows.indices[[place]]), [one.words])
        assert analyse(prpn, one.words).tree == tree, "the bars are not those of the tree"


@pytest.mark.long
def test_sections_without_source_files_are_reported_as_missing(run_folder, toy, tmp_path):
    for name, heading in (("recipe.yaml", "Settings"), ("metrics.jsonl", "Training"), ("result.json", "Perplexity")):
        (run_folder / name).unlink()
        written = write_report(run_folder, tmp_path / "out", toy / "test.mrg" if name == "result.json" else None)
        assert name in written.left_out[heading]
    assert written.left_out.keys() == {"Settings", "Training", "Perplexity"}
    read = Read(written.path.read_text(encoding="utf-8"))
    assert read.parts == PARTS
    for why in written.left_out.values():
        assert why in read.text
    assert ["hidden_size", "16"] in read.tables["model"]
    assert "Scores of the saved weights" not in read.tables
    assert "Unlabelled F1, percent" in read.tables


@pytest.mark.parametrize(
    ("model", "treebank", "why"),
    [("prpn", None, "No treebank was given"), ("lstm", "test.mrg", "of type lstm, gives neither distances")],
)
def test_without_trees_the_page_covers_the_language_model(model, treebank, why, trained, toy, tmp_path):
    written = write_report(getattr(trained, model), tmp_path, treebank and toy / treebank)
    assert list(written.left_out) == ["Unlabelled F1"]
    assert why in written.left_out["Unlabelled F1"]
    assert str(written) == f"{tmp_path / 'report.html'}\nmissing: Unlabelled F1. {written.left_out['Unlabelled F1']}"
    read = Read(written.path.read_text(encoding="utf-8"))
    assert read.parts == [*PARTS[:3], "Settings"]
    assert "Scores of the saved weights" in read.tables
    assert "test perplexity" in read.text


def test_the_page_of_a_model_that_is_counted_has_its_rounds_in_place_of_curves(toy, tmp_path):
    recipe = recipe_from(toy.recipe_data("lstm") | {"model": {"name": "ngram", "order": 3}}, "recipe.yaml")
    result = train(recipe, tmp_path / "run")
    page = page_of(read_model(tmp_path / "run"), read_run(tmp_path / "run"), None).html()
    assert "Trained by counting; number of rounds: 1." in page
    assert f"{result.test.perplexity:.2f}" in page
    with pytest.raises(InputError, match="no losses"):
        result.plot()


def test_runs_without_validation_or_metrics_are_reported_and_an_incomplete_last_line_is_skipped(prpn, run_folder):
    path = run_folder / "metrics.jsonl"
    complete = read_metrics(path)
    first, *_ = path.read_text().splitlines(keepends=True)
    assert json.loads(first)["event"] == "step"
    with open(path, "a") as file:
        file.write('{"event": "step", "st')
    assert read_metrics(path) == complete
    path.write_text(first)
    assert "Not validated yet" in page_of(prpn, read_run(run_folder), None).html()
    path.write_text("")
    assert "an empty metrics.jsonl" in page_of(prpn, read_run(run_folder), None).left_out["Training"]


def test_the_run_of_a_pair_classifier_is_refused(tmp_path):
    (tmp_path / "recipe.yaml").write_text("model: {name: on-lstm}\npairs: {train: a.tsv, valid: b.tsv}\n")
    with pytest.raises(InputError, match=r"found the run of a classifier of sentence pairs.* use evaluate classifier"):
        read_run(tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[]",
        "3",
        '{"event": "step", "step": 1}',
        '{"event": "step", "step": 1, "epoch": "x", "train_loss": 2}',
        '{"event": "valid", "step": 1, "epoch": 1, "train_loss": 2}',
        '{"event": "step", "step": 1, "epoch": 1e400, "train_loss": 2}',
        '{"event": "step", "step": 1, "epoch": 1, "train_loss": NaN}',
        '{"event": "step", "step": 1e308, "epoch": 1, "train_loss": 2}',
        '{"event": "step", "step": 1, "epoch": null, "train_loss": true}',
        '{"event": "step", "step": ' + "9" * 400 + ', "epoch": 1, "train_loss": 2}',
        "[" * 50_000,
    ],
)
def test_a_damaged_line_of_metrics_raises_an_error_with_its_number(run_folder, line):
    path = run_folder / "metrics.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:1], line, *lines[1:]]) + "\n")
    with pytest.raises(InputError, match=r"metrics\.jsonl, line 2: found .*; expected a JSON object"):
        read_metrics(path)


def test_damaged_files_of_the_run_raise_an_error_with_their_name(run_folder, tmp_path):
    for name, content in (("result.json", "{"), ("recipe.yaml", "model: {name: prpn, layres: 2}\n")):
        before = (run_folder / name).read_text()
        (run_folder / name).write_text(content)
        with pytest.raises(InputError, match=re.escape(name)):
            write_report(run_folder, tmp_path / "out")
        (run_folder / name).write_text(before)
    assert not (tmp_path / "out").exists()


@pytest.mark.long
def test_a_failed_write_leaves_the_old_page_intact(trained, tmp_path, monkeypatch):
    path = write_report(trained.lstm, tmp_path).path
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InputError, match=r"report\.html: cannot be written: No space left"):
        write_report(trained.lstm, tmp_path, theme="dark")
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    assert path.read_bytes() == before


@pytest.mark.long
def test_the_same_model_gives_the_same_page(trained, toy, tmp_path, monkeypatch):
    class Noon(datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2026, 1, 1, 12, tzinfo=tz)

    monkeypatch.setattr(report_page, "datetime", Noon)  # the page has the minute in which it was written
    first, second = (write_report(trained.prpn, tmp_path / name, toy / "test.mrg").path for name in "ab")
    assert first.read_bytes() == second.read_bytes()


def test_odd_names_and_words_are_text_and_not_markup(trained, tmp_path):
    folder = Path(shutil.copytree(trained.prpn, tmp_path / "a <b>&\x07"))
    bank = tmp_path / "{{ 7 * 7 }}<i>\udcff.mrg"
    words = ["<script>alert</script>", "&amp;", '"', "{{parts}}", "{%", "\u202e", "שלום"]
    bank.write_text("(S " + " ".join(f"(NP<b> (NN {word}) (NN x))" for word in words) + ")\n")
    path = write_report(folder, tmp_path / "out", bank, preprocessing="none").path
    html = path.read_text(encoding="utf-8")
    read = Read(html)
    assert "<script" not in html
    assert "<b>" not in html
    assert "\x07" not in html
    assert "a <b>&␇" in read.text
    assert "{{ 7 * 7 }}<i>\ufffd.mrg" in read.text
    assert any(text.startswith('<script>alert</script> x &amp; x " x {{parts}} x {%') for _, text in read.headings)
    assert any(row[0] == "NP<b>" for row in read.tables["Recall by label: recall, percent"])


@pytest.mark.long
def test_rare_labels_are_counted_but_not_shown_and_a_treebank_may_have_none(trained, tmp_path):
    bank = tmp_path / "many.mrg"
    labels = [f"(L{number} (A the) (B cat))" for number in range(33)]
    bank.write_text("".join(f"(S {' '.join(labels[:count])} (C sleeps))\n" for count in range(1, 34)))
    html = write_report(trained.prpn, tmp_path / "out", bank, preprocessing="none").path.read_text(encoding="utf-8")
    rows = Read(html).tables["Recall by label: recall, percent"][1:]
    assert [row[0] for row in rows] == [f"L{number}" for number in range(30)]
    assert "3 less frequent ones are not shown" in html
    bank.write_text("((the cat) (sees (a dog)))\n((a dog) (sleeps (now then)))\n")
    written = write_report(trained.prpn, tmp_path / "out", bank, preprocessing="none")
    assert "have no labels" in written.left_out["Recall by label"]


def test_the_main_result_of_a_character_level_model_is_bits_per_character(toy, tmp_path):
    recipe = toy.recipe("lstm", text={"normaliser": {"units": "characters"}}, schedule={"epochs": 1})
    result = train(recipe, tmp_path / "run")
    figures = key_figures(read_model(tmp_path / "run"), read_run(tmp_path / "run"), None)
    assert figures[0].name == "test bits per character"
    assert figures[0].value == f"{result.test.bits_per_character:.3f}"


@given(st.integers(0, 5 * POINTS))
def test_a_thinned_line_keeps_its_ends_and_its_order(count):
    line = [(float(number), math.sin(number)) for number in range(count)]
    short = thinned(line)
    assert len(short) <= POINTS + 1
    assert short == sorted(set(short) & set(line))
    assert short[:1] == line[:1]
    assert short[-1:] == line[-1:]
    if count <= POINTS:
        assert short == line
