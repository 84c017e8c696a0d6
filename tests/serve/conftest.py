"""A server with small models, in a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from syntaxlm.api import LanguageModel
from syntaxlm.core.errors import InputError
from syntaxlm.serve.app import create_app
from syntaxlm.serve.limits import Limits
from syntaxlm.serve.server import Server, address_of, listen, running
from syntaxlm.serve.site import Site
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


@contextmanager
def starting(load, **limits) -> Iterator[tuple[httpx.Client, Server, list[str]]]:
    """Yields a client of a server whose models may not be loaded yet, and what the server has reported."""
    reported = []

    def run(server, bound):
        try:
            server.run([bound])
        except InputError as error:
            reported.append(str(error))

    with listen("127.0.0.1", 0) as bound, httpx.Client(base_url=address_of(bound), timeout=60) as client:
        server = Server(Site(load, Limits(**limits)), lambda: reported.append("ready"))
        thread = threading.Thread(target=run, args=(server, bound))
        thread.start()
        try:
            yield client, server, reported
        finally:
            server.should_exit = True
            thread.join(60)
            assert not thread.is_alive()


@pytest.fixture
def release() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()
