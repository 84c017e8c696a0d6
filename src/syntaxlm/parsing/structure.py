"""The structure that models compute for sentences, and the decoders that turn it into trees.

Models have different types of structure: distances between words, by layer; scores of spans; probabilities of spans,
optionally with labels; or heads of words. Each type has its own decoders (`Rule`). Other modules only use the name of a
decoder.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from syntaxlm.batches import SentenceBatches
from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.core.files import keep_freed_memory
from syntaxlm.core.progress import progress_bar
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.models.abilities import FindsBestTrees, LabelsSpans, Model, Parses
from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.structures import Distances, Heads, SpanMarginals
from syntaxlm.models.structures import SpanScores as BatchSpanScores
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.trees.averaging import average
from syntaxlm.trees.charts import MAXIMUM_WORDS
from syntaxlm.trees.decoding import (
    DECODING_RULES,
    HEAD_RULES,
    SPAN_RULES,
    DecodingRule,
    HeadRule,
    SpanRule,
    SpanScores,
    decode,
    decode_heads,
    decode_spans,
    places_of,
)
from syntaxlm.trees.matching import beginning
from syntaxlm.trees.spans import AnyIntegers, Flags, Integers, Positions, SpanSets, gathered, offsets_of
from syntaxlm.trees.tree import INDUCED_LABEL

TOKEN_BUDGET = 1 << 12  # tokens per batch: enough for large products, few enough that freed memory is reused
SPAN_BUDGET = 1 << 17  # spans per batch, including padding, for models that score spans; each span has many features

LONG_SENTENCE = 400  # words; the time for longer sentences is extrapolated, for models that score spans
TRIED_WORDS = 100  # words that are parsed for this

MarginalRule = Literal["mbr", "viterbi"]
MARGINAL_RULES: tuple[MarginalRule, ...] = get_args(MarginalRule)
Rule = DecodingRule | SpanRule | MarginalRule | HeadRule
RULES: tuple[Rule, ...] = (*DECODING_RULES, *SPAN_RULES, *MARGINAL_RULES, *HEAD_RULES)
COSTLY_RULES: tuple[Rule, ...] = ("viterbi",)  # need another, slow pass over the text: used only on request
Values: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Structure:
    """The structure that a model computes for a sequence of sentences.

    lengths: (S,), number of words of each sentence.
    distances: (layers, words), sentence after sentence; zero layers for a model without distances.
    span_scores: log-probabilities of spans among those with the same end; None for a model that does not score spans.
    marginals: probability of each span given the sentence, 1 for single words; None for a model without marginals.
    labels: index into `label_names` of each span, in the order of the marginals, -1 for no label; None for a model
        without labels, or if labels were not requested.
    find_best_trees: computes the most probable tree of each sentence, with labels and single words; None for a model
        that cannot.
    heads: (words,), sentence after sentence, position of each word's head in its sentence, from 1, 0 for the root; None
        for a model without dependency trees.
    """

    lengths: Integers
    distances: Values
    span_scores: SpanScores | None = None
    marginals: SpanScores | None = None
    labels: Positions | None = None
    label_names: tuple[str, ...] = ()
    find_best_trees: Callable[[], SpanSets] | None = None
    heads: Positions | None = None

    def decode(self, rule: Rule, layer: int = 1) -> SpanSets:
        """Return the trees of a decoder: all spans of two words or more, without labels.

        rule: a decoder of the model. `mbr` returns the tree with the largest sum of marginals (minimum Bayes risk),
            `viterbi` the most probable tree, which is computed on first use. `heads` and `heads-binary` return the
            constituents of the most probable dependency tree, see `decode_heads`.
        layer: layer of the distances, from 1, for decoders of distances.
        """
        if rule in DECODING_RULES:
            return decode(self.distances[layer - 1], self.lengths, rule)
        if rule in SPAN_RULES:
            assert self.span_scores is not None
            return decode_spans(self.span_scores, rule)
        if rule == "viterbi":
            best = self._best_trees
            kept = best.ends - best.starts > 1
            return gathered(self.lengths, [(best.sentences()[kept], best.starts[kept], best.ends[kept])])
        if rule in HEAD_RULES:
            assert self.heads is not None
            return decode_heads(self.heads, self.lengths, rule)
        assert self.marginals is not None
        return average([self.marginals])

    def for_average(self, rule: Rule, layer: int = 1) -> SpanSets | SpanScores:
        """Return the input of an average with other models: marginals for the decoder `mbr`, else trees."""
        if rule == "mbr":
            assert self.marginals is not None
            return self.marginals
        return self.decode(rule, layer)

    def labelled(self, rule: Rule) -> SpanSets:
        """Return the trees of `mbr` or `viterbi` with the labels of their spans, including single words.

        Single words without a label are left out. Longer spans without a label have the label X.
        Raises ValueError for a model without labels, and for other decoders.
        """
        if self.labels is None or self.marginals is None or rule not in MARGINAL_RULES:
            raise ValueError(f"trees of the decoder {rule} have no labels")
        if rule == "viterbi":
            return self._best_trees
        trees = self.decode(rule)
        words = np.arange(self.lengths.sum()) - np.repeat(offsets_of(self.lengths)[:-1], self.lengths)
        singles = (np.repeat(np.arange(len(self.lengths)), self.lengths), words, words + 1)
        spans = gathered(self.lengths, [(trees.sentences(), trees.starts, trees.ends), singles])
        codes = self.labels[places_of(self.marginals.offsets[spans.sentences()], spans.starts, spans.ends)]
        return _labelled(spans, codes, self.label_names)

    @cached_property
    def _best_trees(self) -> SpanSets:
        assert self.find_best_trees is not None
        return self.find_best_trees()


RULES_OF: dict[type, tuple[Rule, ...]] = {
    Distances: DECODING_RULES,
    BatchSpanScores: SPAN_RULES,
    SpanMarginals: MARGINAL_RULES,
    Heads: HEAD_RULES,
}


def rules_of(model: Model) -> tuple[Rule, ...]:
    """Return the decoders of a model, its default first; empty for a model that does not parse."""
    if not isinstance(model, Parses):
        return ()
    rules = RULES_OF[model.structure_type]
    return rules if isinstance(model, FindsBestTrees) else tuple(rule for rule in rules if rule != "viterbi")


def rules_for(models: Sequence[ModelBundle], rule: Rule | None) -> tuple[Rule, ...]:
    """Return the decoder of each model: the requested one if the model has it, otherwise its default.

    Raises InputError for a model that does not parse, and for a decoder that none of the models has.
    """
    for one in models:
        one.require(Parses, "parsing")
    own = [rules_of(one.model) for one in models]
    if rule is not None and not any(rule in rules for rules in own):
        kinds = {one.name: ", ".join(rules) for one, rules in zip(models, own, strict=True)}
        has = "; ".join(f"{name} models have {rules}" for name, rules in kinds.items())
        raise InputError(f"decoder {rule}: {has}")
    return tuple(rule if rule in rules else rules[0] for rules in own)


def layer_of(stored: ModelBundle, layer: int | None) -> int:
    """Return the requested layer, from 1, or for None the model's default.

    Raises InputError for a layer that the model lacks.
    """
    model = stored.require(Parses, "parsing")
    if layer is None:
        return model.default_layer
    if model.distance_layers and not 1 <= layer <= model.distance_layers:
        raise InputError(f"layer {layer}: the model has distances of layers 1 to {model.distance_layers}")
    return layer


def layers_for(models: Sequence[ModelBundle], layer: int | None) -> tuple[int, ...]:
    """Return `layer_of` each model; it is ignored for models without distances.

    Raises InputError for a layer that a model with distances lacks, and for any layer if no model has distances.
    """
    if layer is not None and not any(one.require(Parses, "parsing").distance_layers for one in models):
        raise InputError(f"layer {layer}: no model has distances; expected no layer")
    return tuple(layer_of(one, layer) for one in models)


def structure_of(
    stored: ModelBundle,
    sentences: Sequence[Sequence[str]],
    labels: bool = True,
    numbers: Sequence[int] | None = None,
) -> Structure:
    """Compute the structure of tokenised sentences in one pass.

    Each sentence is read from an empty state, between BOS and EOS.
    labels: compute labels of spans, if the model has them; this takes more time.
    numbers: of the sentences in their source, for messages; None: 1, 2, ...
    Raises InputError for a sentence that is too long for a model that compares all spans.
    """
    encode = stored.vocabulary.encode
    corpus = EncodedCorpus.from_sentences([encode(sentence) for sentence in sentences])
    return _structure(stored, corpus, labels, numbers)


def distances_of(stored: ModelBundle, corpus: EncodedCorpus) -> npt.NDArray[np.float32]:
    """Compute the syntactic distances of all words, sentence after sentence: (layers, words).

    Sentences are read as in `structure_of`. Raises InputError for a model without distances.
    """
    if not stored.require(Parses, "parsing").distance_layers:
        raise InputError(f"this {stored.name} model has no distances")
    return _structure(stored, corpus).distances


@torch.no_grad()
def _structure(
    stored: ModelBundle, corpus: EncodedCorpus, labelled: bool = False, numbers: Sequence[int] | None = None
) -> Structure:
    keep_freed_memory()
    model, lengths = stored.require(Parses, "parsing"), corpus.lengths
    numbers = range(1, len(lengths) + 1) if numbers is None else numbers
    if model.structure_type is not Distances:
        _check_words(stored, corpus, numbers)
    distances = np.zeros((model.distance_layers, corpus.word_count), np.float32)
    scores = labels = None
    heads = None
    if model.structure_type is Heads:
        heads = np.zeros(corpus.word_count, np.int32)
    elif model.structure_type is not Distances:
        scores = SpanScores(lengths, _room_for_spans(lengths, np.float32, numbers))
    names = tuple(model.labels) if isinstance(model, LabelsSpans) else ()
    read = model.structure
    if labelled and isinstance(model, LabelsSpans):
        read = model.labelled_structure
        labels = _room_for_spans(lengths, np.int32, numbers)
    _warn_of_long(stored, corpus, read, numbers)
    for batch in _shown(_batches(stored, corpus), model, lengths):
        found = _within_memory(read, batch.to(stored.model.device), numbers)
        words, indices = _real(batch)
        if isinstance(found, Distances):
            inner = found.values[:, 1:-1].cpu().numpy()
            steps = np.arange(inner.shape[1])[:, None]
            real = steps < words
            distances[:, (corpus.offsets[indices] + steps)[real]] = inner[:, real]
        elif isinstance(found, Heads):
            assert heads is not None
            values = found.values.cpu().numpy()
            steps = np.arange(values.shape[1])
            real = steps < words[:, None]
            heads[(corpus.offsets[indices][:, None] + steps)[real]] = values[real]
        elif isinstance(found, BatchSpanScores):
            assert scores is not None
            scores.values[scores.places(indices)] = _spans_of_words(found.values, words)
        else:
            assert scores is not None
            _place(found.values.float(), scores.values, scores.offsets[indices], words)
            if labels is not None:
                assert found.labels is not None
                _place(found.labels.int(), labels, scores.offsets[indices], words)
    if model.structure_type is not SpanMarginals:
        return Structure(lengths, distances, scores, heads=heads)
    assert scores is not None
    last = np.arange(lengths.sum()) - np.repeat(offsets_of(lengths)[:-1], lengths)
    scores.values[np.repeat(scores.offsets[:-1], lengths) + last * (last + 1) // 2] = 1  # single words
    find = partial(_best_trees, stored, corpus) if isinstance(model, FindsBestTrees) else None
    return Structure(lengths, distances, None, scores, labels, names, find)


def _shown(batches: Iterator[TokenBatch], model: Parses, lengths: Integers) -> Iterator[TokenBatch]:
    """Yield batches with a progress bar. The time of models that compare all spans is cubic in sentence length."""
    power = 1 if model.structure_type is Distances else 3

    def work(batch: TokenBatch) -> float:
        return float((_real(batch)[0].astype(float) ** power).sum())

    return progress_bar(batches, "parsing", float((lengths.astype(float) ** power).sum()), work, percent=True)


def _check_words(stored: ModelBundle, corpus: EncodedCorpus, numbers: Sequence[int]) -> None:
    """Raise InputError for a sentence with too many spans, before memory is taken for them."""
    longest = int(corpus.lengths.argmax())
    words = int(corpus.lengths[longest])
    if words > MAXIMUM_WORDS:
        raise InputError(
            f"sentence {numbers[longest]}: found {words:,} words ({_beginning(stored, corpus, longest)}); expected at"
            f" most {MAXIMUM_WORDS:,}, because {stored.name} models compare all spans. Split the sentence, or parse it"
            " with a model of syntactic distances."
        )


def _beginning(stored: ModelBundle, corpus: EncodedCorpus, sentence: int) -> str:
    """Return the first words of a sentence, for messages."""
    return beginning([stored.vocabulary.tokens[word] for word in corpus.sentence(sentence)])


def _warn_of_long(
    stored: ModelBundle, corpus: EncodedCorpus, read: Callable[[TokenBatch], Any], numbers: Sequence[int]
) -> None:
    """Warn if the longest sentence takes minutes. The time is extrapolated from that of its first words."""
    longest = int(corpus.lengths.argmax())
    words = int(corpus.lengths[longest])
    if stored.require(Parses, "parsing").structure_type is Distances or words <= LONG_SENTENCE:
        return
    start = EncodedCorpus.from_sentences([corpus.sentence(longest)[:TRIED_WORDS]])
    (batch,) = (one.to(stored.model.device) for one in _batches(stored, start))
    read(batch)  # warm-up
    started = time.perf_counter()
    read(batch)
    minutes = (time.perf_counter() - started) * (words / TRIED_WORDS) ** 3 / 60
    if minutes > 1:
        warnings.warn(
            InputWarning(
                f"sentence {numbers[longest]}: found {words:,} words ({_beginning(stored, corpus, longest)}). Parsing"
                f" the sentence takes about {minutes:,.0f} minutes, because {stored.name} models compare all spans."
                " Split it, or parse it with a model of syntactic distances."
            ),
            stacklevel=2,
        )


def _within_memory(read: Callable[[TokenBatch], Any], batch: TokenBatch, numbers: Sequence[int]) -> Any:
    """Compute the structure of a batch. Raises InputError if its charts do not fit in memory."""
    try:
        return read(batch)
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "memory" not in str(error):
            raise
        words, indices = _real(batch)
        raise _too_long(words, [numbers[index] for index in indices]) from error


def _too_long(lengths: Integers, numbers: Sequence[int]) -> InputError:
    """Return the error for sentences whose spans do not fit in memory. It names the longest one."""
    longest = int(lengths.argmax())
    return InputError(
        f"sentence {numbers[longest]}: found {lengths[longest]:,} words; the scores of its spans do not fit in memory."
        " Split the sentence, or parse it with a model of syntactic distances."
    )


def _real(batch: TokenBatch) -> tuple[Integers, Integers]:
    """Return the number of words of each column, and the index of its sentence, (B,) each."""
    assert batch.lengths is not None
    assert batch.indices is not None
    return batch.lengths.numpy() - 2, batch.indices.numpy()  # without BOS and EOS


def _place(charts: Tensor, flat: npt.NDArray[np.generic], offsets: Integers, words: Integers) -> None:
    """Copy charts to a flat array in the order of `SpanScores`.

    charts: (B, n, n), by first and last word.
    offsets: (B,), index in `flat` of the first span of each sentence.
    words: (B,), number of words of each sentence.
    Spans are ordered by their last word, so the spans of a sentence come first in the chart of a longer one.
    """
    size = charts.shape[1]
    if charts.shape[1:] != (size, size) or size < words.max():
        raise ValueError(f"charts of shape {tuple(charts.shape)}, expected (B, n, n) for up to {words.max()} words")
    rows = charts.cpu().numpy().reshape(len(charts), -1).take(_triangle(size), axis=1)
    counts = words * (words + 1) // 2
    for row, offset, count in zip(rows, offsets.tolist(), counts.tolist(), strict=True):
        flat[offset : offset + count] = row[:count]


@lru_cache(maxsize=4)  # consecutive batches have the same length
def _triangle(size: int) -> Integers:
    """Return the indices of the spans in a flattened chart of n words, by last word, then by length."""
    last, before = np.tril_indices(size)
    places: Integers = (last - before) * size + last
    return places


@torch.no_grad()
def _best_trees(stored: ModelBundle, corpus: EncodedCorpus) -> SpanSets:
    """Compute the most probable trees of sentences, with labels and single words."""
    model, lengths = stored.require(FindsBestTrees, "decoding by viterbi"), corpus.lengths
    names = model.labels if isinstance(model, LabelsSpans) else ()
    found: list[Integers] = [np.zeros((0, 4), np.int64)]
    for batch in _shown(_batches(stored, corpus), model, lengths):
        trees = model.best_trees(batch.to(stored.model.device))
        for index, tree in zip(_real(batch)[1].tolist(), trees, strict=True):
            spans = np.array(tree, np.int64).reshape(-1, 3)
            found.append(np.insert(spans, 0, index, axis=1))
    rows = np.concatenate(found)
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    sentence, first, last, label = rows.T
    return _labelled(gathered(lengths, [(sentence, first, last + 1)]), label, tuple(names))


def _labelled(spans: SpanSets, codes: AnyIntegers, names: tuple[str, ...]) -> SpanSets:
    """Add labels to spans.

    codes: index into `names` of each span, -1 for no label. Single words without a label are left out, and longer spans
        without a label have the label X.
    """
    kept = (codes >= 0) | (spans.ends - spans.starts > 1)
    counts = np.bincount(spans.sentences()[kept], minlength=len(spans))
    codes = np.where(codes < 0, len(names), codes)[kept].astype(np.int32)
    names = (*names, INDUCED_LABEL)
    return SpanSets(spans.lengths, offsets_of(counts), spans.starts[kept], spans.ends[kept], codes, names)


def _spans_of_words(scores: Tensor, words: Integers) -> npt.NDArray[np.float32]:
    """Return the scores of all spans without BOS and EOS, in the order of `SpanScores`.

    scores: (T, B, m), of sentences between BOS and EOS.  words: (B,), number of words of each sentence.
    """
    longest = len(scores) - 2
    if scores.shape[2] < longest:
        raise ValueError(f"scores of spans of up to {scores.shape[2]} words, expected those of up to {longest}")
    # Spans that end at a word are found at the step after it; longer ones start before the first word.
    of_ends = scores[2:, :, :longest].transpose(0, 1).cpu()
    end, length = np.arange(1, longest + 1)[:, None], np.arange(1, longest + 1)
    real: Flags = (length <= end) & (end <= words[:, None, None])
    return of_ends[torch.from_numpy(real)].float().numpy()


def _room_for_spans(lengths: Integers, number_type: type[np.generic], numbers: Sequence[int]) -> npt.NDArray[Any]:
    """Return zeros for all spans of sentences with these lengths. Raises InputError if they do not fit in memory."""
    try:
        return np.zeros(int((lengths * (lengths + 1) // 2).sum()), number_type)
    except MemoryError as error:
        raise _too_long(lengths, numbers) from error


def _batches(stored: ModelBundle, corpus: EncodedCorpus) -> Iterator[TokenBatch]:
    """Yield batches of sentences between BOS and EOS, longest first.

    Batches are smaller for models that score spans, which need memory for every span.
    """
    batches = SentenceBatches(corpus, stored.vocabulary, TOKEN_BUDGET, shuffle=False, seed=0, closed=True)
    for indices in batches.epoch(0):
        while len(indices):
            together = len(indices)
            if stored.require(Parses, "parsing").structure_type is not Distances:
                together = max(1, SPAN_BUDGET // int(corpus.lengths[indices[0]] + 2) ** 2)
            yield batches.batch(indices[:together])
            indices = indices[together:]
