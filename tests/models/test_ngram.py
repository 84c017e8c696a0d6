"""The n-gram model: distributions, agreement with KenLM, and model folders."""

from __future__ import annotations

import json
import math
import shutil
import time
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from syntaxlm.batches import SentenceBatches, StreamBatches
from syntaxlm.core.errors import InputError
from syntaxlm.core.tensor_files import read_tensors, write_tensors
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.evaluation.perplexity import evaluate_text
from syntaxlm.generation.options import SamplingOptions
from syntaxlm.generation.sentences import generate
from syntaxlm.models.abilities import ParsesSentences
from syntaxlm.models.batches import TextMode, TokenBatch
from syntaxlm.models.ngram import LOG10_NEVER, NGramConfig, NGramModel
from syntaxlm.ops.kneser_ney import KneserNeyReference
from syntaxlm.scoring.engine import Scorer
from syntaxlm.scoring.surprisal import surprisals
from syntaxlm.storage.arpa import read_arpa
from syntaxlm.storage.folder import CONFIG, WEIGHTS, read_model
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.training.recipe import read_recipe
from syntaxlm.training.result import read_result
from syntaxlm.training.run import resume, train
from tests.models.variants import log_probs, word_log_probs
from tests.shared_data import DATA

KENLM = (
    Path(__file__).parents[1] / "golden_data" / "kenlm"
)  # output of lmplz and query for the texts in the same folder
BEGIN, END, UNKNOWN, WORDS = 1, 2, 0, 7


def count(model, batches):
    """Trains a model on a text. Returns the results of `maximise`."""
    for batch in batches:
        model.accumulate(batch)
    return model.maximise()


def counted(sentences, mode="sentences", **config):
    """A model of sentences of word ids, and its vocabulary."""
    words = [chr(ord("a") + number) for number in range(WORDS)]
    if mode == "sentences":
        vocabulary = Vocabulary(["<unk>", "<s>", "</s>", *words[3:]])
    else:
        vocabulary = Vocabulary(["<unk>", words[1], "<eos>", *words[3:]], begin="<eos>", end="<eos>")
    corpus = EncodedCorpus.from_sentences(sentences)
    model = NGramModel(NGramConfig(**config), WORDS)
    if mode == "sentences":
        count(model, SentenceBatches(corpus, vocabulary, 20, shuffle=False, seed=0).iterate(0))
    else:
        count(model, StreamBatches(corpus, vocabulary, 1, 5).iterate())
    return model.eval(), vocabulary


texts = st.lists(st.lists(st.integers(3, WORDS - 2), min_size=1, max_size=6), min_size=1, max_size=15)


@given(
    texts, st.integers(1, 5), st.sampled_from(["sentences", "stream"]), st.lists(st.integers(0, WORDS - 1), min_size=1)
)
def test_probabilities_of_all_words_sum_to_one_after_any_context(sentences, order, mode, context):
    """For seen, partly seen and unseen contexts, the unknown word, and words that are not in the text."""
    model, _ = counted(sentences, mode, order=order)
    read = [[BEGIN if mode == "sentences" else END, *sentences[0]], context]
    for tokens in read:
        column = torch.tensor(tokens)[:, None]
        batch = TokenBatch(column, column)
        every = word_log_probs(model, batch).movedim(-1, 0)
        torch.testing.assert_close(every.exp().sum(0), torch.ones_like(every[0]), rtol=0, atol=1e-12)
        torch.testing.assert_close(model.next_log_probs(batch)[0][0], every[:, -1, 0], rtol=0, atol=1e-12)
        assert every[UNKNOWN].exp().min() > 0
        assert every[WORDS - 1].exp().min() > 0, "a word of the vocabulary that the text has not"


@settings(max_examples=25, deadline=None)
@given(texts, st.integers(1, 4), texts)
def test_sentence_probabilities_equal_the_reference(sentences, order, others):
    model, _ = counted(sentences, order=order)
    reference = KneserNeyReference([[BEGIN, *sentence, END] for sentence in sentences], WORDS, order)
    for sentence in others[:3]:
        words = [BEGIN, *sentence, END]
        column = torch.tensor(words)[:, None]
        found = log_probs(model, TokenBatch(column[:-1], column[1:]))[:, 0].exp().tolist()
        expected = [reference.probability(word, tuple(words[:place])) for place, word in enumerate(words) if place]
        assert found == pytest.approx(expected, rel=1e-10)


def test_bos_is_read_and_never_predicted():
    model, vocabulary = counted([[3, 4], [4]], order=3)
    begin = torch.full((1, 1), vocabulary.begin_id)
    batch = TokenBatch(begin, begin)
    assert float(log_probs(model, batch)) < 0.9 * LOG10_NEVER * math.log(10)
    assert float(log_probs(NGramModel(NGramConfig(), WORDS), batch).exp()) == pytest.approx(1 / WORDS), (
        "before anything is counted"
    )


def test_the_state_has_the_tokens_the_order_needs_and_carries_over_the_batches_of_a_stream():
    stream = torch.randint(3, WORDS, (41, 3), generator=torch.Generator().manual_seed(1))
    model = NGramModel(NGramConfig(order=4), WORDS)
    count(model, [TokenBatch(stream[:-1], stream[1:])])
    whole = log_probs(model, TokenBatch(stream[:-1], stream[1:]))
    state, parts = None, []
    for begin in range(40):  # one token at a time: fewer than the state holds
        batch = TokenBatch(stream[begin : begin + 1], stream[begin + 1 : begin + 2], carries=begin > 0)
        scores = model.token_log_probs(batch, state)
        state = scores.state
        parts.append(scores.log_probs)
        assert state["tokens"].shape == (2, 3)
    torch.testing.assert_close(torch.cat(parts), whole, rtol=0, atol=1e-12)


def test_targets_that_are_not_the_next_input_are_scored():
    """Targets that are the next input share look-ups; here only some are."""
    model, _ = counted([[3, 4, 5, 3, 4], [4, 5, 3, 4, 3]], order=4)
    tokens = torch.tensor([[BEGIN, BEGIN], [3, 4], [4, 5], [5, 3]])
    follows = torch.cat([tokens[1:], torch.tensor([[3, 4]])])
    shared = log_probs(model, TokenBatch(tokens, follows))
    one_other = follows.clone()
    one_other[0, 0] = END
    apart = log_probs(model, TokenBatch(tokens, one_other))
    assert apart[0, 0] != shared[0, 0]
    shared[0, 0] = apart[0, 0]
    torch.testing.assert_close(apart, shared, rtol=0, atol=0)


def test_a_stream_is_counted_the_same_in_batches_of_any_length():
    sentences = [[3, 4, 5], [4], [5, 5, 3, 4]] * 3
    corpus = EncodedCorpus.from_sentences(sentences)
    _, vocabulary = counted(sentences, "stream")
    states = []
    for steps in (1, 4, 1000):
        model = NGramModel(NGramConfig(order=3), WORDS)
        count(model, StreamBatches(corpus, vocabulary, 1, steps).iterate())
        states.append(model.state_dict())
    assert all(torch.equal(tensor, other[name]) for other in states[1:] for name, tensor in states[0].items())


@pytest.mark.parametrize(
    ("text", "file", "order", "least", "fallbacks"),
    [
        ("train.txt", "model.arpa", 4, (1,), []),
        ("train.txt", "pruned.arpa", 4, (1, 2, 3), []),
        ("few.txt", "fallback.arpa", 3, (1,), [3]),
    ],
)
def test_probabilities_and_back_offs_equal_those_of_kenlm(text, file, order, least, fallbacks):
    """lmplz computes in single precision; -o ORDER, --prune 0 1 2, --discount_fallback."""
    theirs = read_arpa(KENLM / file)
    corpus = EncodedCorpus.encode(KENLM / text, Normaliser(), theirs.vocabulary)
    ours = NGramModel(NGramConfig(order=order, minimum_counts=least), len(theirs.vocabulary))
    figures = count(ours, SentenceBatches(corpus, theirs.vocabulary, 100, shuffle=False, seed=0).iterate(0))
    assert figures["fallback_discounts_of_orders"] == fallbacks
    for level, other in zip(ours.each_level, theirs.model.each_level, strict=True):
        assert torch.equal(level.keys, other.keys)
        torch.testing.assert_close(level.log_probs, other.log_probs, rtol=0, atol=3e-7)
        torch.testing.assert_close(level.back_offs, other.back_offs, rtol=0, atol=3e-7)


def test_sentences_are_scored_word_by_word_as_kenlm_does():
    """Known words after known and unknown ones, and a word that is not in the vocabulary."""
    stored = read_arpa(KENLM / "model.arpa")
    lines = (KENLM / "queries.txt").read_text().splitlines()
    expected = [[float(number) for number in line.split()] for line in (KENLM / "scores.txt").read_text().splitlines()]
    rows = list(surprisals(stored, lines))
    found = [[-row.surprisal * math.log10(2) for row in sentence] for sentence in rows]
    assert len(found) == len(expected) == 4
    for one, other in zip(found, expected, strict=True):
        assert one == pytest.approx(other, abs=1e-6)
    sums = Scorer.of(stored).sentences([line.split() for line in lines]) / math.log(10)
    assert sums == pytest.approx([sum(one) for one in expected], abs=1e-5)


@pytest.fixture(scope="module")
def run(toy, tmp_path_factory):
    """A folder of a trained model, and its training result."""
    folder = tmp_path_factory.mktemp("kn") / "run"
    recipe = read_recipe("kn5-toy", [(f"text.{part}", str(toy / f"{part}.txt")) for part in ("train", "valid", "test")])
    return folder, train(recipe, folder)


def test_training_counts_scores_and_writes_a_complete_folder(run, toy):
    folder, result = run
    assert {path.name for path in folder.iterdir()} == {
        "config.json", "inputs.json", "metrics.jsonl", "recipe.yaml", "result.json", "vocabulary.json",
        "weights.safetensors",
    }  # fmt: skip
    stored = read_model(folder)
    assert result.test.nats == pytest.approx(evaluate_text(stored, toy / "test.txt").nats, rel=1e-12)
    assert result.epochs == 1
    assert 20 < result.test.perplexity < 0.3 * len(stored.vocabulary)
    assert result.counted["ngrams"] == [len(level.keys) for level in stored.model.each_level]
    assert stored.model.parameter_count == 2 * sum(result.counted["ngrams"][:-1]) + result.counted["ngrams"][-1]
    assert read_result(folder) == result
    assert str(result).startswith(f"{folder}: counted in ")
    assert f"ngrams: {len(stored.vocabulary):,}  " in str(result)


def test_a_resumed_run_is_counted_again_to_the_same_weights(run, tmp_path):
    folder = shutil.copytree(run[0], tmp_path / "run")
    (folder / "result.json").unlink()
    resumed = resume(folder)
    assert (folder / WEIGHTS).read_bytes() == (run[0] / WEIGHTS).read_bytes()
    assert resumed.test == run[1].test
    (folder / WEIGHTS).unlink()  # as a run that was killed while it counted
    resume(folder)
    assert (folder / WEIGHTS).read_bytes() == (run[0] / WEIGHTS).read_bytes()


def test_long_sentences_are_excluded_but_not_in_a_stream(toy, tmp_path):
    texts = [(f"text.{part}", str(toy / f"{part}.txt")) for part in ("train", "valid", "test")]
    counts = []
    for name, setting in (("all", []), ("short", [("batches.maximum_words", "6")])):
        counts.append(train(read_recipe("kn5-toy", texts + setting), tmp_path / name).counted["ngrams"][-1])
    recipe = read_recipe("kn5-toy", [*texts, ("batches.context", "carry")])
    result = train(recipe, tmp_path / "stream")
    assert counts[1] < counts[0] < result.counted["ngrams"][-1]
    assert result.valid.mode == TextMode(carry_state=True, predict_eos=True)
    assert read_model(tmp_path / "stream").vocabulary.begin == "<eos>"


def test_sentences_are_generated_and_the_model_has_no_trees(run):
    stored = read_model(run[0])
    sentences = list(generate(stored, 3, "the", SamplingOptions(seed=4)))
    assert all(sentence.tokens[0] == "the" for sentence in sentences)
    for sentence in sentences:
        bits = sentence.surprisals[: len(sentence.tokens)]
        rows = next(iter(surprisals(stored, [sentence.text])))
        assert bits == pytest.approx([row.surprisal for row in rows[:-1]], rel=1e-5)
    assert not isinstance(stored.model, ParsesSentences)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("levels.2.keys", lambda keys: keys.flip(0), "levels.2.keys must increase from 0 to below"),
        ("levels.1.keys", lambda keys: torch.cat([keys[:-1], keys[-1:] + 10**12]), "levels.1.keys must increase"),
        ("levels.4.keys", lambda keys: torch.cat([keys[:1] * 0 - 5, keys[1:]]), "levels.4.keys must increase"),
        ("levels.3.log_probs", lambda log_probs: log_probs[:-1], "levels.3.log_probs has shape"),
        ("levels.1.keys", lambda keys: keys[None], "levels.1.keys has shape"),
        ("levels.1.back_offs", lambda back_offs: None, "levels.1.back_offs is missing"),
        ("levels.5.keys", lambda absent: torch.zeros(1), "levels.5.keys does not belong to"),
    ],
)
def test_weights_that_are_not_n_grams_raise_an_error(run, tmp_path, name, change, message):
    folder = shutil.copytree(run[0], tmp_path / "damaged")
    tensors, notes = read_tensors(folder / WEIGHTS)
    tensors[name] = change(tensors.get(name))
    write_tensors(folder / WEIGHTS, {key: tensor for key, tensor in tensors.items() if tensor is not None}, notes)
    with pytest.raises(InputError) as caught:
        read_model(folder)
    assert WEIGHTS in str(caught.value)
    assert message in str(caught.value)


def test_an_order_that_does_not_match_the_weights_raises_an_error(run, tmp_path):
    folder = shutil.copytree(run[0], tmp_path / "run")
    data = json.loads((folder / CONFIG).read_text())
    for order, message in ((6, "levels.5.keys is missing"), (4, "levels.4.keys does not belong to this model")):
        data["model"]["order"] = order
        (folder / CONFIG).write_text(json.dumps(data))
        with pytest.raises(InputError, match=message):
            read_model(folder)


def test_text_of_unknown_words_alone_has_a_perplexity(run, tmp_path):
    (tmp_path / "odd.txt").write_text("xyzzy plugh\nqwerty\n")
    score = evaluate_text(read_model(run[0]), tmp_path / "odd.txt")
    assert score.unknown == 3
    assert math.isfinite(score.perplexity)


def test_a_model_of_characters_counts_them(toy, tmp_path):
    texts = [(f"text.{part}", str(toy / f"{part}.txt")) for part in ("train", "valid", "test")]
    recipe = read_recipe("kn5-toy", [*texts, ("text.normaliser.units", "characters"), ("model.order", "7")])
    assert 0.5 < train(recipe, tmp_path / "run").test.bits_per_character < 2.5


@pytest.mark.long
@pytest.mark.skipif(not (DATA / "ptb").is_dir(), reason=f"the Penn Treebank text is not in {DATA}")
def test_penn_treebank_has_the_published_perplexity_within_seconds(tmp_path):
    """KN5 of Mikolov et al. 2011: 141.2 on the test text."""
    began = time.process_time()
    texts = {f"text.{part}": str(DATA / "ptb" / f"ptb.{part}.txt") for part in ("train", "valid", "test")}
    normaliser = {"text.normaliser.lower_case": True, "text.normaliser.numbers": "whole"}
    result = train(read_recipe("kn5-toy", texts | normaliser), tmp_path / "run")
    assert time.process_time() - began < 30
    assert result.test.perplexity == pytest.approx(141.2, abs=0.05)
    assert result.test.tokens == 82_430
    assert result.counted["fallback_discounts_of_orders"] == []


@pytest.mark.long
def test_a_hundred_thousand_tokens_a_second_are_scored():
    generator = torch.Generator().manual_seed(1)
    stream = (torch.rand(300_001, 1, generator=generator) ** 3 * 10_000).long()
    model = NGramModel(NGramConfig(), 10_000)
    batch = TokenBatch(stream[:-1], stream[1:])
    count(model, [batch])
    began = time.process_time()
    log_probs(model, batch)
    assert 300_000 / (time.process_time() - began) > 100_000
