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
from syntaxlm.batches.tokens import SentenceBatches
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.errors import InputError
from syntaxlm.model_io import ModelBundle
from syntaxlm.models.contract import LanguageModel, TokenBatch
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


def rules_of(model: LanguageModel) -> tuple[Rule, ...]:
    """The rules that make trees of what a model says, its default first; none for a model that does not parse."""
    of_distances = DECODING_RULES if model.distance_layers else ()
    return (*of_distances, *(SPAN_RULES if model.gives_span_scores else ()))


def rules_for(models: Sequence[ModelBundle], rule: Rule | None) -> tuple[Rule, ...]:
    """By which rule each of the models parses: the one asked for where it has that, otherwise its default.

    Raises InputError for a model that does not parse, and for a rule that none of the models has.
    """
    for one in models:
        if not one.model.parses:
            kind = one.settings.model.name
            raise InputError(f"a model of the kind {kind!r} has no distances or span scores: it does not parse")
    own = [rules_of(one.model) for one in models]
    if rule is not None and not any(rule in rules for rules in own):
        kinds = {one.settings.model.name: ", ".join(rules) for one, rules in zip(models, own, strict=True)}
        has = "; ".join(f"a model of the kind {kind!r} has {rules}" for kind, rules in kinds.items())
        raise InputError(f"decoder {rule}: {has}")
    return tuple(rule if rule in rules else rules[0] for rules in own)


def layer_of(stored: ModelBundle, layer: int | None) -> int:
    """The layer asked for, 1 is the first; of None, the model's own. Raises InputError for one that there is not."""
    model = stored.model
    if layer is None:
        return model.default_layer
    if model.distance_layers and not 1 <= layer <= model.distance_layers:
        raise InputError(f"layer {layer}: the model has distances of layers 1 to {model.distance_layers}")
    return layer


def layers_for(models: Sequence[ModelBundle], layer: int | None) -> tuple[int, ...]:
    """`layer_of` each of the models; those without distances have no use for theirs.

    Raises InputError for a layer that a model with distances has not, and for any where no model has distances.
    """
    if layer is not None and not any(one.model.distance_layers for one in models):
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
    if not stored.model.distance_layers:
        raise InputError(f"a model of the kind {stored.settings.model.name!r} has no distances")
    return _structure(stored, corpus).distances


@torch.no_grad()
def _structure(stored: ModelBundle, corpus: EncodedCorpus) -> Structure:
    keep_freed_memory()
    model, lengths = stored.model, corpus.lengths
    distances = np.zeros((model.distance_layers, corpus.word_count), np.float32)
    scores = None
    if model.gives_span_scores:
        scores = SpanScores(lengths, np.zeros(int((lengths * (lengths + 1) // 2).sum()), np.float32))
    for batch in _batches(stored, corpus):
        syntax = model.syntax(batch.to(model.device))
        assert syntax is not None
        assert batch.lengths is not None
        assert batch.indices is not None
        words, indices = batch.lengths.numpy() - 2, batch.indices.numpy()  # without begin and end
        if model.distance_layers:
            assert syntax.distances is not None
            inner = syntax.distances[:, 1:-1].cpu().numpy()
            steps = np.arange(inner.shape[1])[:, None]
            real = steps < words
            distances[:, (corpus.offsets[indices] + steps)[real]] = inner[:, real]
        if scores is not None:
            assert syntax.span_scores is not None
            scores.values[scores.places(indices)] = _spans_of_words(syntax.span_scores, words)
    return Structure(lengths, distances, scores)


def _spans_of_words(scores: Tensor, words: Integers) -> npt.NDArray[np.float32]:
    """The scores of the spans of words alone, in the order of `SpanScores`, after a softmax over those of one end.

    Spans that end at different words are scored by different steps, each on a scale of its own, which the softmax takes
    out: only so may rules add them up.
    scores: (T, B, m), of sentences between begin and end.  words: (B,) of each sentence.
    """
    longest = len(scores) - 2
    if scores.shape[2] < longest:
        raise ValueError(f"scores of spans of up to {scores.shape[2]} words, expected those of up to {longest}")
    # Those of the spans that end at a word stand at the step after it; longer ones begin before the first word.
    of_ends = scores[2:, :, :longest].double().transpose(0, 1)
    end, length = np.arange(1, longest + 1)[:, None], np.arange(1, longest + 1)
    real: Flags = (length <= end) & (end <= words[:, None, None])
    there = torch.from_numpy(real)
    logs = of_ends.cpu().masked_fill(~there, -torch.inf).log_softmax(-1)
    return logs[there].float().numpy()


def _batches(stored: ModelBundle, corpus: EncodedCorpus) -> Iterator[TokenBatch]:
    """The sentences between begin and end, longest first; fewer together where every span of each takes memory."""
    batches = SentenceBatches(corpus, stored.vocabulary, TOKEN_BUDGET, shuffle=False, seed=0, closed=True)
    for indices in batches.epoch(0):
        while len(indices):
            together = len(indices)
            if stored.model.gives_span_scores:
                together = max(1, SPAN_BUDGET // int(corpus.lengths[indices[0]] + 2) ** 2)
            yield batches.batch(indices[:together])
            indices = indices[together:]
