"""Results as dictionaries, data frames and notebook output."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import syntaxlm
from syntaxlm.api import Results
from syntaxlm.api.results import NOTHING, SentenceSurprisal, Surprisals
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import to_json
from syntaxlm.core.yaml_files import parse_yaml
from syntaxlm.reports.report import Report
from syntaxlm.reports.tables import ReportTable
from syntaxlm.scoring.marks import remark_on_marks
from syntaxlm.training.result import TrainingResult
from tests.api.models import language_model, results_of_every_type
from tests.fresh_models import fresh
from tests.grammar_models import grammar


@pytest.fixture(params=["pandas", "polars"])
def library(request, monkeypatch):
    """A data frame library as the only installed one; skipped if it is missing."""
    found = pytest.importorskip(request.param)
    monkeypatch.setitem(sys.modules, "polars" if request.param == "pandas" else "pandas", None)
    return found


def results():
    """One result of each type, with the columns and the number of rows of its data frame."""
    words = ["sentence", "position", "word", "begin", "end", "token", "in_vocabulary", "surprisal"]
    words += ["surprisal_word", "surprisal_marks", "tokens"]
    parts = ["sentence", "start", "end", "text", "label", "score", "marginal", "rank", "confidence", "probability"]
    columns = [words, words, words, parts, parts, parts, ["number", "text", "tokens", "surprisals", "ended"]]
    columns += [["number", "text", "tokens", "tree", "spans", "labels", "word_labels"], []]
    counts = 7 + 3, 7, 0, 5 + 1, 5, 0, 2, 2, 0
    return list(zip([*results_of_every_type(), Results()], columns, counts, strict=True))


def test_data_frames_have_a_row_per_word_constituent_or_sentence(library):
    for result, columns, rows in results():
        frame = result.to_dataframe()
        assert isinstance(frame, library.DataFrame)
        assert (list(frame.columns), len(frame)) == (columns, rows)
    dropped = language_model(fresh("lstm", drop_words=("$",))).surprisal("the $ cat").to_dataframe()
    assert dropped["surprisal"][0] > 0
    assert len(dropped) == 4


def test_types_of_columns_do_not_depend_on_the_values(library):
    """A column without values has the type of its table, so that the frames of several models can be joined."""
    lstm, pcfg = language_model(fresh("lstm")), language_model(grammar("simple-pcfg"))
    for some, none in (
        (lstm.surprisal("the cat"), lstm.surprisal("")),
        (pcfg.parse("the cat"), pcfg.parse("the")),
        (pcfg.parse(["the cat"]), pcfg.parse([])),
    ):
        full, empty = some.to_dataframe(), none.to_dataframe()
        assert (len(full), len(empty)) > (0, 0)
        assert list(full.dtypes) == list(empty.dtypes)


def test_a_broken_library_is_not_reported_as_missing(tmp_path, monkeypatch):
    (tmp_path / "pandas.py").write_text("import nowhere")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pandas", raising=False)
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        Results().to_dataframe()


def test_constituents_have_their_words_and_figures():
    pcfg = language_model(grammar("simple-pcfg"))
    parse = pcfg.parse("the old cat", labels=True)
    rows = list(parse.rows())
    assert rows[0] == {
        "sentence": 1, "start": 0, "end": 3, "text": "the old cat", "label": parse.tree.constituents[0].label,
        "score": None, "marginal": pytest.approx(1.0), "rank": 1, "confidence": parse.confidence, "probability": None,
    }  # fmt: skip
    assert [(row["start"], row["end"]) for row in rows] == [tuple(span) for span in parse.to_dict()["spans"]]
    assert next(language_model(fresh("palm")).parse("the cat").rows())["score"] is not None


def test_every_result_is_a_picture_or_a_table_in_a_notebook():
    for result, columns, rows in results():
        if rows and hasattr(result, "_repr_svg_"):
            assert ElementTree.fromstring(result._repr_svg_()).tag.endswith("svg")
        if isinstance(result, Results):
            html = result._repr_html_()
            assert html.startswith(("<table", "<div>"))
            assert ("<svg" in html) == (rows > 0 and (hasattr(result, "_repr_svg_") or "start" in columns))
    html = language_model(fresh("lstm")).surprisal(["<b>"] * 60)._repr_html_()
    assert all(part in html for part in ("<td", "&lt;b&gt;", "20 more"))


def test_every_result_is_printed_as_text_or_a_table():
    for result, _, rows in results():
        assert not re.search(r"\w\(\w+=", f"{result}{result!r}" if isinstance(result, Results) else str(result))
        assert len(str(result).splitlines()) <= rows + 1
    words = language_model(fresh("lstm")).surprisal("the <b>", measures=["rank"])
    heading, first, *_, last = str(words).splitlines()
    assert heading.split() == ["word", "token", "surprisal", "rank"]
    assert first.split() == ["the", "the", f"{words[0].surprisal:.2f}", f"{words[0].measures['rank']:,}"]
    assert last.split()[1] == f"{words[-1].surprisal:.2f}"
    assert str(words[0]) == f"the {words[0].surprisal:.2f}"
    many = language_model(fresh("lstm")).surprisal(["<b>"] * 60)
    assert str(many).endswith("\n... and 20 more")
    assert str(Results(["a cat"] * 100)).count("a cat") == 100
    assert str(Results(["a cat"] * 101)) == "a cat\na cat\na cat\n... and 98 more"
    assert repr(Results()) == "no results"


def test_three_results_of_many_are_shown():
    lstm, pcfg = language_model(fresh("lstm")), language_model(grammar("simple-pcfg"))
    surprisals = lstm.surprisal(["the cat", "a dog"] * 60)
    assert str(surprisals).splitlines()[1:] == [*str(lstm.surprisal(["the cat", "a dog", "the cat"])).splitlines()[1:],
                                                "... and 117 more sentences"]  # fmt: skip
    assert "117 more sentences" in surprisals._repr_html_()
    parses = pcfg.parse(["the cat"] * 11)
    assert (parses._repr_html_().count("<svg"), str(parses).count("cat")) == (3, 11)
    assert "<p>... and 8 more</p>" in parses._repr_html_()


def test_reports_are_shown_as_they_are_printed():
    score = language_model(fresh("lstm")).perplexity(["the cat"])
    assert repr(score) == str(score)
    assert score._repr_html_().startswith("<p>perplexity")
    table = ReportTable({"model": ""}, [["<b>"]])
    shown = Report(NOTHING, [], {}, {"of": "<i>"}, tables=[table], notes=["a & b"]).notebook()
    assert all(part in shown for part in ("<p>of &lt;i&gt;</p><table>", "&lt;b&gt;", "<p>a &amp; b</p>"))


def test_a_training_result_is_shown_as_it_is_printed():
    result = TrainingResult(Path("run"), steps=3, epochs=1.0, seconds=6)
    assert repr(result) == str(result) == "run: 3 steps, 1.00 epochs, 0.1 minutes"


def test_inputs_and_settings_are_printed_for_reading(tmp_path):
    summary = syntaxlm.write_corpus(tmp_path / "toy", 40)
    assert str(summary).splitlines()[1].startswith("  train 40 sentences of ")
    treebank = syntaxlm.read_treebank(tmp_path / "toy" / "test.mrg")
    assert str(treebank).startswith(f"{tmp_path / 'toy' / 'test.mrg'}: 2 sentences, ")
    tree = treebank.sentences[0].tree
    assert str(treebank.sentences[0]) == str(tree)
    assert repr(tree) == f"Tree({str(tree)!r})"
    recipe = syntaxlm.read_recipe("prpn-toy")
    assert parse_yaml(str(recipe), "")["model"]["name"] == "prpn"
    (tmp_path / "mine.yaml").write_text(str(recipe))
    assert syntaxlm.read_recipe(tmp_path / "mine.yaml") == recipe
    picture = language_model(fresh("lstm")).surprisal("the cat").plot()
    assert str(picture) == "Plot('Surprisal', panels: 1)"


def test_dicts_are_json():
    for result, _, _ in results():
        to_json(result.to_dict())


def test_surprisals_are_drawn_as_bars_or_against_another_model():
    first, second = language_model(fresh("lstm")), language_model(fresh("on-lstm"))
    texts = ["the cat sees xyzzy", "a dog"]
    one, other = (model.surprisal(texts) for model in (first, second))
    drawn = [[bar.get_height() for bar in ax.patches] for ax in one.plot().axes]
    assert drawn == [[word.surprisal for word in sentence] for sentence in one]
    assert [bar.get_alpha() for bar in one[0].plot().axes[0].patches] == [None, None, None, 0.35, None]
    (ax,) = one.plot(against=other, names=("lstm", "on-lstm")).axes
    assert [len(line.get_xdata()) for line in ax.lines[:2]] == [5, 1]
    assert ax.lines[1].get_ydata() == other[0][3].surprisal
    assert ax.get_ylabel() == "surprisal in bits, on-lstm"
    with pytest.raises(InputError, match="expected the same sentences"):
        one.plot(against=second.surprisal(["a cat"] * 2))
    with pytest.raises(InputError, match="found 0 sentences"):
        first.surprisal([]).plot()


def test_the_marks_of_a_bar_are_hatched_and_models_that_read_none_are_named():
    sentence = language_model(fresh("lstm")).surprisal("the cat .")[:3]
    word, mark = sentence[1], sentence[2]
    joined = word._replace(surprisal=word.surprisal + 2.0, surprisal_marks=2.0, word="cat.")
    one = SentenceSurprisal([sentence[0], joined, mark])
    (panel,) = one.plot().axes
    heights = [sentence[0].surprisal, word.surprisal, 0.0, 2.0, mark.surprisal]
    assert [bar.get_height() for bar in panel.patches] == pytest.approx(heights)
    assert [bool(bar.get_hatch()) for bar in panel.patches] == [False, False, False, True, True]
    shown = [f"{sentence[0].surprisal:.1f}", f"+2.0\n{word.surprisal:.1f}", f"{mark.surprisal:.1f}"]
    assert [text.get_text() for text in panel.texts] == shown

    (remark,) = remark_on_marks({"en": 2.0, "a": 0.0, "b": 0.0})
    assert remark.startswith("en reads punctuation marks, but a, b do not, so ")
    assert remark_on_marks({"en": 2.0, "a": 1.0}) == remark_on_marks({"a": 0.0}) == []
    other = Surprisals([SentenceSurprisal([row._replace(surprisal_marks=0.0) for row in one])])
    notes = [plot.figure.get_supxlabel() for plot in (Surprisals([one]).plot(other), other.plot(other))]
    assert notes[0].startswith("one model reads punctuation marks, but the other does not, so ")
    assert notes[1] == ""


def test_a_table_keeps_its_other_columns(tmp_path):
    model = language_model(fresh("lstm"))
    (tmp_path / "items.csv").write_text("item,sentence,word\n1,the cat,x\n2,a dog,y\n")
    scored = model.surprisal(tmp_path / "items.csv", column="sentence")
    rows = list(scored.rows())
    assert [row["item"] for row in rows] == ["1"] * 3 + ["2"] * 3
    assert [row["input_word"] for row in rows[:3]] == ["x"] * 3
    assert [row["surprisal"] for row in rows] == [
        word.surprisal for one in model.surprisal(["the cat", "a dog"]) for word in one
    ]
    assert list(scored.columns) == list(rows[0])
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(tmp_path / "items.csv")
    assert model.surprisal(frame.astype(str), column="sentence").to_dataframe().equals(scored.to_dataframe())
    with pytest.raises(TypeError, match="Choose the column with the sentences, among 'item', 'sentence', 'word'"):
        model.surprisal(frame)
    with pytest.raises(InputError, match="no column 'text'"):
        model.surprisal(frame, column="text")


def test_columns_of_a_data_frame_keep_their_types_so_that_results_can_be_merged():
    pandas = pytest.importorskip("pandas")
    model = language_model(fresh("lstm"))
    frame = pandas.DataFrame({
        "item": [1, 2], "condition": ["a", "b"], "sentence": ["the cat", "a dog"], "age": [1.5, None],
        "is_odd": [True, False], "code": pandas.array([2**60 + 1, None], "Int64"),
        "id": pandas.array([2**64 - 1, 2**63], "UInt64"),
    })  # fmt: skip
    results = [
        model.surprisal(frame, column="sentence"), model.evaluate_items(frame),
        model.word_table(frame.rename(columns={"condition": "word"})),
    ]  # fmt: skip
    for result in results:
        scored = result.to_dataframe()
        kinds = {name: scored[name].dtype.kind for name in ("item", "age", "is_odd")}
        assert kinds == {"item": "i", "age": "f", "is_odd": "b"}
        assert (str(scored["code"].dtype), str(scored["id"].dtype)) == ("Int64", "UInt64")
        assert scored["code"].dropna().unique().tolist() == [2**60 + 1]
        assert scored["id"].unique().tolist() == [2**64 - 1, 2**63]
        assert len(scored.merge(frame, on=["item", "is_odd"])) == len(scored)


def test_copied_integers_keep_all_digits_without_pandas_and_in_parquet(monkeypatch, tmp_path):
    polars = pytest.importorskip("polars")
    monkeypatch.setitem(sys.modules, "pandas", None)
    frame = polars.DataFrame(
        {"sentence": ["the cat", "a dog"], "code": [None, 2**60 + 1], "id": [2**64 - 1, None]},
        {"sentence": polars.String, "code": polars.Int64, "id": polars.UInt64},
    )
    scored = language_model(fresh("lstm")).surprisal(frame, column="sentence")
    found = scored.to_dataframe()
    assert (found.schema["code"], found.schema["id"]) == (polars.Int64, polars.UInt64)
    assert (set(found["code"]), set(found["id"])) == ({None, 2**60 + 1}, {2**64 - 1, None})
    scored.to_parquet(tmp_path / "a.parquet")
    read = polars.read_parquet(tmp_path / "a.parquet")
    assert (read.schema["code"], read.schema["id"]) == (polars.Int64, polars.UInt64)
    assert set(read["id"]) == {2**64 - 1, None}


@pytest.mark.parametrize("integers", [[2**64, 0], [-1, 2**63], [-(2**63) - 1, 0]])
def test_integers_of_more_than_64_bits_are_refused_before_the_model_reads(integers):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"sentence": ["the cat", "a dog"], "id": pandas.Series(integers, dtype="object")})
    with pytest.raises(
        InputError, match=r"the data frame: found the integers? .* in column id; expected integers of 64"
    ):
        language_model(fresh("lstm")).surprisal(frame, column="sentence")


def test_the_probability_of_a_continuation_is_that_of_its_words():
    model = language_model(fresh("lstm"))
    whole, context = model.surprisal("the old dog sees a cat"), "the old dog"
    expected = -sum(word.surprisal for word in whole[3:]) * 0.6931471805599453
    assert model.log_prob("sees a cat", given=context) == pytest.approx(expected)
    assert model.log_prob(["sees a cat"], given=context) == [pytest.approx(expected)]


def test_a_part_of_the_results_has_their_type_and_can_be_printed_and_written():
    parses, surprisals = (one for one in results_of_every_type()[:2])
    for found in (language_model(fresh("lstm")).surprisal(["the cat", "a dog", "the"]), surprisals):
        assert type(found[:1]) is type(found)
        assert list(found[:1].to_dataframe().columns) == list(found.to_dataframe().columns)
    assert type(parses[:1]) is type(parses)
