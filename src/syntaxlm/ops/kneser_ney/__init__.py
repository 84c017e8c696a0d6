"""Modified Kneser-Ney: `estimate`, from a text to the n-grams of a back-off model, and its `reference`."""

from syntaxlm.ops.kneser_ney import reference
from syntaxlm.ops.kneser_ney.fast import estimate
from syntaxlm.ops.kneser_ney.types import FALLBACK, Estimate, Grams, discounts_of

__all__ = ["FALLBACK", "Estimate", "Grams", "discounts_of", "estimate", "reference"]
