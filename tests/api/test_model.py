"""`load` and the methods of its object: the same results as the functions that they call, for one string or several."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import math
import sys

import pytest
import torch

import syntaxlm
from syntaxlm.api import LanguageModel
from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.evaluation.perplexity import evaluate_text
from syntaxlm.evaluation.trees import evaluate_parsing, protocol_named
from syntaxlm.generation.options import SamplingOptions, TreeSamplingOptions
from syntaxlm.generation.sentences import generate, sample_with_trees
from syntaxlm.generation.stops import write_stops
from syntaxlm.generation.trees import generate_trees
from syntaxlm.models.abilities import ParsesSentences, ScoresSentences, ScoresTokens
from syntaxlm.parsing.options import ParseOptions
from syntaxlm.parsing.parse import parse_lines
from syntaxlm.storage.folder import write_model
from tests.api.models import language_model
from tests.fresh_models import OPEN, SENTENCES, STREAM, fresh, layered
from tests.generation.growing_models import grown
from tests.grammar_models import grammar
from tests.models.variants import SENTENCE_VARIANTS, TEXT_MODELS, TOKEN_SCORERS, names_with

SENTENCE = "the old cat sees a dog"
TEXTS = [SENTENCE, "", "a dog", "  ", "the", "the cat , the dog ."]
SENTENCE_SCORERS = names_with(ScoresSentences, among=list(SENTENCE_VARIANTS))
PARSERS = [name for name in [*TEXT_MODELS, *SENTENCE_VARIANTS] if isinstance(fresh(name).model, ParsesSentences)]


@pytest.fixture(scope="module")
def prpn() -> LanguageModel:
    return language_model(fresh("prpn"))


def test_a_loaded_model_is_that_of_its_folder(trained):
    nlp = syntaxlm.load(trained.prpn)
    assert (nlp.name, nlp.folder, nlp.device) == ("prpn", trained.prpn, torch.device("cpu"))
    assert repr(nlp).startswith(f"LanguageModel('{trained.prpn}', prpn, ")
    assert nlp.parse(SENTENCE) == next(iter(parse_lines(nlp, [SENTENCE])))
    assert syntaxlm.load(str(trained.prpn), device="auto").device.type in ("cpu", "cuda", "mps")


@pytest.mark.parametrize("name", PARSERS)
def test_texts_without_words_have_parses_without_words(name):
    nlp = language_model(fresh(name))
    parses = nlp.parse(TEXTS)
    assert [parse.number for parse in parses] == list(range(1, len(TEXTS) + 1))
    assert [bool(parse) for parse in parses] == [bool(text.strip()) for text in TEXTS]
    assert [str(parse) for parse in parses] == parse_lines(nlp, TEXTS).brackets()
    empty = nlp.parse("")
    assert (len(empty), str(empty), list(empty.rows())) == (0, "", [])
    assert empty._repr_svg_().startswith("<svg")
    empty.tree.pretty_print()
    assert empty.to_dict()["words"] == []
    assert nlp.parse([]) == []


@pytest.mark.parametrize("size", [1, 2, 4, 100])
def test_batches_of_any_size_give_the_same_parses(prpn, size):
    assert [str(one) for one in prpn.pipe(iter(TEXTS), size)] == [str(one) for one in prpn.parse(TEXTS)]
    assert [one.number for one in prpn.pipe(iter(TEXTS), size)] == list(range(1, len(TEXTS) + 1))


@pytest.mark.parametrize("method", ["parse", "pipe"])
def test_long_sentences_are_not_parsed_and_named(prpn, method):
    texts = ["the cat sees", "the old cat sees a dog", "a dog", "the old cat sees a dog"]
    with pytest.warns(InputWarning, match=r"texts 2, 4: not parsed, because of more than 3 words \(max_words\)"):
        parses = list(getattr(prpn, method)(texts, max_words=3))
    assert [len(parse.words) for parse in parses] == [3, 0, 2, 0]
    assert str(parses[0]) == str(prpn.parse(texts[0]))


def test_progress_of_texts_is_shown_where_it_is_asked_for(prpn, monkeypatch):
    asked = []
    monkeypatch.setattr("syntaxlm.api.model.progress_bar", lambda items, *shown, **how: asked.append(shown) or items)
    prpn.parse(TEXTS), prpn.surprisal(TEXTS), prpn.pipe(TEXTS)
    assert not asked
    prpn.parse(TEXTS, progress=True), prpn.surprisal(iter(TEXTS), progress=True), prpn.pipe(TEXTS, progress=True)
    assert asked == [("sentences", 6), ("sentences", None), ("sentences", 6)]


def test_a_stream_is_read_lazily(prpn):
    numbers = itertools.count()
    texts = (SENTENCE for _ in numbers)  # endless
    parses = prpn.pipe(texts, batch_size=3)
    assert next(numbers) == 0
    assert [next(parses).number for _ in range(4)] == [1, 2, 3, 4]
    assert next(numbers) == 7


def test_options_of_parsing_are_passed_on():
    nlp = language_model(layered())
    for options in ({"decoder": "unbiased"}, {"layer": 3}):
        assert nlp.parse([SENTENCE], **options) == list(parse_lines(nlp, [SENTENCE], ParseOptions(**options)))
    pcfg = language_model(grammar("simple-pcfg"))
    (expected,) = parse_lines(pcfg, [SENTENCE], ParseOptions(labels=True))
    assert pcfg.parse(SENTENCE, labels=True) == expected
    others = [nlp, pcfg]
    for ties in ("first", "random"):
        (average,) = parse_lines([*others], [SENTENCE], ParseOptions(decoder="unbiased", ties=ties))
        assert nlp.parse(SENTENCE, also=[pcfg], decoder="unbiased", ties=ties).tree == average.tree


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decoder": "cky"}, "decoder: found 'cky'; expected biased, unbiased"),
        ({"layer": 7}, "layer: found 7; expected 1 to "),
        ({"labels": True}, "labels"),
        ({"batch_size": 0}, "batch_size: found 0"),
        ({"labels": True, "also": [fresh("palm")]}, "averaged trees have no labels"),
    ],
)
def test_wrong_options_are_reported_before_a_text_is_read(prpn, options, message):
    def texts():
        raise AssertionError("read")
        yield ""

    with pytest.raises(InputError, match=message):
        prpn.pipe(texts(), **options)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda model: model.parse("a cat", also=model), TypeError, "also: found .*; expected a list"),
        (lambda model: model.parse("a cat", also="en"), TypeError, "also: found 'en'; expected a list"),
        (lambda model: model.pipe(["a cat"], batch_size=1.5), TypeError, r"batch_size: found 1\.5; expected a whole"),
        (lambda model: model.generate("5"), TypeError, "count: found '5'; expected a whole number"),
        (lambda model: model.generate(2.5), TypeError, r"count: found 2\.5; expected a whole number"),
        (lambda model: model.generate(1, prompt=7), TypeError, "prompt: found 7; expected str"),
        (lambda model: model.parse(["a cat", "a \ud800 cat"]), InputError, r"text 2: found '\\ud800' at character 3"),
        (lambda model: model.surprisal("a\udcff"), InputError, r"text 1: found '\\udcff' at character 2"),
        (lambda model: model.log_prob("a\udcff"), InputError, "half of a surrogate pair"),
        (lambda model: model.perplexity(["a\udcff"]), InputError, "half of a surrogate pair"),
        (lambda model: model.save_pretrained(""), InputError, "found an empty name"),
        (lambda _: syntaxlm.load(""), InputError, "found an empty name"),
        (lambda _: syntaxlm.load("x" * 5000), InputError, r"^x{80} \.\.\.: cannot be read: File name too long"),
        (lambda _: syntaxlm.train("prpn-toy", ""), InputError, "found an empty name"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_reported(prpn, call, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        call(prpn)
    assert not list(tmp_path.iterdir())


def test_one_string_is_not_a_stream(prpn):
    with pytest.raises(TypeError, match="use parse for one text"):
        prpn.pipe(SENTENCE)


@pytest.mark.parametrize(
    ("name", "mode"),
    [*itertools.product(TOKEN_SCORERS, [SENTENCES, STREAM, OPEN]), *((name, SENTENCES) for name in SENTENCE_SCORERS)],
)
def test_surprisals_add_up_to_the_log_probability_and_this_to_the_perplexity(name, mode):
    nlp = language_model(fresh(name, mode))
    texts = [text for text in TEXTS if text.strip()]
    log_probs = nlp.log_prob(texts)
    assert nlp.log_prob(SENTENCE) == pytest.approx(log_probs[0], rel=1e-5)
    assert nlp.log_prob([]) == []
    assert math.isnan(nlp.log_prob(["", SENTENCE])[0])
    if isinstance(nlp.model, ScoresTokens):
        found = nlp.surprisal(texts, context="reset")
        assert [-one.bits * math.log(2) for one in found] == pytest.approx(log_probs, rel=1e-5)
        alone = nlp.surprisal(SENTENCE, context="reset")
        assert [word.word for word in alone] == SENTENCE.split() + [""] * nlp.mode.predict_eos
        assert nlp.surprisal("", context="reset") == []
        assert math.isnan(nlp.surprisal("", context="reset").bits)
    score = nlp.perplexity(texts, context="reset")
    assert math.log(score.perplexity) == pytest.approx(-sum(log_probs) / score.tokens, rel=1e-5)


def test_ends_of_sentences_count_in_perplexity_as_training_or_the_caller_says():
    nlp = language_model(fresh("lstm"))
    words = [row for sentence in nlp.surprisal(TEXTS, context="reset") for row in sentence if row.word]
    with_ends, without = (nlp.perplexity(TEXTS, context="reset", predict_eos=counts) for counts in (None, False))
    assert without.tokens == len(words) == with_ends.tokens - with_ends.sentences
    assert without.nats == pytest.approx(math.log(2) * sum(row.surprisal for row in words), rel=1e-5)
    assert nlp.perplexity(TEXTS, context="reset", predict_eos=True) == with_ends


def test_perplexity_of_sentences_is_that_of_their_file(tmp_path):
    nlp = language_model(fresh("lstm"))
    path = tmp_path / "text.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    for context in (None, "reset", "carry"):
        listed, read = (nlp.perplexity(one, context=context).to_dict() for one in (iter(TEXTS), path))
        assert (listed.pop("source"), read.pop("source")) == ("", str(path))
        assert [reading["counts"] for reading in read.pop("readings")] == [{"sentences": listed["sentences"]}]
        assert listed == read
    assert nlp.perplexity(str(path)) == evaluate_text(nlp, path)
    with pytest.raises(InputError, match="found no sentence"):
        nlp.perplexity(["", " "])


def test_models_of_tags_name_the_sentence_without_tags():
    nlp = language_model(fresh("prpn", units="tags"))
    assert nlp.parse("the_DT cat_NN").tree.tags == ("DT", "NN")
    for use in (nlp.parse, nlp.surprisal, nlp.log_prob):
        with pytest.raises(InputError, match="sentence 2: found 'cat'; expected word_TAG"):
            use(["the_DT", "the_DT cat"])
    with pytest.raises(InputError, match="the text, line 2: found 'cat'; expected word_TAG"):
        nlp.perplexity(["the_DT", "the_DT cat"])


@pytest.mark.parametrize("texts", [SENTENCE, [SENTENCE]])
def test_a_missing_ability_is_reported_with_the_types_that_have_it(texts):
    lstm, compound = language_model(fresh("lstm")), language_model(fresh("compound-pcfg"))
    with pytest.raises(InputError, match=r"this lstm model .*so parsing cannot use it\. Model types that can: prpn, "):
        lstm.parse(texts)
    with pytest.raises(InputError, match=r"this compound-pcfg model .*Model types that can: prpn, lstm"):
        compound.surprisal(texts)
    trees = language_model(grown("tanh")[0])
    for use in (trees.surprisal, trees.log_prob):
        with pytest.raises(InputError, match="a tree-rnn model reads dependency trees, not text; use perplexity"):
            use(texts)
    with pytest.raises(InputError, match="expected a file of trees, not sentences"):
        trees.perplexity([SENTENCE])
    with pytest.raises(InputError, match="this tree-rnn model"):
        trees.parse(texts)


def test_sentences_are_generated_with_the_settings_given():
    lstm = language_model(fresh("lstm"))
    found = lstm.generate(3, "the cat", temperature=0.5, top_k=5, seed=7, max_words=6, keep_unknown=True)
    expected = generate(
        lstm, 3, "the cat", SamplingOptions(temperature=0.5, top_k=5, seed=7, max_words=6, keep_unknown=True)
    )
    assert found == list(expected)
    assert str(found[0]).startswith("the cat ")


def test_sentences_are_generated_with_trees_where_the_model_has_them(tmp_path):
    pcfg = language_model(grammar("simple-pcfg"))
    assert pcfg.generate(2, seed=3, max_words=9, trees=True) == list(
        sample_with_trees(pcfg, 2, SamplingOptions(seed=3, max_words=9))
    )
    with pytest.raises(InputError, match=r"prompt, top_k: Sentences with trees are sampled top-down\."):
        pcfg.generate(2, "the", top_k=2, trees=True)
    with pytest.raises(InputError, match="this lstm model"):
        language_model(fresh("lstm")).generate(trees=True)

    stored, stops = grown("tanh")
    stored, stops = dataclasses.replace(stored, model=copy.deepcopy(stored.model).float()), stops.float()
    write_model(tmp_path / "trees", stored)
    write_stops(tmp_path / "trees", stops, stored.model)
    nlp = syntaxlm.load(tmp_path / "trees")
    expected = list(generate_trees(stored, stops, 2, TreeSamplingOptions(seed=4, max_words=9)))
    assert [one.text for one in nlp.generate(2, seed=4, max_words=9, trees=True)] == [one.text for one in expected]
    for wrong in ({}, {"trees": True, "prompt": "the"}):
        with pytest.raises(InputError, match=r"found .*; expected trees=True and no prompt, because"):
            nlp.generate(**wrong)
    with pytest.raises(InputError, match="was not read from a folder"):
        language_model(stored).generate(trees=True)


def test_evaluations_are_those_of_the_modules(toy, prpn, tmp_path):
    treebank = toy / "test.mrg"
    protocol = protocol_named("wsj10")
    expected = evaluate_parsing(prpn, treebank, protocol=protocol, preprocessing="none", decoder="unbiased").to_dict()
    for chosen in ("wsj10", protocol):
        figures = prpn.evaluate_parsing(treebank, chosen, decoder="unbiased", preprocessing="none").to_dict()
        assert [reading["form"] for reading in figures["readings"]] == ["labelled trees"]
        assert figures == expected
    with pytest.raises(InputError, match="max_words: found together with a protocol object"):
        prpn.evaluate_parsing(treebank, protocol, max_words=3)
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text('{"sentence_good": "the cat sees", "sentence_bad": "sees cat the", "UID": "order"}\n')
    report = syntaxlm.evaluate_pairs({"prpn": prpn, "other": fresh("lstm")}, pairs)
    assert [one.name for one in report.models] == ["prpn", "other"]
    assert [one.name for one in prpn.evaluate_pairs(pairs).models] == ["prpn"]
    table = tmp_path / "suite.csv"
    table.write_text("item,condition,1,2\n1,a,the cat,sees\n1,b,the cats,sees\n")
    models = {"prpn": prpn, "other": fresh("lstm")}
    suites = syntaxlm.evaluate_suites(models, table, predictions=["(2;%a%) < (2;%b%)"])
    assert [one.name for one in suites.models] == ["prpn", "other"]


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("nowhere", "nowhere: no such model folder; expected a folder written by syntaxlm train"),
        ("file", "found a file; expected a folder"),
        ("empty", "not a model folder: config.json is missing; expected"),
        ("seeds", r"config.json is missing. It contains model folders: \S*seed-1, \S*seed-2$"),
        ("many", r"It contains model folders: (\S+, ){5}\.\.\.$"),
    ],
)
def test_a_folder_without_a_model_is_reported_with_its_content(tmp_path, place, message):
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    folders = [f"seeds/seed-{seed}" for seed in (1, 2)] + [f"many/prpn/seed-{seed}" for seed in range(9)]
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "config.json").touch()
    with pytest.raises(InputError, match=message):
        syntaxlm.load(tmp_path / place)


@pytest.mark.parametrize("device", ["cuda:99", "mps", "cuda", "meta"])
def test_a_device_that_is_not_there_is_reported_before_the_model_is_read(device):
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if there.get(device):
        pytest.skip("this machine has it")
    with pytest.raises(InputError, match=rf"device '{device}': not available; "):
        syntaxlm.load("nowhere", device=device)


def test_a_misspelt_device_is_reported_with_those_there_are(prpn):
    with pytest.raises(InputError, match=r"device 'gpuu': no such device; available here: .*cpu"):
        prpn.to("gpuu")
    assert prpn.to(torch.device("cpu")) is prpn


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", [*TEXT_MODELS, *SENTENCE_VARIANTS])
def test_a_model_on_a_gpu_gives_the_same(name):
    on_cpu, moved = language_model(fresh(name)), language_model(fresh(name)).to("cuda")
    texts = [text for text in TEXTS if text.strip()]
    assert moved.log_prob(texts) == pytest.approx(on_cpu.log_prob(texts), rel=1e-5)
    if name in PARSERS:
        assert [str(one) for one in moved.parse(texts)] == [str(one) for one in on_cpu.parse(texts)]


def test_trees_print_themselves_and_are_given_to_nltk(capsys):
    tree = language_model(fresh("prpn")).parse("the cat sees").tree
    tree.pretty_print()
    drawn = capsys.readouterr().out
    assert all(word in drawn for word in tree.words)
    assert "┌" in drawn
    tree.pretty_print(sys.stderr)
    assert capsys.readouterr() == ("", drawn)
    assert tree.to_nltk().leaves() == list(tree.words)


def test_the_name_of_a_file_is_read_as_a_sentence_with_a_warning(tmp_path, monkeypatch, trained):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.txt").write_text("the cat sleeps\n")
    nlp = syntaxlm.load(trained.lstm)
    with pytest.warns(InputWarning, match=r"mine\.txt: is read as a sentence, although a file has this name"):
        nlp.surprisal("mine.txt")
