"""The commands of stored runs with recipes that are bundled no more: the experiment that trains the same model."""

from __future__ import annotations

import shlex
from functools import cache

from laboratory.experiment import read_experiment
from laboratory.pages.stored_results import general_command
from laboratory.results.store import RESULTS, StoredRun, stored_runs
from syntaxlm.training.recipe_files import recipe_names

_TRAINING = ("train", "compare", "focus")


def present_commands(command: str) -> list[str]:
    """Return the command lines that train a model today.

    Args:
        command: a command line of a stored run, or of several with S for the seed.

    Raises:
        KeyError: its recipe is bundled no more, and no experiment has it.
    """
    words = shlex.split(command)
    if words[:1] != ["syntaxlm"] or words[1] not in _TRAINING or _recipes(words) <= set(recipe_names()):
        return [command]
    return _experiments()[command]


def _recipes(words: list[str]) -> set[str]:
    """Return the recipes that a command line names: what stands before its options, and of the option --student."""
    first_option = next((place for place, word in enumerate(words) if word.startswith("-")), len(words))
    students = {words[place + 1] for place, word in enumerate(words) if word == "--student"}
    return {*words[2:first_option], *students}


@cache
def _experiments() -> dict[str, list[str]]:
    """The command lines of experiments by the commands that the stored runs were trained with."""
    trainings: dict[tuple[str, str], list[str]] = {}  # by command line of an experiment and name of the stored runs
    for path in sorted(RESULTS.glob("*.jsonl")):
        for stored in stored_runs(path.stem):
            commands = [stored.command] if stored.what in ("training", "comparison") else stored.training
            for run in _trained_for(path.stem, stored):
                experiment = f"python -m laboratory run {path.stem}" + f" --only {run}" * bool(run)
                trainings.setdefault((experiment, stored.run), []).extend(filter(None, commands))

    # Pages show the commands of several seeds as one.
    experiments: dict[str, list[str]] = {}
    for (experiment, _), commands_of_seeds in trainings.items():
        same_length = len({len(command.split(" ")) for command in commands_of_seeds}) == 1
        for command in (*commands_of_seeds, *([general_command(commands_of_seeds)] if same_length else [])):
            if experiment not in experiments.setdefault(command, []):
                experiments[command].append(experiment)
    return experiments


def _trained_for(experiment: str, stored: StoredRun) -> list[str]:
    """Return the runs of an experiment whose models a stored run has, or evaluates."""
    runs = read_experiment(experiment).runs
    for name, run in runs.items():
        names = {name if run.run is None else run.run, *(each.run for each in run.evaluations)}
        if stored.run in names and run.factors == stored.factors:
            commands = " ".join(evaluation.command for evaluation in run.evaluations)
            return [name] if run.recipe else [each for each in runs if f"RUNS/{experiment}/{each}/" in commands]
    return []
