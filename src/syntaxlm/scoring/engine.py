"""The scoring engine: the only place where batches are read for log-probabilities of texts and trees.

A `Scorer` is a model with a text mode. It batches by length, scores repeated sentences once, restores the input order,
and reads a text in parts, so memory does not grow with it. Perplexity, surprisal, minimal pairs, completion and
reranking are sums and differences of its results; the neural cache wraps it.
"""

from __future__ import annotations

import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from syntaxlm.batches import SentenceBatches, StreamBatches, TreeBatches
from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.core.progress import progress_bar
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.data.dependencies import DependencyCorpus
from syntaxlm.models.abilities import GeneratesTrees, HasHiddenStates, Model, ScoresSentences, ScoresTokens, TokenScores
from syntaxlm.models.batches import State, TextMode, TokenBatch, TreeBatch
from syntaxlm.models.registry import require
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.text.vocabulary import Vocabulary

TOKEN_BUDGET = 8192  # tokens of a batch of sentences or trees, padding included
SENTENCES = 1 << 15  # sentences batched at a time: enough for batches of similar length
TOKENS = 1 << 15  # tokens of a part of a text whose hidden states are in memory until they are in order
COLUMNS, STEPS = 32, 128  # of a batch of a stream if only the sum is needed
STREAM_STEPS = 1024  # of a batch of a stream in one column

LogProbs = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ScoredTokens:
    """The predicted tokens of a part of a text, in text order.

    tokens: (n,) int64, including ends of sentences if these are predicted.  log_probs: (n,), natural.
    hidden: (n, F), the decoder's inputs; None unless requested.
    """

    tokens: Tensor
    log_probs: Tensor
    hidden: Tensor | None = None


@dataclass(frozen=True)
class Scorer:
    """Log-probabilities of one model.

    mode: how text is read.  name: model type, for messages.
    Raises InputError for a mode that the model does not support.
    """

    model: Model
    vocabulary: Vocabulary
    mode: TextMode
    name: str = "model"

    def __post_init__(self) -> None:
        if self.model.reads == "sentences" and self.mode != TextMode():
            raise InputError(
                f"text read as {self.mode}: a {self.name} model reads text sentence by sentence and predicts the ends;"
                " leave --context carry out"
            )
        if self.vocabulary.is_open and self.mode.carry_state and self.mode.predict_eos:
            raise InputError(
                f"text read as {self.mode}: a {self.name} model reads a stream as running text, without ends of"
                " sentences; use --no-predict-eos, or leave --context carry out"
            )

    @classmethod
    def of(cls, bundle: ModelBundle, mode: TextMode | None = None) -> Scorer:
        """Return the scorer of a stored model. mode: how text is read; None: as in training.

        Warns if the state is carried and the model was trained on single sentences.
        """
        scorer = cls(bundle.model, bundle.vocabulary, mode or bundle.mode, bundle.name)
        on_sentences = not (bundle.mode.carry_state or bundle.vocabulary.is_open or scorer.model.reads == "trees")
        if scorer.mode.carry_state and on_sentences:
            warnings.warn(
                "the model was trained on single sentences and now carries its state: after earlier sentences its"
                " probabilities are less reliable. Reset the state at each sentence",
                InputWarning,
                stacklevel=3,
            )
        return scorer

    def tokens(self, corpus: EncodedCorpus, hidden: bool = False) -> Iterator[ScoredTokens]:
        """Return all predicted tokens of a text in text order, in parts. Leaves the model in evaluation mode.

        A stream is read in one column. hidden: whether hidden states are returned too.
        Raises InputError for a model without token probabilities or, if requested, hidden states.
        """
        model = self._token_model(hidden)
        if self.mode.carry_state:
            stream = self.stream(hidden)
            return (stream.read(part) for part in _parts(corpus, TOKENS))
        return (self._sentence_tokens(model, part, hidden) for part in _parts(corpus, TOKENS))

    def stream(self, hidden: bool = False) -> TokenStream:
        """Read sentences as one stream that continues from call to call. Raises InputError like `tokens`."""
        return TokenStream(self._token_model(hidden), self.vocabulary, self.mode.predict_eos, hidden, self.name)

    def sentences(self, sentences: Iterable[Sequence[str]]) -> LogProbs:
        """Return natural log-probability of each tokenised sentence, read independently: (S,), in order.

        The end of the sentence counts if the model predicts it; then a sentence without tokens has the probability of
        ending immediately. An iterator is read about ten thousand sentences at a time, and repeated sentences are
        scored once per such part; of a sequence, once in all.
        Raises InputError for a model without sentence probabilities, and if it returns NaN.
        """
        encode = self.vocabulary.encode
        if not isinstance(sentences, Sequence):
            return _checked(self._encoded_sentences(map(encode, sentences)), self.name)
        ids = [tuple(encode(sentence)) for sentence in sentences]
        places = {one: place for place, one in enumerate(dict.fromkeys(ids))}
        return _checked(self._encoded_sentences(places), self.name)[[places[one] for one in ids]]

    def _encoded_sentences(self, sentences: Iterable[Sequence[int]]) -> LogProbs:
        model = require(self.model, ScoresSentences, self.name, "scoring of sentences")
        total = len(sentences) if isinstance(sentences, Sized) else None
        left = iter(sentences)
        chunks = iter(lambda: list(islice(left, SENTENCES)), [])
        parts = [
            self._sentence_sums(model, EncodedCorpus.from_sentences(chunk))
            for chunk in progress_bar(chunks, "scoring sentences", total, len)
        ]
        return np.concatenate(parts) if parts else np.zeros(0)

    def trees(self, corpus: DependencyCorpus) -> LogProbs:
        """Return natural log-probability of each word given its path in its tree, in sentence order: (N,).

        Raises InputError for a model that reads text, for trees without labels if the model reads labels, and if the
        model returns NaN.
        """
        return _checked(self._tree_words(corpus), self.name)

    def _tree_words(self, corpus: DependencyCorpus) -> LogProbs:
        model = self._token_model()
        require(self.model, GeneratesTrees, self.name, "scoring of dependency trees")
        check_labels(self.model, corpus)
        found = np.zeros(corpus.text.word_count)
        batches = TreeBatches(corpus, TOKEN_BUDGET, shuffle=False, seed=0)
        for batch, scores in _read(model, progress_bar(batches.iterate(), "scoring", batches.count(0))):
            found[batches.places(batch).numpy()] = scores.log_probs.cpu().numpy()
        return found

    def total(self, corpus: EncodedCorpus | DependencyCorpus) -> float:
        """Return natural log-probability of a text, or of the words of trees given the trees; may be NaN."""
        if isinstance(corpus, DependencyCorpus):
            return float(self._tree_words(corpus).sum())
        if not self.mode.carry_state:
            model = require(self.model, ScoresSentences, self.name, "perplexity")
            return sum(float(self._sentence_sums(model, part).sum()) for part in _parts(corpus, SENTENCES * 8))
        total = 0.0
        columns = min(COLUMNS, max(1, (corpus.word_count + len(corpus)) // 2000))
        batches = StreamBatches(corpus, self.vocabulary, columns, STEPS)
        shown = progress_bar(batches.iterate(), "scoring", batches.count(0))
        for batch, scores in _read(self._token_model(), shown):
            counted = scores.log_probs
            if not self.mode.predict_eos:
                counted = counted.masked_fill(batch.targets == self.vocabulary.end_id, 0.0)
            total += float(counted.sum(dtype=torch.float64))
        return total

    def _token_model(self, hidden: bool = False) -> ScoresTokens:
        if hidden:
            return require(self.model, HasHiddenStates, self.name, "a neural cache")
        return require(self.model, ScoresTokens, self.name, "scoring of tokens")

    def _batches(self, corpus: EncodedCorpus) -> SentenceBatches:
        return SentenceBatches(
            corpus, self.vocabulary, TOKEN_BUDGET, shuffle=False, seed=0, predict_eos=self.mode.predict_eos
        )

    def _sentence_tokens(self, model: ScoresTokens, corpus: EncodedCorpus, hidden: bool) -> ScoredTokens:
        """Score the sentences of a part of a text, each read independently."""
        distinct, index = _distinct(corpus)
        batches = self._batches(distinct)
        places, tokens, log_probs, states = [], [], [], []
        for batch, scores in _read(model, batches.iterate()):
            places.append(batches.places(batch))
            mask = batch.mask()
            tokens.append(batch.targets[mask])
            log_probs.append(scores.log_probs[mask])
            if hidden:
                assert scores.hidden is not None
                states.append(scores.hidden)
        order = torch.cat(places).argsort()
        if index is not None:  # positions, among the tokens of the distinct sentences, of those of all sentences
            lengths = distinct.lengths + int(self.mode.predict_eos)
            starts, counts = np.cumsum(lengths) - lengths, lengths[index]
            within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            order = order[torch.from_numpy(np.repeat(starts[index], counts) + within)]
        order = order.to(tokens[0].device)
        values = _checked(torch.cat(log_probs)[order], self.name)
        return ScoredTokens(torch.cat(tokens)[order], values, torch.cat(states)[order] if hidden else None)

    @torch.no_grad()
    def _sentence_sums(self, model: ScoresSentences, corpus: EncodedCorpus) -> LogProbs:
        """(S,) log-probabilities of sentences read independently; 0 for empty ones if ends are not predicted."""
        distinct, index = _distinct(corpus)
        found = np.zeros(len(distinct))
        if not self.mode.predict_eos and not distinct.lengths.all():
            full = np.flatnonzero(distinct.lengths)
            if len(full):
                sentences = EncodedCorpus.from_sentences([distinct.sentence(int(number)) for number in full])
                found[full] = self._sentence_sums(model, sentences)
            return found if index is None else found[index]
        # A model of whole sentences compares all spans, which takes time as the cube of the length.
        power = 3 if self.model.reads == "sentences" else 1

        def work(batch: TokenBatch) -> float:
            assert batch.lengths is not None
            return float((batch.lengths.double() ** power).sum())

        total = float(((distinct.lengths + int(self.mode.predict_eos)).astype(float) ** power).sum())
        self.model.eval()
        for batch in progress_bar(self._batches(distinct).iterate(), "scoring", total, work, percent=True):
            assert batch.indices is not None
            log_probs = model.sentence_log_probs(batch.to(self.model.device))
            found[batch.indices.numpy()] = log_probs.double().cpu().numpy()
        return found if index is None else found[index]


class TokenStream:
    """A text read as one stream across calls. The first token follows BOS."""

    def __init__(
        self, model: ScoresTokens, vocabulary: Vocabulary, predict_eos: bool, hidden: bool, name: str = "model"
    ) -> None:
        self._model, self._vocabulary, self._predict_eos, self._hidden = model, vocabulary, predict_eos, hidden
        self._name = name
        self._state: State = None
        self._last = vocabulary.begin_id  # the last token read
        self._carries = False

    def read(self, corpus: EncodedCorpus) -> ScoredTokens:
        """Score further sentences that follow all previous ones. Ends are read, and scored if they are predicted."""
        ends = corpus.offsets[1:]
        targets = torch.from_numpy(np.insert(np.asarray(corpus.ids), ends, self._vocabulary.end_id)).long()
        inputs = torch.cat([torch.tensor([self._last]), targets[:-1]])
        self._last = int(targets[-1])
        scored = [scores for _, scores in _read(self._model, self._batches(inputs, targets), self._state)]
        self._state = scored[-1].state
        device = scored[0].log_probs.device
        log_probs = _checked(torch.cat([one.log_probs[:, 0] for one in scored]), self._name)
        hidden = torch.cat([one.hidden for one in scored if one.hidden is not None]) if self._hidden else None
        targets = targets.to(device)
        if self._predict_eos:
            return ScoredTokens(targets, log_probs, hidden)
        kept = torch.ones(len(targets), dtype=torch.bool, device=device)
        kept[torch.from_numpy(ends + np.arange(len(ends))).to(device)] = False
        return ScoredTokens(targets[kept], log_probs[kept], None if hidden is None else hidden[kept])

    def _batches(self, inputs: Tensor, targets: Tensor) -> Iterator[TokenBatch]:
        for start in range(0, len(targets), STREAM_STEPS):
            part = slice(start, start + STREAM_STEPS)
            yield TokenBatch(inputs[part, None], targets[part, None], carries=self._carries)
            self._carries = True


def check_labels(model: Model, corpus: DependencyCorpus) -> None:
    """Raise InputError if a model reads edge labels and the trees have none."""
    if isinstance(model, GeneratesTrees) and model.reads_labels and not corpus.labelled:
        raise InputError(
            f"{corpus.source or 'the trees'}: no edge has a label; the model reads labels (model.labelled is true)"
        )


Values = TypeVar("Values", Tensor, LogProbs)
AnyBatch = TypeVar("AnyBatch", TokenBatch, TreeBatch)


@torch.no_grad()
def _read(
    model: ScoresTokens, batches: Iterable[AnyBatch], state: State = None
) -> Iterator[tuple[AnyBatch, TokenScores]]:
    """Yield each batch, on the model's device, with its scores. State is carried if a batch continues the previous
    one.
    """
    assert isinstance(model, Model)
    model.eval()
    for batch in batches:
        batch = batch.to(model.device)
        scores = model.token_log_probs(batch, state if batch.carries else None)
        state = scores.state
        yield batch, scores


def _parts(corpus: EncodedCorpus, tokens: int) -> Iterator[EncodedCorpus]:
    """Yield the corpus in parts of whole sentences, of at most `tokens` tokens with their ends, or of one sentence."""

    def start(sentence: int) -> int:  # one at a time: offsets may be on disk and are never all in memory
        return int(corpus.offsets[sentence]) + sentence

    first = 0
    while first < len(corpus):
        end = bisect_right(range(len(corpus) + 1), start(first) + tokens, key=start)
        last = max(first + 1, end - 1)
        offsets = np.asarray(corpus.offsets[first : last + 1])
        yield EncodedCorpus(corpus.ids[offsets[0] : offsets[-1]], offsets - offsets[0], corpus.line_numbers[first:last])
        first = last


def _distinct(corpus: EncodedCorpus) -> tuple[EncodedCorpus, Integers | None]:
    """Return the distinct sentences of a corpus, and for each sentence its index among them; None if none is repeated.

    Scoring repeated sentences once saves time and keeps ties: rounding differs between batches.
    """
    ids, offsets = np.asarray(corpus.ids), np.asarray(corpus.offsets)
    places: dict[bytes, int] = {}
    index = np.empty(len(corpus), np.int64)
    for number in range(len(corpus)):
        key = ids[offsets[number] : offsets[number + 1]].tobytes()
        index[number] = places.setdefault(key, len(places))
    if len(places) == len(corpus):
        return corpus, None
    first = np.unique(index, return_index=True)[1]
    return EncodedCorpus.from_sentences([ids[offsets[one] : offsets[one + 1]].tolist() for one in first]), index


def _checked(log_probs: Values, name: str) -> Values:
    if bool(torch.as_tensor(log_probs).isnan().any()):
        raise unusable(name)
    return log_probs


def unusable(name: str) -> InputError:
    """Return the error for a model that returns NaN."""
    return InputError(f"{name}: the model returned NaN; its weights are unusable")
