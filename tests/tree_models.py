"""Dependency-tree models with fresh weights, as if they had been read from a folder."""

from __future__ import annotations

from syntaxlm.storage.folder import ModelBundle, ModelSettings
from syntaxlm.text.normaliser_settings import NormaliserSettings
from tests.models.tree_variants import LABELS, VOCABULARY, built


def tree_model(variant: str = "tanh") -> ModelBundle:
    """A variant of `tests.models.tree_variants` in float64, with the words and labels of the trees there."""
    model = built(variant)
    settings = ModelSettings(model.config, NormaliserSettings(lower_case=True), carry_state=False, predict_eos=False)
    return ModelBundle(model, settings, VOCABULARY, LABELS)
