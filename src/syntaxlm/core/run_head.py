"""The head of a report: which command made it, with which version, on which machine, from which files.

Reports as JSON have the head under the key "run". What is not known is None.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from syntaxlm.core.files import to_json
from syntaxlm.core.reading import readings
from syntaxlm.core.systems import processor_lines
from syntaxlm.core.version import VERSION

LARGEST_HASHED = 1 << 28  # bytes of a file; larger ones have no hash, because reading them again takes long
_INSTRUCTIONS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "sve", "bf16")  # that change speed or rounding
_ROOT = Path(__file__).parents[3]  # of the repository, if the package runs from one


@dataclass(frozen=True)
class Machine:
    """The machine of a run.

    Attributes:
        processor: its name.
        instructions: its vector instructions that change speed or rounding, such as "avx2".
        threads: number of threads of a process.
    """

    processor: str | None
    instructions: tuple[str, ...] | None
    threads: int | None


@dataclass(frozen=True, kw_only=True)
class RunHead:
    """Where a report comes from.

    Attributes:
        command: the command line, quoted for a shell; None for a call from Python.
        version: version of syntaxlm.
        commit: hash of its commit, and "-dirty" if the code or the recipes were changed; None for an installed package.
        date: when the command ended, in UTC.
        machine: where it ran.
        minutes: how long it took.
        recipe: name or file of the recipe; None for evaluations.
        overrides: settings that replaced those of the recipe, by dotted name.
        seed: seed of the training.
        sha256: hashes of the files that were read, by name; None for pipes and for very large files.
    """

    command: str | None
    version: str | None
    commit: str | None
    date: str | None
    machine: Machine | None
    minutes: float | None
    recipe: str | None
    overrides: Mapping[str, Any] | None
    seed: int | None
    sha256: Mapping[str, str | None] | None

    def to_dict(self) -> dict[str, Any]:
        """Return the head with the types that JSON has."""
        fields: dict[str, Any] = json.loads(to_json(asdict(self)))
        return fields


@dataclass(frozen=True)
class Invocation:
    """What is known of a run while it is running.

    Attributes:
        command: as in `RunHead`.
        began: the time of `time.time` at its start.
        recipe: as in `RunHead`.
        overrides: as in `RunHead`.
        models: names of the models that were loaded, which grow during the run.
    """

    command: str | None = None
    began: float | None = None
    recipe: str | None = None
    overrides: Mapping[str, Any] | None = None
    models: list[str] = field(default_factory=list)


_invocation: ContextVar[Invocation | None] = ContextVar("invocation", default=None)


def invocation() -> Invocation:
    """Return what is known of the present run."""
    return _invocation.get() or Invocation()


@contextmanager
def running(present: Invocation) -> Iterator[None]:
    """Make heads in this block those of a run."""
    token = _invocation.set(present)
    try:
        yield
    finally:
        _invocation.reset(token)


def running_command(words: Sequence[str]) -> AbstractContextManager[None]:
    """Make heads in a block those of a command that starts now.

    Args:
        words: the command line.
    """
    return running(Invocation(shlex.join(words), time.time()))


def training_recipe(
    recipe: str | None, overrides: Iterable[tuple[str, Any]] | None = None
) -> AbstractContextManager[None]:
    """Make heads in a block those of trainings of a recipe.

    Args:
        recipe: its name or file.
        overrides: settings that replaced those of the recipe; None for those of the command around the block.
    """
    present = invocation()
    settings = present.overrides if overrides is None else dict(overrides)
    return running(replace(present, recipe=recipe, overrides=settings))


def run_head(
    seed: int | None = None, minutes: float | None = None, sha256: Mapping[str, str | None] | None = None
) -> RunHead:
    """Return the head of a report that is about to be written.

    Args:
        seed: seed of a training.
        minutes: how long the run took; default: the time since the start of the command.
        sha256: hashes of the files that were read; default: those of the files whose reading was announced.
    """
    from datetime import UTC, datetime

    present = invocation()
    if minutes is None and present.began is not None:
        minutes = (time.time() - present.began) / 60
    return RunHead(
        command=present.command,
        version=VERSION,
        commit=_commit(),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=_machine(),
        minutes=None if minutes is None else round(minutes, 4),
        recipe=present.recipe,
        overrides=present.overrides,
        seed=seed,
        sha256=_hashes_of_readings() if sha256 is None else sha256,
    )


def _hashes_of_readings() -> dict[str, str | None]:
    """Return the hashes of the files whose reading was announced, by name."""
    return {file: file_hash(file) for report in readings() for file in report.files or (report.source,)}


def file_hash(path: str | Path) -> str | None:
    """Return the SHA-256 hash of a file; None for a pipe, a very large file, and what is no file."""
    import hashlib

    try:
        if not os.path.isfile(path) or os.path.getsize(path) > LARGEST_HASHED:
            return None
        with open(path, "rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError:  # removed in the meantime
        return None


@cache
def _commit() -> str | None:
    if not ((_ROOT / ".git").exists() and (_ROOT / "src" / "syntaxlm").is_dir()):
        return None
    import subprocess

    def git(*words: str) -> str:
        command = ["git", "-C", str(_ROOT), *words]
        return subprocess.run(command, capture_output=True, encoding="utf-8", check=True, timeout=10).stdout.strip()

    # Stored results change with every run of an experiment, and no figure depends on them.
    try:
        changed = git("diff", "--name-only", "HEAD", "--", "src", "recipes")
        return git("rev-parse", "HEAD") + ("-dirty" if changed else "")
    except (OSError, subprocess.SubprocessError):  # no git, or a repository of somebody else
        return None


def _machine() -> Machine:
    processor, instructions = _processor()
    torch = sys.modules.get("torch")
    return Machine(processor, instructions, torch.get_num_threads() if torch else 1)


@cache
def _processor() -> tuple[str | None, tuple[str, ...] | None]:
    """Return the name of the processor and those of its instructions that matter."""
    values = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in processor_lines())}
    flags = (values.get("flags") or values.get("Features") or "").split()
    instructions = tuple(name for name in _INSTRUCTIONS if name in flags)
    return values.get("model name"), instructions if flags else None
