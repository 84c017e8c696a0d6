"""The JSON interface gives what the methods of a model give."""

from __future__ import annotations

import asyncio
import math
import re
import threading
from dataclasses import replace

import httpx
import pytest

from syntaxlm.api import load
from syntaxlm.core.threads import AbandonedError, abandonable
from syntaxlm.generation.sentences import draws_of
from syntaxlm.models.abilities import ParsesSentences, ScoresTokens
from syntaxlm.serve.app import create_app
from syntaxlm.serve.limits import Limits
from syntaxlm.serve.models import ServedModel
from syntaxlm.serve.server import running
from syntaxlm.storage.bundled import bundled_names, find_model
from syntaxlm.storage.folder import write_model
from syntaxlm.storage.hub import CARD
from tests.api.models import language_model
from tests.fresh_models import fresh
from tests.serve.conftest import SENTENCE

SENTENCES = [SENTENCE, "a dog sees the cat .", "zebra", "  "]
EVERY = ["simple-pcfg", "prpn", "palm", "lstm", "compound-pcfg"]
PARSERS = [name for name in EVERY if name != "lstm"]
SCORERS = [name for name in EVERY if name != "compound-pcfg"]


def post(client, path: str, **request) -> dict:
    answer = client.post(f"/api/{path}", json=request)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found.pop("schema_version") == 1
    return found


def rounded(value):
    """Numbers with five digits after the point, as batches of other sizes differ in the last ones."""
    if isinstance(value, float):
        return pytest.approx(value, abs=1e-5)
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    return [rounded(inner) for inner in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("name", PARSERS)
def test_trees_are_those_of_the_model(client, models, name):
    found = post(client, "parse", model=name, sentences=SENTENCES)["sentences"]
    parses = models[name].parse(SENTENCES)
    assert found == [rounded(parse.to_dict()) | {"brackets": str(parse) or None} for parse in parses]


@pytest.mark.parametrize("name", SCORERS)
def test_surprisals_are_those_of_single_sentences(client, models, name):
    found = post(client, "surprisal", model=name, sentences=SENTENCES)["sentences"]
    expected = models[name].surprisal(SENTENCES, context="reset")
    assert [one["words"] for one in found] == [rounded(one.to_dict()) for one in expected]
    *full, empty = found
    assert [one["bits"] for one in full] == pytest.approx([one.bits for one in expected[:-1]], abs=1e-5)
    assert empty["bits"] is None
    assert math.isnan(expected[-1].bits)


def test_measures_of_words_are_answered_on_request(client, models):
    asked = {"measures": ["entropy", "rank", "depth"], "next_words": 2, "given": "the old"}
    found = post(client, "surprisal", model="simple-pcfg", sentences=SENTENCES, **asked)["sentences"]
    for one, expected in zip(found, models["simple-pcfg"].surprisal(SENTENCES, **asked), strict=True):
        assert one["words"] == expected.to_dict()
    plain = post(client, "surprisal", model="simple-pcfg", sentences=SENTENCES)["sentences"]
    assert "rank" not in plain[0]["words"][0]
    refused = client.post("/api/surprisal", json={"sentences": ["the cat"], "measures": ["surprise"]})
    assert refused.status_code == 422


@pytest.mark.parametrize("name", EVERY)
def test_an_analysis_has_what_the_model_gives(client, models, name):
    model = models[name].model
    for place, one in enumerate(post(client, "analyse", model=name, sentences=SENTENCES)["sentences"]):
        assert one["number"] == place + 1
        assert ("parse" in one) == isinstance(model, ParsesSentences)
        assert ("surprisal" in one) == isinstance(model, ScoresTokens)
        has_words = bool(SENTENCES[place].strip())
        assert (one["svg"] is not None) == has_words
        if has_words:
            assert one["svg"].startswith("<svg")


def test_the_best_trees_are_drawn_if_several_are_requested(client, models):
    (found,) = post(client, "analyse", model="simple-pcfg", sentences=[SENTENCE], best=3)["sentences"]
    parse = models["simple-pcfg"].parse(SENTENCE, best=3)
    assert len(found["readings"]) == len(parse.alternatives) == 3
    for reading, expected in zip(found["readings"], parse.alternatives, strict=True):
        assert reading["probability"] == pytest.approx(expected.probability)
        assert reading["confidence"] == pytest.approx(expected.confidence, abs=1e-5)
        spans = [(part.start, part.end) for part in expected.tree.constituents if part.end - part.start > 1]
        assert list(map(tuple, reading["spans"])) == spans
        drawn = re.findall(r'data-start="(\d+)" data-end="(\d+)"', reading["svg"])
        assert [(int(start), int(end)) for start, end in drawn] == spans
        values = [parse.marginals[start, end - 1] for start, end in spans]
        assert reading["marginals"] == pytest.approx(values, abs=1e-5)
    assert "readings" not in post(client, "analyse", model="simple-pcfg", sentences=[SENTENCE])["sentences"][0]


def test_accuracy_and_language_are_those_of_the_card(tmp_path):
    folder = tmp_path / "mine"
    write_model(folder, fresh("lstm"))
    served = ServedModel("mine", load(folder), Limits())
    assert (served.info().language, served.info().accuracy) == (None, None)
    metrics = "[{type: f1, name: F1, value: 20.0, args: {decoder: mbr}}]"
    result = f"{{task: {{type: parsing}}, dataset: {{type: t, name: T}}, metrics: {metrics}}}"
    index = f"model-index: [{{name: theirs, results: [{result}]}}]"
    (folder / "README.md").write_text(f"---\nlanguage: is\n{index}\n---\n\nA model.\n\n## Limits\n\nMany.\n")
    info = ServedModel("mine", load(folder), Limits()).info()
    assert (info.language, info.description) == ("is", "A model.")
    assert info.accuracy.model_dump() == {"values": {"data": "T", "F1": "20.0"}, "protocol": "decoder mbr"}
    (folder / "README.md").write_text("---\n*\n---\n")
    assert ServedModel("mine", load(folder), Limits()).info().accuracy is None


@pytest.mark.parametrize("name", bundled_names())
def test_bundled_models_state_their_accuracy(name):
    info = ServedModel(name, load(name), Limits()).info()
    assert 40 < float(info.accuracy.values["F1"]) < 100
    assert "decoder mbr" in info.accuracy.protocol


def test_options_reach_the_decoder(client, models):
    request = {"model": "simple-pcfg", "sentences": [SENTENCE], "decoder": "viterbi", "labels": True}
    (found,) = post(client, "parse", **request)["sentences"]
    parse = models["simple-pcfg"].parse(SENTENCE, decoder="viterbi", labels=True)
    assert (found["brackets"], found["labels"]) == (str(parse), parse.to_dict()["labels"])


@pytest.mark.parametrize("name", EVERY)
def test_the_likelier_sentence_of_a_pair_is_that_of_the_log_probabilities(client, models, name):
    pair = ("the cat sees a dog", "the cat dog a sees old")
    found = post(client, "pair", model=name, first=pair[0], second=pair[1])
    first, second = models[name].log_prob(list(pair))
    assert (found["first"]["sentence"], found["second"]["sentence"]) == pair
    assert found["first"]["bits"] == pytest.approx(-first / math.log(2), abs=1e-4)
    assert found["difference"] == pytest.approx((first - second) / math.log(2), abs=1e-4)
    assert found["likelier"] == ("first" if first > second else "second")
    if name == "compound-pcfg":
        assert found["columns"] is found["decisive_column"] is None
        return
    assert sum(column["difference"] for column in found["columns"]) == pytest.approx(found["difference"], abs=1e-4)
    sign = 1 if first > second else -1
    decisive = found["columns"][found["decisive_column"]]
    assert sign * decisive["difference"] == max(sign * column["difference"] for column in found["columns"])
    for side in ("first", "second"):
        places = [column[side] for column in found["columns"] if column[side] is not None]
        assert places == list(range(len(found[side]["words"])))
    refused = client.post("/api/pair", json={"model": name, "first": SENTENCE, "second": " "})
    assert refused.status_code == 422
    assert "found no words that the model reads" in refused.text
    equal = post(client, "pair", model=name, first=SENTENCE, second=SENTENCE)
    assert (equal["likelier"], equal["difference"], equal["decisive_column"]) == ("equal", 0, None)


@pytest.mark.parametrize("log_probs", [[-math.inf, -math.inf], [-30.1, -30.1 - 1e-14]])
def test_of_two_sentences_with_probability_0_or_with_the_same_but_for_rounding_none_is_likelier(
    models, monkeypatch, log_probs
):
    served = ServedModel("compound-pcfg", models["compound-pcfg"], Limits())
    monkeypatch.setattr(type(served.model), "log_prob", lambda model, sentences: log_probs)
    (found,) = served.pairs([("the cat", "the dog")])
    assert (found["likelier"], found["difference"]) == ("equal", 0)


def test_a_seed_gives_the_sentences_of_the_model(client, models):
    options = {"count": 3, "seed": 4, "temperature": 0.5, "max_words": 5}
    found = post(client, "generate", model="lstm", prompt="the cat", **options)["sentences"]
    assert [one["text"] for one in found] == [one.text for one in models["lstm"].generate(prompt="the cat", **options)]


@pytest.mark.parametrize(("name", "trees"), [("lstm", False), ("simple-pcfg", True)])
def test_waiting_requests_for_sentences_with_other_seeds_are_computed_together(models, monkeypatch, name, trees):
    model, calls, release = ServedModel(name, models[name], Limits()), [], threading.Event()
    generate = model.generate
    monkeypatch.setattr(model, "generate", lambda draws, **options: calls.append(draws) or generate(draws, **options))
    options = {"prompt": None, "max_words": 6, "trees": trees, "pictures": False, "temperature": 1.0, "top_k": None}

    async def ask():
        model.sampler.submit("busy", [0], lambda items: release.wait(30) and items)
        requests = [asyncio.create_task(model.sample(count, seed, **options)) for count, seed in ((2, 7), (1, 8))]
        await asyncio.sleep(0)  # both requests wait
        release.set()
        return await asyncio.gather(*requests)

    try:
        answers = asyncio.run(ask())
    finally:
        model.sampler.stop()
    assert calls == [[(7, 1), (7, 2), (8, 1)]]
    for (count, seed), found in zip(((2, 7), (1, 8)), answers, strict=True):
        expected = models[name].generate(count, seed=seed, max_words=6, trees=trees)
        assert [(one["number"], one["text"]) for one in found] == [(one.number, one.text) for one in expected]


@pytest.mark.parametrize(
    ("path", "request_", "steps"),
    [
        ("parse", {"sentences": [SENTENCE]}, 0),
        ("parse", {"sentences": [SENTENCE], "best": 3}, 5),
        ("parse", {"sentences": [SENTENCE], "best": 3}, 6),  # before probabilities of trees
        ("surprisal", {"sentences": [SENTENCE], "measures": ["belief_update"]}, 5),
        ("generate", {"draws": draws_of(1, 0), "prompt": None, "max_words": 1, "trees": True, "pictures": False}, 5),
    ],
)
def test_a_slow_computation_of_one_sentence_ends_when_it_is_no_longer_wanted(path, request_, steps):
    grammar, wanted = language_model(fresh("simple-pcfg")), iter([True] * steps)
    grammar.model.one_word_share.zero_()  # no sample has one word, so all are redrawn
    model = ServedModel("simple-pcfg", grammar, Limits())
    with abandonable(lambda: next(wanted, False)), pytest.raises(AbandonedError):
        getattr(model, path)(**request_)


def test_a_model_of_a_repository_has_the_card_in_its_files():
    model = replace(load("en-fast"), folder=None)  # as `load("user/name")`
    assert model.files.is_dir()
    assert ServedModel("name", model, Limits()).card_text == (model.files / CARD).read_text(encoding="utf-8")


def test_trees_are_sampled_from_a_grammar(client, models):
    found = post(client, "generate", model="simple-pcfg", count=2, trees=True, max_words=8)["sentences"]
    expected = models["simple-pcfg"].generate(2, trees=True, max_words=8)
    assert [one["brackets"] for one in found] == [str(one.tree) for one in expected]
    assert all(one["svg"].startswith("<svg") for one in found)


def test_text_is_split_into_sentences(client):
    text = "It rained. We stayed at home.\nThen the sun came out."
    found = post(client, "sentences", text=text)["sentences"]
    assert found == ["It rained.", "We stayed at home.", "Then the sun came out."]


def test_the_server_lists_models_and_limits(client, models):
    listed = client.get("/api/models").json()
    by_name = {model["name"]: model for model in listed["models"]}
    assert list(by_name) == list(models)
    assert listed["limits"]["max_words"] == 100
    assert "parsing" not in by_name["lstm"]["abilities"]
    assert by_name["prpn"]["decoders"] == ["biased", "unbiased"]


def test_a_tree_in_brackets_is_drawn_and_written_as_latex(client):
    found = post(client, "tree", brackets="(S (NP The cat) (VP sees (NP it)) .)")
    assert found["sentence"] == "The cat sees it ."
    assert found["spans"] == [[0, 5], [0, 2], [2, 4]]
    assert found["latex"].startswith("\\begin{forest}\n[{S} [{NP} [{The}")
    assert re.findall(r'data-start="(\d+)" data-end="(\d+)"', found["svg"]) == [("0", "5"), ("0", "2"), ("2", "4")]
    for wrong, message in (
        ("(a b) (c d)", "found 2 trees"),
        ("(a (b", "brackets, line 1"),
        ("((a) " * 101, "brackets"),
        (f"(S {'(T a) ' * 101})", "brackets: found 101 words; expected at most 100"),
    ):
        refused = client.post("/api/tree", json={"brackets": wrong})
        assert (refused.status_code, message in refused.json()["detail"]) == (422, True), refused.text


def test_the_card_of_a_model_is_sent_as_text(client):
    with running(create_app({"is": load("is")})) as address:
        card = httpx.get(f"{address}/api/card")
        assert card.text == (find_model("is") / "README.md").read_text("utf-8")
        assert card.headers["content-type"] == "text/plain; charset=utf-8"
    assert client.get("/api/card").status_code == 404  # of a model without a folder


def test_every_operation_is_in_the_schema_and_every_field_has_a_type(client):
    schema = client.get("/api/openapi.json").json()
    assert set(schema["paths"]) == {
        f"/api/{name}" for name in ("models", "parse", "surprisal", "analyse", "pair", "generate", "sentences", "tree")
    }
    assert all(
        {"summary", "responses"} <= set(operation) for path in schema["paths"].values() for operation in path.values()
    )
    statuses = set(schema["paths"]["/api/parse"]["post"]["responses"])
    assert statuses == {"200", "400", "404", "408", "413", "422", "503", "504"}


def test_the_schema_allows_null_where_a_number_may_be_infinite(client):
    parts = client.get("/api/openapi.json").json()["components"]["schemas"]
    for name, field in (("PairSentence", "bits"), ("PairAnswer", "difference"), ("AlignedWord", "difference")):
        assert {"type": "null"} in parts[name]["properties"][field].get("anyOf", ()), name
