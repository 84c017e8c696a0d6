"""Several models of which only some read punctuation marks: for these, the stop of "boats." adds to a surprisal."""

from __future__ import annotations

from collections.abc import Mapping

from syntaxlm.core.errors import listed


def remark_on_marks(bits_of_marks: Mapping[str, float]) -> list[str]:
    """Return a remark on models whose surprisals are not comparable; none if all read marks, or no model does.

    Args:
        bits_of_marks: the surprisal of the punctuation marks of a text under each model, by its name.
    """
    reading = [name for name, bits in bits_of_marks.items() if bits > 0]
    others = [name for name, bits in bits_of_marks.items() if not bits > 0]
    if not reading or not others:
        return []
    reads = "read" if len(reading) > 1 else "reads"
    does = "do" if len(others) > 1 else "does"
    return [
        f"{listed(reading)} {reads} punctuation marks, but {listed(others)} {does} not, so surprisals of words with"
        " marks, of ends of sentences and of whole sentences are not comparable between them"
    ]
