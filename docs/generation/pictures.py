"""The pictures of README: `python -m docs.generation.pictures` writes them into docs/images.

seeds.svg: F1 of every seed on the WSJ sample, from the stored results. one-sentence.svg: a sentence as the web app of
`syntaxlm serve` draws it.
"""

from __future__ import annotations

from pathlib import Path

from docs.generation.stored_results import baselines, of_baseline, percent, run, trees
from syntaxlm.api.model import load
from syntaxlm.app.serve.pictures import sentence_picture
from syntaxlm.drawing import svg
from syntaxlm.drawing.layout import MARGIN
from syntaxlm.drawing.svg import Picture

IMAGES = Path(__file__).parents[1] / "images"
SENTENCE = "The keys to the cabinet are on the table."

WIDTH, ROW, HEAD, LABELS = 560.0, 28.0, 34.0, 170.0  # pixels: plot area, a row, names of the lines, names of the rows
LARGEST = 90.0  # percent at the right end
_ROWS = [  # model, recipe, decoder
    ("SN-PCFG, mbr", "simple-pcfg-ptb", "mbr"),
    ("ON-LSTM, biased", "on-lstm-ptb-words-small", "biased"),
    ("ON-LSTM, unbiased", "on-lstm-ptb-words-small", "unbiased"),
    ("PRPN, biased", "prpn-ptb-parsing", "biased"),
    ("PRPN, unbiased", "prpn-ptb-parsing", "unbiased"),
]


def one_sentence() -> Picture:
    nlp = load("en")
    picture = sentence_picture(nlp.parse(SENTENCE), nlp.surprisal(SENTENCE))
    assert picture is not None
    return picture


def seeds() -> Picture:
    """A row of dots for each model and decoder, one dot per seed, its mean as a line; baselines as dashed lines."""
    foot = HEAD + ROW * len(_ROWS)
    parts = [svg.line(across(value), foot, across(value), foot + 4, "axis") for value in range(0, 100, 10)]
    parts += [svg.text(across(value), foot + 16, str(value), "small", "middle") for value in range(0, 100, 10)]
    parts.append(svg.line(across(0), foot, across(LARGEST), foot, "axis"))
    for name, value in levels().items():
        parts.append(svg.line(across(value), HEAD - 6, across(value), foot, "level"))
        parts.append(svg.text(across(value), HEAD - 12, f"{name} {value:.1f}", "note", "middle"))
    for place, (name, recipe, decoder) in enumerate(_ROWS):
        y = HEAD + ROW * (place + 0.5)
        f1 = trees(recipe, "WSJ sample", decoder).f1
        mean = across(100 * f1.mean)
        parts.append(svg.text(LABELS - 10, y + 4, name, "label", "end"))
        parts.append(svg.line(mean, y - 9, mean, y + 9, "axis"))
        for number, value in enumerate(f1.values, 1):
            tooltip = f"{name}, seed {number}: {percent(value)}"
            parts.append(svg.circle(across(100 * value), y, 4.5, "area-0", tooltip, 0.75))
    label = "unlabelled F1, WSJ sample, all lengths, wsj-test; one dot per seed, mean as a line"
    parts.append(svg.text(across(LARGEST / 2), foot + 36, label, "note", "middle"))
    shown = "; ".join(f"{name} {percent(trees(recipe, 'WSJ sample', decoder).f1)}" for name, recipe, decoder in _ROWS)
    title = "F1 of the seeds of SN-PCFG, ON-LSTM and PRPN"
    return Picture(across(LARGEST) + 2 * MARGIN, foot + 36 + MARGIN, tuple(parts), title, shown)


def levels() -> dict[str, float]:
    """Baselines and upper bound on the WSJ sample, in percent."""
    stored = baselines("wsj-all")
    bound = run("simple-pcfg-ptb", "wsj").first["baselines"]["binary_bound"]
    right = trees("simple-pcfg-ptb", "WSJ sample", "mbr").right_branching
    values = {"random": of_baseline(stored, "random").mean, "right branching": right, "upper bound": bound}
    return {name: 100 * value for name, value in values.items()}


def across(value: float) -> float:
    """x of a percentage."""
    return LABELS + WIDTH * value / LARGEST


PICTURES = {"seeds.svg": seeds, "one-sentence.svg": one_sentence}


def main() -> None:
    for name, draw in PICTURES.items():
        (IMAGES / name).write_text(draw().svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
