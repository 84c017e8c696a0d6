"""Dependency-tree models with fresh weights, and stop classifiers for them, in which every part has an effect."""

from __future__ import annotations

import torch

from syntaxlm.models.classifiers import Stops, StopSettings
from syntaxlm.storage.folder import ModelBundle, ModelSettings
from syntaxlm.text.normaliser_settings import NormaliserSettings
from tests.models.tree_variants import LABELS, VOCABULARY, built


def grown(name: str, reads: str = "states-and-words", bias: float = -0.5) -> tuple[ModelBundle, Stops]:
    """A variant of the model's tests, and classifiers, in float64. bias: of all logits, low for small trees."""
    model = built(name)
    settings = ModelSettings(model.config, NormaliserSettings(), carry_state=False, predict_eos=False)
    stored = ModelBundle(model, settings, VOCABULARY, LABELS)
    sizes = model.state_size, model.word_size, model.input_size, 8
    torch.manual_seed(2)
    stops = Stops(StopSettings(*sizes, model.label_count or 0, reads)).double().eval()
    with torch.no_grad():
        for classifier in stops.classifiers:
            classifier[2].weight.mul_(4)
            classifier[2].bias.fill_(bias)
    return stored, stops
