"""Experiments: what was trained and evaluated for one file of laboratory/results, as YAML in laboratory/experiments.

    purpose: what the experiment shows
    prepare: [syntaxlm data toy -o toy/]          # commands that write data, run if their output (-o) is missing
    recipe: prpn-toy                              # of every run, as are settings, seeds, command, options, evaluations
    settings: {schedule.epochs: 1}
    seeds: [1, 2]
    evaluations:
      - {data: toy-test, command: syntaxlm evaluate parse MODEL toy/test.mrg}
    runs:
      plain: {}                                   # only the recipe and its settings
      small: {settings: {model.hidden_size: 64}}  # beside those above
      smaller: {like: small, seeds: [1]}          # another run, except for the keys that stand here

Without runs, there is one, whose name is "".

In commands, MODEL is the folder of a run and seed, SEED the seed, and RUNS the folder of all experiments, as in
RUNS/toy/small/seed-1.
Files of data/NAME/ and NAME/, in commands and recipes, can be elsewhere: see `Places`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from syntaxlm.comparison.runs import count_epoch_tokens
from syntaxlm.core.errors import InputError, closest_match
from syntaxlm.core.yaml_files import read_yaml
from syntaxlm.storage.folder import read_model
from syntaxlm.training.recipe import LanguageModelRecipe, Recipe, read_recipe
from syntaxlm.training.result import RECIPE

EXPERIMENTS = Path(__file__).with_name("experiments")
_SHARED = ("recipe", "settings", "seeds", "command", "options", "evaluations")  # keys of all runs


class _Part(BaseModel):
    """Base class of the parts of an experiment, which refuse unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Evaluation(_Part):
    """A command that evaluates the model of a run.

    Attributes:
        command: whole command line, without --json.
        data: name of the treebank or text, in the results; None: the command has no data of its own.
        run: name of the evaluated model, in the results; None: the name of the run.
        seed: seed of the evaluated model; None: the seed of the run.
    """

    command: str
    data: str | None = None
    run: str | None = None
    seed: int | None = None


class Run(_Part):
    """One model with its seeds.

    Attributes:
        recipe: name of a bundled recipe; None: nothing is trained.
        settings: values that replace those of the recipe, by dotted name.
        command: the command that trains the model.
        options: further options of this command.
        seeds: the values of run.seed; () for a model without random weights.
        evaluations: commands that run once for every seed.
        run: name in the results; None: its name in the experiment.
        factors: values in which the runs differ, for the results.
    """

    recipe: str | None = None
    settings: dict[str, Any] = {}
    command: Literal["train", "focus", "compare"] = "train"
    options: str = ""
    seeds: tuple[int, ...] = ()
    evaluations: tuple[Evaluation, ...] = ()
    run: str | None = None
    factors: dict[str, str | int] = {}


class Experiment(_Part):
    """An experiment.

    Attributes:
        name: stem of its file, and of the file of its results.
        purpose: what the experiment shows.
        prepare: commands that write its data.
        runs: the runs by name.
    """

    name: str
    purpose: str
    prepare: tuple[str, ...] = ()
    runs: dict[str, Run]


@dataclass(frozen=True)
class Places:
    """Where runs and data are.

    Attributes:
        output: folder of all runs.
        data: folders that replace data/NAME/ and NAME/ in commands and recipes, by NAME.
    """

    output: Path = Path("runs")
    data: Mapping[str, str] = field(default_factory=dict)

    def moved(self, path: str) -> str:
        """Return the path of a file of data, in the folder that replaces data/NAME/ or NAME/ if there is one."""
        for name, folder in self.data.items():
            for prefix in (f"data/{name}/", f"{name}/"):
                if path.startswith(prefix):
                    return os.path.join(folder, path.removeprefix(prefix))
        return path


@dataclass(frozen=True)
class Step:
    """A command of an experiment.

    Attributes:
        words: the command line.
        output: folder of the model, or what is written to prepare data.
        run: name in the results; None: it prepares data.
        seed: None: without random weights.
        evaluation: None: it trains, or prepares data.
        training: commands that trained the model.
        factors: values in which the runs differ.
    """

    words: tuple[str, ...]
    output: Path
    run: str | None = None
    seed: int | None = None
    evaluation: Evaluation | None = None
    training: tuple[str, ...] = ()
    factors: Mapping[str, str | int] = field(default_factory=dict)

    def __str__(self) -> str:
        return shlex.join(self.words)

    @property
    def with_report(self) -> tuple[str, ...]:
        """The command line that prints its report as JSON; programs of the laboratory name this option themselves."""
        return (*self.words, "--json") if self.run is not None and self.words[0] == "syntaxlm" else self.words


def experiment_names() -> list[str]:
    """Return the names of all experiments."""
    return sorted(path.stem for path in EXPERIMENTS.glob("*.yaml"))


def read_experiment(name: str) -> Experiment:
    """Read an experiment.

    Args:
        name: stem of a file in laboratory/experiments, or a path.

    Raises:
        InputError: for an unknown name, and for unknown keys or wrong values in the file.
    """
    path = Path(name) if name.endswith(".yaml") else EXPERIMENTS / f"{name}.yaml"
    if not path.exists():
        raise InputError(f"{name}: no such experiment. {closest_match(name, experiment_names(), 'See: list')}")
    data = read_yaml(path)
    shared = {key: data.pop(key) for key in _SHARED if key in data}
    runs: dict[str, Any] = {}
    for run_name, run in data.pop("runs", {"": {}}).items():
        base = runs[run.pop("like")] if "like" in run else shared
        settings = {**base.get("settings", {}), **run.get("settings", {})}
        runs[run_name] = {**base, **run, "settings": settings}
    try:
        return Experiment.model_validate({"name": path.stem, "runs": runs, **data})
    except ValidationError as error:
        raise InputError(f"{path}: {error}") from None


def recipe_of(experiment: str, run: str, settings: Mapping[str, object]) -> Recipe:
    """Return the recipe of a run of an experiment.

    Args:
        experiment: its name.
        run: name of the run.
        settings: further settings, which replace those of the run.
    """
    declared = read_experiment(experiment).runs[run]
    assert declared.recipe is not None
    return read_recipe(declared.recipe, {**declared.settings, **settings})


def steps_of(experiment: Experiment, places: Places, only: str | None = None, seed: int | None = None) -> list[Step]:
    """Return the commands of an experiment, in order.

    Args:
        experiment: the experiment.
        places: where runs and data are.
        only: name of one run; None: all.
        seed: one seed; None: those of each run.

    Raises:
        InputError: if there is no such run, and for a recipe or setting that does not exist.
    """
    if only is not None and only not in experiment.runs:
        advice = closest_match(only, list(experiment.runs), f"Runs: {', '.join(experiment.runs)}")
        raise InputError(f"{experiment.name}: no run {only}. {advice}")
    steps = [_preparation(command, places) for command in experiment.prepare]
    for name, run in experiment.runs.items():
        if only in (None, name):
            # A model without random weights has no seed, even if one is asked for.
            seeds = (run.seeds if seed is None else (seed,)) if run.seeds else (None,)
            for run_seed in seeds:
                steps += _steps_of_seed(experiment.name, name, run, run_seed, places)
    return steps


def _preparation(command: str, places: Places) -> Step:
    words = [places.moved(word) for word in shlex.split(command)]
    return Step(tuple(words), Path(words[words.index("-o") + 1]))


def _steps_of_seed(experiment: str, name: str, run: Run, seed: int | None, places: Places) -> Iterator[Step]:
    """Yield the training of one seed of a run, if it has one, and its evaluations."""
    model = places.output / experiment / name / ("" if seed is None else f"seed-{seed}")
    placeholders = {"MODEL": str(model), "RUNS": str(places.output), "SEED": str(seed)}

    def words_of(command: str) -> tuple[str, ...]:
        words = [places.moved(word) for word in shlex.split(command)]
        return tuple(re.sub(r"\b(MODEL|RUNS|SEED)\b", lambda match: placeholders[match[0]], word) for word in words)

    training: tuple[str, ...] = ()
    stored_name = name if run.run is None else run.run
    if run.recipe is not None:
        settings = _settings(run.recipe, run.settings if seed is None else {"run.seed": seed, **run.settings}, places)
        options = [word for setting, value in settings.items() for word in (f"--{setting}", _as_option(value))]
        words = ("syntaxlm", run.command, run.recipe, "-o", str(model), *options, *words_of(run.options))
        training = (shlex.join(words),)
        yield Step(words, model, stored_name, seed, factors=run.factors)

    for evaluation in run.evaluations:
        evaluated = stored_name if evaluation.run is None else evaluation.run
        model_seed = seed if evaluation.seed is None else evaluation.seed
        yield Step(words_of(evaluation.command), model, evaluated, model_seed, evaluation, training, run.factors)


def _settings(recipe: str, settings: Mapping[str, Any], places: Places) -> dict[str, Any]:
    """Return settings that replace those of a recipe, with the paths of its data files, see `Places.moved`."""
    if not places.data:
        return dict(settings)
    changed_recipe = read_recipe(recipe, settings)
    files = {
        f"{changed_recipe.data_section}.{name}": places.moved(path)
        for name, path in vars(changed_recipe.data).items()
        if isinstance(path, str) and places.moved(path) != path
    }
    return {**settings, **files}


def _as_option(value: object) -> str:
    """Return a value as an option of the command line takes it, in YAML."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def run_experiment(name: str, steps: list[Step], output: Path, store: Callable[..., object] | None) -> None:
    """Run the commands of an experiment, and store their reports.

    A command whose report is in the folder of runs is not repeated; a training that was stopped is resumed.

    Args:
        name: of the experiment.
        steps: its commands.
        output: folder of all runs.
        store: called with the name, the report and facts about it, see `laboratory.results.store.add`; None: nothing is
            stored.

    Raises:
        InputError: if a command fails.
    """
    for step in steps:
        if step.run is None:
            if not step.output.exists():
                step.output.parent.mkdir(parents=True, exist_ok=True)
                _output_of(step.words)
            continue
        report_file = output / name / "reports" / f"{hashlib.sha256(str(step).encode()).hexdigest()[:16]}.json"
        if report_file.exists():
            continue

        # A training that was stopped is resumed; other commands start again.
        report_file.parent.mkdir(parents=True, exist_ok=True)
        resumes = step.evaluation is None and step.words[1] == "train" and step.output.exists()
        resumption = ("syntaxlm", "train", "--resume", str(step.output), "--json")
        printed = _output_of(resumption if resumes else step.with_report)
        report = json.loads(printed) if printed else None  # some programs of the laboratory write a file instead
        if resumes and report:  # the stored command is the one that repeats the training from its start
            report["run"]["command"] = shlex.join(step.with_report)

        facts: dict[str, Any] = {"run": step.run, "seed": step.seed, "factors": step.factors}
        if step.evaluation is not None:
            facts |= {"data": step.evaluation.data, "training": step.training}
        elif step.words[1] == "train":
            facts |= sizes_of_training(step.output)
        if store is not None and report:
            store(name, report, **facts)
        report_file.write_text(printed, encoding="utf-8")


def sizes_of_training(folder: Path) -> dict[str, int]:
    """Return the facts about a training that its report lacks: parameters of a counted model, tokens of an epoch."""
    recipe = read_recipe(str(folder / RECIPE))
    if not isinstance(recipe, LanguageModelRecipe):
        return {}
    return {
        "parameters": read_model(folder).model.parameter_count,
        "epoch_tokens": count_epoch_tokens(recipe, folder),
    }


def _output_of(words: tuple[str, ...]) -> str:
    """Return what a command writes to standard output."""
    print(shlex.join(words), flush=True)
    program = [sys.executable, "-m", "syntaxlm"] if words[0] == "syntaxlm" else [sys.executable]
    completed = subprocess.run([*program, *words[1:]], stdout=subprocess.PIPE, text=True, check=False)
    if completed.returncode:
        raise InputError(f"{shlex.join(words)}: exit code {completed.returncode}")
    return completed.stdout
