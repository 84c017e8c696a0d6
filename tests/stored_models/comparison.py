"""Recorded values under present names, and how measured ones differ from them."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator
from typing import Any

from tests.stored_models.calls import DECODERS, MODES

KEYS = {
    "flatness": "theta",
    "initial_spread": "init_range",
    "activation": "ar",
    "activation_after_dropout": "ar_after_dropout",
    "slowness": "tar",
    "clean_up": "preprocessing",
    "deviation": "std",
    "ends_predicted": "eos_predicted",
    "more": "edges",
    "ties_with_right": "ties_with_correct",
}
"""Keys of figures and settings that have another name now."""


def present(recorded: Any, parent: str = "") -> Any:
    """A recorded value with present keys: settings, text modes, decoders.  parent: the key that holds it."""
    if isinstance(recorded, list):
        return [present(one, parent) for one in recorded]
    if not isinstance(recorded, dict):
        return with_present_decoders(recorded) if parent in ("decoder", "rules") else recorded
    found: dict[str, Any] = {}
    for key, value in recorded.items():
        if key == "mode":
            mode = MODES.get(value, MODES["open-sentences"])  # of dependency trees nothing is carried or predicted
            found |= dataclasses.asdict(mode)
            if "nats" in recorded:
                found["given_trees"] = value == "trees"
            continue
        name = with_present_decoders(key) if parent == "f1_by_decoder" else KEYS.get(key, key)
        if key == "right" and "accuracy" in recorded:  # elsewhere it is right branching
            name = "correct"
        found[name] = present(value, key)
    return found


def with_present_decoders(names: str) -> str:
    """Also of several models: "2 biased + right"."""
    return re.sub(r"\w+", lambda name: DECODERS.get(name[0], name[0]), names)


def differences(found: Any, recorded: Any, relative: float, absolute: float, place: str = "") -> Iterator[str]:
    """One line for each difference. Figures that were not recorded are not compared; of refusals no message is."""
    if isinstance(recorded, dict) and isinstance(found, dict):
        if ("error" in recorded) != ("error" in found):
            yield f"{place}: found {shown(found)}, recorded {shown(recorded)}"
            return
        for key in recorded:
            if key == "message":
                continue
            if key in ("low", "high", "p_value") and found.get(key, 0) is None:  # now only with enough items
                continue
            if key not in found:
                yield f"{place}/{key}: missing, recorded {shown(recorded[key])}"
            else:
                yield from differences(found[key], recorded[key], relative, absolute, f"{place}/{key}")
    elif isinstance(recorded, list) and isinstance(found, list) and len(recorded) == len(found):
        for number, (one, other) in enumerate(zip(found, recorded, strict=True)):
            yield from differences(one, other, relative, absolute, f"{place}/{number}")
    elif is_number(recorded) and is_number(found):
        if not math.isclose(found, recorded, rel_tol=relative, abs_tol=absolute):
            yield f"{place}: found {found!r}, recorded {recorded!r}"
    elif found != recorded:
        yield f"{place}: found {shown(found)}, recorded {shown(recorded)}"


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 120 else text[:117] + "..."
