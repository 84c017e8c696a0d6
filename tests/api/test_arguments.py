"""Wrong objects are refused by their types, with what to do; objects that are texts are read."""

from __future__ import annotations

import dataclasses
import inspect
import math
import pickle
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import syntaxlm
from syntaxlm.core.errors import InputError, InputWarning, warn_caller
from syntaxlm.data.input_table import InputTable
from syntaxlm.generation.options import SamplingKeywords, SamplingOptions
from syntaxlm.parsing.options import ParseKeywords, ParseOptions
from syntaxlm.scoring.options import ScoreKeywords, ScoreOptions
from syntaxlm.text.options import TextKeywords, TextOptions
from tests.fresh_models import fresh

from .models import language_model

METHODS = ("parse", "pipe", "surprisal", "log_prob", "perplexity")
FRAME = pd.DataFrame({"sentence": ["the cat sees", "a dog"], "item": [1, 2]})
SERIES = FRAME["sentence"]


@pytest.fixture(scope="module")
def nlp():
    return language_model(fresh("simple-pcfg"))


def values_of(nlp, method, texts):
    result = getattr(nlp, method)(texts)
    return str(list(result) if method == "pipe" else result)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (FRAME, "found pandas.DataFrame; .*among 'sentence', 'item': column='sentence'"),
        (pl.DataFrame(FRAME.to_dict("list")), "found polars.DataFrame; .*column='sentence'"),
        ({"a": "the cat"}, r"found dict; .*list\(texts\.values\(\)\)"),
        (b"the cat", r"found bytes; .*text\.decode\(\)"),
        (bytearray(b"the cat"), "found bytearray"),
        (3, "found int; expected a text or several: str or a list of str"),
        (None, "found NoneType"),
        ({"the cat"}, "found set; .*no order"),
        (np.array([["the cat", "a dog"]]), "found numpy.ndarray; .*ravel"),
        ([["the", "cat"]], r"text 1: found list; expected str. .*' '\.join"),
        (["the cat", None], "text 2: found NoneType; expected str. It is a missing value"),
        (pd.Series(["the cat", np.nan]), "text 2: found float; expected str. It is a missing value"),
        (pd.Series(["the cat", pd.NA]), "text 2: found .*; expected str. It is a missing value"),
        (pl.Series(["the cat", None]), "text 2: found NoneType"),
        (np.array([1, 2]), "text 1: found numpy.int64"),
        ([b"the cat"], "text 1: found bytes; .*open the file as text"),
        ([Path("a.txt")], "text 1: found PosixPath"),
        ([FRAME], "text 1: found pandas.DataFrame"),
    ],
    ids=str,
)
def test_other_objects_than_texts_are_refused(nlp, method, texts, message):
    with pytest.raises(TypeError, match=f"^{method}.*{message}"):
        values_of(nlp, method, texts)


@pytest.mark.parametrize("method", METHODS)
def test_results_are_not_texts(nlp, method):
    parse = nlp.parse("the cat")
    for wrong in (parse, parse.tree, nlp.parse(["the cat"]), nlp.surprisal("the cat")):
        with pytest.raises(TypeError, match=f"^{method}.*found syntaxlm"):
            values_of(nlp, method, wrong)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "texts",
    [SERIES, pl.Series(list(SERIES)), SERIES.to_numpy(), np.array(list(SERIES)), tuple(SERIES),
     dict.fromkeys(SERIES).keys()],
    ids=lambda texts: type(texts).__name__,
)  # fmt: skip
def test_sequences_of_texts_are_read(nlp, method, texts):
    assert values_of(nlp, method, texts) == values_of(nlp, method, list(SERIES))
    assert values_of(nlp, method, (text for text in texts)) == values_of(nlp, method, list(SERIES))


def test_a_path_is_a_file_only_for_perplexity(nlp, tmp_path):
    (tmp_path / "a.txt").write_text("the cat\n")
    assert nlp.perplexity(tmp_path / "a.txt").sentences == 1
    for method in ("parse", "pipe", "surprisal", "log_prob"):
        with pytest.raises(TypeError, match=r"found PosixPath; .*pass open\('.*a\.txt'\)"):
            values_of(nlp, method, tmp_path / "a.txt")
    with pytest.raises(InputError, match=r"found 'the cat sees', which is not the name .*a list of sentences"):
        nlp.perplexity("the cat sees")


def test_a_numpy_string_is_one_text(nlp):
    assert nlp.log_prob(np.str_("the cat")) == nlp.log_prob("the cat")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda nlp: nlp.log_prob("a", given=["the"]), r"given: found \['the'\]; expected str or None"),
        (lambda nlp: nlp.parse("a", beest=3), "parse: found the unexpected parameter 'beest'. Did you mean best"),
        (lambda nlp: nlp.surprisal("a", contxt="carry"), "surprisal: .*'contxt'. Did you mean context"),
        (lambda nlp: nlp.evaluate_items(FRAME, critcal="verb"), "evaluate_items: .*Did you mean critical"),
        (lambda nlp: nlp.evaluate_items(FRAME, region=["a"], regions=["b"]), "evaluate_items: .*Did you mean regions"),
        (lambda nlp: nlp.generate(seeed=1), "generate: .*Did you mean seed"),
        (lambda nlp: nlp.generate(x=1), "generate: .*'x'. Its parameters: count, prompt, trees, temperature"),
        (lambda nlp: nlp.evaluate_items(FRAME, condition=3), "condition: found 3; expected str or a list of str"),
        (
            lambda nlp: nlp.evaluate_items(FRAME, regions=FRAME),
            "regions: found pandas.DataFrame; expected str or a list",
        ),
        (lambda nlp: nlp.evaluate_items(FRAME, ["sentence"]), r"column: found \['sentence'\]; expected str or None"),
        (lambda nlp: nlp.evaluate_items(FRAME, separator=3), "separator: found 3"),
        (
            lambda nlp: nlp.evaluate_items({"item": [1]}),
            r"table: found {'item': \[1\]}; expected",
        ),
        (lambda nlp: nlp.evaluate_items(SERIES), r"table: found pandas.Series; .*series\.to_frame\(\)"),
        (lambda nlp: nlp.word_table(["the", "cat"]), "table: found .*; expected the name of a file, or a data frame"),
        (lambda nlp: nlp.word_table(3), "table: found 3"),
        (lambda nlp: nlp.word_table(FRAME, 3), "column: found 3"),
        (lambda nlp: nlp.word_table(FRAME, "sentence", group=3), "group: found 3"),
        (lambda nlp: nlp.evaluate_reading_times(["a"], frequencies="f"), r"words: found \['a'\]"),
        (lambda nlp: nlp.evaluate_reading_times(FRAME, 3, frequencies="f"), "times: found 3"),
        (lambda nlp: nlp.evaluate_reading_times(FRAME, FRAME, frequencies="f", key=3), "key: found 3"),
        (lambda nlp: nlp.evaluate_pairs(FRAME), r"files: found pandas.DataFrame; .*frame\.to_csv"),
        (lambda nlp: nlp.evaluate_pairs([("a", "b")]), r"files: found \('a', 'b'\); expected the name of a file"),
        (lambda nlp: nlp.evaluate_pairs({"a": "b"}), "files: found {'a': 'b'}"),
        (lambda nlp: nlp.evaluate_pairs(None), "files: found None"),
        (lambda nlp: syntaxlm.evaluate_pairs([nlp], "x"), "models: found .*; expected a loaded model, or a dict"),
        (
            lambda nlp: syntaxlm.evaluate_pairs({"en": "en"}, "x"),
            r"models\['en'\]: found 'en'; expected a loaded model",
        ),
        (lambda nlp: nlp.evaluate_suites(3), "files: found 3"),
        (lambda nlp: nlp.evaluate_suites("x.csv", predictions=3), "predictions: found 3"),
        (lambda nlp: nlp.evaluate_completion(FRAME, "x"), "questions: found pandas.DataFrame"),
        (lambda nlp: nlp.evaluate_parsing(["(S a)"]), r"treebank: found \['\(S a\)'\]; expected the name of a file"),
        (lambda nlp: nlp.evaluate_parsing("x.mrg", 3), "protocol: found 3; expected a name"),
        (lambda nlp: nlp.evaluate_parsing("x.mrg", also="en"), "also: found 'en'; expected a list of loaded models"),
        (lambda _: syntaxlm.rerank("en", "x.conllu"), "model: found 'en'; expected a loaded model"),
        (lambda _: syntaxlm.train(3, "folder"), "recipe: found 3; expected the name of a file"),
        (lambda _: syntaxlm.load(3), "name_or_folder: found 3"),
        (lambda _: syntaxlm.load(None), "name_or_folder: found None"),
        (lambda _: syntaxlm.tune_cache("en", "x"), "bundle: found 'en'; expected a loaded model"),
    ],
)
def test_wrong_arguments_are_refused_by_name(nlp, call, message):
    with pytest.raises(TypeError, match=message):
        call(nlp)


def test_one_name_stands_for_a_list_of_names(nlp, tmp_path):
    suite = "item,condition,1,2\n1,a,the,cat\n1,b,the,dog\n"
    (tmp_path / "suite.csv").write_text(suite)
    reports = [
        nlp.evaluate_suites(tmp_path / "suite.csv", predictions=own)
        for own in ("(2;%a%) < (2;%b%)", ["(2;%a%) < (2;%b%)"])
    ]
    assert str(reports[0]) == str(reports[1])


def test_results_hold_how_their_files_were_read(nlp, tmp_path):
    (tmp_path / "items.csv").write_text("item,condition,sentence\n1,a,the cat | sees\n1,b,a cat | sees\n")
    (tmp_path / "words.csv").write_text("word\nthe\ncat\nsees\n")
    report = nlp.evaluate_items(tmp_path / "items.csv")
    (reading,) = report.readings
    assert reading.counts == {"sentences": 2, "items": 1, "conditions": 2, "regions": 2}
    assert report.to_dict()["readings"] == [reading.to_dict()]
    assert pickle.loads(pickle.dumps(report)).readings == report.readings
    table = nlp.word_table(tmp_path / "words.csv")
    assert [one.form for one in table.readings] == ["displayed words, one per row"]
    assert pickle.loads(pickle.dumps(table)).readings == table.readings
    assert nlp.evaluate_items(FRAME.assign(condition=["a", "b"])).readings[0].source == "the data frame"


def test_a_parameter_is_accepted_in_the_singular_and_in_the_plural(nlp):
    frame = FRAME.assign(condition=["a", "b"])
    reports = [nlp.evaluate_items(frame, "sentence", condition=["condition"]),
               nlp.evaluate_items(frame, "sentence", conditions=["condition"])]  # fmt: skip
    assert str(reports[0]) == str(reports[1])


@pytest.mark.parametrize("of", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_a_column_of_a_data_frame_has_one_result_per_row(nlp, of, tmp_path):
    frame = of({"sentence": ["the cat sees", None, "a dog"], "item": [1, None, 2]})
    texts = ["the cat sees", "", "a dog"]
    assert list(map(str, nlp.parse(frame, column="sentence"))) == list(map(str, nlp.parse(texts)))
    assert list(map(str, nlp.pipe(frame, column="sentence"))) == list(map(str, nlp.parse(texts)))
    parses = nlp.parse(frame, column="sentence")
    items = [(row["sentence"], row["item"]) for row in parses.rows()]
    assert sorted(set(items)) == [(1, 1), (3, 2)]
    assert list(parses.to_dataframe()["item"]) == list(parses[:].to_dataframe()["item"]) == [item for _, item in items]
    assert list(parses[2].to_dataframe()["item"]) == [2]
    first, missing, last = nlp.log_prob(frame, column="sentence")
    assert [first, last] == pytest.approx(nlp.log_prob([texts[0], texts[2]]))
    assert math.isnan(missing)
    assert nlp.perplexity(frame, column="sentence").nats == pytest.approx(-(first + last))
    assert [row["sentence"] for row in nlp.surprisal(frame, column="sentence").rows()][-1] == 3
    with pytest.raises(InputError, match=r"no column 'sent'; .*Did you mean sentence"):
        nlp.parse(frame, column="sent")
    pd.DataFrame({"sentence": texts[:1]}).to_csv(tmp_path / "a.csv", index=False)
    assert list(map(str, nlp.parse(str(tmp_path / "a.csv"), column="sentence"))) == [str(nlp.parse(texts[0]))]


@pytest.mark.parametrize(
    ("method", "keywords", "options"),
    [("parse", ParseKeywords, ParseOptions), ("pipe", ParseKeywords, ParseOptions),
     ("surprisal", ScoreKeywords, ScoreOptions), ("log_prob", TextKeywords, TextOptions),
     ("generate", SamplingKeywords, SamplingOptions)],
)  # fmt: skip
def test_the_parameters_that_help_and_completion_show_are_the_options(nlp, method, keywords, options):
    shown = inspect.signature(getattr(nlp, method)).parameters
    defaults = {field.name: field.default for field in dataclasses.fields(options)}
    assert {name: shown[name].default for name in defaults} == defaults
    assert not any(one.kind is one.VAR_KEYWORD for one in shown.values())
    plain, limited = get_type_hints(keywords), get_type_hints(options)  # without limits, which are annotations
    assert plain == {name: limited[name] for name in defaults}


@pytest.mark.parametrize(
    ("frame", "index"),
    [(FRAME.set_index(pd.Index(["x", "y"])), "'y'"), (FRAME[1:].reset_index(drop=True), "0"), (FRAME[1:], "1"),
     (pl.DataFrame(FRAME.to_dict("list")), "1")],
    ids=["labels", "from 0", "part", "polars"],
)  # fmt: skip
def test_a_row_of_a_data_frame_is_named_by_its_index(nlp, frame, index):
    last = InputTable.read(frame)
    assert last.place(len(last.rows) - 1) == f"the data frame, row with index {index}"


@pytest.mark.parametrize(
    "call",
    [
        lambda nlp, text: nlp.perplexity(text),
        lambda nlp, text: nlp.evaluate_parsing(text),
        lambda nlp, text: nlp.evaluate_pairs(text),
        lambda nlp, text: nlp.evaluate_suites(text),
        lambda nlp, text: syntaxlm.read_recipe(text),
    ],
    ids=["perplexity", "parsing", "pairs", "suites", "recipe"],
)  # fmt: skip
def test_a_text_in_place_of_a_file_is_refused_also_if_it_is_longer_than_a_name_of_a_file(nlp, call):
    with pytest.raises(InputError, match="the cat sees a dog"):
        call(nlp, "the cat sees a dog and " * 20)


def test_completion_offers_what_users_call(nlp):
    offered = [name for name in dir(nlp) if not name.startswith("_")]
    assert {"parse", "surprisal", "device", "name", "save_pretrained"} < set(offered)
    assert not {"model", "require", "parser_normaliser"}.intersection(offered)


def test_a_list_of_words_is_a_warning(nlp):
    with pytest.warns(InputWarning, match=r"parse: each of 3 texts is one word\. .* ' '.join\(words\)"):
        nlp.parse(["the", "cat", "sees"])


@pytest.mark.parametrize(
    "call",
    [
        lambda nlp: nlp.parse(["the", "cat", "sees"]),
        lambda nlp: list(nlp.pipe(["the cat sees"], max_words=2)),
        lambda nlp: nlp.surprisal(["blorg zorgle frimp blorgs wug"]),
        lambda nlp: nlp.log_prob(["blorg zorgle frimp blorgs wug"]),
        lambda _: torch.no_grad()(warn_caller)("doubtful"),
    ],
)
def test_a_warning_names_the_line_that_called_the_package(nlp, call):
    with pytest.warns(InputWarning) as given:
        call(nlp)
    assert {warning.filename for warning in given} == {__file__}


def test_options_are_read_from_iterators():
    names = ["entropy", "rank"]
    assert ScoreOptions(measures=iter(names)) == ScoreOptions(measures=names)
    assert ScoreOptions(measures=(name for name in names)).measures == ("entropy", "rank")


@pytest.mark.parametrize("value", [Decimal("0.5"), Fraction(1, 2), 1j])
def test_numbers_of_other_types_are_refused_with_what_is_expected(value):
    with pytest.raises(InputError, match=r"temperature: found .*; expected a number, 0 or more"):
        SamplingOptions(temperature=value)
