"""PCFGs as language models and parsers: probabilities, independence of sentences, and caching."""

from __future__ import annotations

import copy
import dataclasses
import itertools

import numpy as np
import pytest
import torch

from syntaxlm.core.errors import InputError
from syntaxlm.models import sizes
from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.pcfg import model as implementation
from syntaxlm.models.pcfg import sentence_pcfg
from syntaxlm.models.pcfg.grammars import (
    CompoundGrammar,
    Sentences,
    SimplePCFGConfig,
)
from syntaxlm.ops.inside import FactoredRules, Layout, TableRules, log_partition, log_partition_reference
from syntaxlm.training.loop import WeightAverage
from tests.models.pcfg.small import (
    BOS,
    EOS,
    EVERY,
    EXACT,
    SORTED,
    WORDS,
    batch_of,
    counts_of,
    exact_model,
    small_model,
    token,
)

every_exact = pytest.mark.parametrize("name", EXACT)
every_type = pytest.mark.parametrize("name", EVERY)


def tokens_of(model, sentence) -> list[float]:
    """The log-probability of each word of a sentence and of its end."""
    return model.token_log_probs(batch_of([sentence])).log_probs[:, 0].tolist()


# ---- probabilities


@every_exact
def test_sentence_log_probabilities_are_those_of_the_reference_and_the_share_of_longer_sentences(name):
    model = exact_model(name)
    tables = model.grammar.tables(Sentences.of(SORTED))
    found = model.sentence_log_probs(batch_of(SORTED)).tolist()
    for number, own in enumerate(tables.words.split(list(map(len, SORTED)))):
        if len(own) > 1:
            expected = log_partition_reference(tables.rules, tables.emissions[own]) + torch.log1p(-model.one_word_share)
            assert found[number] == pytest.approx(float(expected.detach()), abs=1e-9)


def test_token_log_probabilities_do_not_depend_on_how_charts_are_split(monkeypatch):
    model, batch = exact_model("simple"), batch_of(SORTED)
    expected = model.token_log_probs(batch).log_probs
    monkeypatch.setattr(implementation, "_PREFIX_PROBABILITIES_TOGETHER", 40)
    torch.testing.assert_close(model.token_log_probs(batch).log_probs, expected)


@every_type
def test_probabilities_and_structure_do_not_depend_on_how_charts_are_split(monkeypatch, name):
    model = small_model(name)
    expected = model.sentence_log_probs(batch_of(SORTED))
    structure = model.labelled_structure(batch_of(SORTED, closed=True))
    monkeypatch.setattr(sentence_pcfg, "_PROBABILITIES_TOGETHER", 40)
    torch.testing.assert_close(model.sentence_log_probs(batch_of(SORTED)), expected)
    again = model.labelled_structure(batch_of(SORTED, closed=True))
    torch.testing.assert_close(again.values, structure.values)
    assert torch.equal(again.labels, structure.labels)


def test_groups_have_every_sentence_that_is_long_enough_once_within_the_limit():
    model = small_model("simple")
    sentences = Sentences.of([[1] * length for length in (3, 1, 0, 5, 2, 2, 9, 1)])
    sizes = {index: length * (length + 1) // 2 * 4 for index, length in enumerate(sentences.lengths)}
    for shortest, most in itertools.product((1, 2), (1, 40, 100, 10**6)):
        groups = [(index.tolist(), part) for index, part in model._groups(sentences, most, shortest)]
        expected = [index for index, length in enumerate(sentences.lengths) if length >= shortest]
        assert [index for group, _ in groups for index in group] == expected
        assert all(len(group) == 1 or sum(sizes[index] for index in group) <= most for group, _ in groups)
        assert all(part.lengths == tuple(sentences.lengths[index] for index in group) for group, part in groups)
    assert len(list(model._groups(sentences, 10**6, 1))) == 1
    ((alone, _),) = model._groups(sentences, 10**6, 1, 1)
    assert alone.tolist() == [1, 7]


@every_exact
def test_a_sentence_too_long_for_memory_raises_an_error_with_its_length(name, monkeypatch):
    model = exact_model(name)
    batch, closed = batch_of([[1] * 40, [1, 2]]), batch_of([[1] * 40, [1, 2]], closed=True)
    monkeypatch.setattr(sizes, "memory_size", lambda: 50_000)
    for refused in (
        lambda: model.sentence_log_probs(batch),
        lambda: model.token_log_probs(batch),
        lambda: model.next_log_probs(batch),
        lambda: model.structure(closed),
        lambda: model.best_trees(closed),
    ):
        with pytest.raises(InputError, match=r"a sentence of 40 words, whose chart needs .* split the sentence"):
            refused()
    assert model.sentence_log_probs(batch_of([[1, 2]])).isfinite().all()


@every_exact
def test_the_next_token_distribution_equals_the_probability_of_each_continuation(name):
    model = exact_model(name)
    prefixes = [[1, 2, 3, 0, 5], [2, 2, 6], [4, 1], [3], [0], []]
    tokens = batch_of(prefixes)
    lengths = torch.tensor([len(prefix) + 1 for prefix in prefixes])
    found, state = model.next_log_probs(TokenBatch(tokens.tokens, tokens.targets, lengths))
    assert torch.equal(state["tokens"], tokens.tokens)
    torch.testing.assert_close(found.exp().sum(1), torch.ones(len(prefixes), dtype=torch.float64))
    for row, prefix in zip(found, prefixes, strict=True):
        assert row[BOS] == -torch.inf
        expected = [tokens_of(model, [*prefix, word])[len(prefix)] for word in range(WORDS)]
        assert row[[token(word) for word in range(WORDS)]].tolist() == pytest.approx(expected, abs=1e-9)
        assert float(row[EOS]) == (pytest.approx(tokens_of(model, prefix)[-1], abs=1e-9) if prefix else -np.inf)


@every_exact
@pytest.mark.parametrize("entries", [1 << 20, 60, 0])
def test_words_read_one_at_a_time_give_the_same_distributions_with_and_without_a_kept_chart(name, entries, monkeypatch):
    monkeypatch.setattr(implementation, "_GROWING_CHART", entries)
    model = exact_model(name)
    tokens = torch.tensor([[BOS] * 3, [3, 5, EOS], [4, 0, 7], [2, EOS, 7], [8, 6, 7], [5, 5, 7]])
    state, kept = None, []
    for count in range(1, len(tokens) + 1):
        read = tokens[count - 1 : count]
        found, state = model.next_log_probs(TokenBatch(read, read, carries=count > 1), state)
        kept.append("lefts" in state)
        torch.testing.assert_close(found, model._next(tokens[:count]), rtol=1e-12, atol=1e-12)
        together, _ = model.next_log_probs(TokenBatch(tokens[:count], tokens[:count]))
        torch.testing.assert_close(found, together, rtol=1e-12, atol=1e-12)
    has_factors = isinstance(model._all_tables()[0], FactoredRules)
    assert kept[0] == has_factors
    assert kept[-1] == (has_factors and entries == 1 << 20)
    assert kept == sorted(kept, reverse=True)


@every_exact
def test_targets_that_are_not_the_next_input_are_scored_by_the_next_token_distribution(name):
    model = exact_model(name)
    read = batch_of([[1, 2, 3, 4], [6, 5, 0]])
    targets = torch.randint(9, read.targets.shape, generator=torch.Generator().manual_seed(1))
    batch = dataclasses.replace(read, targets=targets)
    found = model.token_log_probs(batch).log_probs
    for step, column in batch.mask().nonzero().tolist():
        prefix = TokenBatch(batch.tokens[: step + 1, [column]], batch.tokens[: step + 1, [column]])
        expected = model.next_log_probs(prefix)[0][0, batch.targets[step, column]]
        torch.testing.assert_close(found[step, column], expected, rtol=0, atol=1e-12)


@every_exact
@pytest.mark.parametrize("special", [BOS, EOS])
def test_bos_and_eos_inside_a_sentence_are_read_as_unknown_words_and_never_predicted_as_words(name, special):
    model = exact_model(name)
    tokens = torch.tensor([BOS, 3, special, 4])[:, None]
    targets = torch.tensor([3, special, 4, EOS])[:, None]
    found = model.token_log_probs(TokenBatch(tokens, targets)).log_probs[:, 0]
    unknown = model.token_log_probs(TokenBatch(tokens.where(tokens != special, 0), targets)).log_probs[:, 0]
    assert found[[0, 2, 3]].tolist() == pytest.approx(tokens_of(model, [1, 0, 2])[:1] + tokens_of(model, [1, 0, 2])[2:])
    assert found[1] == (-torch.inf if special == BOS else tokens_of(model, [1])[1])
    torch.testing.assert_close(found, unknown)
    with torch.no_grad():
        one, other = (model.sentence_log_probs(batch) for batch in (TokenBatch(tokens, targets), batch_of([[1, 0, 2]])))
    torch.testing.assert_close(one, other)


@every_exact
def test_a_single_step_is_a_distribution_over_the_vocabulary(name):
    """The shortest batch, in which every target could be the token read next."""
    model = exact_model(name)
    tokens = torch.full((1, 1), BOS)
    found = [float(model.token_log_probs(TokenBatch(tokens, torch.full((1, 1), one))).log_probs) for one in range(9)]
    assert np.exp(found).sum() == pytest.approx(1)
    assert found[BOS] == found[EOS] == -np.inf


# ---- sentences of one word, of no words, of unknown words


@every_type
def test_a_sentence_of_one_word_has_its_share_of_the_smoothed_unigrams(name):
    model = small_model(name)
    batch = batch_of([[word] for word in range(WORDS)])
    found = model.sentence_log_probs(batch).exp()
    counts = np.array([1, 0, 0, 0, 1, 0, 0]) + 0.5
    expected = 2.5 / 6 * counts / counts.sum()  # two of five sentences, each count smoothed by one half
    np.testing.assert_allclose(found, expected)
    assert float(found.sum()) == pytest.approx(float(model.one_word_share))


@every_type
def test_a_sentence_without_words_has_probability_0_and_does_not_affect_others(name):
    model = small_model(name)
    found = model.sentence_log_probs(batch_of([[1, 2, 3], [4], []])).tolist()
    assert found[2] == -np.inf
    assert found[:2] == pytest.approx(model.sentence_log_probs(batch_of([[1, 2, 3], [4]])).tolist())
    assert model.sentence_log_probs(batch_of([[]])).tolist() == [-np.inf]
    structure = model.labelled_structure(batch_of([[1, 2, 3], [4], []], closed=True))
    assert not structure.values[2].any()
    assert (structure.labels[2] == -1).all()
    alone = model.structure(batch_of([[]], closed=True))
    assert alone.values.shape == (1, 1, 1)
    assert model.best_trees(batch_of([[4], []], closed=True))[1] == []


@every_type
def test_unknown_words_are_a_word_of_the_grammar(name):
    model = small_model(name)
    found = model.sentence_log_probs(batch_of([[0, 0, 1], [0, 0]]))
    assert found.isfinite().all()
    structure = model.labelled_structure(batch_of([[0, 0, 1], [0]], closed=True))
    assert structure.values[0, 0, 2] == pytest.approx(1)
    assert structure.labels[1, 0, 0] >= model.grammar.nonterminal_count


def test_the_share_of_one_word_sentences_is_never_0_or_1():
    model = small_model("simple")
    model.setup(counts_of([[1, 2]]))
    assert float(model.one_word_share) == pytest.approx(0.5 / 2)
    assert model.sentence_log_probs(batch_of([[3]])).isfinite().all()


@pytest.mark.parametrize("size", [2, 3])
def test_a_vocabulary_without_words_raises_an_error(size):
    with pytest.raises(InputError, match=f"found a vocabulary of {size} tokens with fewer than two words"):
        implementation.PCFG(SimplePCFGConfig(), size)


# ---- structure


@every_type
def test_labels_are_nonterminals_of_longer_spans_and_preterminals_of_words(name):
    model = small_model(name)
    count = model.grammar.nonterminal_count
    for labels, sentence in zip(model.labelled_structure(batch_of(SORTED, closed=True)).labels, SORTED, strict=True):
        for first, last in itertools.combinations_with_replacement(range(len(sentence)), 2):
            assert (labels[first, last] >= count) == (first == last)


def test_there_is_a_label_for_every_symbol():
    model = small_model("simple")
    assert list(model.labels) == ["NT-0", "NT-1", "NT-2", "NT-3", "T-0", "T-1", "T-2", "T-3", "T-4"]


def derivation_log_prob(rules, emissions, spans) -> float:
    """Joint log-probability of a sentence and a labelled tree with single words: the product of its rules."""
    table, count = rules.table(), rules.nonterminals
    label = {(first, last): symbol for first, last, symbol in spans}
    length = len(emissions)
    total = rules.root[label[0, length - 1]].log()
    for (first, last), symbol in label.items():
        if first == last:
            total = total + emissions[first, symbol - count]
            continue
        (split,) = [k for k in range(first, last) if (first, k) in label and (k + 1, last) in label]
        total = total + table[symbol, label[first, split], label[split + 1, last]].log()
    return float(total.detach())


@every_type
def test_best_trees_have_the_probability_of_the_best_derivation(name):
    model = small_model(name)
    count = model.grammar.nonterminal_count
    found = model.best_trees(batch_of(SORTED, closed=True))
    for spans, sentence in zip(found, SORTED, strict=True):
        tables = model.grammar.tables(Sentences.of([sentence]))
        emissions = tables.emissions[tables.words].detach()
        words = sorted(span for span in spans if span[0] == span[1])
        assert [first for first, _, _ in words] == list(range(len(sentence)))
        assert all(symbol >= count for _, _, symbol in words)
        assert len(spans) == 2 * len(sentence) - 1
        if len(sentence) == 1:
            assert spans == [(0, 0, count + int(emissions.argmax()))]
            continue
        rules = tables.rules.of(0) if isinstance(tables.rules, TableRules) else tables.rules
        best = log_partition_reference(TableRules(rules.root, rules.table()), emissions, add=torch.amax)
        assert derivation_log_prob(rules, emissions, spans) == pytest.approx(float(best.detach()), abs=1e-9)


# ---- compound grammars


def test_compound_bound_is_below_the_probability_of_the_sentence():
    """The bound is compared with the mean over many vectors sampled from the prior."""
    model = small_model("compound")
    assert isinstance(model.grammar, CompoundGrammar)
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(2000, 2, dtype=torch.float64, generator=generator)
    repeated = Sentences.of([[3, 1, 2]] * len(vectors))
    with torch.no_grad():
        tables = model.grammar.tables_of(repeated, vectors)
        values = log_partition(tables.rules, tables.emissions, tables.words, Layout(repeated.lengths))
        exact = torch.logsumexp(values, 0) - np.log(len(vectors)) + torch.log1p(-model.one_word_share)
        model.train()
        bounds = [-float(model.loss(batch_of([[3, 1, 2]])).total) for _ in range(100)]
    assert np.mean(bounds) < float(exact)


def test_a_bound_is_sampled_in_training_and_the_same_every_time_in_evaluation():
    model, batch = small_model("compound"), batch_of(SORTED)
    with torch.no_grad():
        assert torch.equal(model.sentence_log_probs(batch), model.sentence_log_probs(batch))
        model.train()
        one, other = (model.sentence_log_probs(batch) for _ in range(2))
    longer = torch.tensor([len(sentence) > 1 for sentence in SORTED])
    assert (one[longer] != other[longer]).all()
    assert torch.equal(one[~longer], other[~longer])


def test_the_penalty_of_a_bound_is_the_divergence_of_the_vectors_from_their_prior():
    grammar = small_model("compound").grammar
    assert isinstance(grammar, CompoundGrammar)
    batch = Sentences.of(SORTED[:2])
    moments = []
    grammar.moments.register_forward_hook(lambda module, inputs, output: moments.append(output))
    penalties = grammar.tables(batch).penalties
    mean, log_variance = moments[0].chunk(2, -1)
    own = torch.distributions.Normal(mean, torch.exp(0.5 * log_variance))
    expected = torch.distributions.kl_divergence(own, torch.distributions.Normal(0.0, 1.0)).sum(-1)
    torch.testing.assert_close(penalties, expected)


# ---- cached rules


def adam(model, fused: bool) -> None:
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1, fused=fused)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimiser.step()


def other_weights(model):
    own = {name: weight + 0.3 * torch.randn_like(weight) for name, weight in model.named_parameters()}
    return model.state_dict() | own


def in_place(model) -> None:
    for parameter in model.parameters():
        parameter.data.mul_(0.9)


CHANGES = {
    "adam": lambda model: adam(model, fused=False),
    "fused adam": lambda model: adam(model, fused=True),
    "load_state_dict": lambda model: model.load_state_dict(other_weights(model)),
    "load_state_dict, assigned": lambda model: model.load_state_dict(other_weights(model), assign=True),
    "in place": in_place,
    "float": lambda model: model.float(),
    "float and back": lambda model: model.float().double(),
    "one weight": lambda model: next(model.parameters()).data[0, 0].add_(1e-3),
}


def evaluated(model) -> list[torch.Tensor]:
    batch = batch_of([[5, 5, 2, 0], [3, 1], [4]])
    with torch.no_grad():
        return [
            model.sentence_log_probs(batch),
            model.token_log_probs(batch).log_probs,
            model.next_log_probs(batch)[0],
            model.structure(batch_of([[5, 5, 2, 0], [3, 1], [4]], closed=True)).values,
        ]


@pytest.mark.parametrize(
    ("name", "change"), [*(("simple", change) for change in CHANGES), ("tensor", "fused adam"), ("neural", "in place")]
)
def test_rules_are_recomputed_when_weights_change(name, change):
    """In evaluation mode, compared with a copy without cache."""
    torch.manual_seed(1)
    model = exact_model(name)
    before = evaluated(model)
    CHANGES[change](model)
    fresh = copy.deepcopy(model)
    fresh._caches.clear()
    after = evaluated(model)
    assert all(map(torch.equal, after, evaluated(fresh)))
    if change != "float and back":
        assert not all(map(torch.equal, after, before))


def test_rules_are_computed_once_while_weights_do_not_change(monkeypatch):
    model = exact_model("simple")
    calls = []
    compute = model.grammar.rules
    monkeypatch.setattr(model.grammar, "rules", lambda: calls.append(1) or compute())
    evaluated(model)
    evaluated(model)
    assert len(calls) == 1
    model.train()
    model.eval()
    evaluated(model)
    assert len(calls) == 2


def test_averaged_weights_have_their_own_rules_inside_the_context_only():
    torch.manual_seed(1)
    model = exact_model("simple")
    average = WeightAverage(model)
    average.add(1)
    adam(model, fused=False)
    average.add(2)
    own = evaluated(model)
    with average.as_weights():
        inside = evaluated(model)
    assert all(map(torch.equal, evaluated(model), own))
    expected = exact_model("simple")
    expected.load_state_dict(model.state_dict() | average.means)
    assert all(map(torch.equal, inside, evaluated(expected)))
    assert not torch.equal(inside[0], own[0])


def test_rules_of_autocast_are_not_those_of_single_precision():
    model, batch = exact_model("simple").float(), batch_of(SORTED)

    def scores(low: bool) -> torch.Tensor:
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=low):
            return model.sentence_log_probs(batch)

    exact, rough = scores(False), scores(True)
    assert not torch.equal(exact, rough)
    torch.testing.assert_close(exact, rough, rtol=0.05, atol=0)
    assert torch.equal(scores(False), exact)
    assert torch.equal(scores(True), rough)


@every_type
def test_structures_are_as_exact_as_the_weights_on_every_processor(name):
    batch = batch_of(SORTED)
    found = small_model(name).float().structure(batch).values
    expected = small_model(name).double().structure(batch).values
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=2e-6)


def in_both_precisions(name, sharpness=1.0) -> list[sentence_pcfg.SentencePCFG]:
    """The same model in float32 and in float64."""
    models = [small_model(name), small_model(name)]
    for model in models:
        for parameter in model.parameters():
            parameter.data *= sharpness
    return [models[0].float(), models[1].double()]


@pytest.mark.parametrize(("name", "length"), [("simple", 12), ("tensor", 6)])
def test_a_sentence_whose_probability_is_0_in_float32_has_the_trees_of_float64(name, length):
    words = torch.randint(WORDS, (length,), generator=torch.Generator().manual_seed(length)).tolist()
    batch = batch_of([words], closed=True)
    single, double = in_both_precisions(name, sharpness=2.0)
    tables = single.grammar.tables(Sentences.of([words]))
    with torch.no_grad():
        assert float(log_partition(tables.rules, tables.emissions, tables.words, Layout([length]))) == -torch.inf
    expected = double.structure(batch).values
    assert float(expected.min()) < 1e-3
    torch.testing.assert_close(single.structure(batch).values.double(), expected, rtol=0, atol=1e-5)
    (trees,) = single.sample_trees(batch, 20, np.random.default_rng(0))
    assert all(expected[0, start, end - 1] > 1e-3 for spans in trees for start, end in spans)


@pytest.mark.parametrize(("name", "length"), [("simple", 60), ("tensor", 60), ("neural", 40), ("compound", 40)])
def test_trees_of_long_sentences_have_the_probabilities_of_float64(name, length):
    """The probability of a tree is the ratio of two tiny ones."""
    words = torch.randint(WORDS, (length,), generator=torch.Generator().manual_seed(1)).tolist()
    batch = batch_of([words], closed=True)
    single, double = in_both_precisions(name)
    spans = torch.zeros(1, length, length, dtype=torch.bool)
    for first, last, _ in double.best_trees(batch)[0]:
        spans[0, first, last] = first < last
    found, expected = (model.tree_log_probs(batch, spans) for model in (single, double))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    marginals = [model.structure(batch).values.double() for model in (single, double)]
    torch.testing.assert_close(*marginals, rtol=0, atol=2e-6)


@every_type
def test_scores_with_gradients_equal_those_without(name):
    model, batch = small_model(name), batch_of(SORTED)
    with torch.no_grad():
        expected = model.sentence_log_probs(batch)
    found = model.sentence_log_probs(batch)
    assert found.requires_grad
    torch.testing.assert_close(found.detach(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["simple", "neural"])
def test_long_sentences_have_finite_token_log_probabilities_that_add_up(name):
    """In single precision, where the probability of the sentence underflows."""
    model = exact_model(name).float()
    length = 90 if name == "simple" else 40
    words = torch.randint(WORDS, (length,), generator=torch.Generator().manual_seed(0)).tolist()
    batch = batch_of([words])
    tokens = model.token_log_probs(batch).log_probs
    assert tokens.isfinite().all()
    with torch.no_grad():
        total = model.sentence_log_probs(batch)
    assert float(total.float().exp()) == 0
    torch.testing.assert_close(tokens.sum(0), total, rtol=1e-5, atol=0)


@every_type
def test_only_full_tables_are_trained_on_sentences_of_one_length(name):
    """Their charts have sentences of one length: with mixed ones, a batch has almost as many charts as sentences."""
    assert small_model(name).mixes_lengths == (name in ("simple", "tensor", "relaxed-simple"))
