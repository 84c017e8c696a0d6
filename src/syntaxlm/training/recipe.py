"""Recipes: all settings of a training run, read from YAML.

There is one type of recipe for each type of data: `TextRecipe` (a section `text`), `TreeRecipe` (dependency trees, a
section `trees`) and `PairRecipe` (classifiers of pairs, a section `pairs`). The sections optimiser, schedule and run
are the same in all of them; `batches` has the settings of the type of data.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Protocol, TypeVar

from pydantic import BeforeValidator

from syntaxlm.core.errors import InputError
from syntaxlm.core.settings import (
    Bounds,
    ByName,
    Count,
    Fraction,
    NonNegative,
    Overrides,
    Positive,
    Seed,
    Settings,
    Size,
    override,
    read_settings,
)
from syntaxlm.core.yaml_files import read_yaml, yaml_text
from syntaxlm.data.given_texts import SPLITS, text_file
from syntaxlm.data.labelled_pairs import TRAINED_OPERATORS
from syntaxlm.models.abilities import HasLoss, LearnsFromTrees, TrainsByCounting
from syntaxlm.models.batches import TextMode
from syntaxlm.models.classifiers import ClassifierSettings
from syntaxlm.models.registry import MODELS, ModelConfig
from syntaxlm.reports.writers import plain
from syntaxlm.storage.bundled import find_model
from syntaxlm.storage.folder import WEIGHTS, Operators, PairTask
from syntaxlm.text.normaliser_settings import NormaliserSettings
from syntaxlm.training.recipe_files import ABOUT, find_recipe
from syntaxlm.trees.preprocessing import PREPROCESSINGS

ClassCount = Annotated[int, Bounds(ge=0, le=1000)]


@dataclass(frozen=True)
class VocabularySettings(Settings, section="vocabulary"):
    """The vocabulary, which is built from the training data.

    Attributes:
        minimum_count: smallest number of occurrences of a word in the training data; rarer words are unknown
        maximum_size: largest number of words, special tokens included; the most frequent words are kept; null: no limit
        unknown_classes: number of suffixes that become classes of unknown words, such as <unk:ing>; 0: no classes
    """

    minimum_count: Count = 1
    maximum_size: Count | None = None
    unknown_classes: ClassCount = 0


@dataclass(frozen=True)
class DataSettings(Settings):
    """The files of a run and how their words are read. Paths are relative to the working directory.

    Attributes:
        train: training data
        valid: validation data; the weights with the lowest loss on it (for pairs, the highest accuracy) are kept
        test: test data, evaluated once at the end
    """

    train: str
    valid: str | None
    test: str | None = None
    normaliser: NormaliserSettings = field(default_factory=NormaliserSettings)
    vocabulary: VocabularySettings = field(default_factory=VocabularySettings)

    @property
    def files(self) -> dict[str, str]:
        """The files that a run reads, by setting."""
        paths = {name: getattr(self, name) for name in ("train", "valid", "test")}
        return {name: path for name, path in paths.items() if path is not None}

    @property
    def models(self) -> list[str]:
        """The trained models from which training starts."""
        return []

    _treebanks: ClassVar[tuple[str, ...]] = ()
    read_again: ClassVar[tuple[str, ...]] = ("train",)  # those of `files` that are read several times

    @property
    def treebanks(self) -> frozenset[str]:
        """Those of `files` that may also be folders or patterns."""
        return frozenset(name for name in self.files if name.partition(".")[0] in self._treebanks)


@dataclass(frozen=True)
class TextSettings(DataSettings, section="text"):
    """Files of text: UTF-8 with one sentence per line, Parquet, patterns, or addresses such as hf://datasets/OWNER/NAME.

    The files that match a pattern such as 'train-*.txt' are read as one text, in the order of their names.

    Attributes:
        valid: validation text; the weights with the lowest loss on it are kept; null: none (only n-gram models)
        trees: file, folder or pattern of trees for the sentences of `train`, for models with `supervision` or models
            that read trees
        valid_trees: trees for the sentences of `valid`, for models that read trees
        test_trees: trees for the sentences of `test`, for models that read trees
        trees_share: share of the training sentences whose trees are used, counted from the first sentence
        trees_interval: number n; trees are used only in every n-th batch
        focus: files of predicted trees of `train`, one per parser, from which a grammar or a span parser learns
        focus_valid: files of predicted trees of `valid` by the same parsers, for span parsers
        treebank: file, folder or pattern of gold trees, for models that parse; F1 on them is logged at each validation
            and does not influence training
        trees_preprocessing: name or file of the gold-tree preprocessing of `treebank`, `trees`, `valid_trees` and
            `test_trees`; the words of the trees that it keeps must be the words of the text
        embeddings: folder of a trained model whose word embeddings are the initial embeddings
        weights: folder or name of a trained model with the same settings, which is trained further: its weights are the
            initial weights, and its vocabulary is kept
    """

    valid: str | None
    trees: str | None = None
    valid_trees: str | None = None
    test_trees: str | None = None
    trees_share: Annotated[float, Bounds(gt=0, le=1)] = 1.0
    trees_interval: Count = 1
    focus: tuple[str, ...] = ()
    focus_valid: tuple[str, ...] = ()
    treebank: str | None = None
    trees_preprocessing: str = "ptb-keep"
    embeddings: str | None = None
    weights: str | None = None

    _treebanks = ("trees", "valid_trees", "test_trees", "focus", "focus_valid", "treebank")

    @property
    def files(self) -> dict[str, str]:
        paths = super().files
        names = ("trees", "valid_trees", "test_trees", "treebank")
        trees = {name: path for name in names if (path := getattr(self, name)) is not None}
        paths |= trees
        if trees and self.trees_preprocessing not in PREPROCESSINGS:
            paths["trees_preprocessing"] = self.trees_preprocessing
        for name in ("focus", "focus_valid"):
            paths |= {f"{name}.{number}": path for number, path in enumerate(getattr(self, name))}
        for name in ("embeddings", "weights"):
            if (model := getattr(self, name)) is not None:
                paths[name] = str(find_model(model) / WEIGHTS)
        return paths

    @property
    def models(self) -> list[str]:
        return [model for model in (self.embeddings, self.weights) if model is not None]

    def contradictions(self) -> list[str]:
        if self.weights is None or self.embeddings is None:
            return []
        return [f"embeddings: found {self.embeddings}; expected null, because weights, {self.weights}, has embeddings"]


@dataclass(frozen=True)
class TreeSettings(DataSettings, section="trees"):
    """Files of dependency trees. Each of `train`, `valid` and `test` is a file, a folder or a pattern."""

    valid: str

    _treebanks = ("train", "valid", "test")

    def contradictions(self) -> list[str]:
        if self.normaliser.units == "characters":
            return ["normaliser.units: found characters; expected words, because dependency trees have words"]
        return []


@dataclass(frozen=True)
class PairSettings(DataSettings, section="pairs"):
    """Files of pairs. Labels and vocabulary come from the training file, except for formulas, whose labels are fixed.

    Attributes:
        task: format of the files: logic (written by `data logic`) or sentences (columns sentence1, sentence2 and label)
        maximum_operators: with task logic, pairs of `train` and `valid` with more operators are left out
    """

    valid: str
    task: PairTask = "logic"
    maximum_operators: Operators = TRAINED_OPERATORS

    read_again = ("train", "test")

    def contradictions(self) -> list[str]:
        if self.task != "logic":
            return []
        usual = {"normaliser": NormaliserSettings(), "vocabulary": VocabularySettings()}
        return [
            f"{name}: found settings; expected none, or pairs.task: sentences, because formulas have fixed tokens"
            for name, settings in usual.items()
            if getattr(self, name) != settings
        ]


@dataclass(frozen=True)
class SentenceBatchSettings(Settings, section="batches"):
    """Batches of sentences, each read from an empty state.

    Attributes:
        context: each sentence is read from an empty state
        predict_eos: whether the model learns to predict the end of a sentence
        token_budget: tokens per batch
        maximum_words: largest length of a training sentence; longer ones are left out and counted; null: no limit
        curriculum: largest lengths in epochs 1, 2, ...; later epochs use `maximum_words`
        joined: largest number of consecutive sentences that are read as one, with EOS between them; the number is drawn
            at random, so that the model learns to read a sentence by itself and after others
    """

    context: Literal["reset"] = "reset"
    predict_eos: bool = True
    token_budget: Count = 2048
    maximum_words: Count | None = 150
    curriculum: tuple[Count, ...] = ()
    joined: Count = 1


@dataclass(frozen=True)
class StreamBatchSettings(Settings, section="batches"):
    """Batches of one stream of text, whose state is carried from batch to batch.

    Attributes:
        context: the text is read as one stream
        batch_size: number of columns of text that are read in parallel
        bptt: tokens per column and batch, the length of back-propagation through time
        variable_bptt: whether the length of each batch is drawn at random around `bptt`, and its learning rate scaled
            in proportion
    """

    context: Literal["carry"] = "carry"
    batch_size: Size = 64
    bptt: Size = 35
    variable_bptt: bool = False


TEXT_BATCHES: dict[str, Callable[..., Any]] = {"reset": SentenceBatchSettings, "carry": StreamBatchSettings}
TextBatchSettings = Annotated[
    SentenceBatchSettings | StreamBatchSettings,
    ByName(lambda: list(TEXT_BATCHES), TEXT_BATCHES.get, key="context", default="reset"),
]


@dataclass(frozen=True)
class TreeBatchSettings(Settings, section="batches"):
    """Batches of dependency trees.

    Attributes:
        token_budget: words per batch
        maximum_words: largest length of a training sentence; longer ones are left out and counted; null: no limit
        batch_size: largest number of trees per batch
    """

    token_budget: Count = 2048
    maximum_words: Count | None = 150
    batch_size: Size = 64


@dataclass(frozen=True)
class PairBatchSettings(Settings, section="batches"):
    """Batches of pairs.

    Attributes:
        batch_size: pairs per batch
    """

    batch_size: Size = 128


@dataclass(frozen=True)
class OptimiserSettings(Settings, section="optimiser"):
    """Adam, AdamW or SGD, then averaged SGD if `average_patience`, `average_from_epoch` or `finetune_epoch` is set.

    Averaged SGD is plain SGD; the mean of its weights over all steps since averaging began is validated and kept.

    Attributes:
        kind: the optimisation algorithm, until averaging starts
        learning_rate: learning rate of the first step, or after the warm-up
        warmup_steps: number of steps at the start in which the learning rate rises linearly from 0
        beta1: decay rate of the running mean of the gradient; adam, adamw
        beta2: decay rate of the running mean of the squared gradient; adam, adamw
        epsilon: number added to the root of the mean squared gradient, to avoid division by 0; adam, adamw
        weight_decay: weight of the L2 penalty, whose gradient is added; adamw: decoupled, and only for matrices. The
            word embeddings of language models are excluded; the embeddings of grammars are not
        loss_normalisation: whether the loss is a mean per token or per sentence
        gradient_clip: largest norm of the gradient; a larger gradient is scaled down to this norm
        parser_learning_rate: palm: constant learning rate of a separate optimiser (Adam, gradient clipped at 1) for the
            weights that only score spans, until averaging starts; null: one optimiser for all weights
        average_patience: number n; averaging starts if the loss exceeds the best loss of all but the last n validations
        average_from_epoch: epoch after which averaging starts at the latest; null: only `average_patience` starts it
        average_learning_rate: learning rate after averaging has started; null: unchanged
        finetune_epoch: epoch after which averaging restarts from the average, until the loss rises again
    """

    kind: Literal["adam", "adamw", "sgd"] = "adam"
    learning_rate: Positive = 3e-3
    warmup_steps: Annotated[int, Bounds(ge=0, le=2**31 - 1)] = 0
    beta1: Fraction = 0.9
    beta2: Fraction = 0.999
    epsilon: Positive = 1e-8
    weight_decay: NonNegative = 1e-6
    loss_normalisation: Literal["tokens", "sentences"] = "tokens"
    gradient_clip: Positive = 1.0
    parser_learning_rate: Positive | None = None
    average_patience: Count | None = None
    average_from_epoch: Count | None = None
    average_learning_rate: Positive | None = None
    finetune_epoch: Count | None = None

    @property
    def averages(self) -> bool:
        """Whether any setting starts averaging."""
        starts = self.average_patience, self.average_from_epoch, self.finetune_epoch
        return any(setting is not None for setting in starts)

    def contradictions(self) -> list[str]:
        faults = []
        last = self.finetune_epoch
        first = self.average_from_epoch
        if self.average_learning_rate is not None and not self.averages:
            faults.append(
                f"average_learning_rate: found {self.average_learning_rate}; expected null, or a setting that starts"
                " averaging: optimiser.average_patience, average_from_epoch or finetune_epoch"
            )
        if last is not None and self.average_patience is None:
            faults.append(f"finetune_epoch: found {last}; expected null, or optimiser.average_patience, which ends it")
        if last is not None and first is not None and last <= first:
            faults.append(f"finetune_epoch: found {last}; expected more than optimiser.average_from_epoch, {first}")
        return faults


@dataclass(frozen=True)
class ScheduleSettings(Settings, section="schedule"):
    """When the learning rate is reduced, and when training ends.

    Attributes:
        plateau_loss: the loss whose improvement counts for the other plateau settings
        plateau_patience: validations without a better loss before the learning rate is reduced
        plateau_factor: factor by which the learning rate is multiplied; 1: it stays the same
        plateau_threshold: a loss counts as better if it is lower by this share of the best loss
        plateau_repeats: whether the learning rate, once reduced, is reduced after every further validation
        decay: gradual decrease of the learning rate, besides the plateau: linear (to 0) or cosine (to a tenth)
        decay_from: fraction of all epochs after which the decay starts
        keep: which weights are kept: best (lowest validation loss) or last (last validation)
        epochs: passes over the training data
        minutes: time limit of the whole run in minutes, evaluation included; null: no limit
        stop_patience: validations without a better loss before training ends; null: no limit
        validations_per_epoch: number of validations in each epoch; the last one is at its end
    """

    plateau_loss: Literal["valid", "train"] = "valid"
    plateau_patience: Count = 2
    plateau_factor: Annotated[float, Bounds(gt=0, le=1)] = 0.5
    plateau_threshold: NonNegative = 0.0
    plateau_repeats: bool = False
    decay: Literal["none", "linear", "cosine"] = "none"
    decay_from: Fraction = 0.0
    keep: Literal["best", "last"] = "best"
    epochs: Count = 20
    minutes: Positive | None = None
    stop_patience: Count | None = None
    validations_per_epoch: Count = 1


def _as_text(value: object) -> object:
    """YAML reads 32 as a number."""
    return str(value) if value == 32 and not isinstance(value, bool) else value


Precision = Annotated[Literal["32", "bf16-mixed"], BeforeValidator(_as_text)]


@dataclass(frozen=True)
class RunSettings(Settings, section="run"):
    """Settings of the run itself.

    Attributes:
        seed: random seed of initial weights, dropout and order of batches
        precision: 32 (float32), or bf16-mixed (matrix products in bfloat16 if the device computes them fast, all else
            in float32)
        accelerator: device; auto: the fastest device available
        checkpoint_seconds: seconds between checkpoints; a killed run loses the steps since the last checkpoint
        log_steps: steps between two lines of metrics.jsonl
        process_timeout: seconds that a process waits for the other processes of the run before the run ends
    """

    seed: Seed = 1
    precision: Precision = "32"
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    checkpoint_seconds: NonNegative = 120.0
    log_steps: Count = 100
    process_timeout: Positive = 1800.0


class TrainingSettings(Protocol):
    """What the training loops and the progress display read of a recipe, or of the settings of stop classifiers."""

    @property
    def optimiser(self) -> OptimiserSettings: ...
    @property
    def schedule(self) -> ScheduleSettings: ...
    @property
    def run(self) -> RunSettings: ...
    @property
    def unit(self) -> str: ...


@dataclass(frozen=True, kw_only=True)
class Recipe(Settings):
    """The sections of every recipe. Each type of recipe adds a section of data, and the batches of this data.

    Attributes:
        data_section: the name of the section of data: "text", "trees" or "pairs".
        unit: what the loss is a mean over, for the speed of training.
    """

    model: ModelConfig
    optimiser: OptimiserSettings = field(default_factory=OptimiserSettings)
    schedule: ScheduleSettings = field(default_factory=ScheduleSettings)
    run: RunSettings = field(default_factory=RunSettings)

    data_section: ClassVar[str]
    unit: ClassVar[str] = "tokens"

    @property
    def data(self) -> DataSettings:
        """The section of data."""
        data: DataSettings = getattr(self, self.data_section)
        return data

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as nested dicts, in the order in which recipes are written."""
        data = dataclasses.asdict(self)
        last = ("batches", "optimiser", "schedule", "run")
        return {name: data[name] for name in [*(name for name in data if name not in last), *last]}

    def __str__(self) -> str:
        """Return the settings as YAML."""
        return yaml_text(plain(self.to_dict())).rstrip()


@dataclass(frozen=True, kw_only=True)
class TextRecipe(Recipe):
    """A recipe for a language model or a grammar, which learns from text."""

    text: TextSettings
    batches: TextBatchSettings = field(default_factory=SentenceBatchSettings)

    data_section = "text"

    @property
    def mode(self) -> TextMode:
        """How text is read in validation."""
        if isinstance(self.batches, StreamBatchSettings):
            return TextMode(carry_state=True)
        return TextMode(predict_eos=self.batches.predict_eos)

    @property
    def reads_context(self) -> bool:
        """Whether sentences are read after others in training, so that the end of one is the beginning of the next."""
        return isinstance(self.batches, StreamBatchSettings) or self.batches.joined > 1

    def contradictions(self) -> list[str]:
        """Return a message for each setting that does not fit the model."""
        faults = _model_faults(self.model)
        faults += self._tree_faults()
        faults += self._focus_faults()
        batches, name = self.batches, self.model.name
        if self.text.valid is None and not _is_counted_once(name):
            faults.append(
                f"text.valid: found null; expected a file, because {name} models are validated during training"
            )
        if self.model.omits_unknown_words and (classes := self.text.vocabulary.unknown_classes):
            faults.append(
                f"text.vocabulary.unknown_classes: found {classes}; expected 0, because {name} models predict known"
                " words only, and would predict the classes of unknown words as if they were known"
            )
        reads_sentences = MODELS[name].reads == "sentences"
        if isinstance(batches, StreamBatchSettings):
            if reads_sentences:
                faults.append(
                    f"batches.context: found carry; expected reset, because {name} models read whole sentences"
                )
            if self.optimiser.loss_normalisation == "sentences":
                faults.append(
                    "optimiser.loss_normalisation: found sentences; expected tokens, or batches.context reset"
                )
            return faults
        if reads_sentences and not batches.predict_eos:
            faults.append(
                f"batches.predict_eos: found false; expected true, because {name} models read ends of sentences"
            )
        if batches.curriculum and MODELS[name].has(TrainsByCounting):
            faults.append(
                f"batches.curriculum: found {list(batches.curriculum)}; expected [], because {name} models count the"
                " same sentences in every round (batches.maximum_words)"
            )
        if batches.joined > 1:
            reasons = {
                f"{name} models read whole sentences": reads_sentences,
                "batches.predict_eos is false, so that ends of sentences are not read": not batches.predict_eos,
                "trees are of single sentences (text.trees)": self.text.trees is not None,
            }
            faults += [
                f"batches.joined: found {batches.joined}; expected 1, because {reason}"
                for reason, applies in reasons.items()
                if applies
            ]
        return faults

    def _tree_faults(self) -> list[str]:
        name = self.model.name
        text = self.text
        if self.model.tree_loss == "decisions":
            faults = []
            if text.trees is None:
                faults = [f"text.trees: found null; expected trees of text.train, from which {name} models learn"]
            if text.trees_interval > 1:
                faults.append(
                    f"text.trees_interval: found {text.trees_interval}; expected 1, because {name} models learn from"
                    " sentences with trees only"
                )
            if self.optimiser.loss_normalisation == "sentences":
                faults.append(
                    "optimiser.loss_normalisation: found sentences; expected tokens, because the loss of the decisions"
                    f" of {name} models is a mean per token"
                )
            return faults
        if self.model.reads_trees:
            return self._faults_of_trees_read()
        faults = _both_or_neither(self.model, "supervision", "trees", text.trees, None)
        faults += [
            f"text.{setting}: found {path}; expected null: the model does not read trees of this text"
            for setting in ("valid_trees", "test_trees")
            if (path := getattr(text, setting)) is not None
        ]
        if text.trees is None:
            faults += [
                f"text.{setting}: found {value}; expected 1, or text.trees, to which it applies"
                for setting in ("trees_share", "trees_interval")
                if (value := getattr(text, setting)) != 1
            ]
        return faults

    def _faults_of_trees_read(self) -> list[str]:
        """Return a message for each setting that does not fit a model that predicts words given trees."""
        text = self.text
        texts = {"trees": "train", "valid_trees": "valid", "test_trees": "test"}
        faults = [
            f"text.{setting}: found null; expected trees of text.{name}, which the model reads (model.scores: trees)"
            for setting, name in texts.items()
            if getattr(text, name) is not None and getattr(text, setting) is None
        ]
        if text.test is None and text.test_trees is not None:
            faults.append(
                f"text.test_trees: found {text.test_trees}; expected null, or text.test, whose trees they are"
            )
        faults += [
            f"text.{setting}: found {value}; expected 1: the model reads trees in every batch"
            for setting in ("trees_share", "trees_interval")
            if (value := getattr(text, setting)) != 1
        ]
        if isinstance(self.batches, SentenceBatchSettings):
            faults.append("batches.context: found reset; expected carry: trees are read with a stream")
        return faults

    def _focus_faults(self) -> list[str]:
        name = self.model.name
        train_files = len(self.text.focus)
        valid_files = len(self.text.focus_valid)
        if not MODELS[name].has(LearnsFromTrees):
            faults = _both_or_neither(self.model, "focus", "focus", self.text.focus, ())
            if valid_files:
                faults.append(
                    f"text.focus_valid: found {valid_files} files; expected none, because {name} models validate"
                    " on text"
                )
            return faults
        if not train_files:
            return [f"text.focus: found no files; expected trees of text.train, from which {name} models learn"]
        if valid_files != train_files:
            return [f"text.focus_valid: found {valid_files} files; expected {train_files}, one for each of text.focus"]
        return []


@dataclass(frozen=True, kw_only=True)
class TreeRecipe(Recipe):
    """A recipe for a dependency-tree model."""

    trees: TreeSettings
    batches: TreeBatchSettings = field(default_factory=TreeBatchSettings)

    data_section = "trees"

    @property
    def mode(self) -> TextMode:
        """How trees are read: ends of sentences are not predicted."""
        return TextMode(predict_eos=False)

    def contradictions(self) -> list[str]:
        return _model_faults(self.model, "trees")


@dataclass(frozen=True, kw_only=True)
class PairRecipe(Recipe):
    """A recipe for a classifier of pairs. `model` is the encoder."""

    pairs: PairSettings
    classifier: ClassifierSettings = field(default_factory=ClassifierSettings)
    batches: PairBatchSettings = field(default_factory=PairBatchSettings)

    data_section = "pairs"
    unit = "pairs"

    def contradictions(self) -> list[str]:
        if MODELS[self.model.name].encoder is None or not self.model.supervision:
            return []
        return [f"model.supervision: found {self.model.supervision}; expected 0, because pairs have no trees"]


RECIPES: tuple[type[Recipe], ...] = (TextRecipe, TreeRecipe, PairRecipe)
LanguageModelRecipe = TextRecipe | TreeRecipe


def _model_faults(model: ModelConfig, section: str = "text") -> list[str]:
    """Return a message if the model is not trained on this section of data."""
    model_type = MODELS[model.name]
    if not model_type.is_trained:
        advice = (
            "is trained as the encoder of a pair classifier; expected a recipe with a section pairs"
            if model_type.encoder
            else "is made of trained models by syntaxlm combine; expected a model type that is trained"
        )
    elif (model_type.reads == "trees") == (section == "trees"):
        return []
    elif section == "text":
        advice = "learns from dependency trees; expected a section trees in place of text, or another model type"
    else:
        advice = "learns from text; expected a section text in place of trees, or a dependency-tree model"
    return [f"model.name: found {model.name}, which {advice}"]


def _is_counted_once(name: str) -> bool:
    """Return whether models of a type need no validation: they are counted in one round, whose weights are kept."""
    model = MODELS[name].implementation
    return issubclass(model, TrainsByCounting) and model.rounds == 1 and not MODELS[name].has(HasLoss)


def _both_or_neither(model: ModelConfig, weight: str, setting: str, value: Any, none: Any) -> list[str]:
    """Return a fault unless text.SETTING and model.WEIGHT are both set or both unset.

    Args:
        model: the settings of the model.
        weight: name of the model's weight of learning from the setting.
        setting: name of the setting of `text`.
        value: its value.
        none: its value if it is unset.
    """
    strength = getattr(model, weight, 0.0)
    if value != none and not strength:
        shown, absent = (list(value), "[]") if isinstance(value, tuple) else (value, "null")
        if weight in model.__dataclass_fields__:
            advice = f"a number above 0, to learn from text.{setting} ({shown}), or no text.{setting}"
            return [f"model.{weight}: found {strength}; expected {advice}"]
        return [f"text.{setting}: found {shown}; expected {absent}, or a model type with the setting model.{weight}"]
    if value == none and strength:
        return [f"model.{weight}: found {strength}; expected 0, or text.{setting} to learn from"]
    return []


def read_recipe(path: str | Path, overrides: Overrides | None = None) -> Recipe:
    """Read a recipe: a YAML file, or the name of a bundled recipe.

    Args:
        path: the file, or the name.
        overrides: settings that replace those of the recipe, nested or with dotted names or both: {"text.train":
            "train.txt", "schedule": {"epochs": 3}}. All other settings are unchanged. Texts may also be objects of
            Python, see `syntaxlm.train`. In a list of pairs, as the command line passes it, the values are YAML:
            ("model.layers", "3").

    Raises:
        InputError: with all errors of the recipe.

    Examples:
        >>> syntaxlm.read_recipe("prpn-toy", {"schedule.epochs": 3}).schedule.epochs
        3
    """
    path = find_recipe(path)
    overrides = with_text_files(overrides)
    by_dict = isinstance(overrides, Mapping)
    source = f"{path} and {'overrides' if by_dict else 'the settings of the command line'}" if overrides else str(path)
    data = sections_of(read_yaml(path), path)
    override(data, overrides or {})
    return recipe_from(with_text_files(data), source)


def with_overrides(recipe: Recipe, overrides: Overrides) -> Recipe:
    """Return the recipe with other settings, see `read_recipe`. Raises InputError with all errors."""
    data = recipe.to_dict()
    override(data, with_text_files(overrides))
    return recipe_from(with_text_files(data), "the recipe and its overrides")


AnyOverrides = TypeVar("AnyOverrides", bound=Overrides | None)


def with_text_files(overrides: AnyOverrides) -> AnyOverrides:
    """Return settings whose texts (text.train, text.valid and text.test) are names of files, see `data.given_texts`.

    Args:
        overrides: nested dicts, with dotted names or both. Others are returned unchanged.
    """

    def named(key: str, value: Any) -> Any:
        section, _, split = key.partition(".")
        if section == "text" and split in SPLITS:
            return text_file(value, split)
        if isinstance(value, Mapping):
            return {inner: named(f"{key}.{inner}", values) for inner, values in value.items()}
        return value

    if not isinstance(overrides, Mapping):
        return overrides
    settings: Any = {key: named(str(key), value) for key, value in overrides.items()}
    return settings


def sections_of(data: Any, path: str | Path) -> dict[str, Any]:
    """Return the sections of a recipe file. Raises InputError if the file has other content.

    Args:
        data: the content of the file.
        path: its name, for messages.
    """
    if not isinstance(data, dict):
        found = {type(None): "no settings", list: "a list"}.get(type(data), "a single value")
        raise InputError(f"{path}: found {found}; expected the sections model, text, batches, ...")
    return data


def recipe_from(data: dict[str, Any], source: str) -> Recipe:
    """Return the recipe of nested dictionaries. Raises InputError with all errors.

    Args:
        data: the dictionaries.
        source: the file, for messages.
    """
    data = {name: section for name, section in data.items() if name != ABOUT}
    sections = {recipe.data_section: recipe for recipe in RECIPES}
    present = [name for name in sections if name in data]
    if len(present) != 1:
        raise InputError(
            f"{source}: found {' and '.join(present) or 'no section of data'}; expected one of the sections"
            f" {', '.join(sections)}"
        )
    recipe: Recipe = read_settings(sections[present[0]], data, source, _misplaced_settings())
    return recipe


@functools.cache
def _misplaced_settings() -> dict[str, str]:
    """Return what to do about settings of another type of data, by dotted key."""
    batches: dict[str, type] = {
        "batches.context: reset": SentenceBatchSettings,
        "batches.context: carry": StreamBatchSettings,
        "a section trees": TreeBatchSettings,
        "a section pairs": PairBatchSettings,
    }
    advice = {"classifier": "Only recipes with a section pairs have it."}
    for name in {name for settings in batches.values() for name in _names(settings)}:
        owners = [owner for owner, settings in batches.items() if name in _names(settings)]
        advice[f"batches.{name}"] = f"It belongs to recipes with {' or '.join(owners)}."
    data: dict[str, type] = {"text": TextSettings, "trees": TreeSettings, "pairs": PairSettings}
    for section, other in itertools.permutations(data, 2):
        for name in _names(data[other]) - _names(data[section]):
            advice[f"{section}.{name}"] = f"It is a setting of recipes with a section {other}."
    return advice


def _names(settings: type) -> set[str]:
    return {setting.name for setting in dataclasses.fields(settings)}
