"""Pictures of README and the pages: `python -m laboratory.pages.pictures` writes them into docs/images.

seeds.svg: F1 of every seed on the WSJ sample. trees-as-signal.svg: perplexity with trees in training. Both are
drawn from the stored results. one-sentence.svg: a sentence as the web app of `syntaxlm serve` draws it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

from laboratory.pages import signal
from laboratory.pages.stored_results import baselines, of_baseline, parsed, trees
from syntaxlm.api.model import load
from syntaxlm.drawing import svg
from syntaxlm.drawing.layout import MARGIN
from syntaxlm.drawing.svg import Picture
from syntaxlm.serve.pictures import sentence_picture

IMAGES = Path(__file__).parents[2] / "docs" / "images"
SENTENCE = "The keys to the cabinet are on the table."

WIDTH, ROW, HEAD, LABELS = 560.0, 28.0, 34.0, 190.0  # pixels: plot area, a row, names of the lines, names of the rows
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


@dataclass(frozen=True)
class DotPlot:
    """A row of dots for each name, one dot per seed, their mean as a line.

    rows: name, values and role of the dots.  axis: the labelled values, at equal distances.
    levels: dashed lines, by name.  label: of the axis.
    """

    title: str
    rows: Sequence[tuple[str, Sequence[float], str]]
    axis: range
    levels: Mapping[str, float]
    label: str
    unit: str = ""

    def across(self, value: float) -> float:
        """x of a value."""
        return LABELS + WIDTH * (value - self.axis[0]) / (self.axis[-1] - self.axis[0])

    def picture(self) -> Picture:
        foot = HEAD + ROW * len(self.rows)
        start, end = self.across(self.axis[0]), self.across(self.axis[-1])
        parts = [svg.line(start, foot, end, foot, "axis")]
        for value in self.axis:
            parts.append(svg.line(self.across(value), foot, self.across(value), foot + 4, "axis"))
            parts.append(svg.text(self.across(value), foot + 16, f"{value}{self.unit}", "small", "middle"))
        for name, value in self.levels.items():
            parts.append(svg.line(self.across(value), HEAD - 6, self.across(value), foot, "level"))
            parts.append(svg.text(self.across(value), HEAD - 12, name, "note", "middle"))
        for place, (name, values, role) in enumerate(self.rows):
            y, mean = HEAD + ROW * (place + 0.5), self.across(fmean(values))
            parts.append(svg.text(LABELS - 10, y + 4, name, "label", "end"))
            parts.append(svg.line(mean, y - 9, mean, y + 9, "axis"))
            for number, value in enumerate(values, 1):
                tooltip = f"{name}, seed {number}: {value:.1f}{self.unit}"
                parts.append(svg.circle(self.across(value), y, 4.5, role, tooltip, 0.75))
        parts.append(svg.text((start + end) / 2, foot + 36, self.label, "note", "middle"))
        shown = "; ".join(f"{name} {fmean(values):.1f} ± {stdev(values):.1f}" for name, values, _ in self.rows)
        return Picture(end + 2 * MARGIN, foot + 36 + MARGIN, tuple(parts), self.title, shown)


def seeds() -> Picture:
    rows = [
        (name, [100 * value for value in trees(recipe, "WSJ sample", decoder).f1.values], "area-0")
        for name, recipe, decoder in _ROWS
    ]
    return DotPlot(
        "F1 of the seeds of SN-PCFG, ON-LSTM and PRPN",
        rows,
        range(0, 100, 10),
        {f"{name} {value:.1f}": value for name, value in levels().items()},
        "unlabelled F1, WSJ sample, all lengths, wsj-test; one dot per seed, mean as a line",
    ).picture()


def trees_as_signal() -> Picture:
    """The change of test perplexity by trees in training, for each model and each kind of trees."""
    rows = []
    for model, of_model in signal.compared().items():
        without = signal.perplexities(of_model["none"])
        for place, (kind, title) in enumerate(signal.TREES.items()):
            if kind != "none" and kind in of_model:
                pairs = zip(signal.perplexities(of_model[kind]), without, strict=True)
                changes = [100 * (own / other - 1) for own, other in pairs]
                rows.append((f"{signal.MODELS[model]}, {title}", changes, f"area-{place - 1}"))
    return DotPlot(
        "Test perplexity with trees in training, against the same model without",
        rows,
        range(-10, 51, 10),
        {"no trees": 0},
        "change of test perplexity, a tenth of PTB; one dot per seed, mean as a line",
        unit="%",
    ).picture()


def levels() -> dict[str, float]:
    """Baselines and upper bound on the WSJ sample, in percent."""
    stored = baselines("wsj")
    bound = parsed("simple-pcfg-ptb", "wsj").first["baselines"]["binary_bound"]
    right = trees("simple-pcfg-ptb", "WSJ sample", "mbr").right_branching
    values = {"random": of_baseline(stored, "random").mean, "right branching": right, "upper bound": bound}
    return {name: 100 * value for name, value in values.items()}


PICTURES = {"seeds.svg": seeds, "trees-as-signal.svg": trees_as_signal, "one-sentence.svg": one_sentence}


def main() -> None:
    for name, draw in PICTURES.items():
        (IMAGES / name).write_text(draw().svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
