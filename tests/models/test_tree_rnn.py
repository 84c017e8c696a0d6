"""TreeRNN: what the contract asks of a model, where batches are trees; and its equations."""

from __future__ import annotations

import math
from statistics import median

import pytest
import torch

from syntaxlm.batches import TreeBatches
from syntaxlm.data.dependencies import ROOT, UNKNOWN, DependencyCorpus, label_vocabulary
from syntaxlm.errors import InputError
from syntaxlm.model_io import ModelBundle, ModelSettings, read_model, write_model
from syntaxlm.models.batches import TextCounts, TreeBatch
from syntaxlm.models.registry import build_model, reads
from syntaxlm.models.tree_rnn import TreeRNN, TreeRNNConfig
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.trees import DependencyTree, steps_of
from tests.models.test_contract import read

WORDS = ["the", "old", "cat", "sleeps", "on", "a", "red", "chair", ".", "dogs"]
VOCABULARY = Vocabulary([UNKNOWN, ROOT, *WORDS], UNKNOWN, ROOT, ROOT)
LABELS = label_vocabulary({"det": 3, "amod": 2, "nsubj": 1, "root": 4, "obl": 1})
VARIANTS = {
    "tanh": {},
    "lstm": {"cell": "lstm"},
    "labelled": {"labelled": True},
    "labelled lstm, by edge": {"labelled": True, "cell": "lstm", "output": "by-edge"},
    "tanh, one softmax": {"output": "shared"},
    "nce": {"loss": "nce", "noise_words": 4},
    "nce, fresh noise, lstm": {"loss": "nce", "noise_words": 4, "shared_noise": False, "cell": "lstm"},
}
every_variant = pytest.mark.parametrize("name", VARIANTS)


def tree(words: str, heads: tuple[int, ...], labels: str = "") -> DependencyTree:
    split = tuple(words.split())
    return DependencyTree(split, ("",) * len(split), heads, tuple(labels.split()) or ("det",) * len(split))


SENTENCE = tree(
    "the old cat sleeps on a red chair .", (3, 3, 4, 0, 8, 8, 8, 4, 4), "det amod nsubj root obl det amod obl x"
)
TREES = [SENTENCE, tree("dogs", (0,), "root"), tree("the dogs sleeps .", (2, 3, 0, 3), "det nsubj root amod")]


def built(name: str, **settings) -> TreeRNN:
    """A small model in which everything matters, in float64 and evaluation."""
    torch.manual_seed(3)
    sizes = {"embedding_size": 5, "label_size": 3, "hidden_size": 6, "init_range": 0.8}
    model = build_model(TreeRNNConfig(**sizes | VARIANTS[name] | settings), len(VOCABULARY))
    model.prepare(TextCounts(torch.arange(len(VOCABULARY)), len(LABELS)))
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.any():
                parameter.uniform_(-0.5, 0.5)  # biases, which start at 0
    return model.double().eval()


def batch_of(*trees: DependencyTree) -> TreeBatch:
    corpus = DependencyCorpus.from_trees(trees, Normaliser(), VOCABULARY, LABELS)
    (batch,) = TreeBatches(corpus, 1000, shuffle=False, seed=0).iterate(0)
    return batch


def by_word(model: TreeRNN, *trees: DependencyTree) -> list[list[float]]:
    """The log-probability of each word of each tree, in the order of the sentence."""
    batch = batch_of(*trees)
    found = [[math.nan] * len(one) for one in trees]
    values = model(batch).log_probs(batch.targets).tolist()
    indices = batch.indices[batch.trees].tolist()
    for index, position, value in zip(indices, batch.positions.tolist(), values, strict=True):
        found[index][position] = value
    return found


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


@every_variant
def test_every_word_has_the_probability_of_the_equations(name):
    model = built(name)
    for values, one in zip(by_word(model, *TREES), TREES, strict=True):
        assert values == pytest.approx(by_hand(model, one), abs=1e-10)


@every_variant
def test_probabilities_sum_to_one_at_every_step(name):
    model, batch = built(name), batch_of(*TREES)
    log_probs = model(batch).log_probs
    total = sum(log_probs(torch.full_like(batch.targets, word)).exp() for word in range(len(VOCABULARY)))
    torch.testing.assert_close(total, torch.ones(len(batch.targets), dtype=torch.float64))


@every_variant
def test_trees_in_a_batch_have_the_probabilities_that_they_have_alone(name):
    model = built(name)
    together = by_word(model, *TREES)
    for one, values in zip(TREES, together, strict=True):
        assert by_word(model, one)[0] == pytest.approx(values, abs=1e-12)


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


@every_variant
@pytest.mark.parametrize("word", range(len(SENTENCE)))
def test_a_word_has_a_say_in_itself_and_in_what_its_path_leads_on_to_alone(name, word):
    model = built(name)
    words = list(SENTENCE.words)
    words[word] = "dogs"
    changed = DependencyTree(tuple(words), SENTENCE.tags, SENTENCE.heads, SENTENCE.labels)
    (one,), (other,) = by_word(model, SENTENCE), by_word(model, changed)
    different = {place for place in range(len(SENTENCE)) if abs(one[place] - other[place]) > 1e-9}
    assert different == below(SENTENCE, word) | {word}


@pytest.mark.parametrize("word", range(len(SENTENCE)))
def test_a_label_has_a_say_in_what_its_path_leads_on_to_and_not_in_its_own_word(word):
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


def loss_of(model: TreeRNN, batch: TreeBatch) -> torch.Tensor:
    """As training has it; noise is the same at every call."""
    torch.manual_seed(7)
    output = model(batch)
    if output.training_loss is None:
        return -output.log_probs(batch.targets).sum()
    return output.training_loss(batch.targets)


@every_variant
def test_gradients_reach_every_parameter_and_agree_with_finite_differences(name):
    model, batch = built(name), batch_of(*TREES)
    loss_of(model, batch).backward()
    assert [key for key, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()] == []
    generator = torch.Generator().manual_seed(5)
    for key, weight in model.named_parameters():
        direction = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
        values = []
        for step in (1e-6, -1e-6):
            with torch.no_grad():
                weight.add_(step * direction)
                values.append(float(loss_of(model, batch).detach()))
                weight.sub_(step * direction)
        expected = (values[0] - values[1]) / 2e-6
        assert float((weight.grad * direction).sum()) == pytest.approx(expected, rel=1e-4, abs=1e-6), key


@every_variant
def test_a_tree_of_one_word_trains_and_edges_that_it_has_not_get_no_gradient(name):
    model, batch = built(name), batch_of(TREES[1])
    loss_of(model, batch).backward()
    assert model.input_weight.grad[1].any()
    assert not model.input_weight.grad[[0, 2, 3]].any()


@pytest.mark.parametrize("shared", [True, False])
def test_training_by_noise_leaves_probabilities_those_of_the_softmax(shared):
    batch = batch_of(*TREES)
    exact, noisy = built("tanh"), built("nce", shared_noise=shared)
    noisy.load_state_dict(exact.state_dict(), strict=False)
    torch.testing.assert_close(noisy(batch).log_probs(batch.targets), exact(batch).log_probs(batch.targets))
    assert noisy(batch).training_loss is not None
    assert exact(batch).training_loss is None
    assert noisy.parameter_count == exact.parameter_count


@every_variant
def test_dropout_works_in_training_only(name):
    model, batch = built(name, dropout=0.5), batch_of(*TREES)
    one, other = (model(batch).log_probs(batch.targets) for _ in range(2))
    torch.testing.assert_close(one, other, rtol=0, atol=0)
    model.train()
    assert (model(batch).log_probs(batch.targets) - one).abs().max() > 1e-3


@every_variant
def test_bfloat16_products_stay_near_float32(name):
    model, batch = built(name, init_range=0.2).float(), batch_of(*TREES)
    results = []
    for low in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=low):
            loss, log_probs = loss_of(model, batch), model(batch).log_probs(batch.targets)
        assert log_probs.dtype == loss.dtype == torch.float32
        results.append((float(loss.detach()), log_probs.detach()))
    (exact, exact_values), (rough, rough_values) = results
    assert rough == pytest.approx(exact, rel=0.02)
    assert 0 < median((exact_values - rough_values).abs().tolist()) < 0.02


def test_text_is_refused():
    assert reads(TreeRNNConfig) == built("tanh").reads == "trees"
    with pytest.raises(InputError, match=r"'tree-rnn' reads dependency trees, and this is text"):
        built("tanh")(read(4, 2))


@every_variant
def test_a_stored_model_is_read_back_with_its_labels_and_its_noise(name, tmp_path):
    model = built(name).float()
    stored = ModelBundle(model, ModelSettings(model.config, Normaliser(), "trees"), VOCABULARY, LABELS)
    write_model(tmp_path, stored)
    again = read_model(tmp_path)
    assert again.labels == LABELS
    assert by_word(again.model, *TREES) == by_word(model, *TREES)
    for key, tensor in model.named_buffers():
        torch.testing.assert_close(dict(again.model.named_buffers())[key].to(tensor), tensor, rtol=0, atol=0)


def test_labels_of_another_number_than_the_weights_have_are_told(tmp_path):
    model = built("labelled").float()
    settings = ModelSettings(model.config, Normaliser(), "trees")
    write_model(tmp_path, ModelBundle(model, settings, VOCABULARY, LABELS))
    label_vocabulary({"det": 1}).write(tmp_path / "labels.json")
    with pytest.raises(InputError, match=r"of 7 labels, .*labels.json has 3"):
        read_model(tmp_path)
