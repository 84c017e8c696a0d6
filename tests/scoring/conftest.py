"""Trained models whose scores are compared with reading token by token."""

import pytest


@pytest.fixture(params=["prpn", "lstm"])
def stored(request):
    stored = request.getfixturevalue(request.param)
    stored.model.double()
    return stored
