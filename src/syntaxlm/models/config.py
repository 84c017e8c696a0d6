"""The base class of model settings: what other packages ask of the settings of any model type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from syntaxlm.core.settings import Settings
from syntaxlm.trees.marks import MarkSide

TreeLoss = Literal["states", "distances", "decisions"]
"""How a model learns from given trees: by TreeReg on its hidden states, by a ranking loss on its distances, or by the
probability of the decisions that build them."""

TRAINING_SETTINGS = frozenset(
    {
        "dropout", "layer_dropout", "input_dropout", "embedding_dropout", "recurrent_dropout", "attention_dropout",
        "marks_dropout", "weight_drop", "ar", "tar", "init_range", "initial_weights", "supervision", "mask_rate",
        "focus", "end_bias", "start_bias", "end_bias_epochs",
    }
)  # fmt: skip
"""Settings of any model type that give its weights no other meaning: how they are initialised, regularised and trained.
A model that is trained further may have others than before."""


class BaseConfig(Settings, section="model"):
    """Base class of the settings of a model type, which are a frozen dataclass.

    A subclass has the field `name`. The other attributes are what the rest of the program asks of a model's settings;
    their defaults fit a model without the capability. A subclass overrides them, mostly by a field of the same name.

    Attributes:
        name: the model type.
        is_focusable: whether the setting `focus` penalises spans that are in no given tree (text.focus).
        omits_unknown_words: whether the loss leaves out unknown words, which then may not have classes.
        supervision: weight of the loss of given trees (text.trees); 0: the model does not learn from them.
        drop_punctuation: whether the model parses without the punctuation marks that it reads to predict words.
        reads_marks: whether the model reads the punctuation marks in the gaps between words.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]
    is_focusable: ClassVar[bool] = False
    omits_unknown_words: ClassVar[bool] = False
    name: str
    supervision: float = 0.0
    drop_punctuation: bool = False
    reads_marks: bool = False

    def __init_subclass__(cls, section: str = "model") -> None:
        super().__init_subclass__(section)

    @property
    def tree_loss(self) -> TreeLoss | None:
        """How the model learns from given trees with `supervision`; None: not from whole trees."""
        return None

    @property
    def reads_trees(self) -> bool:
        """Whether the model predicts words given trees of the text, in training and in evaluation."""
        return False

    @property
    def training_marks(self) -> MarkSide | None:
        """The side of a span at which training expects a punctuation mark; None: training does not use marks."""
        return None

    @property
    def parser_settings(self) -> Sequence[BaseConfig]:
        """The settings of the models whose trees are averaged: these settings, or those of a combination's parsers."""
        return (self,)
