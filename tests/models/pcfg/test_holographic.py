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

GROUPS = [  # a golden file has grammars of several sizes: a file and the prefix of the arrays of one
    (path, group)
    for folder in FOLDERS
    for path in sorted(folder.glob("hol_pcfg*.npz"))
    for group in sorted({name.split(".")[0] for name in np.load(path).files})
]
every_grammar = pytest.mark.parametrize(
    "golden_group", GROUPS, ids=lambda pair: f"{pair[0].parent.name}/{pair[0].stem}/{pair[1]}"
)


def released(golden_group, part="param"):
    """Our model with the weights of a part of a golden file, in float64, and the arrays of its group."""
    path, group = golden_group
    stored = np.load(path)
    prefix = f"{group}."
    arrays = {name.removeprefix(prefix): stored[name] for name in stored.files if name.startswith(prefix)}
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


@every_grammar
def test_rules_marginals_prefixes_and_gradients_equal_the_released_figures(golden_group):
    model, arrays = released(golden_group)
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


@every_grammar
def test_a_step_uphill_and_the_projection_equal_the_released_figures(golden_group):
    model, arrays = released(golden_group)
    log_partition(*tables_of(model, arrays)).sum().backward()
    torch.optim.SGD(model.grammar.parameters(), lr=float(arrays["stepped.rate"]), maximize=True).step()
    model.project()
    for name, parameter in model.grammar.named_parameters():
        close(parameter, arrays[f"stepped.param.{name}"])
    model, arrays = released(golden_group)
    model.project()
    for name in ("symbols", "start", "words", "left", "right", "emission"):
        close(getattr(model.grammar, name), arrays[f"projected.param.{name}"])
    check_rules(model, arrays, "projected.")
    for number, value in enumerate(log_partition(*tables_of(model, arrays))):
        close(value, arrays[f"projected.sentence.{number}.log_prob"])


@every_grammar
def test_initial_vectors_are_those_of_the_phases(golden_group):
    arrays = released(golden_group)[1]
    close(
        _of_phases(torch.from_numpy(arrays["phase.angles"]), arrays["phase.vectors"].shape[1]), arrays["phase.vectors"]
    )


@every_grammar
def test_averaged_weights_are_projected_while_they_are_the_models(golden_group):
    model, _ = released(golden_group, "stepped.param")
    average, other = WeightAverage(model), released(golden_group)[0]
    average.add(1)
    with torch.no_grad():
        model.grammar.words.copy_(other.grammar.words)
    average.add(2)
    with average.as_weights():
        lengths = torch.fft.rfft(model.grammar.words).abs()
        close(lengths, np.ones(lengths.shape))
    close(model.grammar.words, other.grammar.words.detach().numpy(), atol=0)
    assert torch.fft.rfft(average.means["grammar.words"]).abs().min() < 1 - 1e-6
