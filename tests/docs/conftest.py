"""A store of results for tests."""

from __future__ import annotations

import json

import pytest
from laboratory.results import store as stored_results


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A function that stores a run in an empty store, from which the tables are made."""
    monkeypatch.setattr(stored_results, "RESULTS", tmp_path)
    unknown = dict.fromkeys(["command", "version", "commit", "date", "machine", "minutes", "recipe", "overrides",
                             "sha256", "parameters", "epoch_tokens"])  # fmt: skip

    def add(experiment, what, run, seed, data=None, **report):
        facts = {"what": what, "run": run, "seed": seed, "data": data, "factors": {}, "training": []}
        with (tmp_path / f"{experiment}.jsonl").open("a") as file:
            file.write(json.dumps({**unknown, **facts, "report": report}) + "\n")

    return add
