"""Computes the structure of sentences with a model, in batches, and selects how it is decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from syntaxlm.batches import SentenceBatches
from syntaxlm.core.arrays import Integers
from syntaxlm.core.errors import InputError
from syntaxlm.core.progress import progress_bar
from syntaxlm.core.systems import keep_freed_memory
from syntaxlm.core.threads import check_wanted
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.models.abilities import FindsBestTrees, LabelsSpans, ParsesSentences
from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.structures import CorpusDistances, CorpusMarginals, CorpusStructure, labelled_spans
from syntaxlm.parsing.options import DecodingOptions, Ties
from syntaxlm.scoring.long_sentences import LONG_SENTENCE, PARSING, check_long_sentence, fitting_in_memory
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.trees.averaging import average
from syntaxlm.trees.decoding import SpanTable
from syntaxlm.trees.marks import Marks, MarkSide
from syntaxlm.trees.spans import SpanSets, sorted_by_sentence

TOKEN_BUDGET = 1 << 12  # tokens per batch: enough for large products, few enough that freed memory is reused
SPAN_BUDGET = 1 << 17  # spans per batch, including padding, for models that compare spans; each has many features


class Decoding(NamedTuple):
    """How the structure of one model is decoded.

    Attributes:
        layer: the layer of the distances, from 1; 1 for other structures.
    """

    decoder: str
    layer: int


def decodings(bundles: Sequence[ModelBundle], options: DecodingOptions) -> list[Decoding]:
    """Return the decoder and layer of each model: the requested ones if the model has them, otherwise its defaults.

    Raises:
        InputError: for a model that does not parse, for a decoder that none of the models has, for a layer that a model
            with distances lacks, and for any layer if no model has distances.
    """
    parsers = [bundle.require(ParsesSentences, "parsing") for bundle in bundles]
    decoder = options.decoder
    layer = options.layer
    if decoder is not None and not any(decoder in parser.decoders for parser in parsers):
        names = dict.fromkeys(
            f"{', '.join(parser.decoders)} ({bundle.name} models)"
            for bundle, parser in zip(bundles, parsers, strict=True)
        )
        raise InputError(f"decoder: found {decoder!r}; expected {' or '.join(names)}")
    counts = [parser.distance_layers for parser in parsers if parser.distance_layers]
    if layer is not None and not counts:
        raise InputError(f"layer: found {layer}, but no model has distances; omit the layer")
    if layer is not None and not 1 <= layer <= min(counts):
        raise InputError(f"layer: found {layer}; expected 1 to {min(counts)}, the layers with distances")
    return [
        Decoding(
            decoder if decoder is not None and decoder in parser.decoders else parser.decoders[0],
            layer if layer is not None and parser.distance_layers else parser.default_layer,
        )
        for parser in parsers
    ]


@torch.no_grad()
def structure_of(
    bundle: ModelBundle,
    sentences: Sequence[Sequence[str]] | EncodedCorpus,
    labels: bool = True,
    numbers: Sequence[int] | None = None,
) -> CorpusStructure:
    """Compute the structure of tokenised sentences in one pass.

    Each sentence is read from an empty state, between BOS and EOS.

    Args:
        labels: compute labels of spans, if the model has them; this takes more time.
        numbers: the numbers of the sentences in their source, for messages; None: 1, 2, ...

    Raises:
        InputError: for a sentence that is too long for a model that compares all spans.
    """
    keep_freed_memory()
    if isinstance(sentences, EncodedCorpus):
        corpus = sentences
    else:
        corpus = EncodedCorpus.from_sentences([bundle.vocabulary.encode(sentence) for sentence in sentences])
    numbers = range(1, len(corpus) + 1) if numbers is None else numbers
    parser = bundle.require(ParsesSentences, "parsing")
    read: Callable[[TokenBatch], Any] = parser.structure
    names: Sequence[str] = ()
    if labels and isinstance(parser, LabelsSpans):
        read = parser.labelled_structure
        names = parser.labels

    # Check the longest sentence before memory is taken for its spans.
    lengths = corpus.lengths
    longest = int(lengths.argmax())
    if parser.structure_type.corpus.compares_spans and lengths[longest] > LONG_SENTENCE:
        sentence = corpus.sentence(longest)

        def attempt(words: int) -> None:
            ((batch, _),) = batches_of(bundle, EncodedCorpus.from_sentences([sentence[:words]]))
            read(batch)

        words = [bundle.vocabulary.tokens[word] for word in sentence]
        check_long_sentence(words, numbers[longest], bundle.name, PARSING, attempt)

    with fitting_in_memory(lambda: (numbers[longest], int(lengths[longest])), PARSING):
        structure = parser.structure_type.corpus(lengths, parser.distance_layers, names)
        for batch, indices in batches_of(bundle, corpus):
            longest = int(indices[0])
            structure.add(read(batch), lengths[indices], indices)
    if isinstance(structure, CorpusMarginals):
        structure.find_best_trees = partial(_best_trees, bundle, corpus)
    return structure


def combined_trees(
    structures: Sequence[CorpusStructure], chosen: Sequence[Decoding], ties: Ties, marks: Marks | None = None
) -> SpanSets:
    """Return the trees of one model, or the average of those of several models.

    Args:
        ties: see `trees.average`.
        marks: see `trees.average`.
    """
    if len(structures) == 1:
        return structures[0].decode(*chosen[0], marks)
    return average(averaging_inputs(structures, chosen), ties=ties, marks=marks)


def averaging_inputs(structures: Sequence[CorpusStructure], chosen: Sequence[Decoding]) -> list[SpanSets | SpanTable]:
    """Return what each model contributes to an average: its trees, or its probabilities of all spans."""
    return [structure.averaging_input(*decoding) for structure, decoding in zip(structures, chosen, strict=True)]


def trained_side(bundles: Sequence[ModelBundle]) -> MarkSide | None:
    """Return the side of marks for the trees of the first model, or member of a combination, trained with marks.

    It is `model.marks_side`, or both if that is either: the stricter evidence helps trees but misleads training.
    """
    for bundle in bundles:
        for parser in bundle.settings.model.parser_settings:
            if parser.training_marks is not None:
                return "both" if parser.training_marks == "either" else parser.training_marks
    return None


def share_without_marks(bundles: Sequence[ModelBundle]) -> float:
    """Return the share of the averaged parsers that do not read punctuation marks, 0 to 1.

    All models have the same weight in an average, and so have all parsers of a combination in its probabilities.
    """
    shares = [
        np.mean([not parser.reads_marks for parser in bundle.settings.model.parser_settings]) for bundle in bundles
    ]
    return float(np.mean(shares))


def distances_of(bundle: ModelBundle, corpus: EncodedCorpus) -> npt.NDArray[np.float32]:
    """Compute the syntactic distances of all words, sentence after sentence: (layers, words).

    Sentences are read as in `structure_of`.

    Raises:
        InputError: for a model without distances.
    """
    structure = structure_of(bundle, corpus, labels=False)
    if not isinstance(structure, CorpusDistances):
        raise InputError(f"this {bundle.name} model has no distances")
    return structure.values


@torch.no_grad()
def _best_trees(bundle: ModelBundle, corpus: EncodedCorpus) -> SpanSets:
    """Return the most probable trees of all sentences, with labels and single words."""
    parser = bundle.require(FindsBestTrees, "decoding by viterbi")
    rows: list[Integers] = [np.zeros((0, 4), np.int64)]
    for batch, indices in batches_of(bundle, corpus):
        for index, tree in zip(indices.tolist(), parser.best_trees(batch), strict=True):
            rows.append(np.insert(np.array(tree, np.int64).reshape(-1, 3), 0, index, axis=1))
    spans = np.concatenate(rows)
    sentence, first, last, label = spans[np.argsort(spans[:, 0], kind="stable")].T
    names = parser.labels if isinstance(parser, LabelsSpans) else ()
    return labelled_spans(sorted_by_sentence(corpus.lengths, [(sentence, first, last + 1)]), label, names)


def batches_of(bundle: ModelBundle, corpus: EncodedCorpus) -> Iterator[tuple[TokenBatch, Integers]]:
    """Yield batches of sentences between BOS and EOS, longest first, on the model's device, with a progress bar.

    Also yields the index of the sentence of each column, (B,). Batches are smaller for models that compare spans, which
    need memory for every span and time as the cube of the length.
    """
    lengths = corpus.lengths
    compares_spans = bundle.require(ParsesSentences, "parsing").structure_type.corpus.compares_spans
    batches = SentenceBatches(corpus, bundle.vocabulary, TOKEN_BUDGET, shuffle=False, seed=0, closed=True)
    # For models that compare spans, cut batches into parts with a limited number of spans. The first sentence is the
    # longest.
    parts: list[Integers] = []
    for indices in batches.epoch(0):
        size = len(indices)
        while len(indices):
            if compares_spans:
                size = max(1, SPAN_BUDGET // int(lengths[indices[0]] + 2) ** 2)
            parts.append(indices[:size])
            indices = indices[size:]
    work = lengths.astype(float) ** (3 if compares_spans else 1)
    total = float(work.sum())
    for indices in progress_bar(parts, "parsing", total, lambda part: float(work[part].sum()), percent=True):
        check_wanted()
        yield batches.batch(indices).to(bundle.model.device), indices
