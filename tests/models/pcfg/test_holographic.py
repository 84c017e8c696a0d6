"""Hol-PCFG, compared with the released program, and its projection in training."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from syntaxlm.models.pcfg.grammars import HolographicPCFGConfig, Sentences, _of_phases
from syntaxlm.models.pcfg.model import HolographicPCFG
from syntaxlm.ops.inside import Layout, log_partition, posteriors, prefix_log_probs
from syntaxlm.training.loop import WeightAverage
from tests.models.pcfg.test_grammars import FOLDERS, golden_of, golden_sentences

FILE = FOLDERS[0] / "hol_pcfg.npz"
every_size = pytest.mark.parametrize("group", ["even", "odd"])


def released(group, part="param"):
    """Our model with the weights of a part of the golden file, in float64, and the arrays of a group."""
    arrays = {name.removeprefix(f"{group}."): value for name, value in np.load(FILE).items() if name.startswith(group)}
    preterminals, words = arrays["rule.emission"].shape
    config = HolographicPCFGConfig(
        nonterminals=len(arrays["rule.root"]),
        preterminals=preterminals,
        embedding_size=arrays["param.start"].shape[1],
    )
    model = HolographicPCFG(config, words + 2).double().eval()
    weights = {name: torch.from_numpy(arrays[f"{part}.{name}"]) for name in model.grammar.state_dict()}
    model.grammar.load_state_dict(weights)
    return model, arrays


def close(found, golden, atol=1e-12):
    np.testing.assert_allclose(found.detach().numpy(), golden, rtol=0, atol=atol)


def check_rules(model, arrays, prefix):
    rules, every = model.grammar.rules(), torch.arange(model.grammar.vocabulary_size)
    found = {"root": rules.root, "left": rules.left, "right": rules.right}
    for name, value in (found | {"emission": model.grammar.emissions(every).exp().T}).items():
        close(value, arrays[f"{prefix}rule.{name}"])


def tables_of(model, arrays):
    sentences = golden_sentences(arrays)
    tables = model.grammar.tables(Sentences.of(sentences))
    return tables.rules, tables.emissions, tables.words, Layout(list(map(len, sentences)))


@every_size
def test_rules_marginals_prefixes_and_gradients_equal_the_released_figures(group):
    model, arrays = released(group)
    check_rules(model, arrays, "")
    arguments = tables_of(model, arrays)
    found = log_partition(*arguments)
    marginals, prefixes = posteriors(*arguments).marginals, prefix_log_probs(*arguments)
    for number, sentence in enumerate(golden_sentences(arrays)):
        golden, length = golden_of(arrays, number), len(sentence)
        close(found[number], golden["log_prob"])
        close(marginals[number, :length, :length], golden["marginals"])
        close(prefixes.prefixes[number, :length], golden["prefix_log_probs"])
        close(prefixes.sentences[number, 1:length], golden["ended_log_probs"])
    found.sum().backward()
    for name, parameter in model.grammar.named_parameters():
        close(parameter.grad, arrays[f"grad.{name}"])


@every_size
def test_a_step_uphill_and_the_projection_equal_the_released_figures(group):
    model, arrays = released(group)
    log_partition(*tables_of(model, arrays)).sum().backward()
    torch.optim.SGD(model.grammar.parameters(), lr=float(arrays["stepped.rate"]), maximize=True).step()
    model.project()
    for name, parameter in model.grammar.named_parameters():
        close(parameter, arrays[f"stepped.param.{name}"])
    model, arrays = released(group)
    model.project()
    for name in ("symbols", "start", "words", "left", "right", "emission"):
        close(getattr(model.grammar, name), arrays[f"projected.param.{name}"])
    check_rules(model, arrays, "projected.")
    for number, value in enumerate(log_partition(*tables_of(model, arrays))):
        close(value, arrays[f"projected.sentence.{number}.log_prob"])


@every_size
def test_initial_vectors_are_those_of_the_phases(group):
    arrays = released(group)[1]
    close(
        _of_phases(torch.from_numpy(arrays["phase.angles"]), arrays["phase.vectors"].shape[1]), arrays["phase.vectors"]
    )


def test_averaged_weights_are_projected_while_they_are_the_models():
    model, _ = released("odd", "stepped.param")
    average, other = WeightAverage(model), released("odd")[0]
    average.add(1)
    own = model.grammar.words.detach().clone()
    with torch.no_grad():
        model.grammar.words.copy_(other.grammar.words)
    average.add(2)
    with average.as_weights():
        close(torch.fft.rfft(model.grammar.words).abs(), np.ones((len(own), 5)))
    close(model.grammar.words, other.grammar.words.detach().numpy(), atol=0)
    assert torch.fft.rfft(average.means["grammar.words"]).abs().min() < 1 - 1e-6
