"""The inside algorithm: every form agrees with the reference, and the reference with enumeration."""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import replace

import pytest
import torch

from syntaxlm.ops import inside, products
from syntaxlm.ops.inside import (
    FactoredRules,
    Layout,
    TableRules,
    log_partition_reference,
    partition,
    prefix_log_probs_reference,
)
from tests.ops.harness import FORMS, TORCH, Form, check

LENGTHS = ([2], [2, 5, 3, 7, 7], [3, 3, 3], [9, 2])
FACTORED = {"simple": (4, 6, None), "rank above m": (3, 5, 7), "rank below m": (7, 4, 3), "wide": (70, 30, None)}


def shares(*shape, seed, sharpness=2.0):
    """Random distributions over the last axis, float64 leaves."""
    logits = torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return torch.softmax(sharpness * logits, -1).requires_grad_()


def factored(nonterminals, preterminals, rank, seed=0):
    symbols = nonterminals + preterminals
    parent = None if rank is None else shares(nonterminals, rank, seed=seed)
    left, right = (shares(rank or nonterminals, symbols, seed=seed + n) for n in (1, 2))
    return FactoredRules(shares(nonterminals, seed=seed + 3), left, right, parent)


def tables(nonterminals, preterminals, sentences=None, seed=0):
    symbols, batch = nonterminals + preterminals, () if sentences is None else (sentences,)
    binary = shares(*batch, nonterminals, symbols**2, seed=seed).detach()
    root = shares(*batch, nonterminals, seed=seed + 1)
    return TableRules(root, binary.unflatten(-1, (symbols, symbols)).requires_grad_())


def word_log_probs(words, preterminals, seed=5, dtype=torch.float64):
    logits = torch.randn(words, preterminals, dtype=dtype, generator=torch.Generator().manual_seed(seed))
    return torch.log_softmax(3 * logits, 0).requires_grad_()


def tensors_of(rules):
    names = ("root", "binary") if isinstance(rules, TableRules) else ("root", "left", "right", "parent")
    return {name: getattr(rules, name) for name in names}


def converted(rules, dtype):
    return type(rules)(**{name: None if part is None else part.to(dtype) for name, part in tensors_of(rules).items()})


RULES = {
    "simple": lambda: factored(3, 4, None),
    "rank above m": lambda: factored(3, 4, 5),
    "rank below m": lambda: factored(3, 4, 2),
    "table": lambda: tables(3, 4),
}


def text(lengths, words=8, seed=3):
    return torch.randint(words, (sum(lengths),), generator=torch.Generator().manual_seed(seed))


def span_weights(lengths):
    longest = max(lengths)
    generator = torch.Generator().manual_seed(11)
    return torch.randn(len(lengths), longest, longest, dtype=torch.float64, generator=generator)


def expected_log_partition(rules, log_probs, words, lengths, weights=None):
    values = []
    for number, own in enumerate(words.split(lengths)):
        each = rules.of(number) if isinstance(rules, TableRules) else rules
        values.append(log_partition_reference(each, log_probs[own], None if weights is None else weights[number]))
    return torch.stack(values)


def derivations_of(rules, log_probs):
    """(probability, {span: nonterminal}) of every derivation of a sentence of a tiny grammar."""
    table, words = rules.table().detach(), log_probs.detach().exp()
    count, symbols = rules.nonterminals, table.shape[-1]

    def below(first, last, symbol):
        if first == last:
            if symbol >= count:
                yield float(words[first, symbol - count]), {}
            return
        if symbol >= count:
            return
        for split, left, right in itertools.product(range(first, last), range(symbols), range(symbols)):
            for (p, spans), (q, others) in itertools.product(below(first, split, left), below(split + 1, last, right)):
                yield float(table[symbol, left, right]) * p * q, {(first, last): symbol, **spans, **others}

    for symbol in range(count):
        for probability, spans in below(0, len(log_probs) - 1, symbol):
            yield float(rules.root[symbol].detach()) * probability, spans


@pytest.mark.parametrize(
    "rules", [factored(2, 2, None), factored(2, 2, 3), tables(2, 2)], ids=["simple", "rank", "table"]
)
@pytest.mark.parametrize("length", [2, 3, 4])
def test_reference_equals_enumeration_in_probability_marginals_and_best_derivation(rules, length):
    log_probs = word_log_probs(length, 2)
    every = list(derivations_of(rules, log_probs))
    total = sum(probability for probability, _ in every)
    assert float(log_partition_reference(rules, log_probs).detach().exp()) == pytest.approx(total, rel=1e-12)
    marginals = span_gradients(rules, log_probs, torch.logsumexp)[1]
    for first, last in itertools.combinations(range(length), 2):
        share = sum(probability for probability, spans in every if (first, last) in spans) / total
        assert float(marginals[first, last]) == pytest.approx(share, rel=1e-9)
    best, spans = max(every, key=lambda one: one[0])
    if isinstance(rules, TableRules) or rules.parent is None:
        found, chosen = span_gradients(rules, log_probs, torch.amax)
        assert float(found.exp()) == pytest.approx(best, rel=1e-12)
        assert set(map(tuple, chosen.nonzero().tolist())) == set(spans)
    (derivation,) = inside.best_derivations(rules, log_probs, torch.arange(length), Layout([length]))
    assert derivation.log_prob == pytest.approx(math.log(best), rel=1e-9)
    assert {(first, last): symbol for first, last, symbol in derivation.spans} == spans
    assert len(derivation.preterminals) == length


def test_best_derivations_are_computed_on_the_device_of_the_rules():
    """The device `meta`, as a GPU, does not compute with tensors of the CPU. Values cannot be read from it."""
    rules = FactoredRules(*(torch.rand(shape, device="meta") for shape in ((3,), (3, 5), (3, 5))))
    words = torch.zeros(6, dtype=torch.int64, device="meta")
    with pytest.raises(RuntimeError, match="cannot be called on meta tensors"):
        inside.best_derivations(rules, torch.rand(6, 2, device="meta"), words, Layout([6], "meta"))


def span_gradients(rules, log_probs, add):
    """The log of the sum or maximum over derivations by the reference, and its gradients by log-weights of spans."""
    weights = torch.zeros(len(log_probs), len(log_probs), dtype=torch.float64, requires_grad=True)
    total = log_partition_reference(rules, log_probs.detach(), weights, add)
    return total.detach(), torch.autograd.grad(total, weights)[0]


def check_partition(rules, words, lengths, weights, form, kernel=None, case=None):
    def fast(given):
        log_probs, parts = given["log_probs"], [given[name] for name in tensors_of(rules)]
        values = inside.log_partition(type(rules)(*parts), log_probs, words, Layout(lengths), weights)
        assert values.dtype == torch.float64
        return values.to(form.dtype)

    def expected(given):
        log_probs, parts = given["log_probs"], [given[name] for name in tensors_of(rules)]
        return expected_log_partition(type(rules)(*parts), log_probs, words, lengths, weights)

    log_probs = word_log_probs(int(words.max()) + 1, rules.preterminals)
    check(fast, expected, tensors_of(rules) | {"log_probs": log_probs}, form, kernel, case)


PARTITION_FORMS = (*FORMS[:4], Form("bfloat16", "compiled", low=True), Form("torch, bfloat16", "torch", low=True))


@pytest.mark.parametrize("weighted", [False, True], ids=["", "span weights"])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("form", PARTITION_FORMS, ids=str)
@pytest.mark.parametrize("sizes", FACTORED)
def test_factored_rules_equal_the_reference_in_value_and_every_gradient(sizes, form, lengths, weighted):
    if form.low:
        form = replace(form, value=3e-2, gradient=2e-2)
    rules = factored(*FACTORED[sizes])
    weights = span_weights(lengths) if weighted else None
    check_partition(rules, text(lengths), lengths, weights, form, "inside", ("factored", sizes, *lengths, weighted))


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("per_sentence", [False, True], ids=["one table", "table per sentence"])
def test_tables_equal_the_reference_in_value_and_every_gradient(per_sentence, lengths):
    rules = tables(3, 4, len(lengths) if per_sentence else None)
    words = torch.arange(sum(lengths)) if per_sentence else text(lengths)
    check_partition(rules, words, lengths, span_weights(lengths), TORCH)


@pytest.mark.parametrize("form", FORMS[:3], ids=str)
@pytest.mark.parametrize("kind", RULES)
def test_posteriors_are_the_marginals_of_the_reference_and_label_by_the_best_symbol(kind, form):
    rules, lengths = RULES[kind](), [2, 5, 3, 7]
    words, log_probs = text(lengths), word_log_probs(8, rules.preterminals)
    with form.running(None if isinstance(rules, TableRules) else "inside"):
        found = inside.posteriors(converted(rules, form.dtype), log_probs.to(form.dtype), words, Layout(lengths))
    for number, own in enumerate(words.split(lengths)):
        length = len(own)
        expected = span_gradients(rules, log_probs[own], torch.logsumexp)[1]
        marginals = found.marginals[number].double()
        torch.testing.assert_close(marginals[:length, :length], expected, rtol=0, atol=10 * form.value)
        assert not marginals[length:].any()
        assert not marginals[:, length:].any()
        by_symbol = symbol_shares(rules, log_probs[own])
        for first, last in itertools.combinations(range(length), 2):
            assert int(found.labels[number, first, last]) == int(by_symbol[first, last].argmax())
        single = found.labels[number].diagonal()[:length]
        assert ((single >= rules.nonterminals) & (single < rules.nonterminals + rules.preterminals)).all()
        assert (found.labels[number, length:] == -1).all()


def symbol_shares(rules, log_probs):
    """(n, n, m) by the reference: the probability that a span has each nonterminal."""
    weights = torch.zeros(len(log_probs), len(log_probs), rules.nonterminals, dtype=torch.float64, requires_grad=True)
    return torch.autograd.grad(log_partition_reference(rules, log_probs, weights), weights)[0]


@pytest.mark.parametrize("kind", RULES)
def test_prefix_probabilities_equal_the_reference_and_add_up(kind):
    rules, lengths = RULES[kind](), [2, 6, 4]
    words, log_probs = text(lengths), word_log_probs(8, 4)
    found = inside.prefix_log_probs(rules, log_probs, words, Layout(lengths))
    totals = expected_log_partition(rules, log_probs, words, lengths)
    for number, own in enumerate(words.split(lengths)):
        expected = prefix_log_probs_reference(rules, log_probs[own])
        torch.testing.assert_close(found.prefixes[number, : len(own)], expected, rtol=0, atol=1e-9)
        torch.testing.assert_close(found.sentences[number, len(own) - 1], totals[number], rtol=0, atol=1e-9)
        assert torch.isinf(found.prefixes[number, len(own) :]).all()


@pytest.mark.parametrize("kind", RULES)
def test_next_word_and_end_add_up_to_one(kind):
    rules, log_probs = RULES[kind](), word_log_probs(8, 4)
    prefix = [3, 1, 7]
    words = torch.tensor([word for last in range(8) for word in (*prefix, last)])
    found = inside.prefix_log_probs(rules, log_probs, words, Layout([4] * 8))
    continued = found.prefixes[:, 3].exp().sum()
    ended = found.sentences[0, 2].exp()
    assert float(continued + ended) == pytest.approx(float(found.prefixes[0, 2].exp()), rel=1e-9)


@pytest.mark.parametrize("kind", RULES)
def test_next_words_are_the_prefix_probabilities_of_every_continuation(kind):
    """Prefixes of no, one, two and several words are in one batch, in any order."""
    rules, log_probs = RULES[kind](), word_log_probs(8, 4)
    prefixes = [[3], [], [5, 5, 2, 0, 7], [1, 2], [], [6, 0, 1], [4], [7, 7, 7, 7, 7], [2, 1]]
    words = torch.tensor([word for prefix in prefixes for word in prefix])
    found = inside.next_words(rules, log_probs, words, tuple(map(len, prefixes)))
    assert found.weights.shape == (len(prefixes), 4)
    assert found.weights.dtype == found.scales.dtype == torch.float64
    assert not found.weights.requires_grad
    values = torch.log(found.weights @ log_probs.detach().exp().T) + found.scales[:, None]
    for row, prefix in zip(values, prefixes, strict=True):
        expected = [prefix_log_probs_reference(rules, log_probs[[*prefix, word]])[-1] for word in range(8)]
        torch.testing.assert_close(row, torch.stack(expected).detach(), rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", RULES)
def test_one_chart_gives_the_next_words_after_each_prefix(kind):
    rules, log_probs = RULES[kind](), word_log_probs(8, 4)
    sentences = [[3, 1, 7, 0], [], [5], [2, 2, 6, 1]]
    words = torch.tensor([word for sentence in sentences for word in sentence])
    found = inside.next_words_after_each(rules, log_probs, words, tuple(map(len, sentences)))
    for sentence, after in zip(sentences, found, strict=True):
        prefixes = [sentence[:end] for end in range(len(sentence) + 1)]
        words = torch.tensor([word for prefix in prefixes for word in prefix], dtype=torch.long)
        expected = inside.next_words(rules, log_probs, words, tuple(map(len, prefixes)))
        torch.testing.assert_close(after.weights, expected.weights, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(after.scales, expected.scales, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", [kind for kind in RULES if kind != "table"])
@pytest.mark.parametrize("shift", [0, 20])
def test_a_chart_that_grows_gives_the_same_next_words_and_sentences(kind, shift):
    rules, log_probs = RULES[kind](), word_log_probs(8, 4) - shift
    sentences = [[3, 1, 7, 0, 5, 5], [2, 2, 6, 1, 0, 4], [0, 4, 4, 4, 1, 7]]
    chart = inside.empty_chart(rules, log_probs, log_probs.exp(), len(sentences))
    expected = inside.next_words_after_each(rules, log_probs, torch.tensor(sentences).flatten(), (6, 6, 6))
    whole = inside.prefix_log_probs(rules, log_probs, torch.tensor(sentences).flatten(), Layout([6, 6, 6]))
    for count in range(7):
        weights, scales = (torch.stack(parts)[:, count] for parts in zip(*expected, strict=True))
        wanted = torch.log(weights @ log_probs.detach().exp().T) + scales[:, None]
        torch.testing.assert_close(chart.next_words(), wanted, rtol=1e-11, atol=1e-11)
        assert chart.is_finite
        if count == 6:
            break
        if count:
            torch.testing.assert_close(chart.prefixes, whole.prefixes[:, count - 1], rtol=1e-11, atol=1e-11)
            torch.testing.assert_close(chart.wholes, whole.sentences[:, count - 1], rtol=1e-11, atol=1e-11)
        chart = chart.with_words(torch.tensor([sentence[count] for sentence in sentences]))


@pytest.mark.parametrize("shift", [0, 80, 200])
def test_next_words_in_float32_are_exact_for_improbable_words_too(shift):
    rules, log_probs = factored(3, 4, None), word_log_probs(8, 4).detach()
    log_probs[2:5] -= shift  # at 80 near the end of the range of float32, at 200 beyond it
    log_probs[7] = -math.inf
    words = torch.tensor([5, 6, 1])
    (after,) = inside.next_words_after_each(rules, log_probs, words, (3,))
    wanted = torch.logsumexp(after.weights.log()[:, None] + log_probs.float().double(), -1) + after.scales[:, None]
    single = log_probs.float()
    torch.testing.assert_close(after.log_probs(single, single.exp()), wanted, rtol=0, atol=1e-6)
    assert (wanted[:, 7] == -math.inf).all()


def test_a_chart_after_an_impossible_word_is_not_finite():
    rules, log_probs = factored(3, 4, None), word_log_probs(8, 4).detach().clone()
    log_probs[5] = -math.inf
    chart = inside.empty_chart(rules, log_probs, log_probs.exp(), 2).with_words(torch.tensor([1, 5]))
    assert not chart.is_finite


@pytest.mark.parametrize(("kind", "length", "shift"), [("simple", 150, 4), ("rank above m", 36, 20), ("table", 36, 20)])
def test_next_words_of_long_prefixes_do_not_underflow(kind, length, shift):
    rules, log_probs = RULES[kind](), word_log_probs(8, 4) - shift
    prefix = text([length])
    found = inside.next_words(rules, log_probs, prefix, (length,))
    values = torch.log(found.weights[0] @ log_probs.detach().exp().T) + found.scales[0]
    assert (values < -745).all(), "its exponential is 0 in float64"
    words = torch.cat([prefix, torch.tensor([5])])
    expected = inside.prefix_log_probs(rules, log_probs, words, Layout([length + 1])).prefixes[0, length]
    torch.testing.assert_close(values[5], expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("form", ["independent", "table"])
def test_impossible_spans_do_not_make_prefix_probabilities_nan(form):
    """S -> A B' | A B, B' -> S B: n words a, then n words b. No other span has a derivation."""
    left, right = torch.zeros(2, 2, 4, dtype=torch.float64)  # symbols S, B'; then A, B
    left[0, 2], right[0, 1], right[0, 3] = 1, 0.4, 0.6
    left[1, 0], right[1, 3] = 1, 1
    root = torch.tensor([1, 0], dtype=torch.float64)
    rules = FactoredRules(root, left, right)
    if form == "table":
        rules = TableRules(root, rules.table())
    log_probs = torch.tensor([[1, 0], [0, 1]], dtype=torch.float64).log()
    text = [[0, 0, 0, 1, 1, 1], [0, 1, 1, 0], [0, 1]]
    words, lengths = torch.tensor([word for sentence in text for word in sentence]), [6, 4, 2]
    found = inside.prefix_log_probs(rules, log_probs, words, Layout(lengths))
    opened, closed, none = [0, math.log(0.4), math.log(0.16)], math.log(0.6), -math.inf
    assert found.prefixes[0].tolist() == pytest.approx([*opened, math.log(0.16) + closed] + [math.log(0.096)] * 2)
    assert found.sentences[0].tolist() == pytest.approx([none] * 5 + [math.log(0.096)])
    assert found.prefixes[1].tolist() == pytest.approx([0, closed, none, none, none, none])
    assert found.sentences[1].tolist() == pytest.approx([none, closed, none, none, none, none])
    expected = inside.log_partition(rules, log_probs, words, Layout(lengths))
    torch.testing.assert_close(expected, found.sentences[[0, 1, 2], [5, 3, 1]])
    values = inside.next_words(rules, log_probs, torch.tensor([0, 0, 1, 0, 1]), (3, 2))
    values = torch.log(values.weights @ log_probs.exp().T) + values.scales[:, None]
    assert values[0].tolist() == pytest.approx([none, math.log(0.24)])
    assert values[1].tolist() == [none, none]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_blocks_of_sentences_change_nothing(monkeypatch, dtype):
    lengths = [5, 2, 9, 9, 3, 7, 4]
    rules, log_probs, words = factored(64, 128, None), word_log_probs(8, 128), text(lengths)
    layout = Layout(lengths)

    def results():
        given = converted(rules, torch.float32)
        emissions = log_probs.detach().float().requires_grad_()
        sides = [part.detach().requires_grad_() for part in (given.root, given.left, given.right)]
        with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            found = inside.log_partition(FactoredRules(*sides), emissions, words, layout)
            found.sum().backward()
            marginals = inside.posteriors(FactoredRules(*sides), emissions, words, layout).marginals
        return found, marginals, emissions.grad, *(side.grad for side in sides)

    together = results()
    monkeypatch.setattr(partition, "BLOCK_PROBABILITIES", 64 * 50)
    assert len(layout.blocks(50)) == 4
    for one, other in zip(together, results(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("form", FORMS[:4], ids=str)
def test_rules_that_are_no_numbers_give_no_finite_value(form):
    rules, log_probs = converted(factored(5, 6, None), form.dtype), word_log_probs(8, 6).detach().to(form.dtype)
    left = rules.left.detach().clone()
    left[1] = torch.nan
    rules = FactoredRules(rules.root.detach(), left, rules.right.detach())
    with form.running("inside"):
        found = inside.log_partition(rules, log_probs, text([5]), Layout([5]))
        assert found.isnan()
        assert inside.posteriors(rules, log_probs, text([5]), Layout([5])).log_probs.isnan()


@pytest.mark.parametrize("form", FORMS[:4], ids=str)
def test_words_that_are_no_numbers_give_nan_in_value_and_gradients(form):
    rules, log_probs = converted(factored(5, 6, None), form.dtype), word_log_probs(8, 6).detach().to(form.dtype)
    words = text([5, 4])
    log_probs[words[2]] = torch.nan
    assert int((words == words[2]).sum()) == int((words[:5] == words[2]).sum())
    with form.running("inside"):
        found = inside.log_partition(rules, log_probs.requires_grad_(), words, Layout([5, 4]))
        assert found.isnan().tolist() == [True, False]
        assert all(grad.isnan().any() for grad in torch.autograd.grad(found[0], [rules.left, rules.root, log_probs]))


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize("form", FORMS[:4], ids=str)
def test_an_impossible_word_makes_its_sentence_impossible_and_no_other(kind, form):
    rules, log_probs = converted(RULES[kind](), form.dtype), word_log_probs(8, 4).detach().to(form.dtype)
    words = torch.tensor([0, 1, 2, 3, 4, 5, 6])
    log_probs[words[:2]] = -torch.inf
    with form.running(None if kind == "table" else "inside"):
        found = inside.log_partition(rules, log_probs, words, Layout([4, 3])).detach()
    assert found[0] == -torch.inf
    expected = expected_log_partition(rules, log_probs, words, [4, 3]).detach()
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=0, check_dtype=False)


@pytest.mark.parametrize("form", FORMS[1:4], ids=str)
def test_a_sentence_too_improbable_for_float32_has_the_probability_0(form):
    left, right = torch.full((2, 2, 4), 1e-21)
    with form.running("inside"):
        rules, log_probs = FactoredRules(torch.tensor([1.0, 0]), left, right), torch.tensor([[0.0, -1], [-1, 0]])
        assert inside.log_partition(rules, log_probs, torch.arange(2), Layout([2])).tolist() == [-math.inf]


@pytest.mark.parametrize("rare", [1e-12, 0.0])
@pytest.mark.parametrize("form", PARTITION_FORMS, ids=str)
def test_probable_parts_without_a_rule_do_not_hide_improbable_parts_with_a_rule(rare, form):
    """Of the sentence a b c, the span b c is certain, and the span a b has 1e-18; but only the latter fits the root."""
    left, right = torch.full((2, 3, 6), rare, dtype=torch.float64)
    left[0, 2] = right[0, 5] = 1  # S -> Y c
    left[1, 4] = right[1, 5] = 1  # X -> b c
    left[2, 3], right[2, 4] = 3e-9, 3e-10  # Y -> a b
    left[2, 0] = right[2, 0] = 1
    rules = FactoredRules(torch.tensor([1.0, 0, 0], dtype=torch.float64), left, right)
    log_probs = torch.full((3, 3), 1e-12, dtype=torch.float64).fill_diagonal_(1).log()
    with form.running("inside"):
        given = converted(rules, form.dtype), log_probs.to(form.dtype), torch.arange(3), Layout([3])
        found = inside.posteriors(*given)
    expected = log_partition_reference(rules, log_probs)
    assert float(found.log_probs) == pytest.approx(float(expected), abs=0.01 if form.low else 1e-5)
    assert float(found.marginals[0, 0, 1]) == pytest.approx(1, abs=0.02)


def test_a_root_that_changes_before_backward_raises_an_error():
    rules = factored(3, 4, None)
    root = rules.root.detach().requires_grad_()
    changed = FactoredRules(root, rules.left, rules.right)
    result = inside.log_partition(changed, word_log_probs(8, 4), text([4]), Layout([4]))
    with torch.no_grad():
        root.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_long_sentences_do_not_underflow_or_overflow():
    rules, log_probs = factored(5, 6, None), word_log_probs(8, 6) - 30
    words = text([200])
    found = inside.log_partition(converted(rules, torch.float32), log_probs.float(), words, Layout([200]))
    expected = inside.log_partition(rules, log_probs, words, Layout([200]))
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=0)
    prefixes = inside.prefix_log_probs(rules, log_probs, words, Layout([200])).prefixes
    assert prefixes.isfinite().all()


@pytest.mark.parametrize("shape", FACTORED.values(), ids=FACTORED)
@pytest.mark.parametrize("length", [3, 4, 5, 8, 21, 40])
def test_blocks_of_a_long_chart_change_nothing(shape, length, monkeypatch):
    rules, log_probs, words = factored(*shape), word_log_probs(8, shape[1]), text([length, 2])
    expected = inside.prefix_log_probs(rules, log_probs, words, Layout([length, 2]))
    expected_next = inside.next_words_after_each(rules, log_probs, words, (length, 2))
    monkeypatch.setattr(inside.long, "BLOCK", 4)
    monkeypatch.setattr(inside.prefix, "LONG", 3)
    monkeypatch.setattr(inside.prefix, "WINDOW", 1)
    found = inside.prefix_log_probs(rules, log_probs, words, Layout([length, 2]))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    for one, other in zip(
        inside.next_words_after_each(rules, log_probs, words, (length, 2)), expected_next, strict=True
    ):
        scaled = other.weights * torch.exp(other.scales - one.scales)[:, None]
        torch.testing.assert_close(one.weights, scaled, rtol=1e-9, atol=1e-12)


def test_a_long_chart_that_would_leave_the_range_of_float64_is_computed_with_scales(monkeypatch):
    """A word that is expected of no preterminal, and values that are too large."""
    rules, log_probs, words = factored(4, 6, None), word_log_probs(8, 6).detach().clone(), text([40])
    log_probs[int(words[30])] = -math.inf
    log_probs[int(words[30]), 2] = -900
    expected = inside.prefix_log_probs(rules, log_probs, words, Layout([40]))
    assert expected.prefixes.isfinite().all()
    monkeypatch.setattr(inside.prefix, "LONG", 3)
    monkeypatch.setattr(inside.prefix, "WINDOW", 1)
    for most in (inside.long.LARGEST, 1e-3):
        monkeypatch.setattr(inside.long, "LARGEST", most)
        found = inside.prefix_log_probs(rules, log_probs, words, Layout([40]))
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.long
def test_a_long_chart_takes_less_time_than_one_with_scales(monkeypatch):
    """Of 1,000 words and 256 symbols, a sixteenth of the time: 14 seconds of one core."""
    rules, log_probs, words = factored(128, 128, None), word_log_probs(8, 128), text([300])

    def seconds():
        before = time.process_time()
        inside.prefix_log_probs(rules, log_probs, words, Layout([300]))
        return time.process_time() - before

    blocks = seconds()
    monkeypatch.setattr(inside.prefix, "LONG", 301)
    assert blocks < 0.9 * seconds()


@pytest.mark.skipif(not products.tiles_usable(32), reason="needs AMX or AVX-512 for bfloat16")
@pytest.mark.parametrize(("rows", "inner", "columns"), [(1, 32, 32), (17, 64, 96), (45, 512, 1024), (9000, 64, 32)])
def test_tiles_equal_torch_for_any_number_of_rows(rows, inner, columns):
    inputs, weight = torch.randn(rows, inner).bfloat16(), torch.randn(columns, inner).bfloat16()
    expected = inputs.float() @ weight.float().T
    by_rows, by_columns = (
        products.product_into(factor, columns, tiled=True)
        for factor, columns in ((weight, False), (weight.T.contiguous(), True))
    )
    for product in (by_rows, by_columns):
        torch.testing.assert_close(product(inputs, torch.empty(rows, columns)), expected, rtol=1e-4, atol=1e-4)
        low = product(inputs, torch.empty(rows, columns, dtype=torch.bfloat16))
        torch.testing.assert_close(low, expected.bfloat16(), rtol=1e-2, atol=1e-2)
    left, right = torch.randn(rows, inner).bfloat16(), torch.randn(rows, columns).bfloat16()
    sums = products.product_of_sums(left, right, tiled=True)
    torch.testing.assert_close(sums, left.float().T @ right.float(), rtol=1e-4, atol=2e-3)
    parts = by_rows(torch.cat([inputs, inputs], 1)[:, :inner], torch.empty(rows, 2 * columns)[:, :columns])
    torch.testing.assert_close(parts, expected, rtol=1e-4, atol=1e-4)


def test_layout_has_exactly_one_row_per_span():
    layout = Layout([3, 6, 2, 6])
    sentence, first, width = layout.spans
    assert layout.rows == sum(n * (n + 1) // 2 for n in (3, 6, 2, 6))
    assert torch.equal(layout.row(sentence, first, width), torch.arange(layout.rows))
    assert (first + width <= layout.lengths[sentence]).all()
    values = torch.arange(1.0, layout.rows + 1)
    assert torch.equal(layout.flat(layout.squares(values)), values)


def test_blocks_have_every_row_of_their_sentences_once():
    layout = Layout([5, 2, 9, 9, 3, 2, 7])
    blocks = layout.blocks(60)
    assert [sentence for block in blocks for sentence in block] == list(range(7))
    assert [len(block) for block in blocks] == [1, 1, 5]
    sentence, _, _ = layout.spans
    for width in range(2, 10):
        rows = []
        for block in blocks:
            inner, whole, sentences = layout.of_block(width, block)
            assert set(sentence[inner].tolist()) <= set(block)
            assert layout.whole_rows[sentences].tolist() == list(range(whole.start, whole.stop))
            rows += [*range(inner.start, inner.stop), *range(whole.start, whole.stop)]
        assert rows == list(range(*layout.of_width(width).indices(layout.rows)))


@pytest.mark.parametrize("lengths", [[], [1], [3, 1]])
def test_sentences_of_one_word_raise_an_error(lengths):
    with pytest.raises(ValueError, match="at least two words"):
        Layout(lengths)


def test_rules_of_inconsistent_shapes_raise_an_error():
    with pytest.raises(ValueError, match="expected"):
        FactoredRules(torch.ones(3), torch.ones(4, 8), torch.ones(4, 8))
    with pytest.raises(ValueError, match="expected"):
        TableRules(torch.ones(3), torch.ones(3, 8, 7))
