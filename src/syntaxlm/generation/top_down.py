"""Sampling of sentences with their trees from a grammar, top-down from the start symbol."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from syntaxlm.errors import InputError
from syntaxlm.generation.sampling import MAXIMUM, Sampling, as_text, check_count
from syntaxlm.model_io import ModelBundle
from syntaxlm.models.abilities import LabelsSpans, SampledSentence, SamplesSentences
from syntaxlm.result_tables import Column, HasRows, Table
from syntaxlm.trees.bracket_text import INDUCED_LABEL
from syntaxlm.trees.tree import Constituent, Tree

SAMPLED_TREES = Table(
    "sampled trees",
    "sentence",
    {
        "number": Column("integer", "number of the sentence, from 1"),
        "text": Column("text", "its tokens as a line of text"),
        "tokens": Column("list of text", "its tokens"),
        "tree": Column("text", "its labelled tree in bracket notation"),
        "spans": Column("list of pairs", "first word and the word after the last of each constituent, from 0"),
        "labels": Column("list of text", "label of each constituent"),
        "word_labels": Column("list of text", "label of each token"),
    },
)


@dataclass(frozen=True)
class SentenceWithTree(HasRows):
    """One sampled sentence with its tree.

    number: from 1.  text: its tokens as a line of text.
    tree: over the tokens, with the grammar's symbols as labels and each word's label as its tag. A sentence of one
    word, which the grammar does not generate, has a tree without labels.
    """

    number: int
    text: str
    tokens: list[str]
    tree: Tree

    table = SAMPLED_TREES

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """spans: [start, end) of the constituents; labels: one for each; word_labels: one for each token."""
        parts = [part for part in self.tree.constituents if part.end - part.start > 1]
        return {
            "number": self.number,
            "text": self.text,
            "tokens": self.tokens,
            "spans": [[part.start, part.end] for part in parts],
            "labels": [part.label for part in parts],
            "word_labels": list(self.tree.tags),
        }

    def rows(self) -> Iterator[dict[str, Any]]:
        """One row, with the columns of `SAMPLED_TREES`."""
        yield self.to_dict() | {"tree": str(self.tree)}


def sample_with_trees(
    stored: ModelBundle,
    count: int = 1,
    *,
    seed: int = Sampling.seed,
    maximum_words: int | None = Sampling.maximum_words,
    keep_unknown: bool = Sampling.keep_unknown,
) -> Iterator[SentenceWithTree]:
    """Samples sentences of a grammar with their trees; a sentence depends on the seed and its number only.

    maximum_words: longer sentences are resampled; None: 100.
    keep_unknown: whether the unknown word may be sampled; if not, it is resampled and the tree is kept.
    Raises InputError for settings out of range and for a model that does not sample whole sentences.
    """
    check_count(count)
    sampling = Sampling(seed=seed, maximum_words=maximum_words, keep_unknown=keep_unknown)
    stored.require(SamplesSentences, "sampling of trees")
    return _sampled(stored, count, sampling)


def refuse_word_settings(prompt: str | None, temperature: float, top_k: int | None, reason: str) -> None:
    """Raises InputError for settings that only apply word by word. reason: why they do not apply, as a sentence."""
    given = {
        "prompt": prompt is not None,
        "temperature": temperature != Sampling.temperature,
        "top-k": top_k is not None,
    }
    named = [name for name, is_given in given.items() if is_given]
    if named:
        raise InputError(f"{', '.join(named)}: {reason} Leave {'it' if len(named) == 1 else 'them'} out.")


def _sampled(stored: ModelBundle, count: int, sampling: Sampling) -> Iterator[SentenceWithTree]:
    model = stored.require(SamplesSentences, "sampling of trees")
    stored.model.eval()
    labels = list(model.labels) if isinstance(model, LabelsSpans) else []
    omitted = 0 if sampling.keep_unknown else len(stored.vocabulary.unknown_ids)
    longest = sampling.maximum_words or MAXIMUM[stored.normaliser.units]
    for number in range(1, count + 1):
        generator = np.random.default_rng([sampling.seed, number])
        (drawn,) = model.sample(1, longest, generator, omitted=omitted)
        tokens = stored.vocabulary.decode(drawn.words)
        yield SentenceWithTree(number, as_text(stored.normaliser, tokens), tokens, tree_of(drawn, tokens, labels))


def tree_of(sampled: SampledSentence, tokens: list[str], labels: list[str]) -> Tree:
    """The tree of a sampled sentence. labels: those of the model."""
    spans = tuple(
        Constituent(INDUCED_LABEL if label < 0 else labels[label], first, last + 1)
        for first, last, label in sampled.spans
    )
    tags = [labels[label] for label in sampled.word_labels] or [""] * len(tokens)
    return Tree(tuple(tokens), tuple(tags), spans)
