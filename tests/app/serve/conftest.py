"""A server with small models, in a thread."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from syntaxlm.api import LanguageModel
from syntaxlm.app.serve.app import create_app
from syntaxlm.app.serve.server import running
from tests.api.models import language_model
from tests.fresh_models import fresh

SENTENCE = "the old cat sees a dog"


@pytest.fixture(scope="session")
def models() -> dict[str, LanguageModel]:
    """One model with each structure, one that does not parse, and one without surprisals."""
    names = ("simple-pcfg", "prpn", "palm", "lstm", "compound-pcfg")
    return {name: language_model(fresh(name)) for name in names}


@pytest.fixture(scope="session")
def address(models) -> Iterator[str]:
    with running(create_app(models)) as found:
        yield found


@pytest.fixture(scope="session")
def client(address) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=60) as found:
        yield found
