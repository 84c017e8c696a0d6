"""The tables of docs/reference/speed.md, from the experiments speed (benchmarks) and scale."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from laboratory.benchmarks.growth import (
    COLUMNS,
    GROWING,
    Line,
    cells,
    lines,
    points_of,
    stored_points,
    stored_runs_of_growth,
)
from laboratory.benchmarks.scale import all_series
from laboratory.pages.markdown import joined, table
from laboratory.results.store import select, stored_report

_PRECISIONS = {"32": "float32"}
_MODELS_OF_COMMANDS = {"prpn-ptb-words-small": "PRPN of 400 neurons"}  # of no bundled recipe
FEWEST_SENTENCES = 100_000  # of a very large job
COMMANDS = {"epyc": "idle EPYC", "xeon": "shared Xeon"}  # runs of laboratory.benchmarks.commands; the machines


class _Aim(NamedTuple):
    """An aim. file, case, forms: the rows of a benchmark.  field: of the rows.  least: the aim.  what: its name."""

    file: str
    case: str
    forms: tuple[str, ...]
    field: str
    least: float
    what: str


_AIMS = [
    _Aim("on_lstm", "published", ("fast",), "share_of_peak", 0.8, "ON-LSTM, published size: share of the peak"),
    _Aim("on_lstm", "small", ("fast",), "share_of_peak", 0.6, "ON-LSTM, small size: share of the peak"),
    _Aim("on_lstm", "published", ("fast",), "ratio_to_lstm", 1.0, "ON-LSTM, published size: ratio to `nn.LSTM`"),
    _Aim("on_lstm", "small", ("fast",), "ratio_to_lstm", 0.8, "ON-LSTM, small size: ratio to `nn.LSTM`"),
    _Aim("gated_memory", "sentences", ("fast",), "ratio_to_lstm", 0.8, "PRPN, sentences: ratio to `nn.LSTM`"),
    _Aim("transformer", "small", ("fast",), "ratio_to_reference", 1.0, "Transformer, small: ratio to torch's encoder"),
    _Aim(
        "transformer", "medium", ("fast",), "ratio_to_reference", 1.0, "Transformer, medium: ratio to torch's encoder"
    ),
    _Aim("inside", "SN-PCFG", ("compiled",), "share_of_peak", 0.6, "SN-PCFG: share of the peak"),
]


def _benchmarks() -> dict[str, Mapping[str, Any]]:
    """The stored benchmarks of training, by the name of their program."""
    return {run.run: run.report for run in select("speed", what="training-speed")}


def aims() -> str:
    """The aims for training, beside what was measured in each precision."""
    benchmarks = _benchmarks()
    rows = []
    for aim in _AIMS:
        is_share = aim.field == "share_of_peak"
        shown = _share if is_share else _ratio
        measured = [
            f"{shown(row[aim.field])} ({_precision(row)})"
            for row in benchmarks[aim.file]["rows"]
            if row["case"].startswith(aim.case) and row["form"] in aim.forms and row[aim.field] is not None
        ]
        least = f"{aim.least:.0%}" if is_share else f"{aim.least:.1f}"
        rows.append([aim.what, least, ", ".join(measured)])
    return table(["", "aim", "measured"], rows)


def command_speed() -> str:
    """Every row of the stored benchmarks of commands, with the figures of all machines."""
    machines = [stored_report("speed", what="command-speed", run=name)["commands"] for name in COMMANDS]
    rows = []
    for by_machine in zip(*machines, strict=True):
        cases = {tuple(row[name] for name in ("kind", "what", "processes", "threads", "unit")) for row in by_machine}
        if len(cases) > 1:
            raise ValueError(f"speed: the rows of {' and '.join(COMMANDS)} differ")
        ((kind, what, processes, threads, unit),) = cases
        figures = [f"{row['figure']:.2f}" if unit == "seconds" else f"{row['figure']:,.0f}" for row in by_machine]
        measured = what if kind == "start" else _MODELS_OF_COMMANDS.get(what, f"`{what}`")
        rows.append([measured, kind, str(processes), str(threads), *figures, unit])
    return table(["what", "measured", "processes", "threads of each", *COMMANDS.values(), "unit"], rows)


def server_load() -> str:
    """The stored benchmark of the server, in sentences."""
    report = stored_report("speed", what="server-load")
    minutes = report["minutes"]
    errors = sum(report["errors"].values())
    change = report["growth_percent"]
    return (
        f"{report['clients']} clients sent requests to {len(report['models'])} models for {len(minutes)} minutes, each"
        f" as soon as its last request was answered. The server gave {report['answers']:,} correct answers, which is"
        f" {report['answers'] / (60 * len(minutes)):.0f} a second, and {errors or 'no'} wrong ones. Half of them took"
        f" at most {report['median']:.1f} seconds, 95% at most {report['p95']:.1f} and 99% at most"
        f" {report['p99']:.1f}.\n\nThe memory was {report['memory_before']:,.0f} MiB before the first request and"
        f" {report['memory_warm']:,.0f} MiB after {len(minutes) - report['minutes_after_warm_up']} minutes. In the"
        f" minutes after that, it {'grew' if change > 0 else 'shrank'} by {abs(change):.1f}%.\n"
    )


def job_speed() -> str:
    """Stored reports of very large jobs. Those that the benchmark of growth has measured again replace earlier ones."""
    jobs = [(run.report["report"], run.report["model"], run.report["machine"]) for run in select("scale", what="job")]
    jobs += _jobs_of_growth()
    latest = {(model, *(job[name] for name in _SETTINGS)): (job, model, machine) for job, model, machine in jobs}
    rows = [
        [
            f"`{report['command']}`, `{model}`",
            report["engine"],
            str(report["workers"]),
            f"{report['lines_now']:,}",
            f"{report['seconds']:,.0f}",
            f"{report['lines_per_second']:,.0f}",
            f"{report['lines_now'] / report['worker_seconds']:,.0f}",
            f"{report['largest_worker_memory'] / 2**20:,.0f} MiB",
            machine,
        ]
        for report, model, machine in (latest[setting] for setting in sorted(latest))
    ]
    heads = ["command, model", "engine", "workers", "sentences", "seconds", "sentences/s",
             "per processor second of a worker", "memory of a worker", "machine"]  # fmt: skip
    return table(heads, rows)


_SETTINGS = ("command", "engine", "workers", "lines_now")  # of jobs that are compared


def _jobs_of_growth() -> list[tuple[Mapping[str, Any], str, str]]:
    """The jobs of the benchmark of growth with many sentences, the median of their repeats: report, model, machine."""
    run = stored_runs_of_growth().get("sentences")
    if run is None:
        return []
    repeats: dict[tuple[str, str, int], list[Mapping[str, Any]]] = {}
    for point in points_of(run.report):
        if point.job is not None and point.size >= FEWEST_SENTENCES:
            repeats.setdefault((point.task, point.system, point.size), []).append(point.job)
    medians = [sorted(jobs, key=lambda job: float(job["seconds"]))[len(jobs) // 2] for jobs in repeats.values()]
    machine = run.machine.processor if run.machine is not None else None
    return [(job, job["model"], machine or "") for job in medians]


_DOING = {"parse": "parsing", "surprisal": "surprisals", "beliefs": "beliefs", "train": "training"}


def _measured_lines() -> tuple[list[Line], list[tuple[str, str, str]]]:
    """The lines of the benchmark of growth, and kind, task and model of those that are not measured yet."""
    by_series = {(line.kind, line.task, line.system): line for line in lines(stored_points())}
    every_series = [(series.kind, series.task, series.system) for series in all_series()]
    missing = [series for series in every_series if series not in by_series]
    return [by_series[series] for series in every_series if series in by_series], missing


def growth() -> str:
    """The factors of time and memory for ten times the size, from the fitted slopes, and what is not measured yet."""
    measured, missing = _measured_lines()
    items = []
    for kind, growing in GROWING.items():
        items.append(f"- Ten times the **{growing.more}**, for {growing.unit}:")
        for task in _DOING:
            systems: dict[str, list[str]] = {}
            for line in measured:
                if (line.kind, line.task) == (kind, task):
                    systems.setdefault(_expected(line), []).append(line.system)
            if unmeasured := [system for *series, system in missing if series == [kind, task]]:
                systems["not measured yet"] = unmeasured
            if systems:
                parts = [f"{expected} ({joined(names)})" for expected, names in systems.items()]
                items.append(f"    - {_DOING[task]}: {'; '.join(parts)}")
    return "\n".join(items) + "\n"


def _expected(line: Line) -> str:
    """The factors of time and memory for ten times the size: "about ten times the time and the same memory"."""
    time = "about ten" if 0.9 <= line.time_slope.value <= 1.1 else _factor(line.time_slope.value)
    memory = _factor(line.memory_slope.value)
    is_same = 0.9 < float(memory) < 1.1
    return f"{time} times the time and {'the same memory' if is_same else f'{memory} times the memory'}"


def _factor(slope: float) -> str:
    """The factor for ten times the size, with two digits."""
    return f"{float(f'{10**slope:.2g}'):g}"


def growth_slopes() -> str:
    """The slopes of everything that is measured, and where it was measured."""
    measured_lines, missing = _measured_lines()
    rows = [cells(line) for line in measured_lines]
    rows += [[GROWING[kind].axis, task, system, "not measured yet", *[""] * 6] for kind, task, system in missing]
    kinds: dict[str, list[str]] = {}
    for kind, run in stored_runs_of_growth().items():
        where = "once with an earlier version on one core of an AMD EPYC"
        if run.machine is not None and run.commit is not None:
            where = f"with commit {run.commit[:8]} on {run.machine.processor}"
        kinds.setdefault(where, []).append(GROWING[kind].axis)
    measured = "; ".join(f"{joined(names)} {where}" for where, names in kinds.items())
    return table(COLUMNS, rows) + (f"\nMeasured: {measured}.\n" if measured else "")


def released() -> str:
    """The training steps of a released program and of the models here, and how far their log-likelihoods agree."""
    runs = select("speed", what="released-speed")
    if not runs:
        return "This comparison has not been measured yet.\n"
    (run,) = runs
    report = run.report
    precisions = {name: max(row[name] for row in report["agreement"]) for name in ("float64", "float32")}
    differences = " and ".join(f"{value:.1g} nats in {name}" for name, value in precisions.items())
    commit = report["released"]["commit"]
    rows = [
        [
            row["model"],
            row["symbols"],
            str(row["length"]),
            row["part"],
            row["program"] if row["program"] == "syntaxlm" else f"released, `{row['program']}`",
            _precision(row),
            f"{row['seconds']:.3f}",
            f"{row['fastest']:.3f} to {row['slowest']:.3f}",
            _ratio(row["ratio"]),
        ]
        for row in report["rows"]
    ]
    heads = ["model", "symbols", "words", "part", "program", "precision", "CPU seconds", "range", "ratio"]
    about = report["released"]["address"] + (f", commit {commit[:8]}" if commit else "")
    if run.machine is not None and run.machine.processor is not None:
        about += f", timed on one thread of {run.machine.processor}"
    return (
        f"The released program is {about}. From the same probabilities, the log-likelihoods of a sentence differ by at"
        f" most {differences}.\n\n"
    ) + table(heads, rows)


def _precision(row: dict[str, Any]) -> str:
    return _PRECISIONS.get(row["precision"], row["precision"])


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"
