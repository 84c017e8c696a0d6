"""Training speed on a GPU, compared with cuDNN's LSTM: python -m laboratory.benchmarks.gpu [--json].

A step is forward, loss over the vocabulary, backward, clipping and optimiser, on a stream of random tokens. Models are
those of every bundled recipe MODEL-ptb-words that reads a stream, at their published sizes. In one run, in float32, in
float32 with TF32 products, and in bf16-mixed:
- fast: the model as it is trained;
- uncompiled: without the kernels that torch compiles for it, the reference of the ratios;
- nn.LSTM (cuDNN): layers of the same sizes, with the same dropouts except weight drop, which it does not support;
- the first and the last with the whole step captured as one CUDA graph, if possible.
Then a step of a simple PCFG, as in benchmarks.inside.

With --minutes, --text and --valid it then trains a recipe for as many epochs as the minutes allow, and prints the
perplexity after each. --tiny runs everything at tiny sizes, on the CPU if there is no GPU, to check the program; its
figures mean nothing.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from laboratory.benchmarks import inside, training
from laboratory.benchmarks.on_lstm import model_of
from laboratory.benchmarks.timing import Contestant, Row, benchmark_parser, race, refuse_failing_tests, show
from laboratory.benchmarks.training import WORDS, random_stream
from syntaxlm.core.errors import InputError
from syntaxlm.models.abilities import Model
from syntaxlm.models.lstm import LSTMConfig
from syntaxlm.models.on_lstm import ONLSTMConfig
from syntaxlm.models.registry import MODELS, ModelConfig, build_model
from syntaxlm.ops.products import fast_bfloat16
from syntaxlm.training.progress import ProgressDisplay
from syntaxlm.training.recipe import OptimiserSettings, StreamBatchSettings, TextRecipe, read_recipe
from syntaxlm.training.recipe_files import bundled_recipes
from syntaxlm.training.run import Event, train

TESTS = "tests/ops/test_on_lstm.py", "tests/ops/test_backend.py"
PUBLISHED = "{}-ptb-words"
RECIPE = PUBLISHED.format("on-lstm")
REPEATS = 10  # steps timed together
WARM_UP = 3  # steps before a graph is captured
PRECISIONS = "32", "tf32", "bf16-mixed"

TINY: dict[str, Any] = {
    "embedding_size": 8, "layer_sizes": (12, 12, 8), "chunk_size": 4, "hidden_size": 12, "span_size": 8,
    "scorer_size": 4, "maximum_span": 4, "memory_slots": 3, "look_back": 2, "heads": 2, "window": 8,
}  # fmt: skip
TINY_STEPS, TINY_COLUMNS = 6, 4


@dataclass(frozen=True)
class Case:
    """A model to time. steps, columns: of a batch.  settings: of its optimiser."""

    name: str
    config: ModelConfig
    steps: int
    columns: int
    settings: OptimiserSettings

    def __str__(self) -> str:
        sizes: list[int] = []
        for name in ("embedding_size", "layer_sizes", "hidden_size"):
            size = getattr(self.config, name, ())
            sizes += [size] if isinstance(size, int) else size
        return f"{self.name} {'-'.join(map(str, sizes))} T{self.steps} B{self.columns}"


def cases(tiny: bool) -> list[Case]:
    """A case for every model with a published recipe on a stream of words. tiny: in tiny sizes."""
    published = []
    for name in MODELS:
        if not (bundled_recipes() / f"{PUBLISHED.format(name)}.yaml").exists():
            continue
        recipe = read_recipe(PUBLISHED.format(name))
        if not isinstance(recipe, TextRecipe) or not isinstance(recipe.batches, StreamBatchSettings):
            continue
        config, batches = recipe.model, recipe.batches
        steps, columns = batches.bptt, batches.batch_size
        if tiny:
            sizes = {size: value for size, value in TINY.items() if hasattr(config, size)}
            config, steps, columns = dataclasses.replace(config, **sizes), TINY_STEPS, TINY_COLUMNS
        # One optimiser for all weights, as for nn.LSTM, which has no weights of a parser.
        settings = dataclasses.replace(recipe.optimiser, parser_learning_rate=None)
        published.append(Case(name, config, steps, columns, settings))
    return published


def torch_lstm(config: ModelConfig) -> Model:
    """nn.LSTM layers with the sizes and dropouts of a model."""
    config_type = ONLSTMConfig if hasattr(config, "layer_sizes") else LSTMConfig
    names = {field.name for field in dataclasses.fields(config_type)} - {"name", "cell", "chunk_size"}
    shared = {name: getattr(config, name) for name in names if hasattr(config, name)}
    if config_type is LSTMConfig:
        return build_model(LSTMConfig(**shared), WORDS)
    return model_of(ONLSTMConfig(cell="lstm", **shared), "nn.LSTM")


def precisions(device: torch.device) -> tuple[str, ...]:
    """Return the precisions that a device computes with instructions of its own."""
    if device.type == "cuda":
        return PRECISIONS
    return ("32", "bf16-mixed") if fast_bfloat16(device) else ("32",)


def speeds(case: Case, precision: str, device: torch.device, rounds: int) -> list[Row]:
    """Times the versions of a model, and nn.LSTM, in one precision."""
    batches = random_stream(WORDS, case.steps, case.columns)

    def contestant_of(build: Callable[[], Model], form: str) -> Contestant:
        return training.contestant(build, batches, form, precision, case.settings, device=device)

    build = partial(build_model, case.config, WORDS)
    fast, lstm = contestant_of(build, "fast"), contestant_of(partial(torch_lstm, case.config), "nn.LSTM")
    contestants = [fast, contestant_of(build, "uncompiled"), lstm]
    with products(precision):
        if device.type == "cuda":
            contestants += captured(case, fast, precision) + captured(case, lstm, precision)
        timed = [_repeated(contestant, REPEATS, device) for contestant in contestants]
        return race(str(case), timed, rounds, "uncompiled", "nn.LSTM", precision, device.type == "cpu")


@contextmanager
def products(precision: str) -> Iterator[None]:
    """Computes float32 products in TF32 for "tf32", else in float32, also in cuDNN, where the default is TF32."""
    cudnn = torch.backends.cudnn
    matmul_before, cudnn_before = torch.get_float32_matmul_precision(), cudnn.allow_tf32
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    cudnn.allow_tf32 = precision == "tf32"
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(matmul_before)
        cudnn.allow_tf32 = cudnn_before


def captured(case: Case, contestant: Contestant, precision: str) -> list[Contestant]:
    """The contestant with its step as one CUDA graph; empty, with a message, if it cannot be captured."""
    try:
        # A graph can only be captured after warm-up steps in a stream that is not the default one.
        side_stream = torch.cuda.Stream()
        side_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side_stream):
            for _ in range(WARM_UP):
                contestant.step()
        torch.cuda.current_stream().wait_stream(side_stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            contestant.step()
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        print(f"{case}, {contestant.form}, {precision}: no CUDA graph: {reason}", file=sys.stderr)
        return []
    return [Contestant(f"{contestant.form}, CUDA graph", precision, graph.replay, contestant.tokens)]


def _repeated(contestant: Contestant, times: int, device: torch.device) -> Contestant:
    """Runs the step `times` times and waits for the device."""

    def step() -> None:
        for _ in range(times):
            contestant.step()
        if device.type == "cuda":
            torch.cuda.synchronize()

    return Contestant(contestant.form, contestant.precision, step, contestant.tokens * times)


def longest_run(options: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """Trains the recipe for the given minutes; returns perplexity by epoch and how training ended."""
    settings = {
        "text.train": options.text, "text.valid": options.valid, "text.test": "null",
        "schedule.minutes": str(options.minutes), "run.accelerator": device.type, "run.precision": "bf16-mixed",
    }  # fmt: skip
    if options.tiny:
        sizes = {name: value for name, value in TINY.items() if hasattr(read_recipe(options.recipe).model, name)}
        settings |= {f"model.{name}": json.dumps(value) for name, value in sizes.items()}
        settings |= {"batches.bptt": str(TINY_STEPS), "batches.batch_size": str(TINY_COLUMNS)}
    recipe = read_recipe(options.recipe, list(settings.items()))
    epochs: list[dict[str, Any]] = []

    def watch(event: Event) -> None:
        display(event)
        if event.kind == "valid":
            trainer = event.trainer
            epochs.append({
                "epoch": round(trainer.epoch + trainer.batch / event.batches, 4),
                "valid_perplexity": event.values["valid_perplexity"],
                "seconds": round(trainer.seconds, 1),
            })  # fmt: skip

    with (
        tempfile.TemporaryDirectory() as temporary,
        ProgressDisplay(recipe, Console(stderr=options.json, highlight=False)) as display,
    ):
        result = train(recipe, options.output or Path(temporary) / "run", watch)
    end = {"epochs": result.epochs, "steps": result.steps, "seconds": result.seconds, "stopped": result.stopped}
    return {"recipe": options.recipe, "precision": recipe.run.precision, "by_epoch": epochs, **end}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = benchmark_parser("gpu", __doc__, rounds=5)
    parser.add_argument("--minutes", type=float, help="then train a recipe for this long; needs --text and --valid")
    parser.add_argument("--text", metavar="FILE", help="training text, one sentence per line")
    parser.add_argument("--valid", metavar="FILE", help="validation text for perplexity")
    parser.add_argument("--recipe", default=RECIPE, help=f"file or name of the recipe to train (default {RECIPE})")
    parser.add_argument("--output", type=Path, metavar="DIR", help="folder for the trained model")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, also on the CPU, to check the program")
    options = parser.parse_args(arguments)
    if not torch.cuda.is_available() and not options.tiny:
        parser.error("torch finds no CUDA device here; --tiny checks the program on the CPU")
    if len({value is None for value in (options.minutes, options.text, options.valid)}) > 1:
        parser.error("--minutes, --text and --valid must be given together")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    timed = cases(options.tiny)
    refuse_failing_tests(
        *TESTS, *inside.TESTS, *(f"tests/models/test_{case.name.replace('-', '_')}.py" for case in timed)
    )
    rows = []
    for case in timed:
        for precision in precisions(device):
            rows += speeds(case, precision, device, options.rounds)
            torch.cuda.empty_cache()
    grammars = inside.measured(options.rounds, inside.TINY if options.tiny else inside.Sizes(), device)
    if not options.json:
        show(rows + grammars, False, device)
    try:
        run = longest_run(options, device) if options.minutes else None
    except InputError as error:
        sys.exit(f"benchmarks.gpu: {error}")
    if options.json:
        name = torch.cuda.get_device_name() if device.type == "cuda" else "processor"
        measured = {"speeds": list(map(dataclasses.asdict, rows)), "pcfg": list(map(dataclasses.asdict, grammars))}
        print(json.dumps({"device": name, "torch": torch.__version__, **measured, "run": run}, indent=1))


if __name__ == "__main__":
    main()
