"""A server with small models, in a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from fastapi import FastAPI

from syntaxlm.api import LanguageModel
from syntaxlm.serve.app import create_app
from syntaxlm.serve.server import Server, address_of, listen
from tests.api.models import language_model
from tests.fresh_models import fresh

SENTENCE = "the old cat sees a dog"


@pytest.fixture(scope="session")
def models() -> dict[str, LanguageModel]:
    """One model with each structure, one that does not parse, and one without surprisals."""
    names = ("simple-pcfg", "prpn", "palm", "lstm", "compound-pcfg")
    return {name: language_model(fresh(name)) for name in names}


@contextmanager
def running(app: FastAPI) -> Iterator[str]:
    """The address of an application that a thread serves."""
    started = threading.Event()
    with listen("127.0.0.1", 0) as bound:
        server = Server(app, started.set)
        thread = threading.Thread(target=server.run, args=([bound],))
        thread.start()
        try:
            assert started.wait(60)
            yield address_of(bound)
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="session")
def address(models) -> Iterator[str]:
    with running(create_app(models)) as found:
        yield found


@pytest.fixture(scope="session")
def client(address) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=60) as found:
        yield found
