"""PRPN, Figure 4: the distances between the characters of a text, and the gates that follow from them.

    python -m laboratory.figures.prpn_characters MODEL SENTENCE... -o docs/images/prpn-characters.svg

MODEL: a character-level PRPN that reads white space. A bar stands between two characters; it shows the distance that
the later one has. Below, for the first sentence, the gates of the memory of the reading network. Shen et al. 2018.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from laboratory.figures import shared
from syntaxlm.api.model import load
from syntaxlm.core.errors import InputError
from syntaxlm.drawing import svg
from syntaxlm.drawing.heat_map import heat_map
from syntaxlm.drawing.layout import MARGIN
from syntaxlm.drawing.sentence import over_earlier_steps
from syntaxlm.drawing.svg import TEXT_SIZES, Picture, figure, text_width
from syntaxlm.parsing.analysis import maps_of
from syntaxlm.parsing.structure import structure_of
from syntaxlm.storage.folder import ModelBundle

COLUMN = 21.0  # pixels of a character
BAR, HEIGHT = 11.0, 90.0  # pixels: width of a bar, height of the highest
AXIS = 40.0  # pixels left of the bars
SPACE = "·"  # how a space is drawn
# The role of a bar by its place, and its name in the legend.
PLACES = {
    "before": ("area-0", "between a word and the space after it"),
    "after": ("area-2", "between a space and the word after it"),
    "inside": ("bar", "inside a word"),
}


def place_of(earlier: str, later: str, space: str) -> str:
    """The place of the gap between two characters: a key of PLACES."""
    return "before" if later == space else "after" if earlier == space else "inside"


def distances_picture(tokens: Sequence[str], distances: Sequence[float], space: str) -> Picture:
    """Bars between characters. distances: one per character; that of the first one is not drawn."""
    values = list(distances)[1:]
    low, high = min(values), max(values)
    low = 0.0 if low <= high / 2 else low - 0.15 * (high - low)  # of the axis: the smallest bar stays visible
    left, top = MARGIN + AXIS, 8.0
    bottom = top + HEIGHT
    span = high - low or 1.0
    parts = [svg.line(left, top, left, bottom, "axis")]
    for y, value in ((bottom, low), (top, high)):
        parts.append(svg.line(left - 4, y, left, y, "axis"))
        parts.append(svg.text(left - 6, y + 3, figure(value, (low, high)), "small", "end"))
    parts.append(svg.text(MARGIN + 4, (top + bottom) / 2, "distance", "small", "middle", -90))
    for number, (earlier, later, value) in enumerate(zip(tokens, tokens[1:], values, strict=False), 1):
        bar_height = max(1.5, HEIGHT * (value - low) / span)
        x = left + 4 + number * COLUMN - BAR / 2
        tooltip = f"{earlier} | {later}: {value:.3f}"
        role = PLACES[place_of(earlier, later, space)][0]
        parts.append(svg.rectangle(x, bottom - bar_height, BAR, bar_height, role, tooltip))
    for number, token in enumerate(tokens):
        x = left + 4 + (number + 0.5) * COLUMN
        parts.append(svg.text(x, bottom + 18, SPACE if token == space else token, "word", "middle"))
    width = left + 4 + len(tokens) * COLUMN + MARGIN
    description = ", ".join(f"{token} {value:.2f}" for token, value in zip(tokens[1:], values, strict=True))
    return Picture(width, bottom + 26, tuple(parts), f"Distances: {''.join(tokens)}", description)


def legend() -> Picture:
    """The colours of the bars."""
    parts: list[str] = []
    x = MARGIN + AXIS
    for role, name in PLACES.values():
        parts.append(svg.rectangle(x, 4, 12, 12, role))
        parts.append(svg.text(x + 18, 14, name, "note"))
        x += 18 + text_width(name, TEXT_SIZES["note"]) + 22
    return Picture(x, 22, tuple(parts), "Colours of the bars")


def gates_picture(model: ModelBundle, tokens: Sequence[str], space: str) -> Picture:
    """The memory gates of one sentence: a row for each character, a column for each earlier one."""
    slots = maps_of(model, tokens).over_steps["memory gate"]
    gates = over_earlier_steps(slots)[1:, 1:-1]
    names = [SPACE if token == space else token for token in tokens]
    title = f"Memory gates: which of the last {slots.shape[1]} characters can be read"
    return heat_map(gates[1:], names[1:], names[:-1], title, "the character being read", "an earlier one", compact=True)


def picture(model: ModelBundle, sentences: Sequence[str]) -> Picture:
    """The figure. Raises InputError for a model that does not read characters and spaces, or has no gates."""
    space = model.normaliser.space
    if model.normaliser.units != "characters" or not space:
        raise InputError("the model does not read characters with white space; expected a character-level PRPN")
    parts = [legend()]
    tokenised = [model.normaliser.tokens(sentence) for sentence in sentences]
    for tokens in tokenised:
        structure = structure_of(model, [list(tokens)], labels=False)
        if not structure.layers:
            raise InputError("the model gives no distances; expected a character-level PRPN")
        parts.append(distances_picture(tokens, structure.word_values(layer=1)["distances"], space))
    parts.append(gates_picture(model, tokenised[0], space))
    return svg.stacked(parts, "Distances between characters, and memory gates, of a PRPN", gap=14)


def main() -> tuple[Picture, argparse.Namespace]:
    parser = shared.options(__doc__)
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("sentences", nargs="+", metavar="SENTENCE")
    chosen = parser.parse_args()
    return picture(load(chosen.model), chosen.sentences), chosen


if __name__ == "__main__":
    shared.run(main)
