"""Settings of earlier versions and their present names: the one place that knows the old ones.

Recipes, run folders, model folders, classifier folders and command lines of the first edition stay usable: an old name
is accepted, with one warning per file that lists the old names and the new ones.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from syntaxlm.errors import InputError, OldSettingWarning

OLD_MODES = {
    "sentences": {"carry_state": False, "predict_eos": True},
    "open-sentences": {"carry_state": False, "predict_eos": False},
    "stream": {"carry_state": True, "predict_eos": True},
    "trees": {"carry_state": False, "predict_eos": False},
}
"""How text was read, once one setting `mode`: the two settings that replace it."""

OLD_SETTINGS: dict[str, str | Mapping[str, Mapping[str, Any]]] = {
    "mode": OLD_MODES,  # in config.json
    "batches.mode": {  # in recipes; a dependency-tree model needs neither setting
        mode: {} if mode == "trees" else {f"batches.{name}": value for name, value in settings.items()}
        for mode, settings in OLD_MODES.items()
    },
    # model, in recipes, config.json and classifier.json
    "model.initial_spread": "model.init_range",
    "model.activation": "model.ar",
    "model.slowness": "model.tar",
    "model.activation_after_dropout": "model.ar_after_dropout",
    # recipes
    "batches.steps": "batches.bptt",
    "batches.random_steps": "batches.variable_bptt",
    "text.trees_clean_up": "text.trees_preprocessing",
    "optimiser.mean_over": "optimiser.loss_normalisation",
    "optimiser.clip": "optimiser.gradient_clip",
    "optimiser.averaged_rate": "optimiser.average_learning_rate",
    "schedule.plateau_of": "schedule.plateau_loss",
    "training.clip": "training.gradient_clip",  # of recipes of logical inference
}
"""Old dotted name -> the present one; or, where one setting became several, each old value -> the present settings."""

OLD_COMMANDS = {("evaluate", "lm"): ("evaluate", "perplexity"), ("logic", "train"): ("train",)}
"""Old command -> the present one."""

_OLD_CONTEXTS = {"reset": ["--no-carry-state"], "carry": ["--carry-state"]}

OLD_OPTIONS: dict[str, str | Mapping[str, Sequence[str]]] = {
    "--cache-flatness": "--cache-theta",
    "--clean-up": "--preprocessing",
    "--context": _OLD_CONTEXTS,
    "--mode": {
        "sentences": ["--no-carry-state", "--predict-eos"],
        "open-sentences": ["--no-carry-state", "--no-predict-eos"],
        "stream": ["--carry-state", "--predict-eos"],
    },
    "--per-sentence": "--details",
    "--per-pair": "--details",
    "--per-question": "--details",
    "data sentences --valid": "--valid-output",
    "evaluate completion --weight": "--weights",
    "evaluate pairs --model": "--also",
    "generate --count": "--sentences",
    "generate --maximum-depth": "--max-depth",
    "generate --maximum-words": "--max-words",
    "grammar --text": "",
    "quickstart --model": "--model-type",
}
"""Old option of the command line, of one command or of all -> the present one; "" where its value became an argument;
or, where options replace its values, each old value -> the present options."""

OLD_DECODERS = {"right": "greedy-right", "sum": "greedy-sum", "total": "cky"}
"""Old name of a decoder -> the present one."""


def rename_old_settings(data: Any, source: str) -> Any:
    """Nested dicts of settings with old settings under their present names; `data` itself stays as it is.

    Warns once per call, with all old names. Raises InputError where a file gives an old name and the present one, and
    for the value of a setting that became several where it is none of the old values.
    """
    notes, faults = [], []
    for old in OLD_SETTINGS:
        if not _has(data, old):
            continue
        value = _get(data, old)
        data = _without(data, old)
        present = _present(old, value, source)
        for new, now in present.items():
            if _has(data, new):
                faults.append(f"{source}: {old} is the old name of {new}: found both; give {new} only")
            data = _with(data, new, now)
        notes.append(_note(old, value, present))
    if faults:
        raise InputError("\n".join(faults))
    if notes:
        _warn(source, notes)
    return data


def rename_old_assignments(assignments: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Dotted assignments of the command line, ("model.layers", 3), with old settings under their present names.

    Warns and raises InputError as `rename_old_settings` does.
    """
    given = {key for key, _ in assignments}
    renamed: list[tuple[str, Any]] = []
    notes = []
    for key, value in assignments:
        if key in OLD_SETTINGS:
            present = _present(key, value, "the command line")
            twice = [new for new in present if new in given]
            if twice:
                raise InputError(f"--{key} is the old name of --{twice[0]}: found both; give --{twice[0]} only")
            notes.append(_note(key, value, present))
            renamed += present.items()
        elif isinstance(value, dict):  # a whole section
            renamed.append((key, _get(rename_old_settings(_with({}, key, value), f"--{key}"), key)))
        else:
            renamed.append((key, value))
    if notes:
        _warn("the command line", notes)
    return renamed


def present_decoder(name: str) -> str:
    """A decoder by its present name. Warns where the old one is given."""
    if name in OLD_DECODERS:
        _warn("the command line", [f"--decoder {name} is now --decoder {OLD_DECODERS[name]}"])
    return OLD_DECODERS.get(name, name)


def rename_old_options(arguments: Sequence[str]) -> list[str]:
    """The arguments of a command line with old commands and options under their present names.

    Options are read as --old VALUE or --old=VALUE. Warns once, with all old names. Raises InputError where the present
    option is given as well, and for a value that an old option never had.
    """
    arguments, notes = _rename_old_command(arguments)
    commands = [" ".join(arguments[:count]) for count in (2, 1)]
    names = [argument.partition("=")[0] for argument in arguments]
    renamed: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--":
            renamed += [word, *words]
            break
        name, equals, value = word.partition("=")
        keys = [key for key in (*(f"{command} {name}" for command in commands), name) if key in OLD_OPTIONS]
        new = OLD_OPTIONS[keys[0]] if keys else name
        if new == name:
            renamed.append(word)
        elif isinstance(new, str):
            if new in names:
                raise InputError(f"{name} is the old name of {new}: found both; give {new} only")
            notes.append(f"{name} is now {new}" if new else f"{name} FILE is now the argument FILE")
            if new or equals:  # else the next word is the argument
                renamed.append(new + word.removeprefix(name) if new else value)
        else:
            value = value if equals else next(words, "")
            if value not in new:
                raise InputError(f"{name}: found {value!r}; expected one of {', '.join(new)} (an old option)")
            notes.append(f"{name} {value} is now {' '.join(new[value])}")
            renamed += new[value]
    if notes:
        _warn("the command line", list(dict.fromkeys(notes)))
    return renamed


def _rename_old_command(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The arguments with the present name of the command, and notes on what was renamed."""
    for old, new in OLD_COMMANDS.items():
        if tuple(arguments[: len(old)]) == old:
            return [*new, *arguments[len(old) :]], [f"{' '.join(old)} is now {' '.join(new)}"]
    return list(arguments), []


def _present(old: str, value: Any, source: str) -> dict[str, Any]:
    new = OLD_SETTINGS[old]
    if isinstance(new, str):
        return {new: value}
    if not isinstance(value, str) or value not in new:
        found = json.dumps(value, default=str)
        raise InputError(f"{source}: {old}: found {found}; expected one of {', '.join(new)} (an old setting)")
    return dict(new[value])


def _note(old: str, value: Any, present: Mapping[str, Any]) -> str:
    if isinstance(OLD_SETTINGS[old], str):
        return f"{old} is now {', '.join(present)}"
    settings = ", ".join(f"{new}: {json.dumps(now)}" for new, now in present.items())
    return f"{old}: {value} is now {settings}" if settings else f"{old}: {value} is no longer needed"


def _warn(source: str, notes: Sequence[str]) -> None:
    text = f"{source}: old names, accepted for now: {'; '.join(notes)}"
    warnings.warn(text, OldSettingWarning, stacklevel=3)


def _has(data: Any, key: str) -> bool:
    for part in key.split("."):
        if not isinstance(data, dict) or part not in data:
            return False
        data = data[part]
    return True


def _get(data: Any, key: str) -> Any:
    for part in key.split("."):
        data = data[part]
    return data


def _with(data: Any, key: str, value: Any) -> dict[str, Any]:
    """A copy of nested dicts with one setting more."""
    first, *rest = key.split(".", 1)
    return {**data, first: _with(data.get(first) or {}, rest[0], value) if rest else value}


def _without(data: Any, key: str) -> dict[str, Any]:
    """A copy of nested dicts with one setting less."""
    first, *rest = key.split(".", 1)
    if rest:
        return {**data, first: _without(data[first], rest[0])}
    return {name: value for name, value in data.items() if name != first}


def mode_settings(mode: object) -> dict[str, bool]:
    """The settings that replace an old `mode`. Raises InputError for a value that never was one."""
    if not isinstance(mode, str) or mode not in OLD_MODES:
        raise InputError(f"mode: found {mode!r}; expected one of {', '.join(OLD_MODES)}")
    return dict(OLD_MODES[mode])
