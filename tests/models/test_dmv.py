"""The dependency model with valence: golden values by enumeration, EM, the harmonic start, and samples."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
import torch

from syntaxlm.core.errors import InputError
from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.dmv import DMV, DMVConfig, harmonic_counts
from syntaxlm.ops.dmv import LEFT, RIGHT, expected_counts, tree_log_prob
from tests.golden import FOLDERS
from tests.models.variants import BOS, EOS

GOLDEN = sorted(path for folder in FOLDERS for path in folder.glob("dmv*.npz"))
FIRST = 3  # id of the first word


def batch_of(sentences, closed=False):
    """A batch of sentences, longest first, with EOS read if `closed`."""
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    tokens = torch.full((int(lengths.max()) + 2, len(sentences)), EOS)
    tokens[0] = BOS
    for column, sentence in enumerate(sentences):
        tokens[1 : len(sentence) + 1, column] = torch.as_tensor(sentence)
    if closed:
        return TokenBatch(tokens, tokens, lengths + 2)
    return TokenBatch(tokens[:-1], tokens[1:], lengths + 1)


def with_tables(arrays, number):
    """The model of a round of a golden file, in which the first tag is the first word of the vocabulary."""
    root, stop, choose = (torch.from_numpy(arrays[f"round.{number}.{name}"]) for name in ("root", "stop", "choose"))
    model = DMV(DMVConfig(), FIRST + len(root))
    model.started.fill_(1)
    model.root[FIRST:], model.stop[FIRST:], model.choose[FIRST:, :, FIRST:] = root, stop, choose
    model.choose[:, :, :FIRST] = model.root[:FIRST] = 0
    return model


def rounds_of(arrays):
    """The number of rounds in a golden file."""
    return len({name.split(".")[1] for name in arrays if name.startswith("round.")})


def golden_sentences(arrays):
    """The sentences of a golden file, longest first, with their numbers."""
    count = len([name for name in arrays if name.endswith(".tags")])
    found = [(arrays[f"sentence.{number}.tags"] + FIRST, number) for number in range(count)]
    return sorted(found, key=lambda pair: -len(pair[0]))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_probabilities_arcs_and_best_trees_are_those_of_the_enumeration(path):
    arrays = dict(np.load(path))
    sentences = golden_sentences(arrays)
    words = [tags for tags, _ in sentences]
    for number in range(rounds_of(arrays)):
        model = with_tables(arrays, number)
        log_probs = model.sentence_log_probs(batch_of(words))
        heads = model.structure(batch_of(words, closed=True)).values
        for column, (tags, sentence) in enumerate(sentences):
            own, size = f"round.{number}.sentence.{sentence}.", len(tags)
            assert log_probs[column].item() == pytest.approx(float(arrays[own + "log_prob"]), rel=1e-12)
            decisions = model.decisions(torch.tensor(tags)[None])
            counts = expected_counts(decisions).counts
            expected = torch.from_numpy(arrays[own + "arc_marginals"])
            torch.testing.assert_close(counts.attached[0], expected, rtol=0, atol=1e-12)
            best = (arrays[own + "viterbi_heads"] + 1).tolist()  # another tree may be as probable
            found = tree_log_prob(decisions, heads[column, :size].tolist())
            assert found.item() == pytest.approx(tree_log_prob(decisions, best).item(), rel=1e-12)
            assert (heads[column, size:] == -1).all()


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_round_of_em_gives_the_parameters_of_the_enumeration(path):
    arrays = dict(np.load(path))
    batch = batch_of([tags for tags, _ in golden_sentences(arrays)])
    model = with_tables(arrays, 0)
    for number in range(1, rounds_of(arrays)):
        model.accumulate(batch)
        model.maximise()
        expected = with_tables(arrays, number)
        for name in ("root", "stop", "choose"):
            found, table = getattr(model, name)[FIRST:], getattr(expected, name)[FIRST:]
            torch.testing.assert_close(found, table, rtol=1e-9, atol=1e-12)


SENTENCES = [[3, 4, 5, 3, 4], [4, 3, 3, 5, 6], [5, 3, 4], [3, 4], [6, 3], [7]]


@pytest.mark.parametrize("valence", [True, False])
def test_the_likelihood_never_falls(valence):
    model, batch = DMV(DMVConfig(valence=valence), 9), batch_of(SENTENCES)
    objectives = []
    for _ in range(15):
        model.accumulate(batch)
        objectives += model.maximise().values()
    assert len(objectives) == 14, "the first round only counts the harmonic start"
    assert all(later <= earlier + 1e-12 for earlier, later in pairwise(objectives))
    assert objectives[0] - objectives[-1] > 0.1
    assert (model.stop[FIRST:, :, 0] == model.stop[FIRST:, :, 1]).all() == (not valence)


def test_harmonic_start_of_one_sentence():
    """The word in the middle depends on the others equally; a word at the end, 2 to 1 on the closer one."""
    model = DMV(DMVConfig(), 8)
    model.accumulate(batch_of([[3, 4, 5]]))
    model.maximise()
    torch.testing.assert_close(model.root[FIRST:6], torch.full((3,), 1 / 3, dtype=torch.float64))
    near, far, half = (2 / 3 * mass for mass in (2 / 3, 1 / 3, 1 / 2))
    assert model.choose[4, LEFT, 3] == model.choose[4, RIGHT, 5] == 1
    torch.testing.assert_close(model.choose[3, RIGHT, 4:6], torch.tensor([half, far]).double() / (half + far))
    assert model.stop[4, LEFT].tolist() == pytest.approx([1 / (1 + near)] * 2)
    assert model.stop[3, RIGHT].tolist() == pytest.approx([1 / (1 + half + far)] * 2)
    assert model.stop[3, LEFT].tolist() == [1, 1]
    assert model.stop[6].tolist() == [[0.5, 0.5], [0.5, 0.5]], "0/0 keeps the value"


@pytest.mark.parametrize("words", [1, 2, 6])
def test_every_word_has_one_head_or_is_the_root_at_the_harmonic_start(words):
    counts = harmonic_counts(2, words)
    torch.testing.assert_close(counts.root + counts.arcs.sum(1), torch.ones(2, words, dtype=torch.float64))
    torch.testing.assert_close(counts.go.sum(2)[..., 0], counts.arcs.sum(2))


def test_the_probabilities_of_all_sentences_add_up_to_one():
    """No end of the sentence is needed: if words stop often, nearly all of the mass is on short sentences."""
    model = DMV(DMVConfig(), 5)
    generator = torch.Generator().manual_seed(1)
    model.stop.copy_(1 - 0.08 * torch.rand(5, 2, 2, generator=generator, dtype=torch.float64))
    model.choose[:, :, 0] = model.root[0] = 0
    model.root[FIRST:] = torch.tensor([0.3, 0.7])
    model.choose[:, :, FIRST:] = torch.tensor([[0.4, 0.6], [0.9, 0.1]])
    total = 0.0
    for length in range(1, 9):
        total += float(model.sentence_log_probs(batch_of(list(product([3, 4], repeat=length)))).exp().sum())
        assert total < 1
    assert total == pytest.approx(1, abs=1e-5)


def test_impossible_sentences_have_probability_0_and_a_tree():
    model = DMV(DMVConfig(), 9)
    model.accumulate(batch_of([[3, 4], [5]]))
    model.maximise()
    assert model.sentence_log_probs(batch_of([[5, 3, 4], [3, 4], [8]])).isinf().tolist() == [True, False, True]
    heads = model.structure(batch_of([[5, 3, 4], [3, 4], [8]], closed=True)).values
    assert sorted(heads[0].tolist()).count(0) == 1
    assert heads[0, 1:].tolist() in ([3, 0], [0, 2], [1, 2], [3, 1]), "the possible arc between 3 and 4 is used"
    smoothed = DMV(DMVConfig(smoothing=0.1), 9)
    smoothed.accumulate(batch_of([[3, 4], [5]]))
    smoothed.maximise()
    assert smoothed.sentence_log_probs(batch_of([[5, 3, 4], [3, 4], [8]])).isfinite().all()
    torch.testing.assert_close(smoothed.choose.sum(-1), torch.ones(9, 2, dtype=torch.float64))
    assert smoothed.choose[:, :, [BOS, EOS]].sum() == 0


def test_samples_have_the_frequencies_of_the_model():
    model = DMV(DMVConfig(), 6)
    model.started.fill_(1)
    model.stop.fill_(0.8)
    model.root.copy_(torch.tensor([0.1, 0, 0, 0.5, 0.3, 0.1]))
    samples = model.sample(4000, 20, np.random.default_rng(1))
    sentences = [sample.words for sample in samples]
    for words in ((3,), (4,), (3, 4), (0, 3)):
        probability = float(model.sentence_log_probs(batch_of([words])).exp())
        assert sentences.count(words) / 4000 == pytest.approx(probability, abs=4 * (probability / 4000) ** 0.5)
    longer = [sample for sample in samples if len(sample.words) > 1]
    assert all(sample.spans[0] == (0, len(sample.words) - 1, -1) for sample in longer)
    assert not any(0 in one.words for one in model.sample(200, 20, np.random.default_rng(1), omitted=1))


def test_samples_that_are_never_short_enough_are_an_error():
    model = DMV(DMVConfig(), 6)
    model.stop.fill_(0)
    with pytest.raises(InputError, match=r"none of 1,000 sampled sentences has at most 2 words"):
        model.sample(1, 2, np.random.default_rng(1))


def test_a_vocabulary_whose_table_is_too_large_is_an_error():
    with pytest.raises(InputError, match=r"found a vocabulary of 20,000 tokens.*text.vocabulary.maximum_size"):
        DMV(DMVConfig(), 20_000)
