"""Fuzzing of the page's JSON interface: every request is answered or refused with a reason, none fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from syntaxlm.serve.app import create_app
from syntaxlm.serve.limits import Limits
from tests.api.models import language_model
from tests.fresh_models import fresh
from tests.fuzz.mutation import ODD_TEXT, mutated
from tests.fuzz.test_readers import JSON_PIECES

SENTENCE = "the old cat, it sees (a) dog."
REQUESTS: dict[str, dict[str, Any]] = {
    "parse": {"model": "prpn", "sentences": [SENTENCE], "decoder": None, "layer": None, "labels": False},
    "analyse": {"model": "simple-pcfg", "sentences": [SENTENCE], "labels": True, "pictures": True},
    "surprisal": {"model": "prpn", "sentences": [SENTENCE, "a"]},
    "pair": {"model": "prpn", "first": SENTENCE, "second": "the dog sees a cat", "pictures": True},
    "generate": {
        "model": "prpn", "count": 2, "prompt": "the", "temperature": 1.0, "top_k": 5, "seed": 1, "max_words": 5,
        "trees": False, "pictures": True,
    },
    "sentences": {"text": f"{SENTENCE} Mr. B. went to the U.S. It rained."},
}  # fmt: skip
FEW, MANY = 40, 3000
STATUSES = {200, 400, 404, 413, 422}

TEXTS = st.text(max_size=30) | st.lists(st.sampled_from([*ODD_TEXT, "the", " cat", ".", "<script>"])).map("".join)
NUMBERS = st.sampled_from([0, -1, 1, 2, 2**31, 2**63, -(2**64), 10**400, 1.5, 1e308, float("nan"), float("inf")])
NAMES = st.sampled_from(["prpn", "simple-pcfg", "biased", "viterbi", "x" * 999])
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS, NAMES),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)


@st.composite
def wrong_fields(draw: st.DrawFn) -> tuple[str, bytes]:
    """A request with some fields replaced, removed or added."""
    name = draw(st.sampled_from(list(REQUESTS)))
    request = dict(REQUESTS[name])
    for field in draw(st.lists(st.sampled_from([*request, "extra"]), max_size=3)):
        if draw(st.booleans()):
            request[field] = draw(VALUES)
        else:
            request.pop(field, None)
    return name, json.dumps(request).encode()


def damaged(name: str) -> st.SearchStrategy[tuple[str, bytes]]:
    valid = json.dumps(REQUESTS[name], ensure_ascii=False)
    return mutated([valid], JSON_PIECES).map(lambda body: (name, body))


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    models = {name: language_model(fresh(name)) for name in ("prpn", "simple-pcfg")}
    limits = Limits(max_words=12, max_sentences=3, max_body=4000)
    with TestClient(create_app(models, limits), base_url="http://localhost") as found:
        yield found


def ask_all(client: TestClient, examples: int) -> None:
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(wrong_fields() | st.sampled_from(list(REQUESTS)).flatmap(damaged))
    def ask(request: tuple[str, bytes]) -> None:
        name, body = request
        answer = client.post(f"/api/{name}", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code in STATUSES, answer.text
        found = answer.json()
        if answer.status_code != 200:
            assert found["detail"]
            assert "Traceback" not in found["detail"]
            assert len(found["detail"]) < 3000

    ask()


def test_near_valid_requests_are_answered_or_refused(client):
    ask_all(client, FEW)


@pytest.mark.long
def test_many_thousand_near_valid_requests_are_answered_or_refused(client):
    ask_all(client, MANY)
