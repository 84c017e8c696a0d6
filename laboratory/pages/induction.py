"""Pictures of the page that explains grammar induction: `python -m laboratory.pages.induction` writes them.

Bundled models make the pictures of single sentences; stored results make those of scores. induction-distances.svg needs
a trained PRPN, so `syntaxlm draw` writes it; the page has its command.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from laboratory.pages.pictures import IMAGES, levels
from laboratory.pages.stored_results import baselines, of_baseline, parsed, untrained
from syntaxlm.api.model import LanguageModel, load
from syntaxlm.drawing import svg
from syntaxlm.drawing.layout import headed
from syntaxlm.drawing.plots import FAINT, INK, Plot, draw_bars, label_axes, line_style, new_plot
from syntaxlm.drawing.seed_plot import Seeds, plot_seeds
from syntaxlm.drawing.sentence import Drawing
from syntaxlm.drawing.svg import Picture
from syntaxlm.drawing.tree import SpanNote, tree_picture
from syntaxlm.parsing.analysis import analyse

if TYPE_CHECKING:
    from matplotlib.axes import Axes

AMBIGUOUS = "She fed her dog meat."
GIVING = ("The", "old", "woman", "gave", "the", "children", "a", "letter")
PRO_FORMS = ("she", "it", "them", "one", "did")
NOUN_PHRASES = {(0, 3), (4, 6)}  # of GIVING, [start, end)
LABELS = {
    "NP": "noun phrase\n(NP)",
    "VP": "verb phrase\n(VP)",
    "PP": "prepositional\nphrase (PP)",
    "S": "clause\n(S)",
    "SBAR": "subordinate\nclause (SBAR)",
}


def readings() -> Picture:
    """The two best trees of an ambiguous sentence side by side, each with its probability."""
    best = load("en").parse(AMBIGUOUS, best=2).alternatives
    names = ("her dog got meat", "another woman got dog meat")
    spans = [{(start, end) for _, start, end in parse.tree.constituents} for parse in best]
    pictures = []
    for name, parse, spans_of_tree in zip(names, best, spans, strict=True):
        notes = dict.fromkeys(spans_of_tree - (spans[0] & spans[1]), SpanNote("in this tree only", 1.0))
        heading = f"{name}: probability {parse.probability:.2f}"
        pictures.append(headed(tree_picture(parse.tree, span_notes=notes), heading, mirrored=False))
    return svg.beside(pictures, f"Two trees: {AMBIGUOUS}")


@dataclass(frozen=True)
class Substitution:
    """A group of words that was replaced by the pro-form that makes the sentence most probable.

    Attributes:
        span: the group, [start, end).
        pro_form: the word that replaces it.
        cost: how many bits more the words after it need than in the original sentence.
    """

    span: tuple[int, int]
    pro_form: str
    cost: float


def substitutions(nlp: LanguageModel, words: Sequence[str]) -> Iterator[Substitution]:
    """Yield every group of two or three words that does not end the sentence, replaced by a pro-form."""
    original = _bits(nlp, words)
    for size in (2, 3):
        for start in range(len(words) - size):
            end = start + size
            bits = {}
            for pro_form in PRO_FORMS:
                first = pro_form if start else pro_form.capitalize()
                bits[pro_form] = _bits(nlp, [*words[:start], first, *words[end:]])
            best = min(bits, key=lambda pro_form: sum(bits[pro_form]))
            yield Substitution((start, end), best, sum(bits[best][start + 1 :]) - sum(original[end:]))


def _bits(nlp: LanguageModel, words: Sequence[str]) -> list[float]:
    """Return the surprisal of each word, the last one with the full stop, and of the end of the sentence."""
    return [row.surprisal or 0.0 for row in nlp.surprisal(f"{' '.join(words)}.")]


def substitution() -> Plot:
    """How much less probable the rest of a sentence becomes if a group of its words is replaced by one word."""
    by_cost = sorted(substitutions(load("en"), GIVING), key=lambda replaced: replaced.cost)
    plot = new_plot("Replacing words by a pro-form", size=(7.6, 4.0))
    panel = plot.axes[0]
    for place, replaced in enumerate(by_cost):
        is_phrase = replaced.span in NOUN_PHRASES
        colour = line_style(2 if is_phrase else 0)["color"]
        panel.barh(place, replaced.cost, 0.7, color=colour, alpha=1.0 if is_phrase else 0.55)
        _write_beside(panel, place, replaced.cost)

    names = [f"{' '.join(GIVING[slice(*replaced.span)])} → {replaced.pro_form}" for replaced in by_cost]
    panel.set_yticks(range(len(by_cost)), names, color=INK)
    panel.tick_params(axis="y", length=0)
    panel.invert_yaxis()
    panel.grid(visible=False)
    panel.axvline(0, color=FAINT, linewidth=1)
    panel.margins(x=0.08)  # for the values
    label_axes(panel, "extra surprisal of the words that follow, in bits", title=f"{' '.join(GIVING)}.")
    plot.add_note("Green: noun phrases. Surprisals: the LSTM of en, which was trained without trees.")
    return plot


def _write_beside(panel: Axes, place: int, value: float) -> None:
    """Write a value at the end of its horizontal bar."""
    is_right = value >= 0
    panel.annotate(
        f"{value:.1f}".replace("-", "\N{MINUS SIGN}"),
        (value, place),
        (3 if is_right else -3, 0),
        textcoords="offset points",
        ha="left" if is_right else "right",
        va="center",
        fontsize=9,
        color=FAINT,
    )


def chart() -> Picture:
    """The tree of an ambiguous sentence above the probability of each of its spans."""
    words = AMBIGUOUS.removesuffix(".")  # the grammar reads no punctuation
    return Drawing(analyse(load("en-fast"), words)).picture()


def scores() -> Plot:
    """F1 of baselines, of models by seed, and of the best binary trees."""
    stored = baselines("wsj")
    baseline, model = 6, 0
    rows = [
        ("left branching", [of_baseline(stored, "left").mean], baseline),
        ("random trees", [of_baseline(stored, "random").mean], baseline),
        ("ON-LSTM before training", [untrained("on-lstm-ptb-words-small", "biased").mean], baseline),
        ("right branching", [of_baseline(stored, "right").mean], baseline),
        ("ON-LSTM, unbiased decoder", parsed("on-lstm-ptb-words-small", "wsj").f1_by("unbiased").values, model),
        ("ON-LSTM, biased decoder", parsed("on-lstm-ptb-words-small", "wsj").f1_by("biased").values, model),
        ("SN-PCFG with end bias", parsed("simple-pcfg-ptb", "wsj").f1.values, model),
        ("en, the bundled model", parsed("shipped", "wsj", "en").f1.values, model),
        ("best possible binary trees", [of_baseline(stored, "binary_bound").mean], baseline),
    ]
    plot = plot_seeds(
        "F1 of baselines and models",
        [
            Seeds(f"{name} {100 * fmean(values):.1f}", [100 * value for value in values], place=place)
            for name, values, place in rows
        ],
        {f"{name} {value:.1f}": value for name, value in levels().items() if name != "random"},
        "unlabelled F1, WSJ sample, all lengths, wsj-test; one dot per seed, mean as a line",
    )
    plot.axes[0].set_xlim(0, 100)
    return plot


def same_f1() -> Mapping[str, Sequence[int]]:
    """Recall by label, in whole percent, of two models of nearly the same F1, by their names with F1."""
    compared = {
        "ON-LSTM, seed 1": parsed("on-lstm-ptb-words-small", "wsj").reports[1],
        "SN-PCFG, seed 5": parsed("simple-pcfg-ptb", "wsj").reports[5],
    }
    recalls = {}
    for name, report in compared.items():
        shares = [report["recall_by_label"][label][0] for label in LABELS]
        recalls[f"{name}, F1 {100 * report['f1']:.1f}"] = [round(100 * share) for share in shares]
    return recalls


def recall() -> Plot:
    """Recall of the constituents of each label, of two models with the same F1."""
    plot = new_plot("Recall by label", size=(7.6, 3.4))
    plot.add_legend(draw_bars(plot.axes[0], list(LABELS), same_f1()))
    plot.axes[0].set_xticks(range(len(LABELS)), list(LABELS.values()), color=INK)
    label_axes(plot.axes[0], y_label="recall, %")
    return plot


PICTURES = {
    "induction-readings.svg": readings,
    "induction-substitution.svg": substitution,
    "induction-chart.svg": chart,
    "induction-scores.svg": scores,
    "induction-recall.svg": recall,
}


def main() -> None:
    for name, draw in PICTURES.items():
        (IMAGES / name).write_text(draw().svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
