"""Reading and extending the stored results.

A file `EXPERIMENT.jsonl` has a line for each run: what was measured on what, the head that the command wrote (command,
version, machine, ...), and its report. A table selects lines by their fields. What is not known of a run is null.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from syntaxlm.core.files import write_text
from syntaxlm.core.run_head import RunHead, run_head

RESULTS = Path(__file__).parent
_NOT_STORED = ("induced_labels",)  # in no table, and longer than the rest of a report
_MANY_FILES = 20  # of one folder, whose hashes would be longer than the report

What = Literal[
    "training", "comparison", "trees", "untrained", "attachment", "agreement", "boundaries", "splits",
    "missed-constituents", "stops", "perplexity", "unknown-words", "pairs", "suites", "completion", "reading-times",
    "significance", "sentence-splitting", "speed", "training-speed", "command-speed", "growth", "job", "cache",
    "dependency-range", "parameters", "belief-updates", "released-speed", "collapse",
    "server-load", "beam",
]  # fmt: skip
"""What a report measures. "untrained": trees of models with random weights."""


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class StoredRun(RunHead):
    """A run of a command, with its report.

    Attributes:
        what: what the report measures.
        run: name of the model or of the comparison in its experiment; "" if the experiment has only one.
        data: name of the treebank or text that was scored; None for trainings.
        factors: further settings in which the runs of the experiment differ, such as {"trees": "none"}.
        training: the commands that trained the models of the report; none for trainings, whose `command` it is.
        parameters: number of trainable parameters of the model.
        epoch_tokens: number of tokens that an epoch of its training predicts.
        report: what the command wrote.
    """

    what: What
    run: str
    data: str | None
    factors: Mapping[str, str | int]
    training: tuple[str, ...]
    parameters: int | None
    epoch_tokens: int | None
    report: Mapping[str, Any]

    def fact(self, name: str) -> Any:
        """Return a fact about the run: a field, a factor, or else a fact that its report states.

        Args:
            name: such as "seed", "trees", or "protocol".
        """
        if name in self.__dataclass_fields__:
            return getattr(self, name)
        if name in self.factors:
            return self.factors[name]
        if name == "max_words":
            return self.report.get("protocol_fields", {}).get("max_words")
        return self.report.get(name)

    @property
    def identity(self) -> tuple[object, ...]:
        """What distinguishes this run from all others of its experiment."""
        names = ("what", "run", "seed", "data", "protocol", "max_words", "decoder", "reads")
        return (*(str(self.fact(name)) for name in names), *sorted(self.factors.items()))


_LINE = TypeAdapter(StoredRun)


def stored_runs(experiment: str) -> tuple[StoredRun, ...]:
    """Return all runs of an experiment, in the order of its file.

    Raises:
        KeyError: nothing is stored of this experiment.
        ValueError: a line does not have the fields of a `StoredRun`.
    """
    path = RESULTS / f"{experiment}.jsonl"
    if not path.exists():
        raise KeyError(f"{path}: nothing is stored of the experiment {experiment}")
    return _read(path, path.stat().st_mtime_ns)


@cache
def _read(path: Path, modified: int) -> tuple[StoredRun, ...]:
    """Return the runs of a file. The time when it was modified is a key of the cache only, for files that change."""
    runs = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            runs.append(_LINE.validate_json(line))
        except ValidationError as error:
            raise ValueError(f"{path}, line {number}: {error}") from error
    return tuple(runs)


def select(experiment: str, **facts: Any) -> list[StoredRun]:
    """Return the runs of an experiment that have all of these facts.

    Args:
        experiment: name of its file.
        facts: values by name, see `StoredRun.fact`.
    """
    return [run for run in stored_runs(experiment) if all(run.fact(name) == value for name, value in facts.items())]


def stored_run(experiment: str, **facts: Any) -> StoredRun:
    """Return the only run of an experiment that has these facts.

    Raises:
        KeyError: no run has these facts, or several have.
    """
    runs = select(experiment, **facts)
    if len(runs) != 1:
        raise KeyError(f"{experiment}: found {len(runs)} stored runs with {facts}; expected one")
    return runs[0]


def stored_report(experiment: str, **facts: Any) -> Mapping[str, Any]:
    """Return the report of the only run of an experiment that has these facts, see `stored_run`."""
    return stored_run(experiment, **facts).report


def add(
    experiment: str,
    written: Mapping[str, Any],
    *,
    what: What | None = None,
    run: str = "",
    data: str | None = None,
    seed: int | None = None,
    factors: Mapping[str, str | int] = {},
    training: Sequence[str] = (),
    parameters: int | None = None,
    epoch_tokens: int | None = None,
    replace: bool = False,
) -> StoredRun:
    """Append a report to the file of an experiment, which is made if it does not exist.

    Args:
        experiment: name of its file.
        written: the JSON that a command wrote; its key "run" is the head.
        what: what the report measures; None: what the command of the head measures.
        run, data, factors, training, parameters, epoch_tokens: as in `StoredRun`; None: as in the report.
        seed: seed of the model; None: as in the head, or none for a model that is trained by counting.
        replace: whether to replace a stored run with the same facts.

    Raises:
        ValueError: the report has no head, a field has a wrong value, or a run with these facts is stored.
    """
    head = written.get("run")
    if not isinstance(head, Mapping):
        raise ValueError('the report has no head: expected the key "run", which commands write into their JSON')
    report = {name: value for name, value in written.items() if name not in ("run", *_NOT_STORED)}
    if seed is None and not report.get("counted"):  # nothing is random in training by counting
        seed = head["seed"]
    fields = {
        **head, "sha256": hashes_by_folder(head.get("sha256")),
        "what": what or _measured_by(head["command"], report), "run": run, "data": data, "factors": factors,
        "seed": seed, "training": training,
        "parameters": report.get("parameters") if parameters is None else parameters,
        "epoch_tokens": report.get("epoch_tokens") if epoch_tokens is None else epoch_tokens,
        "report": report,
    }  # fmt: skip
    stored = _LINE.validate_python(fields)
    path = RESULTS / f"{experiment}.jsonl"
    # Without the lock, two processes that store at the same time would each keep only its own line.
    with FileLock(RESULTS / f"{experiment}.lock"):
        runs = list(stored_runs(experiment)) if path.exists() else []
        others = [earlier for earlier in runs if earlier.identity != stored.identity]
        if len(others) < len(runs) and not replace:
            raise ValueError(f"{path}: a run with the same facts is stored: {stored.identity}")
        write_text("".join(map(_line, (*others, stored))), path)
    return stored


def hashes_by_folder(hashes: Mapping[str, str | None] | None) -> dict[str, str | None] | None:
    """Return the hashes of files, with one hash for a folder of which many were read.

    It is the hash of the lines that `sha256sum` prints for these files, without their folder, in the order of names.
    """
    if hashes is None:
        return None
    folders: dict[str, list[str]] = {}
    for file in hashes:
        folders.setdefault(os.path.dirname(file), []).append(file)
    kept: dict[str, str | None] = {}
    for folder, files in folders.items():
        if len(files) <= _MANY_FILES or any(hashes[file] is None for file in files):
            kept |= {file: hashes[file] for file in files}
            continue
        lines = "".join(f"{hashes[file]}  {os.path.basename(file)}\n" for file in sorted(files))
        kept[f"{folder}, {len(files)} files"] = hashlib.sha256(lines.encode()).hexdigest()
    return kept


def with_head(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report of a program of the laboratory with its head, as commands write it."""
    command = shlex.join(["python", *sys.orig_argv[1:]])
    return {**report, "run": dataclasses.replace(run_head(), command=command).to_dict()}


def _line(run: StoredRun) -> str:
    """Return the line of a run: what is measured first, the report last."""
    fields = _LINE.dump_python(run, mode="json")
    first = {name: fields.pop(name) for name in ("what", "run", "seed", "data", "factors")}
    return json.dumps(first | fields, ensure_ascii=False) + "\n"


_MEASURES: Mapping[str, What] = {
    "train": "training", "focus": "agreement", "compare": "comparison", "tune stops": "stops", "tune cache": "cache",
    "evaluate parse": "trees", "evaluate trees": "trees",
    "-m laboratory.measurements.dependency_range": "dependency-range",
    "-m laboratory.measurements.tree_rnn_parameters": "parameters",
    "-m laboratory.measurements.belief_updates": "belief-updates",
    "-m laboratory.measurements.collapse": "collapse",
    "-m laboratory.measurements.tree_beam": "beam",
    "-m laboratory.benchmarks.released": "released-speed",
    "-m laboratory.benchmarks.scale": "growth",
    "-m laboratory.benchmarks.endurance": "server-load",
    **{
        f"evaluate {measure}": measure
        for measure in (
            "perplexity", "agreement", "boundaries", "pairs", "suites", "completion", "reading-times", "significance",
        )
    },
}  # fmt: skip


def _measured_by(command: str | None, report: Mapping[str, Any]) -> What:
    """Return what the report of a command measures."""
    words = shlex.split(command or "")[1:]
    names = (" ".join(words[:2]), *words[:1])  # of a command of two words, such as "evaluate parse", or of one
    measures = [_MEASURES[name] for name in names if name in _MEASURES]
    if not measures:
        raise ValueError(f"found the command {command}; expected what it measures, as `what`")
    return "attachment" if measures[0] == "trees" and "directed" in report else measures[0]
