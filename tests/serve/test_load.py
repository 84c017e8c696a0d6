"""Many clients at the same time get the answers that one client gets."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any, NamedTuple

import httpx
import pytest

from syntaxlm.serve.app import create_app
from syntaxlm.serve.limits import Limits
from syntaxlm.serve.server import running
from syntaxlm.text.reader import TextReader
from tests.api.models import language_model
from tests.fresh_models import KNOWN, fresh
from tests.turns import short_turns

CLIENTS = 100
MODELS = {  # the first two have one vocabulary and one normaliser, and so one reader
    "lstm": {},
    "prpn": {},
    "simple-pcfg": {"lower_case": True},
    "on-lstm": {"drop_punctuation": True},
}


class Request(NamedTuple):
    path: str
    body: dict[str, Any]


def drawn(draw: random.Random) -> Request:
    """A request of any kind, half of whose words are new to the model."""
    known, name = KNOWN["words"].split(), draw.choice([*["lstm", "prpn"] * 3, *MODELS])

    def sentence() -> str:
        words = (draw.choice(known) if draw.random() < 0.5 else f"w{draw.randrange(10**3)}" for _ in range(8))
        return " ".join(words)

    kind = draw.choice([*["surprisal"] * 6, "pair", "generate", *["parse", "analyse"] * (name != "lstm")])
    body: dict[str, Any] = {"model": name}
    if kind == "pair":
        body |= {"first": sentence(), "second": sentence(), "pictures": False}
    elif kind == "generate":
        body |= {"count": 2, "max_words": 8, "seed": draw.randrange(10), "pictures": False}
    else:
        body |= {"sentences": [sentence() for _ in range(4)]} | ({"pictures": False} if kind == "analyse" else {})
    return Request(f"/api/{kind}", body)


async def loaded(address: str, seconds: float) -> list[tuple[Request, int, Any]]:
    """What `CLIENTS` clients asked until the time is over, at least once each, and what was answered."""
    end, answers = time.monotonic() + seconds, []

    async def ask(client: httpx.AsyncClient, number: int) -> None:
        draw = random.Random(number)
        while True:
            request = drawn(draw)
            answer = await client.post(request.path, json=request.body)
            answers.append((request, answer.status_code, answer.json()))
            if time.monotonic() > end:
                return

    async with httpx.AsyncClient(base_url=address, timeout=120, limits=httpx.Limits(max_connections=None)) as client:
        await asyncio.gather(*(ask(client, number) for number in range(CLIENTS)))
    return answers


def rounded(value: Any) -> Any:
    """An answer without the last digits, which depend on the sentences that are computed together."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return list(map(rounded, value))
    return round(value, 4) if isinstance(value, float) else value


@pytest.mark.parametrize("seconds", [1, pytest.param(60, marks=pytest.mark.long)])
def test_a_hundred_clients_of_four_models_get_the_answers_that_one_client_gets(monkeypatch, seconds):
    parts_of_word = TextReader._parts_of_word

    def slow(reader: TextReader, *word: Any) -> Any:
        time.sleep(1e-3)  # other threads read the same word meanwhile
        return parts_of_word(reader, *word)

    monkeypatch.setattr(TextReader, "_parts_of_word", slow)
    models = {name: language_model(fresh(name, **normalising)) for name, normalising in MODELS.items()}
    TextReader._remembered.cache_clear()
    with short_turns(), running(create_app(models, Limits(max_waiting=2 * CLIENTS))) as address:
        answers = asyncio.run(loaded(address, seconds))
    assert {status for _, status, _ in answers} == {200}
    assert len(answers) >= CLIENTS

    monkeypatch.undo()
    TextReader._remembered.cache_clear()
    with running(create_app(models)) as address, httpx.Client(base_url=address, timeout=60) as client:
        for request, _, answer in random.Random(0).sample(answers, min(len(answers), 50 * seconds)):
            assert rounded(client.post(request.path, json=request.body).json()) == rounded(answer), request
