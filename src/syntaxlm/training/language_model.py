"""The tasks of language models and grammars, which learn from text, and of dependency-tree models."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Iterable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from syntaxlm.batches import Batches, SentenceBatches, StreamBatches, TreeBatches
from syntaxlm.core.errors import InputError, warn_caller
from syntaxlm.core.files import to_json
from syntaxlm.core.progress import status
from syntaxlm.data.corpora import EncodedCorpus, count_tokens
from syntaxlm.data.dependencies import ROOT, UNKNOWN, DependencyCorpus, count_dependencies, label_vocabulary
from syntaxlm.data.supervision import Supervision, read_supervision
from syntaxlm.data.treebanks import dependency_trees
from syntaxlm.evaluation.collapse import TreeFigures, tree_figures
from syntaxlm.evaluation.perplexity import Corpus, LanguageModelScore, evaluate_language_model, perplexity_of
from syntaxlm.evaluation.treebank_f1 import TreebankF1
from syntaxlm.models.abilities import (
    NATS_PER_TOKEN,
    AnnealsLoss,
    Criterion,
    HasLoss,
    LearnsFromTrees,
    Model,
    NeedsTextCounts,
    ParsesSentences,
    ScoresSentences,
    TextCounts,
    TrainsByGradient,
)
from syntaxlm.models.combination import Combination
from syntaxlm.models.config import TRAINING_SETTINGS
from syntaxlm.models.layers import AdaptiveEmbedding
from syntaxlm.models.registry import MODELS, build_model
from syntaxlm.models.structures import SpanMarginals
from syntaxlm.scoring.engine import TOKEN_BUDGET, Scorer, check_labels
from syntaxlm.scoring.long_sentences import LONG_SENTENCE
from syntaxlm.storage.bundled import find_model
from syntaxlm.storage.folder import (
    LABELS,
    VOCABULARY,
    ModelBundle,
    ModelSettings,
    distinct_tensors,
    load_weights,
    read_model,
    write_settings,
    write_weights,
)
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.training.memory import BatchShape, check_memory
from syntaxlm.training.recipe import SentenceBatchSettings, StreamBatchSettings, TextRecipe, TreeRecipe
from syntaxlm.training.result import CriterionValue, TrainingResult, Validation
from syntaxlm.training.task import NO_REPORT, Task, check_vocabulary
from syntaxlm.trees.spans import union

MANY_UNKNOWN = 0.1  # share of the words of a text on which a model is trained further, above which a warning says so
COUNTED_TOKENS = 1 << 15  # tokens per batch for models that are trained by counting
NO_VALIDATION = Validation(Criterion("no criterion", "none"), 0.0)


def _warn(message: str) -> None:
    warn_caller(message)


def _initial_model(path: str, recipe: TextRecipe) -> ModelBundle:
    """Return the model of `text.weights`, which is trained further; of a combination, its language model.

    Raises:
        InputError: if the recipe has other settings than the model, except for `TRAINING_SETTINGS`, or reads text
            otherwise.
    """
    bundle = read_model(path)
    config: Any = bundle.settings.model
    if isinstance(bundle.model, Combination):
        of_scorer = dataclasses.replace(bundle.settings, model=config.scorer)
        bundle = ModelBundle(bundle.model.scorer, of_scorer, bundle.vocabulary)
    name = recipe.model.name
    settings = bundle.settings
    if bundle.name != name:
        raise InputError(f"text.weights: {path} is of type {bundle.name}; expected {name}, as in model.name")
    if not isinstance(bundle.model, TrainsByGradient):
        raise InputError(f"text.weights: found {path}; expected null, because {name} models are trained by counting")

    # Settings that give the weights another meaning need not change their shapes, so all are compared.
    pairs = {"model": (recipe.model, settings.model), "text.normaliser": (recipe.text.normaliser, settings.normaliser)}
    differing = {
        f"{section}.{setting}": (found, vars(of_model)[setting])
        for section, (of_recipe, of_model) in pairs.items()
        for setting, found in vars(of_recipe).items()
        if found != vars(of_model)[setting] and setting not in TRAINING_SETTINGS
    }

    # The vocabulary has one token for ends and beginnings if sentences were read after others.
    joins_sentences = bundle.vocabulary.begin == bundle.vocabulary.end
    if recipe.mode.predict_eos != settings.predict_eos:
        differing["batches.predict_eos"] = (recipe.mode.predict_eos, settings.predict_eos)
    elif recipe.reads_context != joins_sentences:
        if isinstance(recipe.batches, StreamBatchSettings):
            differing["batches.context"] = (recipe.batches.context, "reset")
        else:
            differing["batches.joined"] = (recipe.batches.joined, 4 if joins_sentences else 1)
    if differing:
        lines = [
            f"  {name}: found {to_json(found)}; expected {to_json(expected)}"
            for name, (found, expected) in differing.items()
        ]
        raise InputError("\n".join([f"text.weights: the recipe has other settings than the model {path}", *lines]))
    return bundle


def _warn_of_unknown_words(corpus: EncodedCorpus, model: str) -> None:
    """Warn of a text that has many words which the model that is trained further does not know."""
    if corpus.unknown_count > MANY_UNKNOWN * corpus.word_count:
        _warn(
            f"{corpus.source}: {corpus.unknown_count:,} of {corpus.word_count:,} words are not in the vocabulary of"
            f" {model}, and are read as unknown words. Split words as in the training text of the model. For en,"
            " syntaxlm data sentences --punctuation split --contractions split does this"
        )


def _require_all_trees(trees: Supervision) -> None:
    """Raise InputError if a model that reads trees would read a sentence without its tree."""
    if missing := len(trees.supervised) - trees.count:
        raise InputError(
            f"{trees.source}: found {missing:,} of {len(trees.supervised):,} sentences that differ from their trees;"
            " expected a tree with exactly the words of each sentence, because the model reads the trees (model.scores:"
            " trees).\n" + "\n".join(trees.differing)
        )


class LanguageModelTask(Task):
    """A model with training, validation and test data, which have one vocabulary.

    Args:
        building: entered while the model is built.

    Attributes:
        test: None if the recipe has no test data.
        labels: vocabulary of the edge labels of dependency trees; None for text.

    Raises:
        InputError: for files that are missing or of another type, and for trees without labels that the model reads.
    """

    recipe: TextRecipe | TreeRecipe
    train: Any
    valid: Any
    test: Corpus | None
    vocabulary: Vocabulary
    labels: Vocabulary | None = None

    def __init__(
        self,
        recipe: TextRecipe | TreeRecipe,
        device: torch.device,
        building: AbstractContextManager[None] = NO_REPORT,
    ) -> None:
        self.recipe, self.device = recipe, device
        with status("reading the data"):
            self._read()
        check_memory(recipe, len(self.vocabulary), self._batch_shape(), device)
        with building:
            model = build_model(recipe.model, len(self.vocabulary))
        for corpus in (self.train, self.valid, self.test):
            if isinstance(corpus, DependencyCorpus):
                check_labels(model, corpus)
        if isinstance(model, NeedsTextCounts):
            model.setup(self._counts())
        self._copy_weights(model)
        self.model: Model = self._placed(model)
        self.treebank = self._read_treebank()
        self._warn_of_lengths()

    @abstractmethod
    def _read(self) -> None:
        """Read the data."""

    def _batch_shape(self) -> BatchShape:
        """Return the size of the largest batch of the training data."""
        batches, lengths = self.recipe.batches, self.train.lengths
        if isinstance(batches, StreamBatchSettings):
            tokens = min(batches.batch_size * batches.bptt, int(lengths.sum()) + len(lengths))
            return BatchShape(tokens, batches.bptt)
        longest = int(lengths[lengths <= (batches.maximum_words or lengths.max())].max(initial=1))
        return BatchShape(min(max(batches.token_budget, longest), int(lengths.sum()) + len(lengths)), longest)

    @abstractmethod
    def _counts(self) -> TextCounts:
        """Return statistics of the training data, for models that need them."""

    def _copy_weights(self, model: Model) -> None:
        """Copy the weights or the embeddings of another model, if the recipe names one."""

    def _read_treebank(self) -> TreebankF1 | None:
        """Return the gold trees on which F1 is measured during training; None if the recipe names none."""
        return None

    def _warn_of_lengths(self) -> None:
        """Warn of sentences that `batches.maximum_words` leaves out, and of those that take minutes.

        Models that score sentences are validated on all of them.

        Raises:
            InputError: for one that does not fit in memory.
        """
        batches = self.recipe.batches
        without_scores = not isinstance(self.model, ScoresSentences)
        if isinstance(batches, StreamBatchSettings):
            return
        joined = isinstance(batches, SentenceBatchSettings) and batches.joined > 1
        limits = [(self.train, batches.maximum_words)]
        if without_scores:
            limits.append((self.valid, batches.maximum_words))
            if self.test is not None:
                name = self.recipe.model.name
                _warn(f"{self.recipe.data.test}: not evaluated, because {name} models have no perplexity")
        else:
            limits += [(self.valid, None), (self.test, None)]
        for corpus, limit in limits:
            if corpus is None:
                continue
            lengths = corpus.lengths
            kept = lengths if limit is None else np.where(lengths > limit, 0, lengths)
            if left_out := np.count_nonzero(kept < lengths):
                unit = "runs of sentences" if joined and corpus is self.train else "sentences"
                _warn(
                    f"{corpus.source}: {left_out:,} of {len(corpus):,} {unit} have more than {limit} words"
                    " (batches.maximum_words) and are left out"
                )
            if self.model.reads != "sentences":
                continue
            words = int(kept.max())
            place = corpus.place(int(kept.argmax()))
            if isinstance(self.model, ScoresSentences):
                try:
                    self.model.check_length(words)
                except InputError as error:
                    raise InputError(f"{place}: {error}") from None
            if words > LONG_SENTENCE:
                remedy = " (batches.maximum_words does this)" if corpus is self.train or without_scores else ""
                _warn(
                    f"{place}: the sentence has {words:,} words. {self.recipe.model.name} models compare all spans, so"
                    f" it takes {(words / 40) ** 3:,.0f} times the time of a sentence with 40 words. Split it or leave"
                    f" it out{remedy}."
                )

    @abstractmethod
    def _in_order(self, corpus: Any, tokens: int) -> Batches:
        """Return batches of a corpus that are always in the same order.

        Args:
            tokens: per batch.
        """

    def _placed(self, model: Model) -> Model:
        """Move a model to the device of the run. Models that are trained by counting stay on the CPU."""
        return model.to(self.device) if isinstance(model, TrainsByGradient) else model

    def set_epoch(self, epochs: float) -> None:
        if isinstance(self.model, AnnealsLoss):
            self.model.set_epoch(epochs)

    def validate(self) -> Validation:
        """Evaluate the model's criterion; for models that score sentences, the negative log-likelihood per token.

        A model without either is trained by counting in one round, as is one without validation data; the criterion
        is 0.
        """
        model = self.model
        if self.valid is None:
            return NO_VALIDATION
        if isinstance(model, ScoresSentences):
            with self.model.validating():
                loss = self._score(model, self.valid).loss
            figures = {"valid_loss": loss, "valid_perplexity": perplexity_of(loss)}
            return Validation(NATS_PER_TOKEN, loss, figures)
        if not isinstance(model, HasLoss):
            return NO_VALIDATION
        model.eval()
        total = count = 0.0
        with torch.no_grad():
            for batch in self._in_order(self.valid, TOKEN_BUDGET).iterate():
                loss_of_batch = model.loss(batch.to(model.device))
                total = total + float(loss_of_batch.total)
                count = count + loss_of_batch.count
        if not count:
            raise InputError(f"{self.recipe.data.valid}: found nothing to validate on; expected more known words")
        value = total / count
        return Validation(model.criterion, value, {"valid_loss": value})

    def full_pass(self) -> Iterable[Any]:
        """Return the training data in its original order; a stream in one column."""
        return self._in_order(self.train, COUNTED_TOKENS).iterate()

    def _score(self, model: Model, corpus: Corpus) -> LanguageModelScore:
        """Evaluate a model on a corpus, which is read as in training."""
        scorer = Scorer(model, self.vocabulary, self.recipe.mode, self.recipe.model.name)
        return evaluate_language_model(scorer, corpus)

    def write_settings(self, folder: Path) -> None:
        write_settings(folder, self._settings, self.vocabulary, self.labels)

    def write_weights(self, folder: Path) -> None:
        write_weights(folder, self.model, self.vocabulary)

    def check_resumable(self, folder: Path) -> None:
        check_vocabulary(folder / VOCABULARY, self.vocabulary, self.recipe.data.train)
        if self.labels is not None:
            check_vocabulary(folder / LABELS, self.labels, self.recipe.data.train, "labels")

    def figures(self) -> dict[str, Any]:
        with self.model.validating():
            trees = self._tree_figures(self.model)
        return {} if trees is None else {name: value for name, value in vars(trees).items() if name != "sentences"}

    def _tree_figures(self, model: Model) -> TreeFigures | None:
        """Return statistics of a grammar's trees on the validation text; None for other models."""
        if not isinstance(model, ParsesSentences) or model.structure_type is not SpanMarginals:
            return None
        return tree_figures(self._bundle(model), self.valid)

    def treebank_figures(self) -> dict[str, float]:
        if self.treebank is None:
            return {}
        with self.model.validating(), torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            return self.treebank.figures(self._bundle(self.model))

    def _bundle(self, model: Model) -> ModelBundle:
        """Return a model with the settings and the vocabulary of the run."""
        return ModelBundle(model, self._settings, self.vocabulary, self.labels)

    @property
    def _settings(self) -> ModelSettings:
        recipe = self.recipe
        carries = isinstance(recipe, TextRecipe) and recipe.reads_context
        return ModelSettings(recipe.model, recipe.data.normaliser, carries, recipe.mode.predict_eos)

    def evaluated(self, result: TrainingResult) -> TrainingResult:
        model = self._placed(read_model(result.folder).model)
        scores: dict[str, Any] = {}
        if isinstance(model, ScoresSentences):
            corpora = {"valid": self.valid, "test": self.test}
            scores = {name: self._score(model, corpus) for name, corpus in corpora.items() if corpus is not None}
        else:
            self.model = model
            scores["criterion"] = CriterionValue.of(self.validate())
        trees = self._tree_figures(model)
        parameters = model.parameter_count if isinstance(model, TrainsByGradient) else None
        return dataclasses.replace(result, parameters=parameters, trees=trees, **scores)


class TextTask(LanguageModelTask):
    """A language model or grammar with text, one sentence per line.

    `supervision` has the gold trees of the training text or, for a focused grammar, the trees of each parser.
    """

    recipe: TextRecipe
    train: EncodedCorpus
    valid: EncodedCorpus | None
    initial: ModelBundle | None  # the model that is trained further, until its weights are copied

    def _read(self) -> None:
        text = self.recipe.text
        normaliser = Normaliser(text.normaliser)
        self.initial = None if text.weights is None else _initial_model(text.weights, self.recipe)
        if self.initial is not None:
            self.vocabulary = self.initial.vocabulary
        else:
            special = ("<eos>", "<eos>") if self.recipe.reads_context else ("<s>", "</s>")
            counts = count_tokens(text.train, normaliser)
            self.vocabulary = Vocabulary.build(counts, "<unk>", *special, **vars(text.vocabulary))
        encode = partial(EncodedCorpus.encode, normaliser=normaliser, vocabulary=self.vocabulary)
        model = self.recipe.model
        self.train = encode(text.train, marks=model.reads_marks or model.training_marks is not None)
        self.valid = encode(text.valid, marks=model.reads_marks) if text.valid is not None else None
        self.test = encode(text.test) if text.test else None
        if text.weights is not None:
            for corpus in (self.train, self.valid, self.test):
                if corpus is not None:
                    _warn_of_unknown_words(corpus, text.weights)
        if isinstance(self.recipe.batches, SentenceBatchSettings) and self.recipe.batches.joined > 1:
            self.train = self.train.joined(self.recipe.batches.joined, self.vocabulary.end_id, self.recipe.run.seed)
        if self.train.marks is not None and not self.train.marks.any():
            setting, unset = ("model.reads_marks", "false") if model.reads_marks else ("model.marks", "0")
            raise InputError(
                f"{text.train}: found no punctuation mark that text.normaliser drops; expected some for {setting}."
                f" Use a text with punctuation and text.normaliser.drop_punctuation true, or set {setting} {unset}"
            )
        read = partial(read_supervision, normaliser=normaliser, vocabulary=self.vocabulary)

        def predicted(path: str, corpus: EncodedCorpus) -> Supervision:
            """Return the trees of a parser. Spans of whole sentences count the parsers that have a tree of them."""
            trees = read(path, "none", corpus, keep_whole=True)
            return trees.binary() if MODELS[model.name].has(LearnsFromTrees) else trees

        self.supervision = [predicted(path, self.train) for path in text.focus]
        self._learns_whole_trees = self.recipe.model.tree_loss is not None
        if text.trees is not None:
            whole, share = self._learns_whole_trees, text.trees_share
            self.supervision.append(
                read(text.trees, text.trees_preprocessing, self.train, keep_whole=whole, share=share)
            )
            if self.recipe.model.reads_trees:
                _require_all_trees(self.supervision[-1])
        for corpus, trees in ((self.valid, text.valid_trees), (self.test, text.test_trees)):
            if isinstance(corpus, EncodedCorpus) and trees is not None:
                read_trees = read(trees, text.trees_preprocessing, corpus)
                _require_all_trees(read_trees)
                corpus.spans = read_trees.spans
        valid_trees = [predicted(path, self.valid).spans for path in text.focus_valid if self.valid is not None]
        self.valid_spans = union(valid_trees) if valid_trees else None

    def _copy_weights(self, model: Model) -> None:
        """Copy the weights of the model that is trained further, or the embeddings of the words that another one knows.

        Embeddings are scaled to the size of the new embeddings.

        Raises:
            InputError: if a model has no embeddings of words, for another size, and for embeddings of several sizes.
        """
        if self.initial is not None:
            load_weights(model, distinct_tensors(self.initial.model), str(self.recipe.text.weights))
            self.initial = None  # its memory is free
        path = self.recipe.text.embeddings
        if path is None:
            return
        source = read_model(find_model(path))
        weights: list[torch.Tensor] = []
        for name, candidate in ((self.recipe.model.name, model), (path, source.model)):
            embedding: Any = getattr(candidate, "embedding", None)
            if not hasattr(embedding, "weight"):
                raise InputError(f"text.embeddings: {name} has no embeddings of words; expected an lstm, for example")
            if candidate is model and isinstance(embedding, AdaptiveEmbedding):
                found = ", ".join(map(str, getattr(self.recipe.model, "cutoffs", ())))
                raise InputError(
                    f"model.cutoffs: found {found}; expected none with text.embeddings, because the embeddings of rarer"
                    " words are smaller than those that are copied"
                )
            weights.append(embedding.weight.detach())
        target, source_weights = weights
        if target.shape[1] != source_weights.shape[1]:
            found = f"found {target.shape[1]}; expected {source_weights.shape[1]}, as in text.embeddings, {path}"
            raise InputError(f"model.embedding_size: {found}")
        words = [word for word in self.vocabulary.tokens if source.vocabulary.knows(word)]
        scale = target.square().mean().sqrt() / source_weights.square().mean().sqrt()
        target[self.vocabulary.encode(words)] = source_weights[source.vocabulary.encode(words)] * scale

    def _read_treebank(self) -> TreebankF1 | None:
        text = self.recipe.text
        if text.treebank is None:
            return None
        bundle = self._bundle(self.model)
        bundle.require(ParsesSentences, "text.treebank")
        return TreebankF1(text.treebank, text.trees_preprocessing, bundle)

    def _counts(self) -> TextCounts:
        """Count all words, first and last words, and one-word sentences."""
        ids = np.asarray(self.train.ids)
        offsets = np.asarray(self.train.offsets)
        lengths = self.train.lengths
        first_places = offsets[:-1]
        last_places = offsets[1:] - 1

        def count(word_ids: np.ndarray[Any, Any]) -> torch.Tensor:
            return torch.from_numpy(np.bincount(word_ids, minlength=len(self.vocabulary)))

        return TextCounts(
            count(ids),
            first_words=count(ids[first_places[lengths > 1]]),
            final_words=count(ids[last_places[lengths > 1]]),
            one_word_sentences=count(ids[last_places[lengths == 1]]),
        )

    def batches(self, rank: int, ranks: int) -> Batches:
        text = self.recipe.text
        batches = self.recipe.batches
        seed = self.recipe.run.seed
        focused = bool(text.focus)
        spans = union([trees.spans for trees in self.supervision]) if focused else None
        if self.supervision and not focused:
            spans = self.supervision[0].spans
        if isinstance(batches, StreamBatchSettings):
            return StreamBatches(
                self.train,
                self.vocabulary,
                batches.batch_size,
                batches.bptt,
                rank,
                ranks,
                variable_bptt=batches.variable_bptt,
                seed=seed,
                spans=spans,
                span_interval=text.trees_interval,
            )
        return SentenceBatches(
            self.train,
            self.vocabulary,
            batches.token_budget,
            shuffle=True,
            seed=seed,
            mixed=self.model.mixes_lengths,
            maximum_words=batches.maximum_words,
            curriculum=batches.curriculum,
            final_spans=focused or (self._learns_whole_trees and batches.predict_eos),
            span_interval=text.trees_interval,
            rank=rank,
            ranks=ranks,
            spans=spans,
            predict_eos=batches.predict_eos,
        )

    def _in_order(self, corpus: EncodedCorpus, tokens: int) -> Batches:
        batches = self.recipe.batches
        if isinstance(batches, StreamBatchSettings):
            return StreamBatches(corpus, self.vocabulary, 1, tokens)
        spans = self.valid_spans if corpus is self.valid else None
        return SentenceBatches(
            corpus,
            self.vocabulary,
            tokens,
            shuffle=False,
            seed=0,
            maximum_words=batches.maximum_words,
            spans=spans,
            final_spans=spans is not None,
            predict_eos=batches.predict_eos,
        )

    def limit_evaluation(self, words: int) -> None:
        longest = getattr(self.recipe.batches, "maximum_words", None)
        valid = self.valid
        assert valid is not None, "models that are trained by gradient descent have validation text"
        self.valid = valid.first(words, self.vocabulary, longest)
        if self.valid_spans is not None:
            kept = np.flatnonzero(np.isin(valid.line_numbers, self.valid.line_numbers))
            self.valid_spans = self.valid_spans.select(kept)
        self.test = self.test.first(words, self.vocabulary, longest) if isinstance(self.test, EncodedCorpus) else None

    def rate_factor(self, batch: Any) -> float:
        """Return the factor of the learning rate, which is proportional to the length of the batch with variable bptt
        (Merity et al. 2018).
        """
        settings = self.recipe.batches
        if isinstance(settings, StreamBatchSettings) and settings.variable_bptt:
            return len(batch.tokens) / settings.bptt
        return 1.0

    def figures(self) -> dict[str, Any]:
        counts = [trees.count for trees in self.supervision]
        if self.recipe.text.focus:
            return {"focused": counts} | super().figures()
        return {"supervised": counts[0]} | super().figures() if counts else super().figures()

    def evaluated(self, result: TrainingResult) -> TrainingResult:
        if self.recipe.text.trees is not None:
            result = dataclasses.replace(result, supervised=(self.supervision[0].count, len(self.train)))
        return super().evaluated(result)


class TreeTask(LanguageModelTask):
    """A dependency-tree model with dependency trees."""

    recipe: TreeRecipe
    train: DependencyCorpus
    valid: DependencyCorpus
    labels: Vocabulary

    def _read(self) -> None:
        trees = self.recipe.trees
        normaliser = Normaliser(trees.normaliser)
        words, labels = count_dependencies(dependency_trees(trees.train), normaliser)
        self.vocabulary = Vocabulary.build(words, UNKNOWN, ROOT, ROOT, **vars(trees.vocabulary))
        self.labels = label_vocabulary(labels)
        read = partial(DependencyCorpus.read, normaliser=normaliser, vocabulary=self.vocabulary, labels=self.labels)
        self.train, self.valid = read(trees.train), read(trees.valid)
        self.test = read(trees.test) if trees.test else None

    def _counts(self) -> TextCounts:
        words = torch.bincount(torch.from_numpy(self.train.text.ids), minlength=len(self.vocabulary))
        return TextCounts(words, len(self.labels))

    def batches(self, rank: int, ranks: int) -> Batches:
        batches = self.recipe.batches
        return TreeBatches(
            self.train,
            batches.token_budget,
            shuffle=True,
            seed=self.recipe.run.seed,
            mixed=True,
            maximum_trees=batches.batch_size,
            maximum_words=batches.maximum_words,
            rank=rank,
            ranks=ranks,
        )

    def _in_order(self, corpus: DependencyCorpus, tokens: int) -> Batches:
        return TreeBatches(corpus, tokens, shuffle=False, seed=0)
