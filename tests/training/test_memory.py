"""The memory of training, estimated before a model is built."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch

from syntaxlm.cli import main
from syntaxlm.core.errors import InputError
from syntaxlm.training import memory
from syntaxlm.training.memory import BatchShape, check_memory, training_memory
from syntaxlm.training.recipe import recipe_from

LARGE = {  # settings of models that need hundreds of megabytes, in weights, batch or charts
    "lstm": {"name": "lstm", "embedding_size": 400, "hidden_size": 1100, "layers": 2},
    "prpn": {"name": "prpn", "embedding_size": 400, "hidden_size": 700, "layers": 2},
    "on-lstm": {"name": "on-lstm", "embedding_size": 600, "layer_sizes": [600, 600], "chunk_size": 10},
    "transformer": {"name": "transformer", "embedding_size": 512, "layers": 4},
    "simple-pcfg": {"name": "simple-pcfg", "nonterminals": 64, "preterminals": 4096, "embedding_size": 256},
    "neural-pcfg": {"name": "neural-pcfg", "nonterminals": 30, "preterminals": 60},
    "diora": {"name": "diora", "embedding_size": 400, "hidden_size": 400},
}

# Each model in a process of its own, made before anything is trained: memory that one frees is not used by the next.
MEASURE = """
import json, os, resource, sys, torch
from pathlib import Path
from syntaxlm.batches.text import SentenceBatches
from syntaxlm.training import language_model, memory
from syntaxlm.training.loop import GradientLoop
from syntaxlm.training.task import RunLog
from syntaxlm.training.processes import Processes
from syntaxlm.training.recipe import recipe_from

def peak(recipe):
    estimates, before = [], []
    def estimate(*arguments):
        estimates.append(memory.training_memory(*arguments[:3]).total)
        before.append(int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
    language_model.check_memory = estimate
    task = language_model.TextTask(recipe, torch.device("cpu"))
    log = RunLog(Path("."), None, resumable=False)
    loop = GradientLoop(task, recipe, Processes("cpu", "32"), log)
    loop._started = 0
    for batch in list(loop.batches.iterate(0))[:2]:
        loop._step(batch)
    return estimates[0], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before[0]

torch.set_num_threads(1)
for data in json.loads(sys.stdin.read()):
    child = os.fork()
    if not child:
        print(data["model"]["name"], *peak(recipe_from(data, "recipe")), flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.parametrize("names", [["transformer"], pytest.param(list(LARGE), marks=pytest.mark.long)], ids=len)
def test_estimates_are_within_a_factor_of_two_of_the_peak(names, toy, tmp_path):
    text = tmp_path / "text.txt"  # sentences of one length, so that all batches are as large as the largest
    words = (toy / "train.txt").read_text().split()
    text.write_text("".join(" ".join(words[start : start + 20]) + "\n" for start in range(0, 1000, 20)))
    data = [
        toy.recipe_data(text={"train": str(text), "valid": str(text), "test": None}, batches={"token_budget": 400})
        | {"model": LARGE[name]}
        for name in names
    ]
    result = subprocess.run([sys.executable, "-c", MEASURE], input=json.dumps(data), capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    rows = [line.split() for line in result.stdout.splitlines()]
    assert [name for name, *_ in rows] == names
    wrong = {name: (estimate, peak) for name, estimate, peak in rows if not 0.5 < int(estimate) / int(peak) < 2}
    assert not wrong


@pytest.mark.parametrize(
    ("model", "setting"),
    [
        (LARGE["prpn"] | {"embedding_size": 65536}, "model.embedding_size: found 65536"),
        (LARGE["simple-pcfg"] | {"preterminals": 65536}, "model.preterminals: found 65536"),
        (LARGE["on-lstm"] | {"layer_sizes": [6000, 600]}, "model.layer_sizes: found"),
        (LARGE["lstm"] | {"embedding_size": 8, "hidden_size": 16}, "batches: found 50,000 tokens"),
    ],
)
def test_training_beyond_the_available_memory_is_refused_before_allocation(model, setting, toy, monkeypatch):
    tokens = 50_000 if setting.startswith("batches") else 256
    recipe = recipe_from(toy.recipe_data(batches={"token_budget": tokens}) | {"model": model}, "recipe.yaml")
    monkeypatch.setattr(memory, "available_memory", lambda: 100 << 20)
    batch = BatchShape(tokens, 20)
    with pytest.raises(InputError) as error:
        check_memory(recipe, 500, batch, torch.device("cpu"))
    needed = training_memory(recipe, 500, batch)
    assert str(error.value).startswith(setting)
    assert f"needs about {needed.total / 2**30:,.1f} GiB" in str(error.value)
    assert "0.1 GiB are available" in str(error.value)


@pytest.mark.parametrize("command", ["train", "compare", "focus --seeds 2"])
def test_every_training_command_refuses_what_does_not_fit(command, toy, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(memory, "available_memory", lambda: 1 << 20)
    texts = [f"--text.{part}={toy / f'{part}.txt'}" for part in ("train", "valid", "test")]
    small = ["--model.nonterminals=4", "--model.preterminals=6", "--model.embedding_size=8"]
    name, *options = command.split()
    assert main([name, "simple-pcfg-toy", "-o", str(tmp_path / "run"), *options, *texts, *small]) != 0
    assert "training needs about 0.1 GiB of memory" in "".join(capsys.readouterr())
    assert not list(tmp_path.rglob("weights*"))


def test_models_that_are_trained_by_counting_are_not_refused(toy):
    recipe = recipe_from(toy.recipe_data() | {"model": {"name": "ngram", "order": 3}}, "recipe.yaml")
    assert training_memory(recipe, 500, BatchShape(1000, 20)) is None
