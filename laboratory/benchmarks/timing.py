"""Common code of all benchmarks: contestants timed in turn, medians, ratios, the machine's matrix speed."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import torch
from rich.console import Console
from rich.table import Table

from laboratory.benchmarks.products import products_of
from laboratory.results.store import with_head
from syntaxlm.ops.products import large_product, product_into, tiles_usable

PROCESSOR = torch.device("cpu")
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Row:
    """One line of a benchmark. Ratios are of tokens per second, in the same run.

    ratio_to_lstm: to the LSTM in the same precision, if it is timed in it; None without an LSTM.
    in_products: share of a step's time that its matrix products take. share_of_peak: what they would take at the rate
    of a product of 2048 x 2048 in the same run, relative to the time of the step. Both None if unknown.
    """

    case: str
    form: str
    precision: str
    tokens_per_second: float
    ratio_to_reference: float
    ratio_to_lstm: float | None
    in_products: float | None = None
    share_of_peak: float | None = None


@dataclass(frozen=True)
class Contestant:
    """Something to time. step: does the work once; tokens: number of real tokens processed."""

    form: str
    precision: str
    step: Callable[[], None]
    tokens: int


def benchmark_parser(name: str, description: str, rounds: int) -> argparse.ArgumentParser:
    """A parser with the options of all training benchmarks.

    name: of the program.  description: its first line is shown.  rounds: the default of --rounds.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m laboratory.benchmarks.{name}", description=description.split("\n")[0]
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    parser.add_argument(
        "--rounds", type=int, default=rounds, help="timed rounds; their median counts (default %(default)s)"
    )
    return parser


def refuse_failing_tests(*paths: str) -> None:
    """Runs tests and exits if they fail: the speed of a wrong result is meaningless."""
    completed = subprocess.run([sys.executable, "-m", "pytest", "-q", "-x", *paths], capture_output=True, text=True)
    if completed.returncode:
        sys.exit(f"The tests fail, so the benchmark is not run:\n{completed.stdout[-3000:]}{completed.stderr[-1000:]}")


def times_in_turn(
    contestants: Sequence[Contestant], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> list[list[float]]:
    """Seconds of the steps of each contestant, which take turns, so that all are affected by the same noise.

    A further round at the start warms up and is not counted.
    """
    seconds: list[list[float]] = [[] for _ in contestants]
    for number in range(rounds + 1):
        for contestant, times in zip(contestants, seconds, strict=True):
            started = clock()
            contestant.step()
            if number:
                times.append(clock() - started)
    return seconds


def race(
    case: str,
    contestants: list[Contestant],
    rounds: int,
    reference: str,
    lstm: str | None,
    precision: str = "32",
    on_cpu: bool = True,
) -> list[Row]:
    """Times the contestants with `times_in_turn`, and computes speeds and ratios.

    reference, lstm: the versions to which ratios are computed: the reference at `precision`, the LSTM at the precision
    of the row, or at `precision` if it is not timed in it. On the CPU, the products of a step are measured, too.
    """
    medians = list(map(statistics.median, times_in_turn(contestants, rounds)))
    timed = list(zip(contestants, medians, strict=True))
    speeds = {(contestant.form, contestant.precision): contestant.tokens / median for contestant, median in timed}
    rates = {dtype: 1e9 * matrix_rate(dtype) for dtype in (torch.float32, torch.bfloat16)} if on_cpu else {}
    rows = []
    for contestant, median in timed:
        speed = speeds[contestant.form, contestant.precision]
        lstm_speed = None if lstm is None else speeds.get((lstm, contestant.precision), speeds[lstm, precision])
        ratios = speed / speeds[reference, precision], None if lstm_speed is None else speed / lstm_speed
        row = Row(case, contestant.form, contestant.precision, speed, *ratios)
        in_products, share_of_peak = _products(contestant, median, rates) if on_cpu else (None, None)
        rows.append(replace(row, in_products=in_products, share_of_peak=share_of_peak))
    return rows


def _products(
    contestant: Contestant, seconds: float, rates: Mapping[torch.dtype, float]
) -> tuple[float, float] | tuple[None, None]:
    """Shares of the time of a step: that of its products, and what they would take at the best rate.

    seconds: time of the step.  rates: best rates, by dtype. Both shares are None if not all products are known.
    """
    products = products_of(contestant.step)
    if not products.complete or not products.operations.keys() <= rates.keys():
        return None, None
    least_seconds = sum(count / rates[dtype] for dtype, count in products.operations.items())
    return products.share, least_seconds / seconds


def matrix_rate(dtype: torch.dtype, size: int = 2048, device: torch.device = PROCESSOR) -> float:
    """GFLOP/s of the fastest square product, the peak: models use several libraries and kernels."""
    left, right = (torch.randn(size, size).to(device, dtype) for _ in range(2))
    products: list[Callable[[], object]] = [lambda: torch.mm(left, right), lambda: large_product(left, right)]
    if device.type == "cpu" and dtype == torch.bfloat16 and tiles_usable(size):
        product, out = product_into(right, columns=True, tiled=True), torch.empty_like(left)
        products.append(lambda: product(left, out))
    return 2e-9 * size**3 / min(statistics.median(_times(product, device)) for product in products)


def _times(product: Callable[[], object], device: torch.device) -> list[float]:
    """Seconds of five products."""
    times = []
    for _ in range(5):
        started = time.perf_counter()
        product()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
    return times


def show(rows: list[Row], as_json: bool, device: torch.device = PROCESSOR) -> None:
    """Prints a table, or a JSON object with the rows, the machine's matrix speed and the number of threads."""
    rates = [matrix_rate(dtype, device=device) for dtype in (torch.float32, torch.bfloat16)]
    threads = torch.get_num_threads()
    if as_json:
        gflops = dict(zip(("32", "bf16-mixed"), rates, strict=True))
        machine = {"torch": torch.__version__, "device": device.type, "threads": threads, "gflops": gflops}
        report = {"schema_version": SCHEMA_VERSION, **machine, "rows": [asdict(row) for row in rows]}
        print(json.dumps(with_head(report), indent=1))
        return
    table = Table("case", "form", "precision", "tokens/s", "x reference", "x LSTM", "in products", "of peak")
    for row in rows:
        ratios = ["" if ratio is None else f"{ratio:.2f}" for ratio in (row.ratio_to_reference, row.ratio_to_lstm)]
        shares = ["" if share is None else f"{share:.0%}" for share in (row.in_products, row.share_of_peak)]
        table.add_row(row.case, row.form, row.precision, f"{row.tokens_per_second:,.0f}", *ratios, *shares)
    Console(width=130).print(table)
    processor = torch.cuda.get_device_name() if device.type == "cuda" else f"{threads} threads"
    print(
        f"torch {torch.__version__}, {processor}; products of 2048 x 2048: "
        f"{rates[0]:.0f} GFLOP/s in float32, {rates[1]:.0f} in bfloat16"
    )
