"""The data of a run, text or dependency trees: training, validation and test data, vocabulary and batches.

The recipe's model determines whether the data is text or dependency trees.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from syntaxlm.batches import Batches, SentenceBatches, StreamBatches, TreeBatches
from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.data.corpora import EncodedCorpus, count_tokens
from syntaxlm.data.dependencies import ROOT, UNKNOWN, DependencyCorpus, count_dependencies, label_vocabulary
from syntaxlm.data.supervision import Supervision, read_supervision
from syntaxlm.data.treebanks import dependency_trees
from syntaxlm.models.abilities import Model, NeedsTextCounts, TextCounts
from syntaxlm.models.batches import TokenBatch
from syntaxlm.parsing.structure import LONG_SENTENCE
from syntaxlm.scoring.engine import TOKEN_BUDGET, check_labels
from syntaxlm.scoring.perplexity import Corpus
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.training.recipe import Recipe
from syntaxlm.training.run_folder import Fingerprints, fingerprint
from syntaxlm.trees.preprocessing import PREPROCESSINGS
from syntaxlm.trees.spans import joined

COUNTED_TOKENS = 1 << 15  # tokens per batch for models that are trained by counting


class TrainingData(ABC):
    """Training, validation and test data, with one vocabulary.

    test: None if the recipe has no test data.
    labels: vocabulary of the edge labels of dependency trees; None for text.
    supervision: trees of the training text; None for dependency trees, and if the recipe has none.
    focus: trees of the training text by other parsers, one entry for each parser; empty for dependency trees, and if
        the recipe has none.
    """

    train: Any
    valid: Any
    test: Corpus | None
    vocabulary: Vocabulary
    labels: Vocabulary | None = None
    supervision: Supervision | None = None
    focus: Sequence[Supervision] = ()

    @abstractmethod
    def setup(self, model: Model) -> None:
        """Pass statistics of the training data to a new model that needs them.

        Raises InputError if the data lacks what the model needs.
        """

    @abstractmethod
    def batches(self, recipe: Recipe, model: Model, rank: int, ranks: int) -> Batches:
        """Return the training batches of one process.  rank, ranks: its number, and the number of processes."""

    @abstractmethod
    def validation_batches(self, recipe: Recipe) -> Iterable[Any]:
        """Return batches of whole sentences or trees of the validation data, always in the same order."""

    @abstractmethod
    def full_pass(self, recipe: Recipe) -> Iterable[TokenBatch]:
        """Return large batches of the whole training data, for a model that is trained by counting."""


def fingerprint_texts(recipe: Recipe) -> Fingerprints:
    """Return the hashes of all files that a run reads.

    Raises InputError for a file that cannot be read, and for training data that can be read only once.
    """
    text = recipe.text
    paths = {f"text.{name}": getattr(text, name) for name in ("train", "valid", "test", "trees")}
    paths |= {f"text.focus.{number}": path for number, path in enumerate(text.focus)}
    if text.trees is not None and text.trees_preprocessing not in PREPROCESSINGS:
        paths["text.trees_preprocessing"] = text.trees_preprocessing
    of_trees = [name for name in paths if name == "text.trees" or name.startswith("text.focus.")]
    found = fingerprint(paths, paths if recipe.reads == "trees" else of_trees)
    if None in found["text.train"].values():
        raise InputError(
            f"text.train: found {text.train}, standard input or a pipe, which can be read only once; expected a file,"
            " because training reads its text several times. Write the text to a file first."
        )
    return found


def read_training_data(recipe: Recipe) -> TrainingData:
    """Read the data of a recipe.

    Raises InputError for files that are missing, or of a type that the recipe's model does not read.
    """
    return TreeTrainingData(recipe) if recipe.reads == "trees" else TextTrainingData(recipe)


class TextTrainingData(TrainingData):
    """Text data, with one sentence per line."""

    train: EncodedCorpus

    def __init__(self, recipe: Recipe) -> None:
        text = recipe.text
        normaliser = text.normaliser
        special = ("<eos>", "<eos>") if recipe.batches.carry_state else ("<s>", "</s>")
        counts, limits = count_tokens(text.train, normaliser), text.vocabulary
        self.vocabulary = Vocabulary.build(counts, "<unk>", *special, **vars(limits))
        encode = partial(EncodedCorpus.encode, normaliser=normaliser, vocabulary=self.vocabulary)
        self.train, self.valid = encode(text.train), encode(text.valid)
        self.test = encode(text.test) if text.test else None
        if recipe.reads == "sentences":
            for name, corpus in (("train", self.train), ("valid", self.valid), ("test", self.test)):
                if corpus is not None:
                    _warn_of_long(corpus, recipe.batches.maximum_words if name == "train" else None, recipe.model.name)
        if text.trees is not None:
            clean_up = text.trees_preprocessing
            self.supervision = read_supervision(text.trees, clean_up, self.train, normaliser, self.vocabulary)
        self.focus = [read_supervision(path, "none", self.train, normaliser, self.vocabulary) for path in text.focus]

    def setup(self, model: Model) -> None:
        """Pass word counts to the model: of all words, of last words, and of one-word sentences."""
        if isinstance(model, NeedsTextCounts):
            ids, offsets = np.asarray(self.train.ids), np.asarray(self.train.offsets)
            last, lengths = ids[offsets[1:] - 1], self.train.lengths
            counted = (ids, last[lengths > 1], last[lengths == 1])
            words, ends, alone = (
                torch.from_numpy(np.bincount(part, minlength=len(self.vocabulary))) for part in counted
            )
            parsers = len(self.focus)
            model.setup(TextCounts(words, final_words=ends, one_word_sentences=alone, parsers=parsers))

    def batches(self, recipe: Recipe, model: Model, rank: int, ranks: int) -> Batches:
        cut, seed = recipe.batches, recipe.run.seed
        spans = None if self.supervision is None else self.supervision.spans
        if self.focus:
            spans = joined([one.spans for one in self.focus])
        if cut.carry_state:
            return StreamBatches(
                self.train,
                self.vocabulary,
                cut.batch_size,
                cut.bptt,
                rank,
                ranks,
                variable_bptt=cut.variable_bptt,
                seed=seed,
                spans=spans,
            )
        return SentenceBatches(
            self.train,
            self.vocabulary,
            cut.token_budget,
            shuffle=True,
            seed=seed,
            mixed=model.mixes_lengths,
            maximum_words=cut.maximum_words,
            curriculum=cut.curriculum,
            final_spans=bool(self.focus),
            rank=rank,
            ranks=ranks,
            spans=spans,
            predict_eos=cut.predict_eos,
        )

    def validation_batches(self, recipe: Recipe) -> Iterable[Any]:
        cut = recipe.batches
        return SentenceBatches(
            self.valid,
            self.vocabulary,
            TOKEN_BUDGET,
            shuffle=False,
            seed=0,
            maximum_words=cut.maximum_words,
            predict_eos=cut.predict_eos,
        ).iterate()

    def full_pass(self, recipe: Recipe) -> Iterable[TokenBatch]:
        """Return a stream in its original order, in one column."""
        cut = recipe.batches
        if cut.carry_state:
            return StreamBatches(self.train, self.vocabulary, 1, COUNTED_TOKENS).iterate()
        return SentenceBatches(
            self.train,
            self.vocabulary,
            COUNTED_TOKENS,
            shuffle=False,
            seed=0,
            maximum_words=cut.maximum_words,
            predict_eos=cut.predict_eos,
        ).iterate(0)


def _warn_of_long(corpus: EncodedCorpus, maximum_words: int | None, name: str) -> None:
    """Warn if the longest sentence takes minutes.  maximum_words: longer sentences are ignored; None: no limit."""
    lengths = corpus.lengths
    if maximum_words is not None:
        lengths = np.where(lengths > maximum_words, 0, lengths)
    longest = int(lengths.argmax())
    if lengths[longest] > LONG_SENTENCE:
        warnings.warn(
            InputWarning(
                f"{corpus.source}, line {corpus.line_numbers[longest]}: the sentence has {lengths[longest]:,} words."
                f" {name} models compare all spans, so it takes {(lengths[longest] / 40) ** 3:,.0f} times the time of a"
                " sentence with 40 words. Split it or leave it out (batches.maximum_words does this for the training"
                " text)."
            ),
            stacklevel=2,
        )


class TreeTrainingData(TrainingData):
    """Data of dependency trees."""

    train: DependencyCorpus
    labels: Vocabulary

    def __init__(self, recipe: Recipe) -> None:
        text = recipe.text
        words, labels = count_dependencies(dependency_trees(text.train), text.normaliser)
        limits = text.vocabulary
        self.vocabulary = Vocabulary.build(words, UNKNOWN, ROOT, ROOT, **vars(limits))
        self.labels = label_vocabulary(labels)
        read = partial(
            DependencyCorpus.read, normaliser=text.normaliser, vocabulary=self.vocabulary, labels=self.labels
        )
        self.train, self.valid = read(text.train), read(text.valid)
        self.test = read(text.test) if text.test else None

    def setup(self, model: Model) -> None:
        """Pass word counts and the number of labels to the model."""
        for corpus in (self.train, self.valid, self.test):
            if isinstance(corpus, DependencyCorpus):
                check_labels(model, corpus)
        words = torch.bincount(torch.from_numpy(self.train.text.ids), minlength=len(self.vocabulary))
        if isinstance(model, NeedsTextCounts):
            model.setup(TextCounts(words, len(self.labels)))

    def batches(self, recipe: Recipe, model: Model, rank: int, ranks: int) -> Batches:
        cut = recipe.batches
        return TreeBatches(
            self.train,
            cut.token_budget,
            shuffle=True,
            seed=recipe.run.seed,
            mixed=True,
            maximum_trees=cut.batch_size,
            maximum_words=cut.maximum_words,
            rank=rank,
            ranks=ranks,
        )

    def validation_batches(self, recipe: Recipe) -> Iterable[Any]:
        return TreeBatches(self.valid, TOKEN_BUDGET, shuffle=False, seed=0).iterate()

    def full_pass(self, recipe: Recipe) -> Iterable[Any]:
        return TreeBatches(self.train, COUNTED_TOKENS, shuffle=False, seed=0).iterate()
