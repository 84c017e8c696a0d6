"""The scoring engine: the only place where batches are read for log-probabilities of texts and trees.

A `Scorer` is a model with a text mode. It batches by length, scores repeated sentences once, restores the input order,
and reads a text in parts, so memory does not grow with it. Perplexity, surprisal, minimal pairs, completion and
reranking are sums and differences of its results; the neural cache wraps it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from syntaxlm.batches import SentenceBatches, StreamBatches, TreeBatches
from syntaxlm.core.errors import InputError, warn_caller
from syntaxlm.core.iteration import batched
from syntaxlm.core.option_names import option_name
from syntaxlm.core.progress import progress_bar
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.data.dependencies import DependencyCorpus
from syntaxlm.models.abilities import (
    GeneratesTrees,
    HasHiddenStates,
    MasksTokens,
    Model,
    Predictions,
    PredictsNextToken,
    PredictsSubtokens,
    ScoresSentences,
    ScoresTokens,
    ScoresWords,
    TokenScores,
    TrainsByGradient,
)
from syntaxlm.models.batches import State, TextMode, TokenBatch, TreeBatch
from syntaxlm.models.registry import require
from syntaxlm.scoring.long_sentences import LONG_SENTENCE, SCORING, check_long_sentence, fitting_in_memory
from syntaxlm.scoring.parts import distinct_sentences, numbered_corpus, parts_of
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.text.vocabulary import Vocabulary

TOKEN_BUDGET = 8192  # tokens of a batch of sentences or trees, padding included
MASKED_BUDGET = 512  # of a model that masks tokens, for which each token is a sentence to read
SENTENCES = 1 << 15  # sentences batched at a time: enough for batches of similar length
TOKENS = 1 << 18  # tokens of a part of a text: enough for batches of similar length, with little padding
TOKENS_WITH_STATES = 1 << 15  # the same if hidden states or predictions are in memory until they are in order
SUM_COLUMNS = 32  # of a batch of a stream if only the sum is needed
SUM_STEPS = 128  # of such a batch
TIE = 1e-9  # nats by which equal log-probabilities may differ: sums of the same numbers in another order are rounded
_ROUNDING = 1e-3  # nats by which the logarithm of a rounded probability may exceed 0
DISTRIBUTIONS = 1 << 24  # probabilities of next tokens that are in memory together
STREAM_STEPS = 1024  # of a batch of a stream in one column

LogProbs = npt.NDArray[np.float64]
SentenceScorer = ScoresSentences | ScoresWords
TokenScorer = ScoresTokens | ScoresWords


@dataclass(frozen=True)
class ScoredTokens:
    """The predicted tokens of a part of a text, in text order.

    Attributes:
        tokens: (n,) int64, including ends of sentences if these are predicted.
        log_probs: (n,), natural.
        hidden: (n, F), the decoder's inputs; None unless requested.
        predictions: the distributions before these tokens; None unless requested.
    """

    tokens: Tensor
    log_probs: Tensor
    hidden: Tensor | None = None
    predictions: Predictions | None = None

    @classmethod
    def joined(cls, parts: Sequence[ScoredTokens]) -> ScoredTokens:
        """Return the tokens of one or more parts, part after part."""
        hidden = [part.hidden for part in parts if part.hidden is not None]
        predictions = [part.predictions for part in parts if part.predictions is not None]
        return cls(
            torch.cat([part.tokens for part in parts]),
            torch.cat([part.log_probs for part in parts]),
            torch.cat(hidden) if hidden else None,
            Predictions(*map(torch.cat, zip(*predictions, strict=True))) if predictions else None,
        )

    def select(self, index: Tensor) -> ScoredTokens:
        """Return the tokens of an index: (k,) places in the new order, or (n,) flags."""
        predictions = self.predictions
        return ScoredTokens(
            self.tokens[index],
            self.log_probs[index],
            None if self.hidden is None else self.hidden[index],
            None if predictions is None else Predictions(*(values[index] for values in predictions)),
        )


@dataclass(frozen=True)
class Scorer:
    """Log-probabilities of one model.

    Attributes:
        mode: how text is read.
        name: model type, for messages.
        strict: whether sentences are refused that are too long for a model that compares all spans, see
            `check_long_sentence`, and probabilities of 0 of a model that is trained by gradient descent.
        takes_scores: whether a model of `ScoresWords` may give `tokens` and `sentences` its scores, which the caller
            names, instead of log-probabilities.

    Raises:
        InputError: for a mode that the model does not support.
    """

    model: Model
    vocabulary: Vocabulary
    mode: TextMode
    name: str = "model"
    strict: bool = False
    takes_scores: bool = False

    def __post_init__(self) -> None:
        if self.model.reads == "sentences" and self.mode != TextMode():
            raise InputError(
                f"found text read as {self.mode}; expected sentences that are read by themselves, with their ends,"
                f" because a {self.name} model reads nothing else. Omit {option_name('--context', 'carry')}"
            )
        if self.vocabulary.is_open and self.mode.carry_state and self.mode.predict_eos:
            raise InputError(
                f"found text read as {self.mode}; expected no ends of sentences, because a {self.name} model reads a"
                f" stream as running text. Omit {option_name('--context', 'carry')}, or do not predict the ends"
                " (--no-predict-eos on the command line)"
            )

    @classmethod
    def of(cls, bundle: ModelBundle, mode: TextMode | None = None, takes_scores: bool = False) -> Scorer:
        """Return the scorer of a stored model.

        Warns if the state is carried and the model was trained on single sentences.

        Args:
            mode: how text is read; None: as in training.
            takes_scores: see the class.
        """
        mode = mode or bundle.mode
        scorer = cls(bundle.model, bundle.vocabulary, mode, bundle.name, strict=True, takes_scores=takes_scores)
        on_sentences = not (bundle.mode.carry_state or bundle.vocabulary.is_open or scorer.model.reads == "trees")
        if scorer.mode.carry_state and on_sentences:
            warn_caller(
                "the model was trained on single sentences and now carries its state, so its probabilities are less"
                " reliable after earlier sentences. Reset the state at each sentence"
            )
        return scorer

    def tokens(self, corpus: EncodedCorpus, hidden: bool = False, best: int | None = None) -> Iterator[ScoredTokens]:
        """Return all predicted tokens of a text in text order, in parts. Leaves the model in evaluation mode.

        A stream is read in one column.

        Args:
            hidden: whether hidden states are returned too.
            best: return predictions too, with this number of most probable tokens.

        Raises:
            InputError: for a model without token probabilities or, if requested, hidden states or predictions.
        """
        model = self._token_model(hidden, best)
        if self.mode.carry_state:
            stream = self.stream(hidden, best)
            return (stream.read(part) for part in parts_of(corpus, TOKENS_WITH_STATES))
        together = TOKENS_WITH_STATES if hidden or best is not None else TOKENS
        return (self._sentence_tokens(model, part, hidden, best) for part in parts_of(corpus, together))

    def stream(self, hidden: bool = False, best: int | None = None) -> TokenStream:
        """Read sentences as one stream that continues from call to call. Parameters and errors: see `tokens`."""
        return TokenStream(self, self._token_model(hidden, best), hidden, best)

    def sentences(self, sentences: Iterable[Sequence[str]]) -> LogProbs:
        """Return natural log-probability of each tokenised sentence, read independently: (S,), in order.

        The end of the sentence counts if the model predicts it; then a sentence without tokens has the probability of
        ending immediately. An iterator is read about ten thousand sentences at a time, and repeated sentences are
        scored once per such part; of a sequence, once in all.

        Raises:
            InputError: for a model without sentence probabilities, and if it returns NaN.
        """
        model: SentenceScorer
        if self.takes_scores and isinstance(self.model, ScoresWords):
            model = self.model
        else:
            model = require(self.model, ScoresSentences, self.name, "scoring of sentences")
        encoded = map(self.vocabulary.encode, sentences)
        if not isinstance(sentences, Sequence):
            return self._sentences(model, enumerate(encoded, 1), None)

        # Score the distinct sentences, each with the number of its first occurrence.
        ids = list(map(tuple, encoded))
        first_numbers = dict(zip(reversed(ids), range(len(ids), 0, -1), strict=True))
        indices = {sentence: index for index, sentence in enumerate(dict.fromkeys(ids))}
        numbered = ((first_numbers[sentence], sentence) for sentence in indices)
        log_probs = self._sentences(model, numbered, len(indices))
        return log_probs[[indices[sentence] for sentence in ids]]

    def _sentences(
        self, model: SentenceScorer, numbered: Iterable[tuple[int, Sequence[int]]], total: int | None
    ) -> LogProbs:
        """Return the log-probability of numbered sentences, (S,).

        Args:
            total: number of sentences, for the progress bar; None: unknown.
        """
        parts = [
            self._sentence_sums(model, numbered_corpus(chunk))
            for chunk in progress_bar(batched(numbered, SENTENCES), "scoring sentences", total, len)
        ]
        return self._checked(np.concatenate(parts) if parts else np.zeros(0), may_be_empty=True)

    def trees(self, corpus: DependencyCorpus) -> LogProbs:
        """Return natural log-probability of each word given its path in its tree, in sentence order: (N,).

        Raises:
            InputError: for a model that reads text, for trees without labels if the model reads labels, and if the
                model returns NaN.
        """
        return self._checked(self._tree_words(corpus))

    def _tree_words(self, corpus: DependencyCorpus) -> LogProbs:
        model = self._token_model()
        require(self.model, GeneratesTrees, self.name, "scoring of dependency trees")
        check_labels(self.model, corpus)
        log_probs = np.zeros(corpus.text.word_count)
        batches = TreeBatches(corpus, TOKEN_BUDGET, shuffle=False, seed=0)
        for batch, scores in _read(model, progress_bar(batches.iterate(), "scoring", batches.count(0))):
            log_probs[batches.places(batch).numpy()] = scores.log_probs.cpu().numpy()
        return log_probs

    def total(self, corpus: EncodedCorpus | DependencyCorpus) -> float:
        """Return natural log-probability of a text, or of the words of trees given the trees; may be NaN."""
        if isinstance(corpus, DependencyCorpus):
            return float(self._tree_words(corpus).sum())
        if not self.mode.carry_state:
            model = require(self.model, ScoresSentences, self.name, "perplexity")
            return sum(float(self._sentence_sums(model, part).sum()) for part in parts_of(corpus, TOKENS))

        # A stream in several columns, because only the sum is needed.
        total = 0.0
        columns = min(SUM_COLUMNS, max(1, (corpus.word_count + len(corpus)) // 2000))
        batches = StreamBatches(corpus, self.vocabulary, columns, SUM_STEPS, spans=corpus.spans)
        for batch, scores in _read(self._token_model(), progress_bar(batches.iterate(), "scoring", batches.count(0))):
            log_probs = scores.log_probs
            if not self.mode.predict_eos:
                log_probs = log_probs.masked_fill(batch.targets == self.vocabulary.end_id, 0.0)
            total += float(log_probs.sum(dtype=torch.float64))
        return total

    def _checked(self, log_probs: Values, may_be_empty: bool = False) -> Values:
        """Return log-probabilities, those that are above 0 by rounding as 0.

        Args:
            may_be_empty: whether they may be of sentences without words, whose probability is 0 in a grammar.

        Raises:
            InputError: for values that are no log-probabilities.
        """
        values = torch.as_tensor(log_probs)
        if not values.numel():
            return log_probs
        lowest = float(values.min())
        highest = float(values.max())  # NaN, if one value is
        if math.isnan(highest):
            raise unusable(self.name)
        if highest > _ROUNDING:
            raise unusable(self.name, "a probability above 1")
        if lowest == -math.inf and self.strict and not may_be_empty and isinstance(self.model, TrainsByGradient):
            raise unusable(self.name, "a probability of 0")
        return log_probs.clip(None, 0) if highest > 0 else log_probs

    def _token_model(self, hidden: bool = False, best: int | None = None) -> TokenScorer:
        if self.takes_scores and isinstance(self.model, ScoresWords) and best is None and not hidden:
            return self.model
        if best is not None:
            return require_predictions(self.model, self.name)
        if hidden:
            return require(self.model, HasHiddenStates, self.name, "a neural cache")
        return require(self.model, ScoresTokens, self.name, "scoring of tokens")

    def _batches(self, corpus: EncodedCorpus) -> SentenceBatches:
        ends = self.mode.predict_eos
        budget = MASKED_BUDGET if isinstance(self.model, MasksTokens) else TOKEN_BUDGET
        return SentenceBatches(corpus, self.vocabulary, budget, shuffle=False, seed=0, predict_eos=ends)

    def _sentence_tokens(
        self, model: TokenScorer, corpus: EncodedCorpus, hidden: bool, best: int | None
    ) -> ScoredTokens:
        """Score the sentences of a part of a text, each read independently."""
        distinct, index = distinct_sentences(corpus)
        batches = self._batches(distinct)
        places: list[Tensor] = []  # of the tokens of each batch among those of the distinct sentences
        scored: list[ScoredTokens] = []
        self._check_longest(distinct, partial(_read_once, model, best))
        with self._fitting_in_memory(distinct):
            for batch, scores in _read(model, batches.iterate()):
                mask = batch.mask()
                predictions = None if best is None else _batch_predictions(model, batch, best)
                states = scores.hidden if hidden else None
                places.append(batches.places(batch))
                scored.append(ScoredTokens(batch.targets[mask], scores.log_probs[mask], states, predictions))
        joined = ScoredTokens.joined(scored)
        joined = replace(joined, log_probs=self._checked(joined.log_probs))

        # Places, among the tokens of the distinct sentences, of those of all sentences.
        lengths = distinct.lengths + int(self.mode.predict_eos)
        starts = np.cumsum(lengths) - lengths
        counts = lengths[index]
        positions = np.arange(counts.sum()) + np.repeat(starts[index] - np.cumsum(counts) + counts, counts)
        order = torch.cat(places).argsort()[torch.from_numpy(positions)]
        return joined.select(order.to(joined.tokens.device))

    @torch.no_grad()
    def _sentence_sums(self, model: SentenceScorer, corpus: EncodedCorpus) -> LogProbs:
        """(S,) log-probabilities of sentences read independently; 0 for empty ones if ends are not predicted."""
        distinct, index = distinct_sentences(corpus)
        sums = np.zeros(len(distinct))
        if not self.mode.predict_eos and not distinct.lengths.all():
            full = np.flatnonzero(distinct.lengths)
            if len(full):
                numbered = [(int(distinct.line_numbers[place]), distinct.sentence(int(place))) for place in full]
                sums[full] = self._sentence_sums(model, numbered_corpus(numbered))
            return sums[index]
        # A model of whole sentences compares all spans, which takes time as the cube of the length.
        power = 3 if self.model.reads == "sentences" else 1

        def work(batch: TokenBatch) -> float:
            assert batch.lengths is not None
            return float((batch.lengths.double() ** power).sum())

        total = float(((distinct.lengths + int(self.mode.predict_eos)).astype(float) ** power).sum())
        self.model.eval()
        self._check_longest(distinct, model.sentence_log_probs)
        with self._fitting_in_memory(distinct):
            for batch in progress_bar(self._batches(distinct).iterate(), "scoring", total, work, percent=True):
                assert batch.indices is not None
                log_probs = model.sentence_log_probs(batch.to(self.model.device))
                sums[batch.indices.numpy()] = log_probs.double().cpu().numpy()
        if self.strict:
            self._checked(sums[distinct.lengths > 0])
        return sums[index]

    def _check_longest(self, corpus: EncodedCorpus, read: Callable[[TokenBatch], object]) -> None:
        """Check the longest sentence before it is read, see `check_long_sentence`.

        Args:
            read: computes a batch.
        """
        lengths = corpus.lengths
        longest = int(lengths.argmax())
        if not self.strict or self.model.reads != "sentences" or lengths[longest] <= LONG_SENTENCE:
            return
        sentence = corpus.sentence(longest)

        def attempt(words: int) -> None:
            (batch,) = self._batches(EncodedCorpus.from_sentences([sentence[:words]])).iterate()
            read(batch.to(self.model.device))

        words = [self.vocabulary.tokens[word] for word in sentence]
        check_long_sentence(words, int(corpus.line_numbers[longest]), self.name, SCORING, attempt)

    def _fitting_in_memory(self, corpus: EncodedCorpus) -> AbstractContextManager[None]:
        """Return a context that reports exhausted memory as an InputError, if the model compares all spans."""

        def longest() -> tuple[int, int]:
            lengths = corpus.lengths
            return int(corpus.line_numbers[lengths.argmax()]), int(lengths.max())

        return fitting_in_memory(longest, SCORING) if self.model.reads == "sentences" else nullcontext()


class TokenStream:
    """A text read as one stream across calls. The first token follows BOS."""

    def __init__(self, scorer: Scorer, model: TokenScorer, hidden: bool, best: int | None) -> None:
        self._scorer = scorer
        self._model = model
        self._hidden = hidden
        self._best = best
        self._state: State = None
        self._last: int | None = None  # the last token read

    def read(self, corpus: EncodedCorpus) -> ScoredTokens:
        """Score further sentences that follow all previous ones. Ends are read, and scored if they are predicted."""
        vocabulary = self._scorer.vocabulary
        ends = corpus.offsets[1:]
        last = self._last
        targets = torch.from_numpy(np.insert(np.asarray(corpus.ids), ends, vocabulary.end_id)).long()
        inputs = torch.cat([torch.tensor([vocabulary.begin_id if last is None else last]), targets[:-1]])
        self._last = int(targets[-1])
        batches = [
            TokenBatch(inputs[start:end, None], targets[start:end, None], carries=start > 0 or last is not None)
            for start, end in ((start, start + STREAM_STEPS) for start in range(0, len(targets), STREAM_STEPS))
        ]
        scored = []
        for batch, scores in _read(self._model, batches, self._state):
            predictions = None
            if self._best is not None:
                predictions = _batch_predictions(self._model, batch, self._best, self._state)
            hidden = scores.hidden if self._hidden else None
            scored.append(ScoredTokens(batch.targets[:, 0], scores.log_probs[:, 0], hidden, predictions))
            self._state = scores.state
        joined = ScoredTokens.joined(scored)
        joined = replace(joined, log_probs=self._scorer._checked(joined.log_probs))
        if self._scorer.mode.predict_eos:
            return joined

        # Ends of sentences are read, but they are not predictions of this model.
        is_word = torch.ones(len(targets), dtype=torch.bool)
        is_word[torch.from_numpy(ends + np.arange(len(ends)))] = False
        return joined.select(is_word.to(joined.tokens.device))


@torch.no_grad()
def _batch_predictions(model: TokenScorer, batch: TokenBatch, best: int, state: State = None) -> Predictions:
    """Return the predictions at each real step of a batch, in the order of `TokenBatch.mask()`.

    Columns of one length are read together, as many as `DISTRIBUTIONS` allows.
    """
    assert isinstance(model, Model)
    model.eval()
    if isinstance(model, PredictsSubtokens):
        return model.first_subtokens(batch, best, state)
    assert isinstance(model, PredictsNextToken)
    best = min(best, model.vocabulary_size)
    targets = batch.targets
    entropy = torch.zeros(targets.shape, device=targets.device)
    rank = torch.ones_like(targets)
    tokens = targets.new_zeros(*targets.shape, best)
    log_probs = torch.zeros(tokens.shape, device=targets.device)
    most = max(1, DISTRIBUTIONS // model.vocabulary_size)
    columns = 0  # that are done
    for length, count in zip(*batch.step_counts().unique_consecutive(return_counts=True), strict=True):
        end = columns + int(count)
        for first in range(columns, end, most):
            chosen = slice(first, min(first + most, end))
            part = TokenBatch(batch.tokens[:length, chosen], targets[:length, chosen])
            for step, values in enumerate(model.each_next_log_probs(part, state)):
                target = values.gather(1, part.targets[step, :, None])
                entropy[step, chosen] = torch.special.entr(values.exp()).sum(1).float()
                rank[step, chosen] = 1 + (values > target).sum(1)
                log_probs[step, chosen], tokens[step, chosen] = values.float().topk(best)
        columns = end
    mask = batch.mask()
    return Predictions(entropy[mask], rank[mask], tokens[mask], log_probs[mask])


def require_predictions(model: Model, name: str) -> PredictsNextToken | PredictsSubtokens:
    """Return a model that gives entropy, rank and next words. Raises InputError for another one.

    Args:
        name: model type, for the message.
    """
    if isinstance(model, PredictsSubtokens):
        return model
    return require(model, PredictsNextToken, name, "entropy, rank and next words")


def check_labels(model: Model, corpus: DependencyCorpus) -> None:
    """Raise InputError if a model reads edge labels and the trees have none."""
    if isinstance(model, GeneratesTrees) and model.reads_labels and not corpus.labelled:
        raise InputError(
            f"{corpus.source or 'the trees'}: found no label of an edge; expected a label for each edge, because the"
            " model reads labels (model.labelled is true)"
        )


Values = TypeVar("Values", Tensor, LogProbs)
AnyBatch = TypeVar("AnyBatch", TokenBatch, TreeBatch)


@torch.no_grad()
def _read(
    model: TokenScorer, batches: Iterable[AnyBatch], state: State = None
) -> Iterator[tuple[AnyBatch, TokenScores]]:
    """Yield each batch, on the model's device, with its scores.

    The state is carried if a batch continues the previous one.
    """
    assert isinstance(model, Model)
    model.eval()
    for batch in batches:
        batch = batch.to(model.device)
        scores = model.token_log_probs(batch, state if batch.carries else None)
        state = scores.state
        yield batch, scores


@torch.no_grad()
def _read_once(model: TokenScorer, best: int | None, batch: TokenBatch) -> None:
    """Compute the scores of a batch and, unless `best` is None, its predictions."""
    model.token_log_probs(batch)
    if best is not None:
        _batch_predictions(model, batch, best)


def unusable(name: str, values: str = "NaN") -> InputError:
    """Return the error for a model that returns values that are no probabilities."""
    return InputError(f"{name}: the model returned {values}; its weights are unusable")
