"""A model with a small vocabulary, and given log-probabilities of sentences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from syntaxlm.scoring.engine import Scorer
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.text.normaliser_settings import NormaliserSettings
from syntaxlm.text.vocabulary import Vocabulary


@pytest.fixture
def small(prpn):
    """A model whose vocabulary is the cat cats sleep sleeps ."""
    vocabulary = Vocabulary(["<unk>", "<s>", "</s>", "the", "cat", "cats", "sleep", "sleeps", "."])
    return ModelBundle(prpn.model, replace(prpn.settings, normaliser=NormaliserSettings(lower_case=True)), vocabulary)


@pytest.fixture
def spoken(monkeypatch):
    """Replace a model's log-probabilities by those of joined tokens; return the list of scored sentences."""

    def replaced(log_probs):
        asked = []

        def scored(scorer, model, corpus):
            sentences = [" ".join(scorer.vocabulary.decode(corpus.sentence(place))) for place in range(len(corpus))]
            asked.extend(sentences)
            return np.array([log_probs[sentence] for sentence in sentences], np.float64)

        monkeypatch.setattr(Scorer, "_sentence_sums", scored)
        return asked

    return replaced


@pytest.fixture(params=["prpn", "lstm"])
def stored(request):
    """Trained models whose scores are compared with reading token by token."""
    stored = request.getfixturevalue(request.param)
    stored.model.double()
    return stored
