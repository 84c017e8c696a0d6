"""Options of evaluations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

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
        log: predict the natural logarithm of the time; default: the time itself; does not apply to a column of 0 and 1
        spillover: number of previous words whose surprisal, length and frequency are predictors
        smooth: number of knots of the natural cubic splines of length and log frequency, of the word and of previous
            words, in the baseline; fewer than 3: linear terms only
        unknown: treatment of words that a model does not know: exclude (default), leave them and the following
            spill-over words out for all models; keep, with indicators of unknown words in each model's baseline and
            regression
        measures: predictor that is added to the baseline; may be repeated: all are added together, each for the word
            and for previous words. surprisal (default), surprisal_word or surprisal_marks, its parts without and of
            punctuation marks, or any --measure of score
        keep_last: keep the last word of each passage; by default it is left out, because its time often includes a
            pause
        predictors: numeric column of the table of words that is added to the baseline; may be repeated
        folds: number of folds of the cross-validation
        fold_unit: what is never split between folds: sentence (default) or group
        seed: random seed of the assignment to folds

    >>> settings = syntaxlm.RegressionSettings()
    """

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
        for name in ("measures", "predictors"):
            chosen = getattr(self, name)
            if twice := [one for one, count in Counter(chosen).items() if count > 1]:
                raise InputError(f"{name}: found {twice[0]!r} twice; expected each predictor once")
