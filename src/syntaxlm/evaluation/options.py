"""Options of evaluations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from syntaxlm.core.declarations import LARGEST_COUNT, Bounds, Options, Seed, Shown
from syntaxlm.core.errors import InputError
from syntaxlm.scoring.options import MOST_SPILLOVER, Measure

FoldUnit = Literal["sentence", "group"]
Unknown = Literal["exclude", "keep"]
RegressionMeasure = Literal["surprisal", "surprisal_word", "surprisal_marks", Measure]
PARTS = ("surprisal", "surprisal_word", "surprisal_marks")  # that need no further computation

MOST_KNOTS = 20


@dataclass(frozen=True)
class RegressionSettings(Options):
    """The settings of regressions of reading times.

    Attributes:
        log: Predict the natural logarithm of the time instead of the time itself. This does not apply to a column of 0
            and 1.
        spillover: Include the surprisal, length and frequency of the N previous words among the predictors.
        smooth: Model length and log frequency, of the word and of previous words, by natural cubic splines with N knots
            in the baseline. With fewer than 3 knots, these terms are linear.
        unknown: Treat words that a model does not know in this way.
            - `exclude` (default): leave them and the words that follow within `--spillover` out for all models
            - `keep`: keep them, and add indicators of unknown words to both regressions of each model
        measures: Measure the gain from this predictor, of the word and of previous words. The second regression
            contains it in addition to the baseline. Several predictors are added together.
            - `surprisal` (default): the surprisal of the word
            - `surprisal_word`, `surprisal_marks`: surprisal without punctuation marks, and of punctuation marks alone
            - another measure: as for `--measure` of `score`
        keep_last: Keep the last word of each passage. By default it is left out, because its time often includes a
            pause.
        predictors: Add this numeric column of the table of words to the baseline.
        folds: Divide the data into N folds for the cross-validation.
        fold_unit: Never split a unit of this type between folds.
        seed: Assign units to folds with this random seed.

    >>> settings = syntaxlm.RegressionSettings()
    """

    heading: ClassVar[str] = "Regression"

    log: Annotated[bool, Shown(flags=("--log-times",))] = False
    spillover: Annotated[int, Bounds(ge=0, le=MOST_SPILLOVER), Shown("N")] = 1
    smooth: Annotated[int, Bounds(ge=0, le=MOST_KNOTS), Shown("N")] = 3
    unknown: Unknown = "exclude"
    measures: Annotated[Sequence[RegressionMeasure], Shown("NAME", ("--measure",))] = ("surprisal",)
    keep_last: bool = False
    predictors: Annotated[Sequence[str], Shown("NAME", flags=("--predictor",))] = ()
    folds: Annotated[int, Bounds(ge=2, le=LARGEST_COUNT), Shown("N")] = 10
    fold_unit: FoldUnit = "sentence"
    seed: Seed = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.measures:
            raise InputError("measures: found none; expected one or more, such as surprisal")
        for name in ("measures", "predictors"):
            counts = Counter(getattr(self, name))
            if twice := [predictor for predictor, count in counts.items() if count > 1]:
                raise InputError(f"{name}: found {twice[0]!r} twice; expected each predictor once")
