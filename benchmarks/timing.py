"""Common code of all benchmarks: contestants timed in turn, medians, ratios, the machine's matrix speed."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch
from rich.console import Console
from rich.table import Table

PROCESSOR = torch.device("cpu")


@dataclass(frozen=True)
class Row:
    """One line of a benchmark. Ratios are of tokens per second, in the same run."""

    case: str
    form: str
    precision: str
    tokens_per_second: float
    ratio_to_reference: float
    ratio_to_lstm: float


@dataclass(frozen=True)
class Contestant:
    """Something to time. step: does the work once; tokens: number of real tokens processed."""

    form: str
    precision: str
    step: Callable[[], None]
    tokens: int


def refuse_failing_tests(*paths: str) -> None:
    """Runs tests and exits if they fail: the speed of a wrong result is meaningless."""
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-x", *paths], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"The tests fail, so the benchmark is not run:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")


def race(
    case: str, contestants: list[Contestant], rounds: int, reference: str, lstm: str, precision: str = "32"
) -> list[Row]:
    """Times the contestants in turn, round after round, so that all are affected by the same noise.

    reference, lstm: the versions, at `precision`, to which ratios are computed.
    """
    seconds: dict[int, list[float]] = {place: [] for place in range(len(contestants))}
    for number in range(rounds + 1):
        for place, contestant in enumerate(contestants):
            started = time.perf_counter()
            contestant.step()
            if number:  # the first round warms up
                seconds[place].append(time.perf_counter() - started)
    speeds = [one.tokens / statistics.median(seconds[place]) for place, one in enumerate(contestants)]

    def speed_of(form: str) -> float:
        return next(
            speed
            for one, speed in zip(contestants, speeds, strict=True)
            if one.form == form and one.precision == precision
        )

    return [
        Row(case, one.form, one.precision, speed, speed / speed_of(reference), speed / speed_of(lstm))
        for one, speed in zip(contestants, speeds, strict=True)
    ]


def matrix_rate(dtype: torch.dtype, size: int = 2048, device: torch.device = PROCESSOR) -> float:
    """GFLOP/s of a square product: an upper limit for ratios between precisions."""
    left, right = (torch.randn(size, size).to(device, dtype) for _ in range(2))
    times = []
    for _ in range(5):
        started = time.perf_counter()
        left @ right
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
    return 2e-9 * size**3 / statistics.median(times)


def show(rows: list[Row], as_json: bool, device: torch.device = PROCESSOR) -> None:
    """Prints a table, or a JSON list of objects."""
    if as_json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
        return
    table = Table("case", "form", "precision", "tokens/s", "x reference", "x nn.LSTM")
    for row in rows:
        ratios = f"{row.ratio_to_reference:.2f}", f"{row.ratio_to_lstm:.2f}"
        table.add_row(row.case, row.form, row.precision, f"{row.tokens_per_second:,.0f}", *ratios)
    Console(width=110).print(table)
    where = torch.cuda.get_device_name() if device.type == "cuda" else f"{torch.get_num_threads()} threads"
    rates = [matrix_rate(dtype, device=device) for dtype in (torch.float32, torch.bfloat16)]
    print(
        f"torch {torch.__version__}, {where}; products of 2048 x 2048: "
        f"{rates[0]:.0f} GFLOP/s in float32, {rates[1]:.0f} in bfloat16"
    )
