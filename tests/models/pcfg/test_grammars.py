"""The rules of neural grammars, compared with released programs, and compound grammars."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from syntaxlm.models.pcfg.grammars import (
    CompoundGrammar,
    NeuralPCFGConfig,
    PCFGConfig,
    Sentences,
    SimplePCFGConfig,
    TensorPCFGConfig,
)
from syntaxlm.models.pcfg.model import PCFG
from syntaxlm.ops.inside import (
    FactoredRules,
    Layout,
    TableRules,
    log_partition,
    log_partition_reference,
    next_words,
    posteriors,
    prefix_log_probs,
)
from syntaxlm.trees.decoding import decode_spans
from tests.models.pcfg.small import EVERY, WORDS, batch_of, scores_of, small_grammar

FOLDERS = [Path(__file__).parents[2] / "golden_data", *map(Path, filter(None, [os.environ.get("SYNTAXLM_GOLDEN")]))]
FILES = sorted(path for folder in FOLDERS for path in folder.glob("pcfg_*.npz"))
every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")


def released(path: Path) -> tuple[PCFG, dict[str, np.ndarray]]:
    """Our model with a golden file's weights, in float64, and the file's arrays."""
    arrays = dict(np.load(path))
    preterminals, vocabulary = arrays["rule.emission"].shape
    nonterminals, size = len(arrays["rule.root"]), arrays["param.start"].shape[1]
    sizes = {"nonterminals": nonterminals, "preterminals": preterminals, "embedding_size": size}
    config: PCFGConfig
    if "rule.left" in arrays:
        config = SimplePCFGConfig(**sizes)
    elif "param.symbols" in arrays:
        config = TensorPCFGConfig(**sizes, rank=len(arrays["param.parent.2.bias"]))
    else:
        config = NeuralPCFGConfig(**sizes)
    model = PCFG(config, vocabulary + 2).double().eval()
    weights = {name[6:]: torch.from_numpy(value) for name, value in arrays.items() if name.startswith("param.")}
    model.grammar.load_state_dict(weights)
    return model, arrays


def golden_sentences(arrays):
    count = 1 + max(int(name.split(".")[1]) for name in arrays if name.startswith("sentence."))
    return [arrays[f"sentence.{number}.words"].tolist() for number in range(count)]


def golden_of(arrays, number):
    """The arrays of one sentence in a golden file, by their short names."""
    prefix = f"sentence.{number}."
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


def test_there_are_golden_files():
    assert len(FILES) >= 3


@every_file
def test_rules_equal_the_released_figures(path):
    model, arrays = released(path)
    rules, every = model.grammar.rules(), torch.arange(model.grammar.vocabulary_size)
    found = {"root": rules.root, "emission": model.grammar.emissions(every).exp().T}
    if "rule.left" in arrays:
        assert isinstance(rules, FactoredRules)
        found |= {"left": rules.left, "right": rules.right}
    else:
        found["binary"] = rules.table()
    for name, value in found.items():
        torch.testing.assert_close(
            value.detach(), torch.from_numpy(arrays[f"rule.{name}"]), rtol=0, atol=1e-9, msg=name
        )


@pytest.mark.parametrize("form", ["fast", "reference"])
@every_file
def test_log_probabilities_and_gradients_equal_the_released_figures(path, form):
    model, arrays = released(path)
    sentences = golden_sentences(arrays)
    tables = model.grammar.tables(Sentences.of(sentences))
    lengths = list(map(len, sentences))
    if form == "fast":
        found = log_partition(tables.rules, tables.emissions, tables.words, Layout(lengths))
    else:
        parts = tables.words.split(lengths)
        found = torch.stack([log_partition_reference(tables.rules, tables.emissions[part]) for part in parts])
    for number, value in enumerate(found.tolist()):
        assert value == pytest.approx(float(arrays[f"sentence.{number}.log_prob"]), abs=1e-9)
    found.sum().backward()
    for name, parameter in model.grammar.named_parameters():
        gradient = parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)
        torch.testing.assert_close(gradient, torch.from_numpy(arrays[f"grad.{name}"]), rtol=1e-9, atol=1e-9, msg=name)


@every_file
def test_marginals_and_prefixes_equal_the_released_figures(path):
    model, arrays = released(path)
    sentences = golden_sentences(arrays)
    tables = model.grammar.tables(Sentences.of(sentences))
    layout = Layout(list(map(len, sentences)))
    found = posteriors(tables.rules, tables.emissions, tables.words, layout)
    prefixes = prefix_log_probs(tables.rules, tables.emissions, tables.words, layout)
    for number, sentence in enumerate(sentences):
        golden, length = golden_of(arrays, number), len(sentence)
        np.testing.assert_allclose(found.marginals[number, :length, :length], golden["marginals"], rtol=0, atol=1e-9)
        if "prefix_log_probs" in golden:
            np.testing.assert_allclose(
                prefixes.prefixes[number, :length], golden["prefix_log_probs"], rtol=0, atol=1e-9
            )
            ended = prefixes.sentences[number, 1:length]
            np.testing.assert_allclose(ended, golden["ended_log_probs"], rtol=0, atol=1e-9)


@every_file
def test_trees_of_the_greatest_summed_marginals_equal_the_released_trees(path):
    model, arrays = released(path)
    sentences = golden_sentences(arrays)
    order = sorted(range(len(sentences)), key=lambda number: -len(sentences[number]))
    batch = batch_of([sentences[number] for number in order], closed=True)
    marginals = model.structure(batch).values
    trees = decode_spans(scores_of(marginals, [len(sentences[number]) for number in order]), "cky")
    for place, number in enumerate(order):
        golden = golden_of(arrays, number)
        spans = sorted((first, end - 1) for first, end in trees.sentence(place))
        assert spans == list(map(tuple, golden["mbr_spans"].tolist()))
        length = len(sentences[number])
        np.testing.assert_allclose(marginals[place, :length, :length], golden["marginals"], rtol=0, atol=1e-9)


@every_file
def test_token_log_probabilities_of_a_model_equal_the_released_prefixes(path):
    """Differences of prefix probabilities; without one-word sentences."""
    model, arrays = released(path)
    sentences = golden_sentences(arrays)
    if "prefix_log_probs" not in golden_of(arrays, 0):
        pytest.skip("this file has no prefix probabilities")
    for number, sentence in enumerate(sentences):
        golden = golden_of(arrays, number)
        found = model.token_log_probs(batch_of([sentence])).log_probs[:, 0].cumsum(0)
        np.testing.assert_allclose(found[:-1], golden["prefix_log_probs"], rtol=0, atol=1e-9)
        np.testing.assert_allclose(found[-1], golden["ended_log_probs"][-1], rtol=0, atol=1e-9)


@every_file
def test_next_words_of_released_grammars_are_the_ratios_of_their_prefix_probabilities(path):
    model, arrays = released(path)
    tables = model.grammar.tables(
        Sentences(torch.arange(model.grammar.vocabulary_size), (model.grammar.vocabulary_size,))
    )
    prefix = golden_sentences(arrays)[0]
    found = next_words(tables.rules, tables.emissions, torch.tensor(prefix), (len(prefix),))
    continued = torch.log(found.weights[0] @ tables.emissions.double().exp().T) + found.scales[0]
    text = torch.tensor([[*prefix, word] for word in range(model.grammar.vocabulary_size)])
    layout = Layout([len(prefix) + 1] * len(text))
    expected = prefix_log_probs(tables.rules, tables.emissions, text.flatten(), layout).prefixes[:, -1]
    torch.testing.assert_close(continued, expected, rtol=0, atol=1e-9)


def test_rules_of_one_sentence_are_those_of_its_vector():
    grammar = small_grammar("compound").double()
    assert isinstance(grammar, CompoundGrammar)
    vectors = torch.randn(2, 2, dtype=torch.float64)
    batch = Sentences.of([[1, 2], [3, 4, 5]])
    together = grammar.tables_of(batch, vectors)
    assert isinstance(together.rules, TableRules)
    alone = grammar.tables_of(Sentences.of([[3, 4, 5]]), vectors[1:])
    torch.testing.assert_close(together.rules.of(1).binary, alone.rules.of(0).binary)
    torch.testing.assert_close(together.emissions[2:], alone.emissions)


@pytest.mark.parametrize("name", EVERY)
def test_rules_are_distributions(name):
    torch.manual_seed(0)
    grammar = small_grammar(name).double()
    tables = grammar.tables(Sentences.of([list(range(WORDS)), [1, 2]]))
    parts = [tables.rules.root]
    if isinstance(tables.rules, FactoredRules):
        parts += [tables.rules.left, tables.rules.right]
        parts += [] if tables.rules.parent is None else [tables.rules.parent]
    else:
        parts.append(tables.rules.binary.flatten(-2))
    parts.append(tables.emissions[tables.words[:WORDS]].exp().T)
    for shares in parts:
        assert (shares > 0).all()
        torch.testing.assert_close(shares.sum(-1), torch.ones_like(shares[..., 0]))


def mean_divergence(rows):
    """The mean Jensen-Shannon divergence of pairs of distributions, in nats: (k, n) -> float."""

    def entropy(shares):
        return torch.special.entr(shares).sum(-1)

    middle = entropy((rows[:, None] + rows) / 2) - (entropy(rows)[:, None] + entropy(rows)) / 2
    return float(middle.sum() / (len(rows) * (len(rows) - 1)))


@pytest.mark.parametrize("kind", [SimplePCFGConfig, NeuralPCFGConfig])
def test_a_network_that_relaxes_collapse_has_distinct_rules_from_the_start(kind):
    divergences = {}
    for network in ("standard", "collapse-relaxing"):
        torch.manual_seed(0)
        grammar = kind(nonterminals=30, preterminals=60, network=network).grammar(500)
        rules, words = grammar.rules(), grammar.emissions(torch.arange(500)).exp().T
        binary = rules.left if isinstance(rules, FactoredRules) else rules.binary.flatten(1)
        divergences[network] = [mean_divergence(binary.detach()), mean_divergence(words.detach())]
    for standard, relaxed in zip(divergences["standard"], divergences["collapse-relaxing"], strict=True):
        assert relaxed > max(0.05, 3 * standard)


def test_scores_of_a_network_that_relaxes_collapse_do_not_depend_on_the_length_of_a_childs_weights():
    grammar = small_grammar("relaxed-neural").double()
    before = grammar.rules().binary.detach()
    with torch.no_grad():
        grammar.rule[-1].directions[3] *= 5
    torch.testing.assert_close(grammar.rules().binary, before)
