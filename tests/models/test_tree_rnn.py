"""TreeRNN: agreement with its equations and dependencies of words. Common tests are in tests/models/abilities."""

from __future__ import annotations

import math
from statistics import median

import pytest
import torch

from syntaxlm.core.errors import InputError
from syntaxlm.data.dependencies import label_vocabulary
from syntaxlm.models.batches import TreeBatch
from syntaxlm.models.registry import MODELS
from syntaxlm.models.tree_rnn import TreeRNN
from syntaxlm.storage.folder import ModelBundle, ModelSettings, read_model, write_model
from syntaxlm.text.normaliser_settings import NormaliserSettings
from syntaxlm.trees.dependencies import Edge
from syntaxlm.trees.tree import DependencyTree
from tests.models.checks import assert_gradients_agree
from tests.models.tree_variants import (
    LABELS,
    SENTENCE,
    TREES,
    VARIANTS,
    VOCABULARY,
    batch_of,
    built,
    by_word,
    every_variant,
)
from tests.models.variants import read
from tests.trees.steps import steps_of


def by_hand(model: TreeRNN, one: DependencyTree) -> list[float]:
    """The equations, word by word."""
    size, lstm = model.config.hidden_size, model.bias is not None
    hidden, cells = [torch.zeros(size, dtype=torch.float64)], [torch.zeros(size, dtype=torch.float64)]
    found = [math.nan] * len(one)
    for source, edge, parent, _, word in steps_of(one):
        x = model.embedding.weight[VOCABULARY.id(one.words[source - 1]) if source else VOCABULARY.begin_id]
        if model.label_embedding is not None:
            label = LABELS.id(one.labels[source - 1]) if source else LABELS.begin_id
            x = torch.cat([x, model.label_embedding.weight[label]])
        gates = model.input_weight[edge] @ x + model.recurrent_weight[edge] @ hidden[parent]
        if model.left_weight is not None and edge == Edge.RIGHT:
            gates = gates + model.left_weight @ left_state(model, one, source)
        if lstm:
            i, f, g, o = (gates + model.bias[edge]).chunk(4)
            cells.append(f.sigmoid() * cells[parent] + i.sigmoid() * g.tanh())
            hidden.append(o.sigmoid() * cells[-1].tanh())
        else:
            hidden.append(gates.tanh())
        decoder = model.decoder.decoders[0 if model.decoder.shared else edge]
        log_probs = torch.log_softmax(decoder.weight @ hidden[-1] + decoder.bias, 0)
        found[word - 1] = log_probs[VOCABULARY.id(one.words[word - 1])].item()
    return found


def left_state(model: TreeRNN, one: DependencyTree, head: int) -> torch.Tensor:
    """The LSTM's state after it has read the left dependents of a word, from the farthest to the closest."""
    hidden = cell = torch.zeros(model.config.hidden_size, dtype=torch.float64)
    input_weight, recurrent_weight, *biases = model.left_lstm.parameters()
    for word in (word for word in range(1, head) if one.heads[word - 1] == head):
        x = model.embedding.weight[VOCABULARY.id(one.words[word - 1])]
        i, f, g, o = (input_weight @ x + recurrent_weight @ hidden + sum(biases)).chunk(4)
        cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        hidden = o.sigmoid() * cell.tanh()
    return hidden


@every_variant
def test_every_word_has_the_probability_of_the_equations(name):
    model = built(name)
    for values, one in zip(by_word(model, *TREES), TREES, strict=True):
        assert values == pytest.approx(by_hand(model, one), abs=1e-10)


def below(one: DependencyTree, word: int) -> set[int]:
    """The words whose path leads through a word, from 0."""
    parents = {step.word: step.source for step in steps_of(one)}
    found = set()
    for start in parents:
        place = parents[start]
        while place:
            if place == word + 1:
                found.add(start - 1)
            place = parents[place]
    return found


def right_of_head(one: DependencyTree, word: int) -> set[int]:
    """The right dependents of a left dependent's head, and the words below them, from 0."""
    head = one.heads[word] - 1
    if word > head:
        return set()
    dependents = {place for place in range(head + 1, len(one)) if one.heads[place] == head + 1}
    return dependents.union(*(below(one, place) for place in dependents))


@every_variant
@pytest.mark.parametrize("one", [TREES[0], TREES[3]], ids=["left and right", "three on the left"])
def test_a_word_affects_only_itself_and_words_whose_paths_include_it_or_read_left_dependents(name, one):
    model = built(name)
    (before,) = by_word(model, one)
    for word in range(len(one)):
        words = list(one.words)
        words[word] = "dogs"
        (after,) = by_word(model, DependencyTree(tuple(words), one.tags, one.heads, one.labels))
        different = {place for place in range(len(one)) if abs(before[place] - after[place]) > 1e-9}
        right = right_of_head(one, word) if model.reads_left_dependents else set()
        assert different == below(one, word) | right | {word}


@pytest.mark.parametrize("word", range(len(SENTENCE)))
def test_a_label_affects_later_words_of_its_path_but_not_its_own_word(word):
    labels = list(SENTENCE.labels)
    labels[word] = "nsubj" if labels[word] != "nsubj" else "root"
    changed = DependencyTree(SENTENCE.words, SENTENCE.tags, SENTENCE.heads, tuple(labels))
    for name in ("labelled", "tanh"):
        (one,), (other,) = (by_word(built(name), each) for each in (SENTENCE, changed))
        different = {place for place in range(len(SENTENCE)) if abs(one[place] - other[place]) > 1e-9}
        parents = {step.word - 1: step.source - 1 for step in steps_of(SENTENCE)}
        directly = {place for place, parent in parents.items() if parent == word}
        assert different == (below(SENTENCE, word) if name == "labelled" else set())
        assert name == "tanh" or directly <= different


def training_loss(model: TreeRNN, batch: TreeBatch) -> torch.Tensor:
    """The training loss with the same noise at every call."""
    torch.manual_seed(7)
    return model.train().loss(batch).total


@pytest.mark.parametrize("name", [name for name in VARIANTS if name.startswith("nce")])
def test_gradients_of_noise_contrastive_losses_agree_with_finite_differences(name):
    model, batch = built(name), batch_of(*TREES)
    training_loss(model, batch).backward()
    assert_gradients_agree(model, lambda: training_loss(model, batch))


@every_variant
def test_a_one_word_tree_can_be_trained_and_unused_edges_get_no_gradient(name):
    model, batch = built(name), batch_of(TREES[1])
    training_loss(model, batch).backward()
    assert model.input_weight.grad[1].any()
    assert not model.input_weight.grad[[0, 2, 3]].any()


@pytest.mark.parametrize("shared", [True, False])
def test_noise_is_for_training_and_probabilities_are_those_of_the_softmax(shared):
    batch = batch_of(*TREES)
    exact, noisy = built("tanh"), built("nce", shared_noise=shared)
    noisy.load_state_dict(exact.state_dict(), strict=False)
    torch.testing.assert_close(noisy.token_log_probs(batch).log_probs, exact.token_log_probs(batch).log_probs)
    torch.testing.assert_close(noisy.loss(batch).total, exact.loss(batch).total)
    assert noisy.train().loss(batch).total != noisy.eval().loss(batch).total
    assert exact.train().loss(batch).total == exact.eval().loss(batch).total
    assert noisy.parameter_count == exact.parameter_count


@every_variant
def test_bfloat16_products_are_close_to_float32(name):
    model, batch = built(name, init_range=0.2).float(), batch_of(*TREES)
    results = []
    for low in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=low):
            loss, log_probs = training_loss(model, batch), model.eval().token_log_probs(batch).log_probs
        assert log_probs.dtype == loss.dtype == torch.float32
        results.append((float(loss.detach()), log_probs.detach()))
    (exact, exact_values), (rough, rough_values) = results
    assert rough == pytest.approx(exact, rel=0.02)
    assert 0 < median((exact_values - rough_values).abs().tolist()) < 0.02


def test_text_raises_an_error():
    assert MODELS["tree-rnn"].reads == built("tanh").reads == "trees"
    for method in (built("tanh").token_log_probs, built("tanh").loss):
        with pytest.raises(InputError, match=r"found text for a tree-rnn model, which reads dependency trees"):
            method(read(4, 2))


def test_a_number_of_labels_that_does_not_match_the_weights_raises_an_error(tmp_path):
    model = built("labelled").float()
    settings = ModelSettings(model.config, NormaliserSettings(), carry_state=False, predict_eos=False)
    write_model(tmp_path, ModelBundle(model, settings, VOCABULARY, LABELS))
    label_vocabulary({"det": 1}).write(tmp_path / "labels.json")
    with pytest.raises(InputError, match=r"found weights of 7 labels; expected 3, as in .*labels.json"):
        read_model(tmp_path)
