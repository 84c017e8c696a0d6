"""A server with small models, in a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx
import pytest
from laboratory.pages import browser as browsers

from syntaxlm.api import LanguageModel
from syntaxlm.core.errors import InputError
from syntaxlm.serve.app import create_app
from syntaxlm.serve.limits import Limits
from syntaxlm.serve.server import Server, address_of, listen, running
from syntaxlm.serve.site import Site
from tests.api.models import language_model
from tests.fresh_models import fresh

SENTENCE = "the old cat sees a dog"
PAIR = {"first": "the cat sees a dog", "second": "the cat dog a sees"}
NO_BROWSER = browsers.missing()


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


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browsers.browser() as found:
        yield found


@pytest.fixture
def opened(browser, address) -> Iterator[Any]:
    """Opens the page with a state, in a new browser profile. Fails for errors, and for requests to other hosts."""
    contexts, faults = [], []

    def open_page(
        path: str = "/", models: tuple[str, ...] = (), at: str = address, until: str | None = None, **state: Any
    ) -> Any:
        profile = {name: state.pop(name) for name in ("viewport", "color_scheme", "has_touch") if name in state}
        context = browser.new_context(**profile)
        context.set_default_timeout(30_000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda one: faults.append(one.text) if is_fault(one) else None)
        page.on("dialog", lambda dialog: (faults.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda one: faults.append(one.url) if not is_local(one.url, at) else None)
        fields = [("model", name) for name in models] + list(state.items())
        page.goto(at + path + (f"#{urlencode(fields)}" if fields else ""))
        page.wait_for_selector(until or ("article"))
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert faults == []


def is_fault(message: Any) -> bool:
    """Whether a message of the console is an error of the page, and not a refused request, which it shows."""
    return message.type == "error" and "status of 422" not in message.text


def is_local(url: str, address: str) -> bool:
    return url.startswith(("blob:", "data:")) or urlsplit(url).netloc == urlsplit(address).netloc
