"""How measured values differ from recorded ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any


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
