"""Models of trees with fresh weights, as if they had been read from a folder."""

from __future__ import annotations

from syntaxlm.model_io import ModelBundle, ModelSettings
from syntaxlm.text.normaliser import Normaliser
from tests.models.test_tree_rnn import LABELS, VOCABULARY, built


def tree_model(variant: str = "tanh") -> ModelBundle:
    """Of `tests.models.test_tree_rnn`, in float64; knows the words and labels of the trees there."""
    model = built(variant)
    return ModelBundle(model, ModelSettings(model.config, Normaliser(lower_case=True), "trees"), VOCABULARY, LABELS)
