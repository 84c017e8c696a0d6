"""Old names of settings, commands and options, and their present names. No other module contains the old names.

Old names are accepted in recipes, run folders, model folders, classifier folders and command lines. One warning per
file lists the old names and the present ones.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from syntaxlm.core.errors import InputError, OldSettingWarning

OLD_MODES = {
    "sentences": {"carry_state": False, "predict_eos": True},
    "open-sentences": {"carry_state": False, "predict_eos": False},
    "stream": {"carry_state": True, "predict_eos": True},
    "trees": {"carry_state": False, "predict_eos": False},
}
"""Values of the old setting `mode`, and the two settings that replace each."""

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
"""Old dotted name -> present name; or, if several settings replace an old one, each old value -> present settings."""

OLD_COMMANDS = {("evaluate", "lm"): ("evaluate", "perplexity"), ("logic", "train"): ("train",)}
"""Old command -> present command."""

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
"""Old command-line option, of one command or of all -> present option; "" if its value is now an argument; or, if
options replace its values, each old value -> present options."""

OLD_DECODERS = {"right": "greedy-right", "sum": "greedy-sum", "total": "cky"}
"""Old name of a decoder -> present name."""


def rename_old_settings(data: Any, source: str) -> Any:
    """Return nested dictionaries of settings in which old names are replaced by present ones.

    data: the settings, which are not changed.  source: the file, for messages.
    Warns once per call, with all old names. Raises InputError if both an old name and its present name are given, and
    for an invalid value of a setting that several settings replace.
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
    """Return assignments of the command line, ("model.layers", 3), in which old names are replaced by present ones.

    Warns and raises InputError like `rename_old_settings`.
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
    """Return the present name of a decoder. Warns if an old name is given."""
    if name in OLD_DECODERS:
        _warn("the command line", [f"--decoder {name} is now --decoder {OLD_DECODERS[name]}"])
    return OLD_DECODERS.get(name, name)


def rename_old_options(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of a command line in which old commands and options are replaced by present ones.

    Options may be written as --old VALUE or --old=VALUE. Warns once, with all old names. Raises InputError if both an
    old option and its present name are given, and for an invalid value of an old option.
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
            if new or equals:  # otherwise the next word is the argument
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
    """Return the arguments with the present name of the command, and notes about renamed commands."""
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
    """Return a copy of nested dictionaries with an additional setting."""
    first, *rest = key.split(".", 1)
    return {**data, first: _with(data.get(first) or {}, rest[0], value) if rest else value}


def _without(data: Any, key: str) -> dict[str, Any]:
    """Return a copy of nested dictionaries without a setting."""
    first, *rest = key.split(".", 1)
    if rest:
        return {**data, first: _without(data[first], rest[0])}
    return {name: value for name, value in data.items() if name != first}


def mode_settings(mode: object) -> dict[str, bool]:
    """Return the settings that replace an old `mode`. Raises InputError for an invalid value."""
    if not isinstance(mode, str) or mode not in OLD_MODES:
        raise InputError(f"mode: found {mode!r}; expected one of {', '.join(OLD_MODES)}")
    return dict(OLD_MODES[mode])
