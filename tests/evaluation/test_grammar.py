"""The listing of a grammar: counts, examples, and the same content as text, JSON and page."""

from __future__ import annotations

import dataclasses
import html
import json
import re
from collections import Counter

import pytest
import torch

from syntaxlm.core.errors import InputError
from syntaxlm.evaluation import grammar as listing
from syntaxlm.evaluation.grammar import (
    LabelledSentence,
    list_concordance,
    list_grammar,
    parsed_sentences,
    sampled_sentences,
    use_of,
)
from syntaxlm.text.normaliser_settings import NormaliserSettings
from tests.fresh_models import fresh
from tests.grammar_models import every_grammar, grammar

TEXT = "the cat sees a dog\nthe cat sleeps\n\ndog\na old dog sees the cat\nthe <b> sees xyzzy\n"


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def few_samples(monkeypatch):
    monkeypatch.setattr(listing, "SAMPLED", 60)


@every_grammar
def test_every_sentence_of_a_text_gets_a_binary_tree_with_labels_of_the_grammar(name, text, monkeypatch):
    monkeypatch.setattr(listing, "LINES_TOGETHER", 3)
    stored = grammar(name)
    sentences = list(parsed_sentences(stored, text))
    lines = [line.split() for line in TEXT.splitlines() if line]
    assert sorted(map(tuple, lines)) == sorted(tuple(one.tokens) for one in sentences)
    count = stored.model.nonterminal_count
    for one in sentences:
        length = len(one.tokens)
        if length == 1:
            assert not one.spans
            assert not one.word_labels
            continue
        assert len(one.spans) == length - 1
        assert (0, length - 1) in {span[:2] for span in one.spans}
        assert all(0 <= symbol < count for *_, symbol in one.spans)
        assert all(count <= symbol < len(stored.model.labels) for symbol in one.word_labels)


def test_words_of_ordinary_text_are_split_as_parse_splits_them(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("The cat sees the dog.\n", encoding="utf-8")
    (sentence,) = parsed_sentences(grammar("simple-pcfg"), path)
    assert list(sentence.tokens) == ["the", "cat", "sees", "the", "dog"]


def test_use_is_counted_in_constituents_and_words_and_examples_are_the_most_frequent():
    model = grammar("neural-pcfg").model
    first, second, third = 4, 6, 7
    sentences = [
        LabelledSentence(["a", "b", "c"], [(0, 2, 0), (1, 2, 2)], [first, second, second]),
        LabelledSentence(["d", "b", "c"], [(0, 2, 0), (1, 2, 2)], [first, second, second]),
        LabelledSentence(["e", "f"], [(0, 1, 2)], [first, third]),
        LabelledSentence(["g"], [], []),
    ]
    use = use_of(sentences, model)
    assert (use.sentences, use.skipped, use.constituents, use.words) == (3, 1, 5, 8)
    assert use.most_used(True, 9) == [2, 0]
    assert use.most_used(False, 2) == [second, first]
    assert use.share(2) == 3 / 5
    assert (use.share(first), use.share(third)) == (3 / 8, 1 / 8)
    assert use.examples_of(2, 2) == [("b", "c"), ("e", "f")]
    used = use.to_dict()
    assert (used["nonterminals"], used["preterminals"]) == (2, 3)


@every_grammar
def test_without_a_text_symbols_are_counted_in_sampled_sentences(name):
    stored = grammar(name)
    report = list_grammar(stored, symbols=3)
    drawn = list(sampled_sentences(stored, 60, 0))
    counted = Counter(stored.model.labels[symbol] for one in drawn for *_, symbol in one.spans)
    assert {one.symbol: one.count for one in report.nonterminals} == dict(counted.most_common(3))
    assert report.use.source is None
    assert "sampled from the grammar, seed 0" in str(report)
    assert report.to_dict() == list_grammar(stored, symbols=3).to_dict()
    texts = [" ".join(one.tokens) for one in drawn]
    assert all(any(example in line for line in texts) for one in report.nonterminals for example in one.examples)
    assert ("z = 0" in str(report)) == (name == "compound-pcfg")


def test_rules_and_words_are_those_of_the_model_with_the_words_of_preterminals(text):
    stored = grammar("tensor-pcfg")
    report = list_grammar(stored, text, symbols=2)
    assert len(report.nonterminals) == len(report.preterminals) == 2
    labels = list(stored.model.labels)
    for one in report.nonterminals:
        expected = stored.model.top_rules(labels.index(one.symbol), listing.RULES)
        assert [rule.probability for rule in one.rules] == [rule.probability for rule in expected]
        assert [rule.left for rule in one.rules] == [labels[rule.left] for rule in expected]
        for rule in one.rules:
            for child, word in ((rule.left, rule.left_word), (rule.right, rule.right_word)):
                assert (word is None) == child.startswith("NT-")
        assert all(example in TEXT for example in one.examples)
    for one in report.preterminals:
        assert [word.probability for word in one.words] == sorted(
            (word.probability for word in one.words), reverse=True
        )


def test_the_same_figures_are_written_as_text_json_and_page(text):
    report = list_grammar(grammar("simple-pcfg"), text, symbols=4)
    figures = json.loads(report.report().formatted("json"))
    assert figures["schema_version"] == 1
    assert figures["use"]["skipped"] == 1
    page = report.report().formatted("html")
    assert "prefers-color-scheme:dark" in page
    assert "http" not in page
    assert "<script" not in page
    assert "<b>" not in page
    assert "&lt;b&gt;" in page
    for shown in (html.unescape(page), str(report)):
        assert all(re.search(rf"{re.escape(one.symbol)}[ ;<]", shown) for one in report.nonterminals)
        assert all(str(rule) in shown for one in report.nonterminals for rule in one.rules)
    rules = [row for row in report.rows() if row["type"] == "nonterminal"]
    assert [row["probability"] for row in rules] == [
        rule["probability"] for one in figures["nonterminals"] for rule in one["rules"]
    ]


@pytest.mark.parametrize(
    ("model", "settings", "fault"),
    [
        (
            "prpn", {}, "this prpn model has no grammar, so syntaxlm grammar cannot use it. Model types that can:"
            " simple-pcfg, holographic-pcfg, tensor-pcfg, neural-pcfg, compound-pcfg.",
        ),
        ("simple-pcfg", {"symbols": 0}, "symbols: found 0; expected 1 or more"),
        ("simple-pcfg", {"text": "nowhere.txt"}, "nowhere.txt: cannot be read"),
        ("simple-pcfg", {"text": "single.txt"}, "found no sentence of two or more words"),
    ],
)  # fmt: skip
def test_models_settings_and_texts_without_a_grammar_are_refused(model, settings, fault, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "single.txt").write_text("dog\ncat\n", encoding="utf-8")
    with pytest.raises(InputError, match=fault):
        list_grammar(fresh(model), **settings)


@every_grammar
def test_words_do_not_stand_for_many_words_unless_there_are_no_others(name, monkeypatch):
    stored = grammar(name)
    with torch.no_grad():  # every preterminal most probably emits the unknown word
        emissions = stored.model._all_tables()[1]
        emissions[0] = 10
    shown = [one.words for one in list_grammar(stored, symbols=9).preterminals]
    assert all(len(words) == len(stored.vocabulary) - 3 for words in shown)
    assert "<unk>" not in {word.word for words in shown for word in words}
    monkeypatch.setattr(listing, "class_tokens", lambda bundle: frozenset(bundle.vocabulary.tokens))
    shown = [one.words for one in list_grammar(stored, symbols=9).preterminals]
    assert {words[0].word for words in shown} == {"<unk>"}


def test_constituents_with_unknown_words_and_numbers_come_last():
    sentences = [LabelledSentence(words.split(), [(0, 1, 1)], [4, 4]) for words in ("in N", "in N", "a <unk>", "a c")]
    stored = grammar("neural-pcfg")
    settings = dataclasses.replace(stored.settings, normaliser=NormaliserSettings(numbers="whole"))
    classes = listing.class_tokens(dataclasses.replace(stored, settings=settings))
    use = use_of(sentences, stored.model, classes=classes)
    assert use.examples_of(1, 3) == [("a", "c"), ("in", "N"), ("a", "<unk>")]


def test_examples_are_limited_and_counts_are_not(monkeypatch):
    monkeypatch.setattr(listing, "MAX_EXAMPLES", 1)
    model = grammar("neural-pcfg").model
    sentences = [LabelledSentence(words.split(), [(0, 1, 1)], [4, 4]) for words in ("a b", "c d", "a b")]
    use = use_of(sentences, model)
    assert use.counts[1] == 3
    assert use.examples[1] == Counter({("a", "b"): 2})


def test_symbols_are_named_after_phrases_in_their_rules_too(text, monkeypatch):
    monkeypatch.setattr(listing, "phrase_names", lambda examples: dict.fromkeys(examples, "NP"))
    report = list_grammar(grammar("simple-pcfg"), text, symbols=2)
    assert [one.phrase for one in report.nonterminals] == ["NP", "NP"]
    used = {f"{one.symbol} (NP-like)" for one in report.nonterminals}
    assert all(name in str(report) for name in used)
    assert any(name in str(rule) for name in used for one in report.nonterminals for rule in one.rules)
    assert {row["phrase"] for row in report.rows() if row["type"] == "nonterminal"} == {"NP"}


def test_a_concordance_lists_the_constituents_of_a_rule_in_their_contexts(text):
    stored = grammar("simple-pcfg")
    every = list_concordance(stored, text, "* -> * *", lines=100)
    lines = [line.split() for line in TEXT.splitlines()]
    assert every.count == len(every.constituents) == sum(len(line) - 1 for line in lines if line)
    for row in every.constituents:
        shown = " ".join(row[name] for name in ("before", "left", "right", "after"))
        assert shown.split() == lines[row["line"] - 1]
        assert row["left"]
        assert row["right"]
    rule = every.constituents[0]["rule"]
    some = list_concordance(stored, text, rule.replace(" -> ", "→"), lines=1)
    assert some.count == sum(row["rule"] == rule for row in every.constituents)
    assert some.constituents == every.constituents[:1]
    assert f"[{some.constituents[0]['left']} | {some.constituents[0]['right']}]" in str(some)
    assert (", the first 1 listed" in str(some)) == (some.count > 1)


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        ("NT-1", "rule: found 'NT-1'; expected three symbols, such as"),
        ("NT-1 -> NT-2 T-99", "rule: found T-99; expected a symbol of the grammar, NT-0 to T-"),
    ],
)
def test_invalid_rules_are_reported(text, rule, fault):
    with pytest.raises(InputError, match=fault):
        list_concordance(grammar("simple-pcfg"), text, rule)
