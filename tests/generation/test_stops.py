"""Accuracy of the stop classifiers, and their files."""

from __future__ import annotations

import json
import math

import pytest
import torch

from syntaxlm.batches import TreeBatches
from syntaxlm.core.errors import InputError
from syntaxlm.data.dependencies import DependencyCorpus
from syntaxlm.generation.stops import (
    QUESTIONS,
    STOP_WEIGHTS,
    STOPS,
    StopBatches,
    fingerprint,
    read_stops,
    score_stops,
    tree_corpus,
    write_stops,
)
from syntaxlm.storage.folder import write_model
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.trees.conllu import write_conllu
from syntaxlm.trees.dependencies import Edge
from syntaxlm.trees.tree import DependencyTree
from tests.fresh_models import fresh
from tests.generation.growing_models import grown
from tests.models.tree_variants import LABELS, SENTENCE, TREES, VOCABULARY
from tests.trees.steps import steps_of


def corpus_of(*trees: DependencyTree) -> DependencyCorpus:
    return DependencyCorpus.from_trees(trees, Normaliser(), VOCABULARY, LABELS)


def test_targets_are_the_edges_of_the_tree_and_impossible_ones_never_are():
    stored, _ = grown("tanh")
    batches = TreeBatches(corpus_of(SENTENCE), 100, shuffle=False, seed=0)
    (some,) = StopBatches(stored.model, batches).iterate()
    (batch,) = batches.iterate(0)
    leaving = {step.word: set() for step in steps_of(SENTENCE)}
    own = {}
    for step in steps_of(SENTENCE):
        own[step.word] = step
        leaving.setdefault(step.source, set()).add(step.edge)
    for row, position in enumerate(batch.positions.tolist()):
        word = position + 1
        assert set(some.leaving[row].nonzero()[:, 0].tolist()) == leaving[word]
        left = own[word].edge in (Edge.LEFT, Edge.NX_LEFT)
        assert some.possible[row].tolist() == [True, True, left, not left and SENTENCE.heads[position] != 0]
        assert SENTENCE.labels[position] == LABELS.tokens[some.labels[row]] or SENTENCE.labels[position] == "x"
    assert not (some.leaving & ~some.possible).any()


def test_always_stop_is_the_share_of_words_that_no_such_edge_leaves():
    stored, stops = grown("labelled", bias=-1e6)
    with torch.no_grad():
        stops.label_network[2].weight.zero_()
        stops.label_network[2].bias.zero_()
        stops.label_network[2].bias[LABELS.id("det")] = 50.0
    report = score_stops(stops, stored.model, corpus_of(*TREES))
    edges = [step.edge for tree in TREES for step in steps_of(tree) if step.source]
    words = sum(map(len, TREES))
    for edge in Edge:
        score = report.every_word[edge]
        assert (score.words, score.edges) == (words, edges.count(edge))
        assert score.accuracy == score.always_stop == pytest.approx(1 - edges.count(edge) / words)
        assert report.possible[edge].edges == edges.count(edge)
    dets = [label for tree in TREES for label in tree.labels].count("det")
    assert report.labels["correct"] == report.labels["majority"] == dets
    assert json.loads(json.dumps(report.to_dict()))["every_word"]["add left"]["words"] == words
    assert all(question in str(report) for question in QUESTIONS.values())


def test_the_loss_includes_all_decisions_and_the_label():
    stored, stops = grown("labelled")
    with torch.no_grad():
        for weight in stops.parameters():
            weight.zero_()
    report = score_stops(stops, stored.model, corpus_of(*TREES))
    assert report.loss == pytest.approx(4 * math.log(2) + math.log(len(LABELS)))
    assert report.words == sum(map(len, TREES))


def test_unsuitable_trees_raise_an_error(tmp_path):
    stored, _ = grown("labelled")
    bare = DependencyTree(SENTENCE.words, SENTENCE.tags, SENTENCE.heads, ("",) * len(SENTENCE), "bare")
    write_conllu([bare], tmp_path / "bare.conllu")
    with pytest.raises(InputError, match=r"bare\.conllu: found no label of an edge"):
        tree_corpus(stored, tmp_path / "bare.conllu")
    with pytest.raises(InputError, match="this lstm model does not generate dependency trees, so generation"):
        tree_corpus(fresh("lstm"), tmp_path / "bare.conllu")


def test_written_classifiers_are_read_back_unchanged(tmp_path):
    stored, stops = grown("labelled lstm, by edge")
    write_model(tmp_path, stored)
    write_stops(tmp_path, stops, stored.model)
    again = read_stops(tmp_path, stored)
    assert again.settings == stops.settings
    assert all(torch.equal(one, other) for one, other in zip(again.parameters(), stops.parameters(), strict=True))
    assert not list(tmp_path.glob(".*"))


def test_errors_in_the_files_say_what_to_do(tmp_path):
    stored, stops = grown("tanh")
    write_model(tmp_path, stored)
    with pytest.raises(InputError, match=rf"syntaxlm tune stops {tmp_path} TRAIN --valid VALID"):
        read_stops(tmp_path, stored)
    with pytest.raises(InputError, match="this prpn model does not generate dependency trees, so generation"):
        read_stops(tmp_path, fresh("prpn"))
    write_stops(tmp_path, stops, stored.model)
    settings = (tmp_path / STOPS).read_text()
    (tmp_path / STOPS).write_text(settings.replace('"state_size": 6', '"state_size": 7'))
    with pytest.raises(InputError, match=r"stops\.json: found state, word, input sizes and labels \(7, 5, 5, 0\)"):
        read_stops(tmp_path, stored)
    (tmp_path / STOPS).write_text(settings.replace('"hidden_size": 8', '"hidden_size": 9'))
    with pytest.raises(InputError, match=r"stops\.safetensors: the weights do not fit stops\.json"):
        read_stops(tmp_path, stored)
    (tmp_path / STOPS).write_text(settings)
    (tmp_path / STOP_WEIGHTS).write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"stops\.safetensors: damaged"):
        read_stops(tmp_path, stored)


def test_classifiers_for_other_weights_raise_an_error(tmp_path):
    stored, stops = grown("tanh")
    write_stops(tmp_path, stops, stored.model)
    before = fingerprint(stored.model)
    with torch.no_grad():
        stored.model.embedding.weight[0, 0] += 1e-9
    assert fingerprint(stored.model) != before
    with pytest.raises(InputError, match="were trained for other model weights"):
        read_stops(tmp_path, stored)
