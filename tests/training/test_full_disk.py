"""A full disk is reported at every write of a run; what was written before is intact, and the run can be resumed."""

from __future__ import annotations

import errno
import json
import os
from itertools import count

import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import append_stored, system_error
from syntaxlm.storage.folder import WEIGHTS, read_model
from syntaxlm.training import loop
from syntaxlm.training.result import RECIPE, RESULT
from syntaxlm.training.run import resume, train

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def writes(monkeypatch):
    """A dict: with "left" writes before the disk is full, -1 for never; "full": whether it was."""
    state = {"left": -1, "full": False}
    fsync = os.fsync

    def is_full() -> bool:
        state["left"] -= 1
        state["full"] |= state["left"] == -1
        return state["left"] == -1

    def written(descriptor: int) -> None:
        if is_full():
            raise FULL
        fsync(descriptor)

    def appended(content: bytes, path) -> None:
        if is_full():
            append_stored(content[: len(content) // 2], path)
            raise system_error(path, "written", FULL)
        append_stored(content, path)

    monkeypatch.setattr(os, "fsync", written)  # every file but metrics.jsonl is synchronised before it is put in place
    monkeypatch.setattr(loop, "append_stored", appended)
    return state


def test_a_disk_that_is_full_at_any_write_is_reported_and_the_run_resumes(few, tmp_path, writes):
    recipe = few.recipe("lstm", schedule={"epochs": 2}, run={"log_steps": 20})
    train(recipe, tmp_path / "whole")
    weights = (tmp_path / "whole" / WEIGHTS).read_bytes()
    faults = []
    for number in count():
        folder = tmp_path / str(number)
        writes.update(left=number, full=False)
        try:
            train(recipe, folder)
        except InputError as error:
            faults.append(str(error))
        if not writes["full"]:
            break
        writes["left"] = -1
        if (folder / WEIGHTS).exists():
            read_model(folder)
        if (folder / RECIPE).exists():
            resume(folder)
        else:
            assert not folder.exists(), "a withdrawn claim leaves nothing"
            train(recipe, folder)
        assert (folder / WEIGHTS).read_bytes() == weights
        assert json.loads((folder / RESULT).read_text())["stopped"] is False
        assert sorted(path.name for path in folder.iterdir()) == sorted(
            path.name for path in (tmp_path / "whole").iterdir()
        )
    assert len(faults) == number >= 10
    assert all("No space left on device. Free some space, or write to another disk." in fault for fault in faults)
    reported = {fault.split(": ")[0].rpartition(os.sep)[2] for fault in faults}
    names = {"recipe.yaml", "inputs.json", "config.json", "vocabulary.json", "metrics.jsonl", "result.json"}
    assert reported == names | {"weights.safetensors", "checkpoint.safetensors"}
