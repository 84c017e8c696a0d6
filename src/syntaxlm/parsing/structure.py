"""What models say of the structure of sentences, and the rules by which it becomes trees.

Models differ in what they say (`Syntax`): distances between words, by layer, or scores of spans. Each kind has rules of
its own; all else that has to do with trees asks for a rule's name and gets trees.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from syntaxlm.allocation import keep_freed_memory
from syntaxlm.batches import SentenceBatches
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.errors import InputError
from syntaxlm.model_io import ModelBundle
from syntaxlm.models.abilities import Distances, Model, Parses
from syntaxlm.models.abilities import SpanScores as BatchSpanScores
from syntaxlm.models.batches import TokenBatch
from syntaxlm.trees import DECODING_RULES, DecodingRule, SpanSets, decode
from syntaxlm.trees.span_decoding import SPAN_RULES, SpanRule, SpanScores, decode_spans
from syntaxlm.trees.spans import Flags, Integers

TOKEN_BUDGET = 1 << 12  # tokens of a parsing batch: enough for large products, few enough that freed blocks are kept
SPAN_BUDGET = 1 << 17  # of a model that scores spans: spans of a batch, padding included; each takes many features

Rule = DecodingRule | SpanRule
RULES: tuple[Rule, ...] = (*DECODING_RULES, *SPAN_RULES)


@dataclass(frozen=True, eq=False)
class Structure:
    """What a model says of many sentences; each part where it gives it.

    lengths: (S,) words of each sentence.  distances: (layers, words), sentence after sentence; of no layer for a model
    without.  span_scores: log-probabilities among the spans that end at one word; None for a model without.
    """

    lengths: Integers
    distances: npt.NDArray[np.float32]
    span_scores: SpanScores | None = None

    def decode(self, rule: Rule, layer: int = 1) -> SpanSets:
        """The trees by one of the model's rules. layer: whose distances, where the rule takes distances; 1 is first."""
        if rule in DECODING_RULES:
            return decode(self.distances[layer - 1], self.lengths, rule)
        assert self.span_scores is not None
        return decode_spans(self.span_scores, cast(SpanRule, rule))


RULES_OF: dict[type, tuple[Rule, ...]] = {Distances: DECODING_RULES, BatchSpanScores: SPAN_RULES}


def rules_of(model: Model) -> tuple[Rule, ...]:
    """The decoders of a model's structure, its default first; none for a model that does not parse."""
    return RULES_OF[model.structure_type] if isinstance(model, Parses) else ()


def rules_for(models: Sequence[ModelBundle], rule: Rule | None) -> tuple[Rule, ...]:
    """By which rule each of the models parses: the one asked for where it has that, otherwise its default.

    Raises InputError for a model that does not parse, and for a rule that none of the models has.
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
    """The layer asked for, 1 is the first; of None, the model's own. Raises InputError for one that there is not."""
    model = stored.require(Parses, "parsing")
    if layer is None:
        return model.default_layer
    if model.distance_layers and not 1 <= layer <= model.distance_layers:
        raise InputError(f"layer {layer}: the model has distances of layers 1 to {model.distance_layers}")
    return layer


def layers_for(models: Sequence[ModelBundle], layer: int | None) -> tuple[int, ...]:
    """`layer_of` each of the models; those without distances have no use for theirs.

    Raises InputError for a layer that a model with distances has not, and for any where no model has distances.
    """
    if layer is not None and not any(one.require(Parses, "parsing").distance_layers for one in models):
        raise InputError(f"layer {layer}: trees of span scores are of no layer; only distances are")
    return tuple(layer_of(one, layer) for one in models)


def structure_of(stored: ModelBundle, sentences: Sequence[Sequence[str]]) -> Structure:
    """What a model says of tokenised sentences, from one reading.

    Each sentence is read with its begin and end around it, from no state.
    """
    encode = stored.vocabulary.encode
    return _structure(stored, EncodedCorpus.from_sentences([encode(sentence) for sentence in sentences]))


def distances_of(stored: ModelBundle, corpus: EncodedCorpus) -> npt.NDArray[np.float32]:
    """The syntactic distances of all words, sentence after sentence: (layers, words).

    Read as by `structure_of`. Raises InputError for a model without any.
    """
    if not stored.require(Parses, "parsing").distance_layers:
        raise InputError(f"this {stored.name} model has no distances")
    return _structure(stored, corpus).distances


@torch.no_grad()
def _structure(stored: ModelBundle, corpus: EncodedCorpus) -> Structure:
    keep_freed_memory()
    model, lengths = stored.require(Parses, "parsing"), corpus.lengths
    distances = np.zeros((model.distance_layers, corpus.word_count), np.float32)
    scores = None
    if model.structure_type is BatchSpanScores:
        scores = SpanScores(lengths, _zeros(lengths))
    for batch in _batches(stored, corpus):
        found = model.structure(batch.to(stored.model.device))
        assert batch.lengths is not None
        assert batch.indices is not None
        words, indices = batch.lengths.numpy() - 2, batch.indices.numpy()  # without BOS and EOS
        if isinstance(found, Distances):
            inner = found.values[:, 1:-1].cpu().numpy()
            steps = np.arange(inner.shape[1])[:, None]
            real = steps < words
            distances[:, (corpus.offsets[indices] + steps)[real]] = inner[:, real]
        elif scores is not None:
            scores.values[scores.places(indices)] = _spans_of_words(found.values, words)
    return Structure(lengths, distances, scores)


def _spans_of_words(scores: Tensor, words: Integers) -> npt.NDArray[np.float32]:
    """The scores of the spans of words alone, in the order of `SpanScores`.

    scores: (T, B, m), of sentences between BOS and EOS.  words: (B,) of each sentence.
    """
    longest = len(scores) - 2
    if scores.shape[2] < longest:
        raise ValueError(f"scores of spans of up to {scores.shape[2]} words, expected those of up to {longest}")
    # Those of the spans that end at a word stand at the step after it; longer ones start before the first word.
    of_ends = scores[2:, :, :longest].transpose(0, 1).cpu()
    end, length = np.arange(1, longest + 1)[:, None], np.arange(1, longest + 1)
    real: Flags = (length <= end) & (end <= words[:, None, None])
    return of_ends[torch.from_numpy(real)].float().numpy()


def _zeros(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """Room for the scores of all spans of sentences of these lengths."""
    try:
        return np.zeros(int((lengths * (lengths + 1) // 2).sum()), np.float32)
    except MemoryError as error:
        raise InputError(
            f"a sentence of {int(lengths.max()):,} words: memory does not hold the scores of all its spans. "
            "Split it, or parse it with a model of syntactic distances."
        ) from error


def _batches(stored: ModelBundle, corpus: EncodedCorpus) -> Iterator[TokenBatch]:
    """The sentences between begin and end, longest first; fewer together where every span of each takes memory."""
    batches = SentenceBatches(corpus, stored.vocabulary, TOKEN_BUDGET, shuffle=False, seed=0, closed=True)
    for indices in batches.epoch(0):
        while len(indices):
            together = len(indices)
            if stored.require(Parses, "parsing").structure_type is BatchSpanScores:
                together = max(1, SPAN_BUDGET // int(corpus.lengths[indices[0]] + 2) ** 2)
            yield batches.batch(indices[:together])
            indices = indices[together:]
