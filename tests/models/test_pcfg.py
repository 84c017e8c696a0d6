"""Neural PCFGs: against released figures, against enumeration, and that what they say adds up."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from syntaxlm.models import pcfg
from syntaxlm.models.pcfg import (
    PCFG,
    CompoundGrammar,
    EndBias,
    Grammar,
    NeuralGrammar,
    Sentences,
    SimpleGrammar,
    TensorGrammar,
    _Sampler,
)
from syntaxlm.ops.inside import (
    FactoredRules,
    Layout,
    TableRules,
    log_partition,
    posteriors,
    prefix_log_probs,
    reference,
)
from syntaxlm.trees.span_decoding import SpanScores, decode_spans

FOLDERS = [Path(__file__).parents[1] / "golden_data", *map(Path, filter(None, [os.environ.get("SYNTAXLM_GOLDEN")]))]
FILES = sorted(path for folder in FOLDERS for path in folder.glob("pcfg_*.npz"))
BATCH = [[3, 1], [5, 5, 2, 0], [4], [1, 2, 3, 4, 5, 6], [0]]


def released(path: Path) -> tuple[Grammar, dict[str, np.ndarray]]:
    """Our grammar with a golden file's weights, in float64, and the file's arrays."""
    arrays = dict(np.load(path))
    preterminals, vocabulary = arrays["rule.emission"].shape
    sizes = len(arrays["rule.root"]), preterminals, vocabulary, arrays["param.start"].shape[1]
    grammar: Grammar
    if "rule.left" in arrays:
        grammar = SimpleGrammar(*sizes)
    elif "param.symbols" in arrays:
        grammar = TensorGrammar(*sizes, rank=len(arrays["param.parent.2.bias"]))
    else:
        grammar = NeuralGrammar(*sizes)
    weights = {name[6:]: torch.from_numpy(value) for name, value in arrays.items() if name.startswith("param.")}
    grammar.double().load_state_dict(weights)
    return grammar, arrays


def golden_sentences(arrays):
    count = 1 + max(int(name.split(".")[1]) for name in arrays if name.startswith("sentence."))
    return [arrays[f"sentence.{number}.words"].tolist() for number in range(count)]


def make(name: str, seed: int = 0) -> PCFG:
    """A small model in float64, with sharper rules than at the start, and some sentences of one word."""
    torch.manual_seed(seed)
    grammar: Grammar
    match name:
        case "simple":
            grammar = SimpleGrammar(4, 5, 7, 6)
        case "tensor":
            grammar = TensorGrammar(4, 5, 7, 6, rank=3)
        case "neural":
            grammar = NeuralGrammar(3, 4, 7, 6)
        case _:
            grammar = CompoundGrammar(3, 4, 7, 6, latent_size=2, encoder_size=5)
    with torch.no_grad():
        for parameter in grammar.parameters():
            parameter *= 2
    model = PCFG(grammar).double().eval()
    model.count_single_words(BATCH)
    return model


EXACT = ["simple", "tensor", "neural"]


def test_there_are_golden_files():
    assert len(FILES) >= 3


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_rules_equal_the_released_figures(path):
    grammar, arrays = released(path)
    rules, every = grammar.rules(), torch.arange(grammar.vocabulary_size)
    found = {"root": rules.root, "emission": grammar.emissions(every).exp().T}
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
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_log_probabilities_and_gradients_equal_the_released_figures(path, form):
    grammar, arrays = released(path)
    sentences = golden_sentences(arrays)
    tables = grammar.tables(Sentences.of(sentences))
    lengths = list(map(len, sentences))
    if form == "fast":
        found = log_partition(tables.rules, tables.emissions, tables.words, Layout(lengths))
    else:
        parts = tables.words.split(lengths)
        found = torch.stack([reference.log_partition(tables.rules, tables.emissions[part]) for part in parts])
    expected = torch.tensor([float(arrays[f"sentence.{number}.log_prob"]) for number in range(len(sentences))])
    torch.testing.assert_close(found, expected.double(), rtol=0, atol=1e-5)
    for number, value in enumerate(found.tolist()):
        assert value == pytest.approx(float(arrays[f"sentence.{number}.log_prob"]), abs=1e-9)
    found.sum().backward()
    for name, parameter in grammar.named_parameters():
        gradient = parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)
        torch.testing.assert_close(gradient, torch.from_numpy(arrays[f"grad.{name}"]), rtol=1e-9, atol=1e-9, msg=name)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_marginals_trees_and_prefixes_equal_the_released_figures(path):
    grammar, arrays = released(path)
    sentences = golden_sentences(arrays)
    tables = grammar.tables(Sentences.of(sentences))
    layout = Layout(list(map(len, sentences)))
    found = posteriors(tables.rules, tables.emissions, tables.words, layout)
    prefixes = prefix_log_probs(tables.rules, tables.emissions, tables.words, layout)
    trees = PCFG(grammar).double().trees(Sentences.of(sentences))
    for number, sentence in enumerate(sentences):
        golden = {
            name.split(".", 2)[2]: value for name, value in arrays.items() if name.startswith(f"sentence.{number}.")
        }
        length = len(sentence)
        np.testing.assert_allclose(found.marginals[number, :length, :length], golden["marginals"], rtol=0, atol=1e-9)
        spans = sorted((first, end - 1) for first, end in trees.sentence(number))
        assert spans == list(map(tuple, golden["mbr_spans"].tolist()))
        if "prefix_log_probs" in golden:
            np.testing.assert_allclose(
                prefixes.prefixes[number, :length], golden["prefix_log_probs"], rtol=0, atol=1e-9
            )
            ended = prefixes.sentences[number, 1:length]
            np.testing.assert_allclose(ended, golden["ended_log_probs"], rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", EXACT)
def test_token_log_probabilities_add_up_to_the_sentence(name):
    model, batch = make(name), Sentences.of(BATCH)
    tokens = model.token_log_probs(batch)
    assert tokens.shape == (max(batch.lengths) + 1, len(batch))
    with torch.no_grad():
        torch.testing.assert_close(tokens.sum(0), model.sentence_log_probs(batch), rtol=0, atol=1e-9)
    for column, length in enumerate(batch.lengths):
        assert not tokens[length + 1 :, column].any()


def test_token_log_probabilities_do_not_depend_on_how_charts_are_split(monkeypatch):
    model, batch = make("simple"), Sentences.of(BATCH)
    expected = model.token_log_probs(batch)
    monkeypatch.setattr(pcfg, "_PREFIX_CHART", 40)
    torch.testing.assert_close(model.token_log_probs(batch), expected)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("prefix", [[], [2], [2, 6, 1]], ids=str)
def test_next_word_and_end_of_sentence_are_a_distribution(name, prefix):
    model = make(name)
    size = model.grammar.vocabulary_size
    tokens = model.token_log_probs(Sentences.of([*prefix, word] for word in range(size)))
    total = tokens[len(prefix)].exp().sum()
    if prefix:  # the end behind the prefix; no sentence is empty
        total += model.token_log_probs(Sentences.of([prefix]))[len(prefix), 0].exp()
    assert float(total) == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("name", EXACT)
def test_a_later_word_never_changes_the_probability_of_an_earlier_one(name):
    model = make(name)
    one, other = model.token_log_probs(Sentences.of([[1, 2, 3, 4], [1, 2, 3, 6, 0]])).T
    torch.testing.assert_close(one[:3], other[:3])


@pytest.mark.parametrize("name", [*EXACT, "compound"])
def test_trees_are_binary_and_of_the_greatest_summed_marginals(name):
    model, batch = make(name), Sentences.of(BATCH)
    trees = model.trees(batch)
    assert [len(trees.sentence(number)) for number in range(len(batch))] == [max(0, n - 1) for n in batch.lengths]
    scores = model.span_marginals(batch)
    assert isinstance(scores, SpanScores)
    expected = decode_spans(scores, "cky")
    assert all(trees.sentence(number) == expected.sentence(number) for number in range(len(batch)))
    for number, length in enumerate(batch.lengths):
        if length > 1:
            assert scores.chart(number)[0, length - 1] == pytest.approx(1)


@pytest.mark.parametrize("name", [*EXACT, "compound"])
def test_fixed_rules_give_the_same_figures(name):
    model, batch = make(name), Sentences.of(BATCH)
    with torch.no_grad():
        expected = model.sentence_log_probs(batch)
        with model.fixed_rules():
            torch.testing.assert_close(model.sentence_log_probs(batch), expected)


def ending_rules(kind: str) -> FactoredRules | TableRules:
    """Random rules of three nonterminals and four preterminals, most of whose children are preterminals."""
    generator = torch.Generator().manual_seed(0)

    def shares(*shape: int) -> torch.Tensor:
        values = torch.rand(*shape, dtype=torch.float64, generator=generator)
        if shape[-1] == 7:
            values[..., 3:] *= 8
        return values / values.sum(-1, keepdim=True)

    if kind == "table":
        return TableRules(shares(3), shares(3, 7)[:, :, None] * shares(3, 7)[:, None])
    rank = 5 if kind == "rank" else 3
    return FactoredRules(shares(3), shares(rank, 7), shares(rank, 7), shares(3, rank) if kind == "rank" else None)


@pytest.mark.parametrize("kind", ["independent", "rank", "table"])
def test_samples_follow_the_rules(kind):
    rules, generator = ending_rules(kind), np.random.default_rng(0)
    emissions = torch.log_softmax(torch.randn(5, 4, dtype=torch.float64), 0)
    sampler = _Sampler(rules, emissions)
    drawn = [sampler.draw(2, generator) for _ in range(4000)]
    found = [sample.words for sample in drawn if sample is not None]
    pairs = [(one, other) for one in range(5) for other in range(5)]
    expected = np.array([float(reference.log_partition(rules, emissions[list(pair)]).exp()) for pair in pairs])
    expected *= len(drawn)
    counts = np.array([found.count(pair) for pair in pairs])
    assert len(found) == pytest.approx(expected.sum(), abs=4 * expected.sum() ** 0.5)
    assert ((counts - expected) ** 2 / expected.clip(min=1)).sum() < 2 * len(pairs)


def test_one_word_sentences_are_drawn_by_their_share():
    model = make("neural")
    drawn = model.sample(300, 40, np.random.default_rng(0))
    assert all(1 <= len(sample.words) <= 40 for sample in drawn)
    assert all(len(sample.spans) == len(sample.words) - 1 for sample in drawn)
    alone = sum(len(sample.words) == 1 for sample in drawn)
    share = float(model.one_word_share)
    assert alone == pytest.approx(300 * share, abs=4 * (300 * share) ** 0.5)


def test_samples_of_a_compound_grammar_respect_the_limit():
    drawn = make("compound").sample(20, 6, np.random.default_rng(0))
    assert all(len(sample.words) <= 6 for sample in drawn)
    assert all(len(sample.spans) == len(sample.words) - 1 for sample in drawn)


def test_a_limit_that_no_sentence_keeps_is_reported():
    model = make("simple")
    model.one_word_share.fill_(0)
    with pytest.raises(ValueError, match="no sentence of at most 1 words"):
        model.sample(1, 1, np.random.default_rng(0), tries=3)


def test_compound_bound_lies_below_the_probability_of_the_sentence():
    """The bound against the mean over many vectors drawn from the prior."""
    model = make("compound")
    assert isinstance(model.grammar, CompoundGrammar)
    batch = Sentences.of([[3, 1, 2]])
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(2000, 2, dtype=torch.float64, generator=generator)
    repeated = Sentences.of([[3, 1, 2]] * len(vectors))
    with torch.no_grad():
        tables = model.grammar.tables_of(repeated, vectors)
        values = log_partition(tables.rules, tables.emissions, tables.words, Layout(repeated.lengths))
        exact = torch.logsumexp(values, 0) - np.log(len(vectors))
        model.train()
        bounds = [-float(model.loss(batch)[0]) for _ in range(100)]
    assert np.mean(bounds) < float(exact)


def test_compound_grammars_refuse_token_scores():
    with pytest.raises(ValueError, match="bounds the probability"):
        make("compound").token_log_probs(Sentences.of(BATCH))


@pytest.mark.parametrize("name", [*EXACT, "compound"])
def test_every_weight_is_trained(name):
    model = make(name).train()
    total, words = model.loss(Sentences.of(BATCH))
    assert words == sum(length for length in map(len, BATCH) if length > 1)
    total.backward()
    without = [name for name, parameter in model.grammar.named_parameters() if parameter.grad is None]
    assert not without


def test_training_raises_the_likelihood_of_the_text():
    model = make("simple").float().train()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(30):
        total, _ = model.loss(Sentences.of(BATCH))
        optimiser.zero_grad()
        total.backward()
        optimiser.step()
        losses.append(float(total.detach()))
    assert losses[-1] < 0.8 * losses[0]


def test_end_bias_weighs_spans_by_how_rarely_sentences_end_in_their_last_word():
    text = [[0, 1, 2], [0, 3, 2], [0, 1, 3], [1]]
    bias = EndBias(text, 5, pseudo_counts=0.5)
    rate = 3 / 9
    expected = [(0 + 0.5 * rate) / 3.5, (0 + 0.5 * rate) / 2.5]  # words 0 and 1 end no sentence of two words or more
    np.testing.assert_allclose(bias.scores[:2], np.log(np.array(expected) / rate))
    assert bias.scores[2] == bias.scores[4] == 0
    weights = bias.weights(Sentences.of([[0, 1, 2], [1, 0]]), 2.0)
    assert weights.shape == (2, 3, 3)
    torch.testing.assert_close(weights[0, 0], torch.stack([2 * bias.scores[0], 2 * bias.scores[1], bias.scores[2]]))
    assert not weights[0, :, 2].any()
    assert not weights[1, :, 1:].any()


def test_weights_of_spans_reach_the_loss_of_the_sentences_they_belong_to():
    model, batch = make("simple"), Sentences.of(BATCH)
    weights = torch.zeros(len(batch), 6, 6, dtype=torch.float64)
    plain = float(model.loss(batch, weights)[0].detach())
    assert plain == pytest.approx(float(model.loss(batch)[0].detach()))
    weights[3, 0, 5] = 1.5  # the whole of a sentence is in every derivation
    assert float(model.loss(batch, weights)[0].detach()) == pytest.approx(plain - 1.5)


def test_rules_of_one_sentence_are_those_of_its_vector():
    model = make("compound")
    assert isinstance(model.grammar, CompoundGrammar)
    vectors = torch.randn(2, 2, dtype=torch.float64)
    batch = Sentences.of([[1, 2], [3, 4, 5]])
    together = model.grammar.tables_of(batch, vectors)
    assert isinstance(together.rules, TableRules)
    alone = model.grammar.tables_of(Sentences.of([[3, 4, 5]]), vectors[1:])
    torch.testing.assert_close(together.rules.of(1).binary, alone.rules.of(0).binary)
    torch.testing.assert_close(together.emissions[2:], alone.emissions)


@pytest.mark.parametrize("text", [[[]], [[1], []]])
def test_sentences_without_words_are_refused(text):
    with pytest.raises(ValueError, match="without words"):
        make("simple").sentence_log_probs(Sentences.of(text))
