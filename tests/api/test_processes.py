"""Models in forked processes and in workers, and `pipe` with several processes."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.core.settings import SettingsError
from syntaxlm.core.threads import core_count
from syntaxlm.parsing.processes import parse_in_processes
from tests.api.models import language_model
from tests.grammar_models import grammar

METHODS = multiprocessing.get_all_start_methods()

PARENT = """
import json, multiprocessing, sys, syntaxlm

def brackets(text):
    return str(nlp.parse(text))

def surprisals(text):
    return nlp.surprisal([text])

def load():
    global nlp
    import torch
    nlp = syntaxlm.load("en-fast")
    return torch.get_num_threads()

def threads(text):
    import torch
    return torch.get_num_threads()

if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[1])
    texts = ["the old man the boats .", "", "a cat sleeps"] * 20
    is_before = sys.argv[2] == "before"
    if is_before:
        load()
        expected = list(map(brackets, texts))
    with multiprocessing.Pool(2, None if is_before else load) as pool:
        parsed, scored, used = (pool.map(use, texts) for use in (brackets, surprisals, threads))
    load()
    print(json.dumps({
        "parses": parsed == list(map(brackets, texts)),
        "surprisals": list(map(str, scored)) == [str(nlp.surprisal([text])) for text in texts],
        "threads": sorted(set(used)),
        "pipe": [str(one) for one in nlp.pipe(texts, 7, n_process=2)] == list(map(brackets, texts)),
        "numbers": [one.number for one in nlp.pipe(texts, 7, n_process=2)] == list(range(1, 61)),
    }))
"""


def run(tmp_path: Path, *arguments: str, **environment: str) -> dict[str, object]:
    """What the program above prints, with all cores for torch."""
    (tmp_path / "parent.py").write_text(PARENT)
    variables = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    program = [sys.executable, str(tmp_path / "parent.py"), *arguments]
    done = subprocess.run(
        program, capture_output=True, text=True, timeout=240, env=variables | environment, check=False
    )
    assert not done.stderr
    return json.loads(done.stdout)


RIGHT = {"parses": True, "surprisals": True, "pipe": True, "numbers": True}


@pytest.mark.long
@pytest.mark.skipif("fork" not in METHODS, reason="forks of POSIX")
def test_a_model_that_was_loaded_before_a_fork_computes_in_the_child(tmp_path):
    assert run(tmp_path, "fork", "before") == RIGHT | {"threads": [1]}


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
def test_workers_that_load_a_model_share_the_cores(tmp_path, method):
    assert run(tmp_path, method, "in the worker") == RIGHT | {"threads": [1]}


@pytest.mark.long
def test_a_number_of_threads_that_was_chosen_is_kept(tmp_path):
    assert run(tmp_path, "spawn", "in the worker", OMP_NUM_THREADS="2") == RIGHT | {"threads": [2]}


# ---- several processes


def numbers(texts: list[str], first: int) -> list[int]:
    """Stands for parses."""
    time.sleep(0.05 if first == 1 else 0)  # the first chunk is the last that is finished
    for number, text in enumerate(texts, first):
        if text == "doubtful":
            warnings.warn(InputWarning(f"sentence {number} is doubtful"), stacklevel=2)
        if text == "wrong":
            raise InputError(f"sentence {number} is wrong")
        if text == "settings":
            raise SettingsError(["size: found 0"], "model")
        if text == "end":
            os._exit(1)
    return [first + place for place in range(len(texts))]


def chunks(*texts: str) -> list[tuple[int, list[str]]]:
    return [(2 * number + 1, [text, "other"]) for number, text in enumerate(texts)]


def test_results_are_in_order_and_an_endless_stream_is_read_lazily():
    assert list(parse_in_processes(numbers, chunks(*"abcdefg"), 2)) == list(range(1, 15))
    assert list(parse_in_processes(numbers, [], 2)) == []
    endless = ((number, ["text"]) for number in itertools.count(1))
    found = parse_in_processes(numbers, endless, 2)
    assert list(itertools.islice(found, 50)) == list(range(1, 51))
    found.close()
    assert next(endless)[0] < 60


def test_warnings_of_processes_are_given_in_this_one():
    with pytest.warns(InputWarning, match="^sentence 3 is doubtful$"):
        assert list(parse_in_processes(numbers, chunks("a", "doubtful"), 2)) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("wrong", "^sentence 5 is wrong$"),
        ("settings", "^model.size: found 0$"),
        ("end", "a process ended before its result. Is there enough memory"),
    ],
)
def test_errors_of_processes_are_raised_in_this_one(text, message):
    found = parse_in_processes(numbers, chunks("a", "b", text, "c"), 2)
    with pytest.raises(InputError, match=message):
        list(found)


@pytest.mark.parametrize(
    ("number", "error", "message"),
    [(0, InputError, "n_process: found 0"), (-2, InputError, "n_process: found -2"), (1.5, TypeError, "n_process")],
)
def test_a_wrong_number_of_processes_is_refused_at_once(number, error, message):
    with pytest.raises(error, match=message):
        language_model(grammar("simple-pcfg")).pipe(["a"], n_process=number)


def test_the_number_of_processes_may_be_that_of_the_cores(monkeypatch):
    counts = []
    monkeypatch.setattr(
        "syntaxlm.parsing.processes.parse_in_processes", lambda read, chunks, count: counts.append(count)
    )
    monkeypatch.setattr("syntaxlm.parsing.processes.core_count", lambda: core_count() + 2)
    language_model(grammar("simple-pcfg")).pipe(["a"], n_process=-1)
    assert counts == [core_count() + 2]
