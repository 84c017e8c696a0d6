"""The scoring engine: log-probabilities independent of batching, for any model, in constant memory."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import tracemalloc
from collections import Counter
from itertools import product

import numpy as np
import pytest
import torch

from syntaxlm.core.errors import InputError
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.evaluation.perplexity import evaluate_text
from syntaxlm.models.abilities import Model, ScoresSentences, ScoresTokens, TokenScores
from syntaxlm.models.batches import TextMode, TokenBatch
from syntaxlm.scoring import engine
from syntaxlm.scoring.cache import CacheSettings
from syntaxlm.scoring.engine import Scorer
from syntaxlm.scoring.options import ScoreOptions
from syntaxlm.scoring.surprisal import surprisals
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.text.vocabulary import Vocabulary
from tests.fresh_models import OPEN, SENTENCES, STREAM, every_model, fresh, reading
from tests.models.mixture import MixtureOfUnigrams
from tests.models.variants import SENTENCE_VARIANTS, WORDS, names_with

TEXT = [["the", "cat", "sees"], [], ["nonsense"], ["a", "dog"] * 20, ["the", "cat", "sees"], ["old"]]
MODES = pytest.mark.parametrize("mode", [SENTENCES, STREAM, OPEN], ids=["sentences", "stream", "open"])
STREAM_OPEN = TextMode(carry_state=True, predict_eos=False)


def alone(stored: ModelBundle, sentence: list[str]) -> float:
    """The sum over the tokens of one sentence in its own batch."""
    vocabulary = stored.vocabulary
    ids = vocabulary.encode(sentence)
    tokens, targets = (torch.tensor(one)[:, None] for one in ([vocabulary.begin_id, *ids], [*ids, vocabulary.end_id]))
    with torch.no_grad():
        scores = stored.model.eval().token_log_probs(TokenBatch(tokens, targets))
    return float(scores.log_probs.double().sum())


def corpus_of(stored: ModelBundle, sentences: list[list[str]]) -> EncodedCorpus:
    return EncodedCorpus.from_sentences([stored.vocabulary.encode(sentence) for sentence in sentences])


def recording(stored: ModelBundle, monkeypatch) -> list[TokenBatch]:
    """Records all further batches of the model."""
    seen: list[TokenBatch] = []
    scoring = stored.model.token_log_probs

    def record(batch, state=None):
        seen.append(batch)
        return scoring(batch, state)

    monkeypatch.setattr(stored.model, "token_log_probs", record)
    return seen


def columns_of(seen: list[TokenBatch]) -> list[tuple[int, ...]]:
    """The targets of each real column."""
    return [
        tuple(batch.targets[batch.mask()[:, column], column].tolist())
        for batch in seen
        for column in range(batch.sentence_count())
    ]


# ---- sentences


@every_model
@pytest.mark.parametrize("together", [2, 100])
def test_the_log_probability_of_a_sentence_does_not_depend_on_others(monkeypatch, name, together):
    stored = fresh(name)
    monkeypatch.setattr(engine, "SENTENCES", together)
    monkeypatch.setattr(engine, "TOKEN_BUDGET", 16)
    expected = [alone(stored, sentence) for sentence in TEXT]
    scorer = Scorer.of(stored)
    assert scorer.sentences(TEXT) == pytest.approx(expected, abs=1e-10)
    assert scorer.sentences(iter(TEXT)) == pytest.approx(expected, abs=1e-10)
    assert scorer.sentences([]).shape == scorer.sentences(iter([])).shape == (0,)


@pytest.mark.parametrize("name", ["prpn", "lstm"])
@pytest.mark.parametrize("together", [2, 100])
def test_trained_models_in_single_precision_score_sentences_independently(request, monkeypatch, name, together):
    stored = request.getfixturevalue(name)
    monkeypatch.setattr(engine, "SENTENCES", together)
    monkeypatch.setattr(engine, "TOKEN_BUDGET", 16)
    expected = [alone(stored, sentence) for sentence in TEXT]
    assert Scorer.of(stored).sentences(TEXT) == pytest.approx(expected, rel=1e-5)


def test_all_sentences_together_have_the_loss_of_the_text(prpn, toy):
    lines = (toy / "test.txt").read_text().splitlines()
    found = Scorer.of(prpn).sentences([prpn.normaliser.tokens(line) for line in lines])
    assert -found.sum() == pytest.approx(evaluate_text(prpn, toy / "test.txt", reading(SENTENCES)).nats, rel=1e-6)


@pytest.mark.parametrize("together", [2, 1 << 15])
def test_a_sequence_has_each_sentence_scored_once(monkeypatch, together):
    """Repeated sentences have bitwise equal values."""
    monkeypatch.setattr(engine, "SENTENCES", together)
    monkeypatch.setattr(engine, "TOKEN_BUDGET", 16)
    stored = fresh("prpn")
    seen = recording(stored, monkeypatch)
    repeated = [*TEXT, *TEXT[::-1], ["zebra"]]  # unknown, as "nonsense" is
    found = Scorer.of(stored).sentences(repeated)
    ids = [tuple(stored.vocabulary.encode(one)) for one in repeated]
    end = stored.vocabulary.end_id
    assert Counter(columns_of(seen)) == Counter((*one, end) for one in set(ids))
    values: dict[tuple[int, ...], set[float]] = {}
    for one, value in zip(ids, found.tolist(), strict=True):
        values.setdefault(one, set()).add(value)
    assert all(len(of_one) == 1 for of_one in values.values())


def test_an_iterator_is_read_in_parts_and_each_distinct_sentence_scored_once_per_part(monkeypatch):
    monkeypatch.setattr(engine, "SENTENCES", 4)
    stored = fresh("lstm")
    seen = recording(stored, monkeypatch)
    taken = []

    def endless():
        for number in range(12):
            taken.append(number)
            assert len(columns_of(seen)) >= (number // 4) * 2, "the part before is scored first"
            yield [["cat"], ["dog", "sees"]][number % 2]

    found = Scorer.of(stored).sentences(endless())
    assert len(found) == len(taken) == 12
    assert len(columns_of(seen)) == 3 * 2
    assert found[:2].tolist() * 6 == pytest.approx(found.tolist(), abs=1e-12)


def test_a_sentence_without_tokens_has_the_probability_of_ending_or_is_certain():
    stored = fresh("lstm")
    closed = Scorer.of(stored).sentences([[], ["cat"], []])
    assert closed[0] == closed[2] == pytest.approx(alone(stored, []))
    opened = Scorer.of(fresh("lstm", OPEN))
    assert opened.sentences([[], ["cat"], []]).tolist() == [0.0, opened.sentences([["cat"]])[0], 0.0]
    assert opened.sentences([[], []]).tolist() == [0.0, 0.0]


class Counts(Model, ScoresTokens):
    """A model without weights and state."""

    def __init__(self, log_probs: list[float]) -> None:
        super().__init__()
        self.vocabulary_size = len(log_probs)
        self.register_buffer("table", torch.tensor(log_probs, dtype=torch.float64))

    def token_log_probs(self, batch: TokenBatch, state: object = None) -> TokenScores:
        if not batch.carries:
            assert (batch.tokens[0] == 1).all(), "BOS is the context of the first word"
        return TokenScores(self.table[batch.targets].masked_fill(~batch.mask(), 0.0), {})


EOS_ONLY = Vocabulary(["<unk>", "<eos>", "a", "b"], begin="<eos>", end="<eos>")


def test_a_model_without_weights_works_with_one_token_for_bos_and_eos():
    scorer = Scorer(Counts([-4.0, -1.0, -2.0, -3.0]), EOS_ONLY, SENTENCES)
    assert np.array_equal(scorer.sentences([["a"], ["b", "a", "zebra"], []]), [-3.0, -10.0, -1.0])


# ---- texts


@every_model
@MODES
@pytest.mark.parametrize("size", [1, 5, 40])
def test_the_tokens_of_a_text_are_in_text_order_however_it_is_batched(monkeypatch, name, mode, size):
    stored = fresh(name, mode)
    text = [sentence for sentence in TEXT if sentence]
    corpus, end = corpus_of(stored, text), [stored.vocabulary.end_id] * mode.predict_eos
    whole = list(Scorer.of(stored).tokens(corpus))
    for constant in ("TOKENS", "TOKENS_WITH_STATES", "TOKEN_BUDGET", "STREAM_STEPS"):
        monkeypatch.setattr(engine, constant, size)
    parts = list(Scorer.of(stored).tokens(corpus))
    assert len(parts) > 1
    expected = [token for sentence in text for token in [*stored.vocabulary.encode(sentence), *end]]
    assert torch.cat([part.tokens for part in parts]).tolist() == expected
    values = torch.cat([part.log_probs for part in parts])
    torch.testing.assert_close(values, torch.cat([part.log_probs for part in whole]), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["prpn", "lstm"])
@MODES
def test_hidden_states_are_in_text_order(monkeypatch, name, mode):
    """Also for repeated sentences: the decoder computes the tokens' log-probabilities from them."""
    monkeypatch.setattr(engine, "TOKENS_WITH_STATES", 50)
    stored = fresh(name, mode)
    corpus = corpus_of(stored, [sentence for sentence in TEXT if sentence] * 2)
    for part in Scorer.of(stored).tokens(corpus, hidden=True):
        every_word = torch.log_softmax(stored.model.decoder(part.hidden), dim=-1)
        found = every_word.gather(1, part.tokens[:, None])[:, 0]
        torch.testing.assert_close(found, part.log_probs, rtol=0, atol=1e-10)


@every_model
@MODES
def test_the_total_is_the_sum_of_the_tokens(name, mode):
    stored = fresh(name, mode)
    corpus = corpus_of(stored, [sentence for sentence in TEXT if sentence])
    tokens = sum(float(part.log_probs.sum()) for part in Scorer.of(stored).tokens(corpus))
    assert Scorer.of(stored).total(corpus) == pytest.approx(tokens, abs=1e-9)


def test_repeated_sentences_of_a_text_are_read_once_in_a_part(monkeypatch):
    stored = fresh("lstm")
    seen = recording(stored, monkeypatch)
    text = [["cat"], ["dog", "sees"], ["cat"], ["cat"], ["dog", "sees"]] * 3
    corpus = corpus_of(stored, text)
    scorer = Scorer.of(stored)
    total, (part,) = scorer.total(corpus), scorer.tokens(corpus)
    assert len(columns_of(seen)) == 2 + 2
    expected = [alone(stored, sentence) for sentence in text]
    assert total == pytest.approx(sum(expected), abs=1e-9)
    assert float(part.log_probs.sum()) == pytest.approx(sum(expected), abs=1e-9)
    assert len(part.tokens) == sum(len(sentence) + 1 for sentence in text)


# ---- streams


@every_model
@pytest.mark.parametrize("predict_eos", [True, False])
@pytest.mark.parametrize("steps", [3, 1024])
def test_a_stream_over_several_calls_equals_one_call(monkeypatch, name, predict_eos, steps):
    stored = fresh(name, STREAM)
    scorer = Scorer.of(stored, TextMode(carry_state=True, predict_eos=predict_eos))
    text = [sentence for sentence in TEXT if sentence]
    whole = scorer.stream().read(corpus_of(stored, text))
    monkeypatch.setattr(engine, "STREAM_STEPS", steps)
    stream = scorer.stream()
    parts = [stream.read(corpus_of(stored, part)) for part in (text[:1], text[1:4], text[4:])]
    assert torch.equal(torch.cat([part.tokens for part in parts]), whole.tokens)
    values = torch.cat([part.log_probs for part in parts])
    torch.testing.assert_close(values, whole.log_probs, rtol=0, atol=1e-10)


@every_model
def test_ends_that_are_not_predicted_are_read_and_never_scored(name):
    """In a stream, words have the same probability as if ends were predicted, as they follow the same tokens."""
    stored = fresh(name, STREAM)
    corpus = corpus_of(stored, [sentence for sentence in TEXT if sentence])
    closed, opened = Scorer.of(stored), Scorer.of(stored, STREAM_OPEN)
    (with_ends,), (without,) = closed.tokens(corpus), opened.tokens(corpus)
    words = with_ends.tokens != stored.vocabulary.end_id
    assert stored.vocabulary.end_id not in without.tokens
    assert torch.equal(without.tokens, with_ends.tokens[words])
    torch.testing.assert_close(without.log_probs, with_ends.log_probs[words], rtol=0, atol=1e-12)
    assert opened.total(corpus) == pytest.approx(float(without.log_probs.sum()), abs=1e-9)
    assert closed.total(corpus) < opened.total(corpus) - 1


def test_the_state_is_carried_across_sentences_only_in_a_stream():
    stored = fresh("prpn", STREAM)
    corpus = corpus_of(stored, [["cat"], ["dog"]])
    (carried,), (reset,) = Scorer.of(stored).tokens(corpus), Scorer.of(stored, SENTENCES).tokens(corpus)
    assert carried.log_probs[:2].tolist() == pytest.approx(reset.log_probs[:2].tolist(), abs=1e-10)
    assert (carried.log_probs[2:] - reset.log_probs[2:]).abs().max() > 1e-6


# ---- memory


def on_disk(path, sentences: int) -> EncodedCorpus:
    """Sentences of one or two words in memory-mapped files, like those of a large text."""
    lengths = 1 + np.arange(sentences) % 2
    offsets = np.memmap(path / "offsets", np.int64, "w+", shape=(sentences + 1,))
    offsets[1:] = lengths.cumsum()
    ids = np.memmap(path / "ids", np.uint16, "w+", shape=(int(offsets[-1]),))
    ids[:] = 2 + np.random.default_rng(0).integers(0, 2, len(ids))
    lines = np.memmap(path / "lines", np.int64, "w+", shape=(sentences,))
    return EncodedCorpus(ids, offsets, lines)


@pytest.mark.parametrize("asked", ["total", "tokens", "sentences"])
def test_memory_does_not_grow_with_the_number_of_sentences(monkeypatch, tmp_path, asked):
    """Except for results: 8 bytes per sentence, twice while the parts are concatenated."""
    monkeypatch.setattr(engine, "TOKENS", 400)
    monkeypatch.setattr(engine, "SENTENCES", 200)
    scorer = Scorer(Counts([-4.0, -1.0, -2.0, -3.0]), EOS_ONLY, SENTENCES)
    peaks = []
    for sentences in (1_000, 1_000, 20_000):  # the first one warms up
        corpus = on_disk(tmp_path, sentences)
        tracemalloc.start()
        if asked == "total":
            scorer.total(corpus)
        elif asked == "tokens":
            assert sum(len(part.tokens) for part in scorer.tokens(corpus)) == corpus.word_count + sentences
        else:
            assert len(scorer.sentences(["a", "b"][: 1 + number % 2] for number in range(sentences))) == sentences
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    results = 2 * 8 * 19_000 if asked == "sentences" else 0
    assert peaks[2] - peaks[1] < results + 50_000


@MODES
def test_no_batch_is_larger_than_the_budget(monkeypatch, mode):
    monkeypatch.setattr(engine, "TOKEN_BUDGET", 50)
    monkeypatch.setattr(engine, "SUM_STEPS", 10)
    stored = fresh("lstm", mode)
    seen = recording(stored, monkeypatch)
    Scorer.of(stored).total(corpus_of(stored, [["cat"] * (1 + number % 9) for number in range(200)]))
    limit = 11 * engine.SUM_COLUMNS if mode.carry_state else 50
    assert max(batch.tokens.numel() for batch in seen) <= limit


# ---- abilities


def mixture() -> ModelBundle:
    """A model that only scores whole sentences."""
    return dataclasses.replace(fresh("lstm"), model=MixtureOfUnigrams(3, WORDS))


def test_a_model_that_only_scores_sentences_has_a_perplexity(tmp_path):
    stored = mixture()
    lines = ["the cat sees a dog", "old", "the cat sees a dog"]
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n")
    score = evaluate_text(stored, tmp_path / "text.txt")
    expected = Scorer.of(stored).sentences([line.split() for line in lines])
    assert score.nats == pytest.approx(-expected.sum())
    assert score.perplexity == pytest.approx(math.exp(-expected.sum() / 14))
    targets = torch.tensor([*stored.vocabulary.encode(["old"]), stored.vocabulary.end_id])[:, None]
    assert expected[1] == pytest.approx(float(stored.model.sentence_log_probs(TokenBatch(targets, targets))[0]))


def test_a_model_that_only_scores_sentences_raises_an_error_for_tokens(tmp_path):
    stored = mixture()
    (tmp_path / "text.txt").write_text("the cat\n")
    reported = (
        r"^this lstm model.* gives no token probabilities, so scoring of tokens cannot use it\."
        r" Model types that can: prpn, on-lstm, palm, transformer, tree-transformer, simple-pcfg, holographic-pcfg,"
        r" tensor-pcfg, neural-pcfg, ngram, tree-rnn, combination\.$"
    )
    for asked in (
        lambda: list(surprisals(stored, ["the cat"])),
        lambda: list(surprisals(stored, ["the cat"], ScoreOptions(context="carry"))),
        lambda: evaluate_text(stored, tmp_path / "text.txt", reading(STREAM)),
        lambda: Scorer.of(stored).stream(),
    ):
        with pytest.raises(InputError, match=reported):
            asked()


@MODES
def test_a_model_without_hidden_states_raises_an_error_only_for_a_cache(tmp_path, mode):
    stored = fresh("ngram", mode)
    (tmp_path / "text.txt").write_text("the cat\n")
    assert evaluate_text(stored, tmp_path / "text.txt", reading(mode)).tokens == 2 + mode.predict_eos
    with pytest.raises(
        InputError, match=r"this ngram model gives no hidden states of a text, so a neural cache cannot use it"
    ):
        evaluate_text(stored, tmp_path / "text.txt", reading(mode), CacheSettings(0.1, 0.1))


SENTENCE_MODELS = ["mixture", *names_with(ScoresSentences, among=list(SENTENCE_VARIANTS))]
NAN_MODELS = [*product(["prpn", "lstm"], [SENTENCES, STREAM, OPEN]), *product(SENTENCE_MODELS, [SENTENCES])]


@pytest.mark.parametrize(("name", "mode"), NAN_MODELS, ids=str)
def test_weights_that_are_nan_are_reported_with_the_model_type(tmp_path, name, mode):
    stored = mixture() if name == "mixture" else fresh(name, mode)
    with torch.no_grad():
        for weights in stored.model.state_dict().values():
            weights.fill_(math.nan if weights.is_floating_point() else 1)
    (tmp_path / "text.txt").write_text("the cat\n")
    asked = [
        lambda: Scorer.of(stored, mode).sentences([["the", "cat"]]),
        lambda: evaluate_text(stored, tmp_path / "text.txt", reading(mode)),
    ]
    if name in ("prpn", "lstm"):
        asked.append(lambda: list(Scorer.of(stored).tokens(corpus_of(stored, [["the", "cat"]]))))
        asked.append(lambda: Scorer.of(stored).stream().read(corpus_of(stored, [["the", "cat"]])))
    for ask in asked:
        with pytest.raises(InputError, match=rf"^{stored.name}: the model returned NaN; its weights are unusable"):
            ask()


@pytest.mark.parametrize("scale", [1e3, 1e8])
@pytest.mark.parametrize(("name", "mode"), NAN_MODELS, ids=str)
def test_absurd_weights_give_probabilities_or_an_error(name, mode, scale):
    stored = mixture() if name == "mixture" else fresh(name, mode)
    with torch.no_grad():
        for key, weights in stored.model.state_dict().items():
            if weights.is_floating_point():
                weights.mul_(-scale if "back_offs" in key or key.endswith("bias") else scale)
    with contextlib.suppress(InputError):  # any other error fails the test
        scored = Scorer.of(stored, mode).sentences([["the", "cat"], ["a", "dog", "sees", "the", "cat"]])
        assert (scored <= 1e-3).all()


def test_back_offs_that_make_probabilities_above_1_are_reported():
    stored = fresh("ngram")
    with torch.no_grad():
        for level in stored.model.levels:
            level.back_offs.fill_(5.0)
            level.log_probs.fill_(-0.1)
    with pytest.raises(InputError, match="ngram: the model returned a probability above 1; its weights are unusable"):
        Scorer.of(stored).sentences([["the", "cat"]])


def test_the_mode_is_that_of_training_by_default():
    for mode in (SENTENCES, STREAM, OPEN):
        stored = fresh("lstm", mode)
        assert Scorer.of(stored).mode == mode
        assert Scorer.of(stored, STREAM).mode == STREAM
