"""What is said to a person who waits, and what is not."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from syntaxlm import progress
from syntaxlm.progress import progress_bar, status
from syntaxlm.training.checkpoint import TrainerState
from syntaxlm.training.display import ProgressDisplay
from syntaxlm.training.trainer import Event


@pytest.fixture(params=[True, False], ids=["terminal", "file"])
def console(request, monkeypatch):
    console = Console(file=io.StringIO(), force_terminal=request.param, width=120, highlight=False)
    monkeypatch.setattr(progress, "error_console", lambda: console)
    return console


def test_nothing_is_said_of_what_is_quick(console):
    with status("reading"):
        assert list(progress_bar(iter([1, 2, 3]), "counting")) == [1, 2, 3]
    assert console.file.getvalue() == ""


def test_what_takes_long_is_told(console, monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.02)
    with status("reading"):
        time.sleep(0.3)
    assert "reading ..." in console.file.getvalue()


def test_items_are_counted_in_a_terminal_only_and_all_given(console, monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.02)

    def slow():
        for item in range(4):
            time.sleep(0.05)
            yield item

    assert list(progress_bar(slow(), "counting", total=4)) == [0, 1, 2, 3]
    assert ("counting" in console.file.getvalue()) == console.is_terminal


def test_a_fault_inside_passes_through(console):
    with pytest.raises(ZeroDivisionError), status("dividing"):
        raise ZeroDivisionError


def test_training_is_shown_by_a_bar_in_a_terminal_and_by_lines_of_validations_everywhere(toy, console):
    with ProgressDisplay(toy.recipe("lstm").schedule, console) as display:
        for batch in range(1, 4):
            place = TrainerState(
                batch=batch, steps=batch, seconds=float(batch), loss_sum=70.0 * batch, loss_count=10 * batch
            )
            display(Event("step", place, 10, {}))
        values = {"train_loss": 3.5, "valid_loss": 3.25, "valid_perplexity": 25.8, "best": True, "rate_fell": True}
        display(Event("valid", place, 10, values))
    shown = console.file.getvalue()
    assert "epoch 0.30  train loss 3.5000  valid loss 3.2500  valid perplexity 25.80" in shown
    assert "best so far  learning rate falls" in shown
    assert ("tokens/s" in shown) == console.is_terminal
    if console.is_terminal:
        assert "3/20" in shown
        assert "loss 7.000" in shown
