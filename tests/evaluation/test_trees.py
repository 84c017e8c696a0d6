"""Evaluation of a model's trees."""

from __future__ import annotations

import dataclasses
import json
import random
import shutil
import time
from functools import partial
from typing import get_args

import numpy as np
import pytest
import torch

from syntaxlm.cli import main
from syntaxlm.core.errors import InputError
from syntaxlm.data.treebanks import read_treebank
from syntaxlm.evaluation import trees as parsing
from syntaxlm.evaluation.tree_report import RandomWeights
from syntaxlm.evaluation.trees import evaluate_parsing, evaluate_trees, protocol_named, with_fresh_weights
from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.structures import CorpusStructure
from syntaxlm.parsing import structure
from syntaxlm.parsing.options import Decoder, DecodingOptions, ParseOptions
from syntaxlm.parsing.parse import parse_lines
from syntaxlm.parsing.structure import structure_of
from syntaxlm.storage.folder import read_model, write_settings, write_weights
from syntaxlm.text.options import AS_WRITTEN
from syntaxlm.trees.averaging import average
from syntaxlm.trees.charts import TIE_RULES
from syntaxlm.trees.decoding import DECODING_RULES, SPAN_RULES
from syntaxlm.trees.f1 import PROTOCOLS, label_mapping, score
from syntaxlm.trees.spans import SpanSets
from syntaxlm.trees.tree import format_brackets, read_brackets, write_brackets
from tests.fresh_models import SENTENCES, STREAM, layered
from tests.models.variants import built
from tests.parsing.span_models import NAMES, Ends, bracketing, scoring
from tests.trees.enumeration import decode_by_definition
from tests.turns import in_threads


@pytest.fixture
def lines(toy) -> list[str]:
    return (toy / "train.txt").read_text().splitlines()[:40]


@pytest.fixture
def gold(toy):
    return read_brackets(toy / "test.mrg")


@pytest.fixture
def text(gold) -> list[str]:
    return [" ".join(tree.words) for tree in gold]


@pytest.fixture
def evaluate(toy):
    """Evaluates a model on the gold trees, by a decoder and layer."""

    def evaluate(bundle, decoder=None, layer=None, ties="random", **arguments):
        options = DecodingOptions(decoder=decoder, layer=layer, ties=ties)
        return evaluate_parsing(bundle, toy / "test.mrg", **vars(options), preprocessing="none", **arguments)

    return evaluate


def test_a_treebank_that_was_read_with_another_preprocessing_is_refused(prpn, toy):
    read = read_treebank(toy / "test.mrg")
    with pytest.raises(InputError, match=r"was read with preprocessing none; expected ptb-keep.*preprocessing='none'"):
        evaluate_parsing(prpn, read)
    reports = [evaluate_parsing(prpn, treebank, preprocessing="none") for treebank in (read, toy / "test.mrg")]
    assert list(reports[0].rows()) == list(reports[1].rows())


def brackets(models, lines, **options):
    return parse_lines(models, lines, ParseOptions(**options)).brackets()


@pytest.mark.parametrize("kind", ["prpn", "sentences", "stream"])
def test_distances_of_every_layer_are_those_of_reading_the_sentence_alone(kind, prpn, lines):
    stored = prpn if kind == "prpn" else layered(SENTENCES if kind == "sentences" else STREAM)
    sentences = [line.split() for line in lines]
    distances, vocabulary, start = structure_of(stored, sentences).values, stored.vocabulary, 0
    assert (vocabulary.begin == vocabulary.end == "<eos>") == (kind == "stream")
    for sentence in sentences:
        ids = torch.tensor([vocabulary.begin_id, *vocabulary.encode(sentence), vocabulary.end_id])[:, None]
        with torch.no_grad():
            expected = stored.model.structure(TokenBatch(ids, ids)).values[:, 1:-1, 0]
        np.testing.assert_allclose(distances[:, start : start + len(sentence)], expected, rtol=0, atol=1e-5)
        start += len(sentence)
    assert distances.shape == (1 if kind == "prpn" else 3, start)


@pytest.mark.parametrize("rule", DECODING_RULES)
def test_spans_are_those_of_the_distances_by_definition(prpn, lines, rule):
    for parse, line in zip(parse_lines(prpn, lines, ParseOptions(decoder=rule)), lines, strict=True):
        assert parse.words == line.split()
        assert len(parse.distances) == len(parse.words)
        found = {(part.start, part.end) for part in parse.tree.constituents if part.end - part.start > 1}
        expected = decode_by_definition(parse.distances, rule)
        assert found == {span for span in expected if span[1] - span[0] > 1}
        assert {tuple(span) for span in parse.to_dict()["spans"]} >= found


@pytest.mark.parametrize("budget", [1, 64, 1 << 15])
def test_neither_company_nor_order_nor_budget_changes_a_tree(prpn, lines, monkeypatch, budget):
    expected = dict(zip(lines, brackets(prpn, lines), strict=True))
    monkeypatch.setattr(structure, "TOKEN_BUDGET", budget)
    shuffled = random.Random(1).sample(lines, len(lines))
    assert brackets(prpn, shuffled) == [expected[line] for line in shuffled]
    for line in lines[:5]:
        assert brackets(prpn, [line]) == [expected[line]]


def test_lines_without_a_word_keep_their_place(prpn):
    given = ["", "the old cat sees a dog", "   ", "cat", ""]
    parses = parse_lines(prpn, given, first=11)
    assert [(parse.number, bool(parse)) for parse in parses] == list(zip(range(11, 16), [0, 1, 0, 1, 0], strict=True))
    assert [bool(tree) for tree in parses.brackets()] == [False, True, False, True, False]
    assert parses.brackets()[3] == "(X cat)"
    assert not any(parse_lines(prpn, ["", " "]))
    assert list(parse_lines(prpn, [])) == []


def test_both_ways_of_writing_a_tree_agree(prpn, lines):
    parses = parse_lines(prpn, [*lines, "one", "a )( b"])
    assert parses.brackets() == [format_brackets(parse.tree) for parse in parses]


def test_the_score_of_a_model_is_the_score_of_the_trees_it_writes(prpn, toy, text, tmp_path, evaluate):
    (tmp_path / "predicted.mrg").write_text("\n".join(brackets(prpn, text, decoder="unbiased")) + "\n")
    figures = evaluate(prpn, "unbiased").to_dict()
    others = evaluate_trees(tmp_path / "predicted.mrg", toy / "test.mrg").to_dict()
    for name in ("f1", "precision", "recall", "sentences", "recall_by_label", "baselines"):
        assert figures[name] == others[name]
    assert set(figures["f1_by_decoder"]) == {"biased", "unbiased"}
    assert figures["f1_by_decoder"]["unbiased"] == figures["f1"]


def rows_of(report):
    return {row["trees"]: row for row in report.rows()}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_gold_against_itself_is_100(toy, protocol):
    report = evaluate_trees(toy / "test.mrg", toy / "test.mrg", protocol)
    figures = report.to_dict()
    assert figures["f1"] == figures["precision"] == figures["recall"] == 1
    assert figures["protocol"] == protocol
    assert rows_of(report)["predicted"]["f1"] == 1


def test_the_table_has_both_decoders_and_every_baseline(prpn, evaluate):
    report = evaluate(prpn)
    table = {line.split("   ")[-1].strip(): line.split() for line in str(report).splitlines() if line[:1] == " "}
    baselines = report.baselines
    expected = {
        "biased": report.scores["biased"],
        "unbiased": report.scores["unbiased"],
        "right branching": baselines.right,
        "left branching": baselines.left,
        "balanced": baselines.balanced,
        "binary upper bound": baselines.binary_bound,
        "reachable by the biased decoder": baselines.biased_bound,
    }
    for name, one in expected.items():
        assert table[name][:3] == [f"{100 * value:.1f}" for value in (one.f1, one.precision, one.recall)]
    seeds = {
        "random trees, uniform over splits (random distances, unbiased)": baselines.random,
        "random distances, biased": baselines.random_biased,
        "random trees, uniform over binary trees": baselines.random_binary,
        "random weights, biased": report.random_weights.f1_by_decoder()["biased"],
        "random weights, unbiased": report.random_weights.f1_by_decoder()["unbiased"],
    }
    for name, scores in seeds.items():
        figures = [f"{100 * value:.1f}" for value in (scores.mean, scores.std, scores.max)]
        assert table[name][:4] == [*figures, str(scores.count)]


def test_every_decoder_is_compared_with_right_branching(prpn, evaluate):
    report = evaluate(prpn, random_weights=0)
    figures = report.to_dict()
    assert figures["against_right_branching"] == figures["against_right_branching_by_decoder"]["biased"]
    for decoder in DECODING_RULES:
        chosen = evaluate(prpn, decoder, random_weights=0)
        assert chosen.to_dict()["against_right_branching"] == figures["against_right_branching_by_decoder"][decoder]
        assert f"\n{decoder} compared with right branching: {chosen.against_right}" in str(report)
    assert "random_weights" not in figures


@pytest.mark.parametrize("decoder", DECODING_RULES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_scored_sentences_are_all_that_count_and_give_the_figures_again(
    prpn, gold, tmp_path, protocol, decoder, evaluate
):
    report = evaluate(prpn, decoder, protocol=protocol_named(protocol, 12), random_weights=0)
    sentences = report.details()
    least = 1 if protocol == "prpn" else 2
    assert [one.number for one in sentences] == [n for n, tree in enumerate(gold, 1) if least <= len(tree) <= 12]
    for one in sentences:
        assert one.words == gold[one.number - 1].words
        assert one.length == len(one.words)
        assert (one.decoder, one.protocol) == (decoder, protocol)
    if PROTOCOLS[protocol].average == "sentence":
        mean = sum(one.f1 for one in sentences) / len(sentences)
        assert mean == pytest.approx(report.scores[decoder].f1, abs=1e-12)
    # The trees of the lines, scored as files, give each sentence's F1 again.
    one = next(one for one in sentences if one.length > 4)
    (tmp_path / "predicted.mrg").write_text(one.predicted + "\n")
    (tmp_path / "gold.mrg").write_text(one.gold + "\n")
    again = evaluate_trees(tmp_path / "predicted.mrg", tmp_path / "gold.mrg", protocol_named(protocol, 12))
    assert again.scores["predicted"].by_sentence.f1[0] == one.f1
    other = next(name for name in DECODING_RULES if name != decoder)
    assert [each.decoder for each in report.details(other)] == [other] * len(sentences)


def test_sentences_are_numbered_as_before_preprocessing(tmp_path):
    (tmp_path / "gold.mrg").write_text(
        "(S (. .))\n(S (A a) (B (A b) (C c)))\n(S (. !))\n(S (A é) (B -LRB-) (A d))\n(S (A a) (A b))\n"
    )
    report = evaluate_trees(tmp_path / "gold.mrg", tmp_path / "gold.mrg", preprocessing="letters")
    report.write_details(tmp_path / "out.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(row["number"], row["words"]) for row in rows] == [(2, ["a", "b", "c"]), (4, ["é", "d"]), (5, ["a", "b"])]
    assert rows[0].keys() == {
        "number", "words", "length", "precision", "recall", "f1", "matched_spans", "predicted_spans", "gold_spans",
        "predicted", "gold", "decoder", "protocol",
    }  # fmt: skip
    assert rows[0]["gold"] == "(S (A a) (B (A b) (C c)))"
    assert rows[0]["predicted"] == "(S a (B b c))"
    with pytest.raises(InputError, match="cannot be written"):
        report.write_details(tmp_path / "nowhere" / "out.jsonl")


def test_trees_of_cleaned_words_are_scored_against_a_folder_of_gold_trees_with_all_their_words(tmp_path):
    (tmp_path / "gold").mkdir()
    for name, second in (("a", "(S (NP (PRP it)) (VP (VBZ ends)) (. .))"), ("b", "(S (UH no) (. !))")):
        tree = "(S (`` ``) (NP (DT the) (JJ old) (NN dog)) (VP (VBZ sees) (NP (PRP us))) (. .))"
        (tmp_path / "gold" / f"{name}.mrg").write_text(f"{tree}\n{second}\n")
    sentence = "(X (X the (X old dog)) (X sees us))"
    (tmp_path / "predicted.mrg").write_text(f"{sentence}\n(X it ends)\n{sentence}\n(X no)\n")
    report = evaluate_trees(tmp_path / "predicted.mrg", tmp_path / "gold", preprocessing="ptb-keep")
    assert report.scores["predicted"].sentences == 3
    assert report.scores["predicted"].recall == 1
    with pytest.raises(InputError, match=r"gold, sentence 1: the tree has 7 words, but the prediction has 5"):
        evaluate_trees(tmp_path / "predicted.mrg", tmp_path / "gold")


def test_json_has_the_figures_and_the_protocol(toy, capsys):
    paths = [str(toy / "test.mrg")] * 2
    assert main(["evaluate", "trees", *paths, "--json", "--protocol", "evalb", "--max-words", "12"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert {"precision", "recall", "f1", "sentences", "protocol"} <= figures.keys()
    assert figures["protocol"] == "evalb"
    assert figures["protocol_fields"]["max_words"] == 12
    assert figures["sentences"] == sum(len(tree) <= 12 for tree in read_brackets(toy / "test.mrg") if len(tree) > 1)


def test_a_label_less_file_is_read_the_way_that_fits(gold, toy, tmp_path):
    write_brackets(gold, tmp_path / "bare.mrg", labelled=False)
    assert evaluate_trees(tmp_path / "bare.mrg", toy / "test.mrg").scores["predicted"].f1 == 1
    (tmp_path / "gold.mrg").write_text("(S (D a) (N (A b) (C c)))\n")
    (tmp_path / "bare.mrg").write_text("(a (b c))\n")  # one word if it is read with labels, and three without
    assert evaluate_trees(tmp_path / "bare.mrg", tmp_path / "gold.mrg").scores["predicted"].f1 == 1


@pytest.mark.parametrize(
    ("gold", "predicted", "preprocessing", "parts"),
    [
        (
            "(S (A a) (B b))\n(S (A the) (B old) (C cat))\n", "(S (A a) (B b))\n(S (A the) (B cat))\n", "none",
            ["gold.mrg, sentence 2", "predicted.mrg", "the old cat", "the cat"],
        ),
        (
            "(S (A a) (B b))\n(S (A the) (B cat))\n", "(S (A a) (B b))\n", "none",
            ["predicted.mrg: found 1 trees; expected 2"],
        ),
        (  # reported before unknown tags
            "(S (NP (DT the) (NN cat)) (VP (VBZ sleeps)))\n" * 3, "(X the (X cat sleeps))\n" * 2, "ptb-keep",
            ["predicted.mrg: found 2 trees; expected 3 as in ", "gold.mrg", "First difference: sentence 3"],
        ),
    ],
)  # fmt: skip
def test_a_mismatch_names_files_sentence_and_both_sentences(gold, predicted, preprocessing, parts, tmp_path):
    (tmp_path / "gold.mrg").write_text(gold)
    (tmp_path / "predicted.mrg").write_text(predicted)
    with pytest.raises(InputError) as caught:
        evaluate_trees(tmp_path / "predicted.mrg", tmp_path / "gold.mrg", preprocessing=preprocessing)
    assert [part for part in parts if part not in str(caught.value)] == []


def test_an_unknown_protocol_lists_those_there_are():
    with pytest.raises(InputError, match=r"found protocol 'wsj'; expected one of wsj-test, prpn"):
        protocol_named("wsj")
    with pytest.raises(InputError, match="maximum words: found 0; expected 1 to"):
        protocol_named("prpn", 0)


@pytest.fixture
def others(trained):
    """Two further models with the same sizes and words and different weights."""
    models = []
    for seed in (1, 2):
        other = read_model(trained.prpn)
        torch.manual_seed(seed)
        with torch.no_grad():
            for weight in other.model.parameters():
                weight += 0.5 * torch.randn_like(weight)
        models.append(other)
    return models


@pytest.mark.parametrize("rule", DECODING_RULES)
def test_several_models_give_the_average_of_their_trees(prpn, others, lines, rule):
    given = ["", *lines, " ", "cat"]
    models = [prpn, *others]
    alone = [parse_lines(one, given, ParseOptions(decoder=rule)).spans for one in models]
    together = parse_lines(models, given, ParseOptions(decoder=rule), first=5)
    expected = average(alone)
    assert together.brackets() != brackets(prpn, given, decoder=rule)
    assert np.array_equal(together.spans.starts, expected.starts)
    assert np.array_equal(together.spans.ends, expected.ends)
    parses = list(together)
    assert not parses[0]
    assert not parses[-2]
    assert parses[1].number == 6
    assert set(parses[1].to_dict()) == {"number", "words", "tokens", "offsets", "known", "not_read", "spans"}
    assert parses[1]._repr_svg_().startswith("<svg")
    assert not any(parse_lines(models, ["", " "]))


def test_the_score_of_several_models_is_that_of_their_average(prpn, others, text, toy, tmp_path, evaluate):
    trees = brackets([prpn, *others], text, decoder="unbiased")
    (tmp_path / "predicted.mrg").write_text("\n".join(trees) + "\n")
    report = evaluate(prpn, "unbiased", also=others)
    assert report.to_dict()["f1"] == evaluate_trees(tmp_path / "predicted.mrg", toy / "test.mrg").to_dict()["f1"]
    assert report.to_dict()["averaged_models"] == 3
    assert "   average of 3 models\n" in str(report)
    assert "averaged_models" not in evaluate(prpn).to_dict()


def test_models_that_read_different_words_are_reported_with_the_sentence(prpn, others):
    normaliser = dataclasses.replace(prpn.settings.normaliser, splitting="punctuation")
    splitting = dataclasses.replace(others[0], settings=dataclasses.replace(prpn.settings, normaliser=normaliser))
    options = ParseOptions(**AS_WRITTEN)
    with pytest.raises(InputError) as error:
        parse_lines([prpn, splitting], ["a cat", "the cat, a dog"], options, first=11, names=["one", "two"])
    reported = str(error.value).splitlines()
    assert reported[0] == "sentence 12: the models read different words, starting with word 2."
    assert reported[1:3] == ["  one, 4 words: cat, a dog", "  two, 5 words: cat , a dog"]


def test_the_commands_take_several_models(prpn, trained, toy, tmp_path, capsys):
    copies = [str(shutil.copytree(trained.prpn, tmp_path / name)) for name in ("second", "third")]
    also = ["--also", copies[0], "--also", copies[1]]
    assert main(["parse", str(trained.prpn), *also, str(toy / "test.txt"), "--decoder", "unbiased"]) == 0
    lines = (toy / "test.txt").read_text().splitlines()
    assert capsys.readouterr().out.splitlines() == brackets(prpn, lines, decoder="unbiased")
    assert main(["evaluate", "parse", str(trained.prpn), str(toy / "test.mrg"), *also, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["averaged_models"] == 3


def test_the_commands_refuse_a_tie_rule_without_an_average(trained, toy, tmp_path, capsys):
    copy = str(shutil.copytree(trained.prpn, tmp_path / "copy"))
    for command, text in ((["parse"], "test.txt"), (["evaluate", "parse"], "test.mrg")):
        assert main([*command, str(trained.prpn), str(toy / text), "--ties", "first"]) == 2
        message = "--ties first: found one model, so no trees are averaged; add models with --also, or omit --ties"
        assert message in capsys.readouterr().err
        assert main([*command, str(trained.prpn), str(toy / text), "--ties", "first", "--also", copy]) == 0


def test_trees_are_those_of_the_default_layer_unless_one_is_given(prpn, lines):
    stored = layered()
    trees = {layer: brackets(stored, lines, layer=layer) for layer in (None, 1, 2, 3)}
    assert trees[None] == trees[2]
    assert len({tuple(one) for one in trees.values()}) == 3
    assert brackets([stored, prpn], lines) != brackets([stored, prpn], lines, layer=1)
    assert brackets([stored] * 2, lines) == trees[2]
    assert [built("on-lstm", layer_sizes=sizes).default_layer for sizes in ((6,), (8, 6))] == [1, 2]
    assert prpn.model.default_layer == 1


def test_a_report_has_the_f1_of_every_layer_from_one_reading(evaluate, monkeypatch):
    stored, readings = layered(), []
    structure = stored.model.structure
    monkeypatch.setattr(stored.model, "structure", lambda batch: readings.append(batch) or structure(batch))
    protocol = protocol_named("evalb", 20)
    report = evaluate(stored, protocol=protocol)
    assert (len(readings), report.layer) == (1, 2)
    alone = {layer: evaluate(stored, layer=layer, protocol=protocol) for layer in (1, 2, 3)}
    expected = {layer: {name: scores.f1 for name, scores in one.scores.items()} for layer, one in alone.items()}
    assert len({values["biased"] for values in expected.values()}) == 3
    assert all(one.f1_by_layer == expected for one in (report, *alone.values()))
    assert report.to_dict() == alone[2].to_dict()
    figures = json.loads(json.dumps(alone[3].to_dict()))
    assert figures["layer"] == 3
    assert figures["f1_by_layer"] == {str(layer): values for layer, values in expected.items()}
    assert figures["f1"] == expected[3]["biased"]
    table = str(alone[3]).splitlines()
    rows = table[table.index("biased F1   unbiased F1   distances") + 1 :][:4]
    for layer, row in zip((1, 2, 3), rows[:3], strict=True):
        name = f"layer {layer}{' (chosen)' * (layer == 3)}"
        assert row.split(maxsplit=2) == [*(f"{100 * expected[layer][rule]:.1f}" for rule in DECODING_RULES), name]
    assert rows[3] == ""


def test_a_model_of_one_layer_and_an_average_have_no_figures_by_layer(prpn, evaluate):
    stored = layered()
    for report in (evaluate(prpn), evaluate(stored, layer=1, also=[stored, prpn])):
        assert not {"layer", "f1_by_layer"} & report.to_dict().keys()
        assert "layer" not in str(report)
    thrice = evaluate(stored, layer=1, also=[stored] * 2)
    assert thrice.to_dict()["f1_by_decoder"] == evaluate(stored, layer=1).f1_by_layer[1]


@pytest.mark.long
def test_the_commands_use_the_default_layer_or_the_given_one(toy, tmp_path, capsys):
    stored, folder = layered(), tmp_path / "model"
    folder.mkdir()
    write_settings(folder, stored.settings, stored.vocabulary)
    write_weights(folder, stored.model.float(), stored.vocabulary)
    stored = read_model(folder)

    def printed(*arguments: object) -> str:
        assert main([*map(str, arguments)]) == 0
        return capsys.readouterr().out

    lines = (toy / "test.txt").read_text().splitlines()
    for option, layer in (([], 2), (["--layer", 1], 1), (["--layer", 3], 3)):
        parse = printed("parse", folder, toy / "test.txt", *option)
        assert parse.splitlines() == brackets(stored, lines, layer=layer)
        figures = json.loads(printed("evaluate", "parse", folder, toy / "test.mrg", "--json", *option))
        assert figures["layer"] == layer
        assert figures["f1"] == figures["f1_by_layer"][str(layer)]["biased"]
        printed("draw", folder, lines[0], "-o", tmp_path / "tree.tex", *option)
        (tmp_path / "alone.txt").write_text(lines[0])
        forest = printed("parse", folder, tmp_path / "alone.txt", "--format", "latex", *option)
        assert forest.strip() in (tmp_path / "tree.tex").read_text()
        printed("report", folder, toy / "test.mrg", "-o", tmp_path, *option)
        assert f"distances of layer {layer}" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert main(["parse", str(folder), str(toy / "test.txt"), "--layer", "4"]) == 2
    assert "layer: found 4; expected 1 to 3" in capsys.readouterr().err


@pytest.mark.parametrize("name", NAMES)
def test_the_parse_of_span_scores_has_the_score_of_each_span_and_no_distances(name):
    stored = scoring(name)
    parse, one = parse_lines(stored, ["the old cat sees a dog", "dog"])
    figures = json.loads(json.dumps(parse.to_dict()))
    assert list(figures) == ["number", "words", "tokens", "offsets", "known", "not_read", "spans", "scores"]
    chart = structure_of(stored, [parse.words]).table.chart(0)
    expected = [chart[start, end - 1] for start, end in figures["spans"]]
    assert len(expected) == 5
    np.testing.assert_allclose(figures["scores"], expected, rtol=0, atol=1e-5)
    assert parse._repr_svg_().startswith("<svg")
    assert parse.distances == []
    assert (
        one.to_dict().items() >= {"number": 2, "words": ["dog"], "tokens": ["dog"], "spans": [], "scores": []}.items()
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_model_of_span_scores_is_scored_by_all_its_rules(name, toy, text, tmp_path, evaluate):
    stored = scoring(name)
    reports = {rule: evaluate(stored, rule) for rule in (None, *SPAN_RULES)}
    assert reports[None].chosen == "greedy-right"
    for rule in SPAN_RULES:
        figures = reports[rule].to_dict()
        assert figures["decoder"] == rule
        assert list(figures["f1_by_decoder"]) == ["greedy-right", "greedy-sum", "cky"]
        assert not {"layer", "f1_by_layer", "random_weights"} & figures.keys()
        (tmp_path / "predicted.mrg").write_text("\n".join(brackets(stored, text, decoder=rule)) + "\n")
        file = evaluate_trees(tmp_path / "predicted.mrg", toy / "test.mrg")
        assert figures["f1"] == file.to_dict()["f1"] == reports[None].scores[rule].f1
        assert {one.decoder for one in reports[rule].details()} == {rule}
    assert list(rows_of(reports["greedy-sum"]))[:4] == ["greedy-sum", "greedy-right", "cky", "right branching"]
    assert "\ngreedy-sum compared with right branching: F1 difference" in str(reports["greedy-sum"])
    assert "layer" not in str(reports["greedy-sum"])


@pytest.mark.long
def test_averages_of_models_of_both_types_are_scored_with_the_requested_or_default_decoder(
    prpn, others, text, evaluate
):
    spans = scoring()
    models = [prpn, others[0], spans]
    report = evaluate(models[0], also=models[1:])
    names = ["2 biased + greedy-right", "2 unbiased + greedy-right", "2 biased + greedy-sum", "2 biased + cky"]
    assert list(report.to_dict()["f1_by_decoder"]) == names
    assert report.chosen == names[0]
    assert f"   {names[1]}\n" in str(report)
    for decoder, name in {"unbiased": names[1], "greedy-sum": names[2], "greedy-right": names[0]}.items():
        chosen = evaluate(models[0], decoder, also=models[1:])
        assert chosen.chosen == name
        assert list(chosen.scores) == names
        spans_of_text = parse_lines(models, text, ParseOptions(decoder=decoder)).spans
        assert np.array_equal(chosen.predicted[name].starts, spans_of_text.starts)
        assert np.array_equal(chosen.predicted[name].ends, spans_of_text.ends)
    assert evaluate(spans, also=[prpn, spans]).chosen == "greedy-right + biased + greedy-right"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"decoder": "unbiased"},
            "decoder: found 'unbiased'; expected greedy-right, greedy-sum, cky",
        ),
        ({"layer": 2}, "layer: found 2, but no model has distances"),
    ],
)
def test_an_unknown_decoder_or_layer_is_reported_before_anything_is_read(asked, message):
    spans = scoring()
    for models in (spans, [spans, spans]):
        with pytest.raises(InputError, match=message):
            parse_lines(models, ["a cat"], ParseOptions(**asked))
    with pytest.raises(InputError, match=message):
        evaluate_parsing(spans, "nowhere.mrg", also=[spans], **asked)


def test_fresh_weights_are_those_of_their_seed_alone_and_leave_the_generator_as_it_was(prpn):
    torch.manual_seed(1)
    before = torch.get_rng_state()
    weights = [dict(with_fresh_weights(prpn, seed).model.named_parameters()) for seed in (0, 1, 0)]
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(weights[0][name], weights[2][name]) for name in weights[0])
    assert not torch.equal(weights[0]["embedding.weight"], weights[1]["embedding.weight"])
    drawn = in_threads([partial(with_fresh_weights, prpn, 0) for _ in range(8)])
    assert all(torch.equal(one.model.embedding.weight, drawn[0].model.embedding.weight) for one in drawn)
    assert with_fresh_weights(prpn, 0).vocabulary is prpn.vocabulary
    assert not with_fresh_weights(prpn, 0).model.training


@pytest.mark.parametrize("kind", ["prpn", "on-lstm", "spans"])
def test_random_weights_are_one_more_baseline(kind, prpn, monkeypatch, evaluate):
    stored = {"prpn": lambda: prpn, "on-lstm": layered, "spans": scoring}[kind]()
    if kind == "spans":
        monkeypatch.setattr(parsing, "build_model", lambda config, size: Ends(size))
    decoder = "greedy-sum" if kind == "spans" else "unbiased"
    layer = stored.model.distance_layers or None
    report = evaluate(stored, decoder, layer, random_weights=3)
    singles = [evaluate(with_fresh_weights(stored, seed), decoder, layer, random_weights=0) for seed in range(3)]
    f1 = [one.scores[decoder].f1 for one in singles]
    shapes = [one.scores[decoder].predicted_shape for one in singles]
    assert len(set(f1)) == 3
    figures = report.to_dict()["random_weights"]
    assert figures["f1"]["mean"] == pytest.approx(np.mean(f1))
    assert figures["f1"]["std"] == pytest.approx(np.std(f1, ddof=1))
    assert figures["f1"]["count"] == 3
    for side in ("left", "right", "depth"):
        values = [getattr(shape, side) for shape in shapes]
        expected = {"mean": np.mean(values), "std": np.std(values, ddof=1)}
        assert figures["shape"][side] == pytest.approx(expected)
    row = rows_of(report)[f"random weights, {decoder}"]
    expected = [np.mean(f1), np.std(f1, ddof=1), max(f1), 3, None]
    assert [row[name] for name in ("f1", "std", "max", "seeds", "recall")] == pytest.approx(expected)
    left = figures["shape"]["left"]
    (line,) = (line for line in str(report).splitlines() if line.startswith("random weights "))
    assert f"left splits {left['mean']:.1f} ± {left['std']:.1f}%" in line
    assert report.scores[decoder].f1 == evaluate(stored, decoder, layer, random_weights=0).scores[decoder].f1


def test_a_single_seed_of_random_weights_has_no_deviation(prpn, evaluate):
    report = evaluate(prpn, random_weights=1)
    assert isinstance(report.random_weights, RandomWeights)
    assert report.random_weights.f1.std is report.random_weights.shape()["left"][1] is None
    assert rows_of(report)["random weights, biased"]["std"] is None
    (line,) = (line for line in str(report).splitlines() if line.startswith("random weights "))
    assert "±" not in line


def test_random_weights_are_of_one_model(prpn, trained, toy, capsys):
    with pytest.raises(InputError, match="random weights: found 2 models; expected one"):
        evaluate_parsing(prpn, toy / "test.mrg", also=[prpn], random_weights=2)
    command = ["evaluate", "parse", str(trained.prpn), str(toy / "test.mrg"), "--preprocessing", "none"]
    assert main([*command, "--random-weights", "1001"]) == 2
    assert "random weights: found 1,001; expected 0 to 1,000" in capsys.readouterr().err
    assert main([*command, "--random-weights", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["random_weights"]["f1"]["count"] == 2


def test_splits_to_the_left_and_right_are_counted_over_spans_of_three_words_or_more(tmp_path):
    """(a (b (c d))) e: of 0-5, 0-4, 1-4 one splits left and two right; 2-4 has two words and is not counted."""
    (tmp_path / "one.mrg").write_text("(X (X a (X b (X c d))) e)\n(X a b)\n(X (X a b) (X c d))\n")
    (tmp_path / "gold.mrg").write_text("(X a (X b c d) e)\n(X a b)\n(X a (X b (X c d)))\n")
    scores = evaluate_trees(tmp_path / "one.mrg", tmp_path / "gold.mrg").scores["predicted"]
    # Of four, 0-4 of the third is neither.
    assert (scores.predicted_shape.left, scores.predicted_shape.right) == (25, 50)
    assert (scores.gold_shape.left, scores.gold_shape.right) == (0, 50)  # flat spans are neither


def test_the_command_line_has_all_decoders_and_reports_those_of_the_model(toy, monkeypatch, capsys):
    spans = scoring()
    monkeypatch.setattr("syntaxlm.storage.sources.read_model", lambda folder: spans)
    assert {decoder for structure in CorpusStructure.__subclasses__() for decoder in structure.decoders} | {
        "viterbi"
    } == set(get_args(Decoder))
    lines = (toy / "test.txt").read_text().splitlines()
    for rule in SPAN_RULES:
        assert main(["parse", "MODEL", str(toy / "test.txt"), "--decoder", rule]) == 0
        assert capsys.readouterr().out.splitlines() == brackets(spans, lines, decoder=rule)
        assert main(["evaluate", "parse", "MODEL", str(toy / "test.mrg"), "--decoder", rule, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["decoder"] == rule
    monkeypatch.setattr("syntaxlm.parsing.parse.LINES_TOGETHER", 4)
    assert main(["parse", "MODEL", str(toy / "test.txt"), "--format", "json"]) == 0
    parses = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert parses == [parse.to_dict() for parse in parse_lines(spans, lines)]
    for command in (["parse", "MODEL", str(toy / "test.txt")], ["evaluate", "parse", "MODEL", str(toy / "test.mrg")]):
        assert main([*command, "--decoder", "biased"]) == 2
        assert "decoder: found 'biased'; expected greedy-right, greedy-sum, cky" in capsys.readouterr().err


def test_a_model_of_span_probabilities_is_scored_by_mbr_and_on_request_by_viterbi(gold, text, evaluate):
    stored = bracketing()
    report = evaluate(stored)
    assert list(report.scores) == ["mbr"]
    assert stored.model.viterbi_calls == 0
    assert not {"layer", "f1_by_layer"} & report.to_dict().keys()
    chosen = evaluate(stored, "viterbi")
    assert list(chosen.scores) == ["mbr", "viterbi"]
    assert chosen.chosen == "viterbi"
    for rule in ("mbr", "viterbi"):
        spans = parse_lines(stored, text, ParseOptions(decoder=rule)).spans
        assert chosen.scores[rule].f1 == score(spans, SpanSets.of(gold), PROTOCOLS["wsj-test"]).f1
    assert {one.predicted.split()[0] for one in report.details()} == {"(X"}


@pytest.mark.parametrize("rule", ["mbr", "viterbi"])
def test_the_labels_of_a_single_model_are_mapped_to_gold_labels(gold, text, rule, evaluate):
    stored, protocol = bracketing(), protocol_named("wsj-test", 20)
    report = evaluate(stored, rule, protocol=protocol)
    labelled = parse_lines(stored, text, ParseOptions(decoder=rule, labels=True)).spans
    expected = label_mapping(labelled, SpanSets.of(gold), protocol)
    assert report.labels == expected
    assert report.labels.matched == report.scores[rule].by_sentence.matched_spans.sum()
    assert json.loads(json.dumps(report.to_dict()))["induced_labels"] == expected.to_dict()
    assert expected.table(rule).text() in str(report)
    assert f"induced labels of the {rule} trees, mapped many-to-one to gold labels   protocol {protocol}" in str(report)


def test_averages_and_models_without_labels_have_no_mapping(prpn, evaluate):
    for report in (evaluate(prpn), evaluate(bracketing(labelled=False)), evaluate(bracketing(), also=[prpn])):
        assert report.labels is None
        assert "induced_labels" not in report.to_dict()
        assert "induced labels" not in str(report)


def test_an_average_of_all_structures_is_scored_by_each_rule_of_any_model(prpn, text, evaluate):
    models = [bracketing(), prpn, scoring()]
    for ties in TIE_RULES:
        report = evaluate(models[0], ties=ties, also=models[1:])
        assert list(report.scores) == [
            "mbr + biased + greedy-right", "mbr + unbiased + greedy-right", "mbr + biased + greedy-sum",
            "mbr + biased + cky",
        ]  # fmt: skip
        assert models[0].model.viterbi_calls == 0
        spans = parse_lines(models, text, ParseOptions(ties=ties)).spans
        assert np.array_equal(report.predicted[report.chosen].starts, spans.starts)
        assert np.array_equal(report.predicted[report.chosen].ends, spans.ends)
    assert evaluate(models[0], "viterbi", also=models[1:]).chosen == "viterbi + biased + greedy-right"


@pytest.mark.parametrize("shape", ["deep", "wide", "unary"])
def test_very_deep_and_very_wide_trees_are_scored_in_seconds(shape, tmp_path):
    count, path = 700, tmp_path / "large.mrg"
    words = [f"(D w{number})" for number in range(count)]
    texts = {
        "deep": "".join(f"(X {word} " for word in words) + "(D e)" + ")" * count,
        "wide": f"(S {' '.join(words)})",
        "unary": "(S " * count + "(D a) (D b)" + ")" * count,
    }
    path.write_text(texts[shape] + "\n")
    started = time.perf_counter()
    assert evaluate_trees(path, path).scores["predicted"].f1 == 1.0
    assert time.perf_counter() - started < 5
