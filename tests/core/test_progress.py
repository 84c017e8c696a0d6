"""Progress bars: shown on a terminal, for long work only."""

from __future__ import annotations

import io
import json
import re
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from syntaxlm.core import display, progress
from syntaxlm.core.progress import progress_bar, status
from syntaxlm.training.checkpoint import TrainerState
from syntaxlm.training.progress import ProgressDisplay
from syntaxlm.training.result import METRICS
from syntaxlm.training.run import Event


@pytest.fixture(params=[True, False], ids=["terminal", "file"])
def console(request, monkeypatch):
    console = Console(file=io.StringIO(), force_terminal=request.param, width=120, highlight=False)
    monkeypatch.setattr("rich.console.Console", lambda **settings: _quiet_as(console, settings))
    monkeypatch.setattr(console.file, "isatty", lambda: console.is_terminal)
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=console.file))
    return console


def _quiet_as(console, settings):
    console.quiet = settings["quiet"]
    return console


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.02)


def slowly(items):
    for item in items:
        time.sleep(0.05)
        yield item


def test_quick_work_prints_nothing(console):
    with status("reading"):
        assert list(progress_bar(iter([1, 2, 3]), "counting")) == [1, 2, 3]
    assert console.file.getvalue() == ""


def test_long_work_is_shown_only_on_a_terminal(console, impatient):
    with status("reading"):
        time.sleep(0.3)
    assert ("reading" in console.file.getvalue()) == console.is_terminal


def test_items_are_counted_with_the_remaining_time_and_all_are_yielded(console, impatient):
    assert list(progress_bar(slowly(range(6)), "counting", total=6)) == list(range(6))
    shown = console.file.getvalue()
    assert bool(shown) == console.is_terminal
    if console.is_terminal:
        assert "counting" in shown
        assert re.search(r"[1-6]/6", shown)
        assert re.search(r"0:00:0[01] left", shown)


def test_progress_that_is_asked_for_is_printed_in_lines_without_a_terminal(console, impatient, monkeypatch):
    monkeypatch.setattr(display, "LINES_APART", 0.02)
    list(progress_bar(slowly(range(6)), "counting", total=6, everywhere=True))
    lines = re.findall(r"^counting  [1-6]/6  0:00:00 left$", console.file.getvalue(), re.MULTILINE)
    assert bool(lines) != console.is_terminal


def test_items_may_be_of_different_amounts(console, impatient):
    assert list(progress_bar(slowly([10, 20, 70] * 2), "reading", 200, float, percent=True)) == [10, 20, 70] * 2
    assert bool(re.search(r"(15|50|55|65)%", console.file.getvalue())) == console.is_terminal


def test_nested_work_adds_a_line_to_the_same_display(console, impatient):
    with status("evaluating"):
        list(progress_bar(slowly(range(6)), "scoring", total=6))
    assert ("evaluating" in console.file.getvalue()) == console.is_terminal
    assert ("scoring" in console.file.getvalue()) == console.is_terminal
    assert progress._bars is None


def test_quiet_disables_progress_bars_and_notes(console, impatient):
    progress.set_quiet()
    try:
        progress.error_console().print("a note")
        with status("reading"):
            time.sleep(0.2)
    finally:
        progress.set_quiet(False)
    assert console.file.getvalue() == ""


def test_only_the_first_of_several_processes_shows_progress(console, impatient, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    with status("reading"):
        time.sleep(0.2)
    assert console.file.getvalue() == ""


def test_an_error_inside_is_raised_unchanged(console):
    with pytest.raises(ZeroDivisionError), status("dividing"):
        raise ZeroDivisionError
    assert progress._bars is None


def test_training_shows_a_bar_on_a_terminal_and_validation_lines_everywhere(toy, console, impatient):
    with ProgressDisplay(toy.recipe("lstm"), console) as display:
        for batch in range(1, 4):
            place = TrainerState(
                batch=batch, steps=batch, seconds=float(batch), loss_sum=70.0 * batch, loss_count=10 * batch
            )
            display(Event("step", place, 10, {}, Path("run")))
        time.sleep(0.3)
        values = {"train_loss": 3.5, "valid_loss": 3.25, "valid_perplexity": 25.8, "best": True, "rate_fell": True}
        display(Event("valid", place, 10, values, Path("run")))
    shown = console.file.getvalue()
    assert "epoch 0.30  train loss 3.5000  valid loss 3.2500  valid perplexity 25.80" in shown
    assert "best so far  learning rate reduced" in shown
    assert ("tokens/s" in shown) == console.is_terminal
    if console.is_terminal:
        assert "3/20" in shown
        assert "loss 7.000" in shown


def test_counting_rounds_are_shown_as_lines_and_by_the_bar(toy, console, impatient):
    with ProgressDisplay(toy.recipe("lstm"), console) as display:
        display(Event("round", TrainerState(epoch=2, seconds=3.0), 5, {"valid_loss": 3.25, "best": True}, Path("run")))
        time.sleep(0.3)
    assert "round 2  valid loss 3.2500  0:03  best so far" in console.file.getvalue()
    assert ("2/5" in console.file.getvalue()) == console.is_terminal


def test_the_learning_curve_is_drawn_at_the_end_on_a_terminal(toy, console, tmp_path):
    lines = [
        {"event": "valid", "epoch": epoch, "step": epoch, "train_loss": loss, "valid_loss": loss + 1}
        for epoch, loss in ((1, 3.0), (2, 2.0), (3, 1.5))
    ]
    (tmp_path / METRICS).write_text("".join(json.dumps(line) + "\n" for line in lines))
    with ProgressDisplay(toy.recipe("lstm"), console) as display:
        display(Event("end", TrainerState(epoch=3), 1, {"step": 3, "stopped": False}, tmp_path))
    assert ("● validation loss   · training loss" in console.file.getvalue()) == console.is_terminal
    assert ("4.00 │●" in console.file.getvalue()) == console.is_terminal
