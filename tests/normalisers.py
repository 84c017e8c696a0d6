"""Normalisers for tests."""

from typing import Any

from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.normaliser_settings import NormaliserSettings


def normaliser_with(*units: Any, **settings: Any) -> Normaliser:
    """Return a normaliser with these settings."""
    return Normaliser(NormaliserSettings(*units, **settings))
