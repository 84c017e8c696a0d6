"""What a run learns from and is measured on, a text or the dependency trees of one: vocabulary, parts, batches.

The trainer asks both kinds the same; which of them a recipe means, its `batches.mode` says.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import partial

import torch

from syntaxlm.batches.tokens import SentenceBatches, StreamBatches
from syntaxlm.data.corpora import EncodedCorpus, count_tokens
from syntaxlm.data.dependencies import (
    ROOT,
    UNKNOWN,
    DependencyCorpus,
    TreeBatches,
    count_dependencies,
    label_vocabulary,
)
from syntaxlm.data.supervision import Supervision, read_supervision
from syntaxlm.data.treebanks import dependency_trees
from syntaxlm.errors import InputError
from syntaxlm.model_io import predicts_ends
from syntaxlm.models.contract import LanguageModel, TextCounts, TokenBatch
from syntaxlm.scoring.perplexity import Corpus, check_labels
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.text_files import STANDARD_INPUT
from syntaxlm.training.recipe import Recipe, TextSettings

COUNTED_TOKENS = 1 << 15  # of a batch that is counted

Batches = StreamBatches | SentenceBatches | TreeBatches


class TrainingData(ABC):
    """Training, validation and test part, of one vocabulary.

    labels: of the edges of trees; None for text.  test: None where the recipe names none.
    supervision: gold trees of the training text; None for trees, which have no further ones, and without any.
    """

    train: Corpus
    valid: Corpus
    test: Corpus | None
    vocabulary: Vocabulary
    labels: Vocabulary | None = None
    supervision: Supervision | None = None

    @abstractmethod
    def setup(self, model: LanguageModel) -> None:
        """Tells a fresh model what it needs to know of the training part. Raises InputError where it lacks that."""

    @abstractmethod
    def batches(self, recipe: Recipe, model: LanguageModel, rank: int, ranks: int) -> Batches:
        """The batches of the training part, of one of so many processes."""

    @abstractmethod
    def once(self, recipe: Recipe) -> Iterable[TokenBatch]:
        """The whole training part once, in batches as large as can be, for a model that counts."""


def read_training_data(recipe: Recipe) -> TrainingData:
    """What the recipe names.

    Raises InputError for files that are not there, or not of the kind that its mode reads, and for standard input.
    """
    for name in ("train", "valid", "test", "trees"):
        if getattr(recipe.text, name) == STANDARD_INPUT:
            raise InputError(
                f"text.{name}: found -, standard input; expected a file, which may be .gz, .xz or .zst: training reads"
                " it more than once"
            )
    return TreeTrainingData(recipe.text) if recipe.batches.mode == "trees" else TextTrainingData(recipe)


class TextTrainingData(TrainingData):
    """Texts, one sentence a line."""

    train: EncodedCorpus

    def __init__(self, recipe: Recipe) -> None:
        text = recipe.text
        normaliser = text.normaliser
        special = ("<eos>", "<eos>") if recipe.batches.mode == "stream" else ("<s>", "</s>")
        counts, limits = count_tokens(text.train, normaliser), text.vocabulary
        self.vocabulary = Vocabulary.build(
            counts, "<unk>", *special, minimum_count=limits.minimum_count, maximum_size=limits.maximum_size
        )
        encode = partial(EncodedCorpus.encode, normaliser=normaliser, vocabulary=self.vocabulary)
        self.train, self.valid = encode(text.train), encode(text.valid)
        self.test = encode(text.test) if text.test else None
        if text.trees is not None:
            clean_up = text.trees_clean_up
            self.supervision = read_supervision(text.trees, clean_up, self.train, normaliser, self.vocabulary)

    def setup(self, model: LanguageModel) -> None:
        """Nothing: text alone is what it reads."""

    def batches(self, recipe: Recipe, model: LanguageModel, rank: int, ranks: int) -> Batches:
        cut, seed = recipe.batches, recipe.run.seed
        spans = None if self.supervision is None else self.supervision.spans
        if cut.mode == "stream":
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
            mixed=model.has_batch_statistics,
            maximum_words=cut.maximum_words,
            rank=rank,
            ranks=ranks,
            spans=spans,
            ends=predicts_ends(cut.mode),
        )

    def once(self, recipe: Recipe) -> Iterable[TokenBatch]:
        """Of a stream, as it stands, in one column."""
        cut = recipe.batches
        if cut.mode == "stream":
            return StreamBatches(self.train, self.vocabulary, 1, COUNTED_TOKENS).iterate()
        return SentenceBatches(
            self.train,
            self.vocabulary,
            COUNTED_TOKENS,
            shuffle=False,
            seed=0,
            maximum_words=cut.maximum_words,
            ends=predicts_ends(cut.mode),
        ).iterate(0)


class TreeTrainingData(TrainingData):
    """Files of dependency trees."""

    train: DependencyCorpus
    labels: Vocabulary

    def __init__(self, text: TextSettings) -> None:
        words, labels = count_dependencies(dependency_trees(text.train), text.normaliser)
        limits = text.vocabulary
        self.vocabulary = Vocabulary.build(
            words, UNKNOWN, ROOT, ROOT, minimum_count=limits.minimum_count, maximum_size=limits.maximum_size
        )
        self.labels = label_vocabulary(labels)
        read = partial(
            DependencyCorpus.read, normaliser=text.normaliser, vocabulary=self.vocabulary, labels=self.labels
        )
        self.train, self.valid = read(text.train), read(text.valid)
        self.test = read(text.test) if text.test else None

    def setup(self, model: LanguageModel) -> None:
        """How frequent words are, how many labels there are."""
        for corpus in (self.train, self.valid, self.test):
            if isinstance(corpus, DependencyCorpus):
                check_labels(model, corpus)
        words = torch.bincount(torch.from_numpy(self.train.text.ids), minlength=len(self.vocabulary))
        model.prepare(TextCounts(words, len(self.labels)))

    def batches(self, recipe: Recipe, model: LanguageModel, rank: int, ranks: int) -> Batches:
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

    def once(self, recipe: Recipe) -> Iterable[TokenBatch]:
        raise InputError("a model that counts learns from text, not from trees")
