"""The spaCy component: alignment with spaCy's tokens whatever they are, settings, storage and processes."""

from __future__ import annotations

import importlib
import itertools
import pickle
import re
import shutil
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as some

from syntaxlm.core.errors import InputError
from syntaxlm.trees.tree import parse_brackets
from tests.api.models import language_model
from tests.docs.examples import ROOT
from tests.fresh_models import SENTENCES, STREAM, fresh
from tests.grammar_models import grammar

spacy = pytest.importorskip("spacy", reason="spaCy is not installed")
from spacy.tokens import Doc, DocBin, Span, Token  # noqa: E402

import syntaxlm.spacy as component  # noqa: E402

TEXT = "The old cat don't see, a (mother-in-law)! Stop. !!! The dog."
MODELS = {
    "prpn": fresh("prpn"),
    "stream": fresh("prpn", STREAM),
    "characters": fresh("prpn", SENTENCES, units="characters"),
    "dropping": fresh("prpn", SENTENCES, drop_punctuation=True, splitting="punctuation"),
}


VOCAB = spacy.blank("en").vocab
COMPONENTS = {name: component.SyntaxComponent("syntaxlm", name) for name in MODELS}
for name, stored in MODELS.items():
    COMPONENTS[name]._use(language_model(stored))


def pipeline(stored=MODELS["prpn"], **settings):
    """A blank English pipeline with the component, whose model is given."""
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("syntaxlm", config=settings)._use(language_model(stored))
    return nlp


def annotations(doc):
    """All that the component adds to a Doc."""
    return [
        (sent._.parse_string, [(one.start, one.end, one.label_) for one in sent._.constituents], sent.start, sent.end)
        for sent in doc.sents
    ], [-1 if token._.surprisal is None else token._.surprisal for token in doc]


@some.composite
def tokenised(draw):
    """One sentence in tokens that have nothing to do with those of a model: parts of words, several words, spaces."""
    text = draw(some.text("theca d.,'\n", min_size=1, max_size=25))
    cuts = draw(some.sets(some.integers(1, max(1, len(text) - 1))))
    edges = sorted({0, len(text), *(cuts if len(text) > 1 else ())})
    words = [text[start:end] for start, end in itertools.pairwise(edges)]
    doc = Doc(VOCAB, words=words, spaces=[False] * len(words))
    for token in doc:
        token.is_sent_start = token.i == 0
    return doc


@pytest.mark.parametrize("name", MODELS)
@given(doc=tokenised())
def test_constituents_are_those_of_the_model_that_have_edges_at_edges_of_tokens(name, doc):
    model = language_model(MODELS[name])
    COMPONENTS[name](doc)
    parse = model.parse(doc.text)
    covered = [set(range(*span)) for span in parse.offsets]
    tokens = {token.i: {token.idx + place for place in range(len(token))} for token in doc if not token.is_space}
    expected = {(0, len(doc))} if parse else set()
    for _, start, end in parse.tree.constituents:
        own, rest = set().union(*covered[start:end]), set().union(*covered[:start], *covered[end:])
        touched = [number for number, characters in tokens.items() if characters & own]
        if len(touched) > 1 and (start, end) != (0, len(parse)) and not any(tokens[one] & rest for one in touched):
            expected.add((touched[0], touched[-1] + 1))
    (sentence,) = doc.sents
    found = [(one.start, one.end) for one in sentence._.constituents]
    assert len(set(found)) == len(found)
    assert set(found) == expected
    leaves = [re.sub(r"\s+", "_", token.text) for token in doc if not token.is_space]
    assert (sentence._.parse_string is None) == (not parse)
    if parse:
        assert list(parse_brackets(sentence._.parse_string, labelled=True)[0].words) == leaves


@pytest.mark.parametrize("name", MODELS)
@given(doc=tokenised())
def test_every_token_of_the_model_counts_once(name, doc):
    model = language_model(MODELS[name])
    COMPONENTS[name](doc)
    rows = model.surprisal(doc.text, context="reset")
    inside = {token.idx + place for token in doc for place in range(len(token))}  # not a space between two tokens
    counted = [row.surprisal for row in rows if row.begin in inside and row.surprisal is not None]
    read = [token._.surprisal for token in doc if token._.surprisal is not None]
    assert all(bits >= 0 for bits in read)
    assert bool(read) == bool(counted)
    assert sum(read) == pytest.approx(sum(counted), rel=1e-5)


def test_tokens_of_one_word_and_of_several_words():
    nlp = pipeline()
    by_word = {row.word: row.surprisal for row in language_model(MODELS["prpn"]).surprisal("The cat don't see")}
    doc = nlp("The cat don't see")
    values = {token.text: token._.surprisal for token in doc}
    assert values["do"] == pytest.approx(by_word["don't"])  # read as one word, which starts in "do"
    assert values["n't"] is None
    joined = Doc(nlp.vocab, words=["The", "cat don't", "see"])
    for token in joined:
        token.is_sent_start = token.i == 0
    nlp.get_pipe("syntaxlm")(joined)
    assert joined[1]._.surprisal == pytest.approx(by_word["cat"] + by_word["don't"])
    assert next(joined.sents)._.parse_string.replace("(X ", "").replace(")", "") == "The cat_don't see"


def test_a_token_has_the_parts_of_its_surprisal():
    model = language_model(MODELS["prpn"])
    doc = Doc(pipeline().vocab, words=["The", "cat.", "."], sent_starts=[True, False, False])
    pipeline().get_pipe("syntaxlm")(doc)
    rows = model.surprisal("The cat. .", context="reset")
    names = "surprisal", "surprisal_word", "surprisal_marks"
    for token, row in zip(doc, rows, strict=False):
        values = [getattr(token._, name) for name in names]
        assert values == [bits if bits is None else pytest.approx(bits, rel=1e-5) for bits in row[7:10]]
        assert token._.surprisal_tokens == row.tokens
    assert doc[1]._.surprisal_tokens == 2
    assert doc[2]._.surprisal_word is None


def test_text_that_the_model_does_not_read_has_no_tree_and_no_surprisal():
    doc = pipeline(MODELS["dropping"])("!!! The cat.")
    nothing, cat = doc.sents
    assert (nothing._.parse_string, nothing._.constituents) == (None, ())
    assert [token._.surprisal for token in nothing] == [None] * len(nothing)
    assert cat._.parse_string == "(X The cat .)"
    assert cat[-1]._.surprisal is None
    assert doc[0:5]._.parse_string is None  # not a constituent
    assert len(pipeline()("")) == 0


def test_sentences_of_one_word_are_not_taken_for_words_of_one_sentence():
    nlp = pipeline()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        doc = nlp("cat. dog. cat.")
    assert [sentence._.parse_string for sentence in doc.sents] == ["(X cat .)", "(X dog .)", "(X cat .)"]


def test_attributes_of_text_without_the_component_are_empty():
    component.register_attributes()
    doc = spacy.blank("en")("The cat")
    assert (doc[:]._.parse_string, doc[:]._.constituents, doc[0]._.surprisal) == (None, (), None)


@pytest.mark.parametrize("name", ["prpn", "stream"])
def test_streams_give_what_single_texts_give_whatever_the_batches(name):
    nlp = pipeline(MODELS[name])
    texts = [TEXT, "", "The dog.", "a cat sees", TEXT]
    expected = [annotations(nlp(text)) for text in texts]
    assert any(expected[0][1])
    for size in (1, 2, 100):
        for (trees, bits), (right_trees, right_bits) in zip(
            map(annotations, nlp.pipe(texts, batch_size=size)), expected, strict=True
        ):
            assert trees == right_trees
            assert bits == pytest.approx(right_bits, rel=1e-5)


def test_labels_of_grammars():
    nlp = pipeline(grammar("simple-pcfg"), labels=True)
    (sentence,) = nlp("the cat sees a dog").sents
    assert sentence._.parse_string.startswith("(NT-")
    assert all(one.label_.startswith("NT-") for one in sentence._.constituents)
    (sentence,) = pipeline(grammar("simple-pcfg"))("the cat sees a dog").sents
    assert {one.label_ for one in sentence._.constituents} == {""}


def test_a_model_does_what_it_can():
    doc = pipeline(fresh("lstm"))("The cat sees.")
    assert next(doc.sents)._.parse_string is None
    assert doc[0]._.surprisal > 0
    doc = pipeline(fresh("compound-pcfg"))("The cat sees.")
    assert next(doc.sents)._.parse_string
    assert doc[0]._.surprisal is None
    doc = pipeline(surprisal=False)("The cat sees.")
    assert doc[0]._.surprisal is None
    doc = pipeline(parse=False)("The cat sees.")
    assert next(doc.sents)._.parse_string is None


@pytest.mark.parametrize(
    ("stored", "settings", "message"),
    [
        (fresh("lstm"), {"parse": True}, "this lstm model .*the spaCy component syntaxlm cannot use it"),
        (fresh("compound-pcfg"), {"surprisal": True}, "this compound-pcfg model"),
        (fresh("prpn", SENTENCES, units="tags"), {}, "the model reads part-of-speech tags"),
        (
            fresh("prpn"),
            {"decoder": "cky"},
            "decoder: found 'cky'; expected biased",
        ),
        (fresh("prpn"), {"labels": True}, "labels"),
        (fresh("lstm"), {"decoder": "biased"}, "computes no constituents, but found decoder"),
        (grammar("simple-pcfg"), {"parse": False, "labels": True}, "computes no constituents, but found labels"),
    ],
)
def test_settings_that_the_model_does_not_support_are_reported(stored, settings, message):
    with pytest.raises(InputError, match=message):
        pipeline(stored, **settings)("The cat sees.")


def test_missing_sentence_boundaries_are_reported_with_the_remedy():
    nlp = spacy.blank("en")
    nlp.add_pipe("syntaxlm")._use(language_model(MODELS["prpn"]))
    with pytest.raises(InputError, match=r"no sentence boundaries; .* nlp.add_pipe\('sentencizer', before='syntaxlm'"):
        nlp("The cat sees.")


def test_a_missing_model_is_reported_at_the_first_use(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("syntaxlm", config={"model": str(tmp_path / "none")})
    with pytest.raises(InputError, match="none: no such model folder"):
        nlp("The cat sees.")


def test_an_attribute_of_another_package_is_reported():
    component.register_attributes()
    old = Span.get_extension("parse_string")
    Span.set_extension("parse_string", getter=len, force=True)
    try:
        with pytest.raises(InputError, match=r"Span\._\.parse_string: another package"):
            spacy.blank("en").add_pipe("syntaxlm")
    finally:
        Span.set_extension("parse_string", getter=old[2], force=True)
    assert Token.has_extension("surprisal")


@pytest.mark.parametrize("way", ["disk", *(pytest.param(way, marks=pytest.mark.long) for way in ("bytes", "pickle"))])
def test_a_stored_pipeline_does_not_need_the_original_model(way, trained, tmp_path):
    shutil.copytree(trained.prpn, tmp_path / "model")
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("syntaxlm", config={"model": str(tmp_path / "model"), "decoder": "unbiased"})
    stored = nlp.to_bytes()  # loads the model, which has not been used yet
    nlp.to_disk(tmp_path / "pipeline")
    pickled = pickle.dumps(nlp)  # as for processes that are not forked
    expected = annotations(nlp(TEXT))
    shutil.rmtree(tmp_path / "model")
    if way == "disk":
        again = spacy.load((tmp_path / "pipeline").rename(tmp_path / "elsewhere"))
    elif way == "bytes":
        again = spacy.blank("en", config=nlp.config).from_bytes(stored)
    else:
        again = pickle.loads(pickled)
    assert annotations(again(TEXT)) == expected


def test_bytes_cannot_name_other_files():
    nlp = pipeline()
    for files in ({"../config.json": b"{}"}, [], {"weights.bin": b""}):
        with pytest.raises(InputError, match="found bytes that to_bytes did not write"):
            nlp.get_pipe("syntaxlm").from_bytes(component.srsly.msgpack_dumps(files))


def test_annotations_are_stored_with_docs():
    nlp = pipeline()
    doc = nlp(TEXT)
    (again,) = DocBin(docs=[doc], store_user_data=True).get_docs(nlp.vocab)
    assert annotations(again) == annotations(doc)
    assert annotations(Doc(nlp.vocab).from_bytes(doc.to_bytes())) == annotations(doc)


def test_several_processes_give_the_same_annotations():
    nlp = pipeline()
    texts = [TEXT, "The dog.", "a cat sees"]
    expected = [annotations(nlp(text)) for text in texts]
    found = list(map(annotations, nlp.pipe(texts, n_process=2, batch_size=1)))
    for (trees, bits), (right_trees, right_bits) in zip(found, expected, strict=True):
        assert trees == right_trees
        assert bits == pytest.approx(right_bits, rel=1e-5)


def test_a_gpu_is_not_shared_by_processes(monkeypatch):
    part = pipeline().get_pipe("syntaxlm")
    monkeypatch.setattr(component.os, "getpid", lambda: -1)

    class OnGPU:
        device = type("Device", (), {"type": "cuda"})

    with pytest.raises(InputError, match="use n_process=1, or the device cpu"):
        part._prepare_process(OnGPU)


def test_the_entry_point_is_the_registered_factory():
    declared = re.search(
        r'^\[project\.entry-points\.spacy_factories\]\nsyntaxlm = "([\w.]+):(\w+)"$',
        (ROOT / "pyproject.toml").read_text(),
        re.MULTILINE,
    )
    made = getattr(importlib.import_module(declared[1]), declared[2])
    assert made is component.make_syntaxlm
    meta = spacy.blank("en").get_factory_meta("syntaxlm")
    assert {"token._.surprisal", "span._.parse_string", "span._.constituents"} < set(meta.assigns)


def test_the_guide_runs(trained, tmp_path, monkeypatch, capsys):
    (tmp_path / "my-model").symlink_to(trained.prpn)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    page = (ROOT / "docs" / "guides" / "spacy.md").read_text()
    for block in re.findall(r"^```python\n(.*?)^```", page, re.M | re.S):
        exec(block, names)
    printed = capsys.readouterr().out
    assert printed.count("(X ") >= 3
    assert annotations(names["again"](TEXT)) == annotations(names["nlp"](TEXT))
