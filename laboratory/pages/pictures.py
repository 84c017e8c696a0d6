"""Pictures of README and the pages: `python -m laboratory.pages.pictures` writes them into docs/images.

models.svg: F1 against test perplexity. seeds.svg: F1 of every seed on the WSJ sample. trees-as-signal.svg: perplexity
with trees in training. All three are drawn from the stored results. one-sentence.svg: a sentence as the web app of
`syntaxlm serve` draws it. beliefs.svg and beliefs-while.svg: garden paths, as `syntaxlm draw en --beliefs` draws
them. garden-paths.svg, garden-paths-verb.svg, garden-paths-contrasts.svg and surprisal-bars.svg: the plots of
docs/guides/figures.md. attraction.svg: that of docs/tutorials/attraction.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from laboratory.pages import signal
from laboratory.pages.models_plot import models_plot
from laboratory.pages.stored_results import all_parsed, baselines, of_baseline, parsed, trees
from syntaxlm.api.model import load
from syntaxlm.drawing.beliefs import beliefs_picture
from syntaxlm.drawing.plot import Plot
from syntaxlm.drawing.seed_plot import Seeds, plot_seeds
from syntaxlm.drawing.svg import Picture
from syntaxlm.evaluation.item_plot import PictureKind
from syntaxlm.evaluation.items import evaluate_items
from syntaxlm.parsing.analysis import beliefs_of
from syntaxlm.parsing.options import ParseOptions
from syntaxlm.serve.pictures import sentence_picture

DOCS = Path(__file__).parents[2] / "docs"
IMAGES = DOCS / "images"
EXAMPLES = DOCS / "examples"
SENTENCE = "The keys to the cabinet are on the table."
GARDEN_PATH = "The woman saw the man and the child saw the dog."
WORDS = "While the girl read the letter slipped from her hands."
SECOND_GARDEN_PATH = "While the man hunted the deer ran into the woods."

_ROWS = [  # model, experiment, run, decoder
    ("SN-PCFG, mbr", "simple-pcfg-ptb", "", "mbr"),
    ("ON-LSTM, biased", "on-lstm-ptb-words-small", "", "biased"),
    ("ON-LSTM, unbiased", "on-lstm-ptb-words-small", "", "unbiased"),
    ("PRPN, resolution 0.1, biased", "prpn-ptb-parsing", "resolution-0.1", "biased"),
    ("PRPN, resolution 0.1, unbiased", "prpn-ptb-parsing", "resolution-0.1", "unbiased"),
    ("PRPN, resolution 0.5, biased", "prpn-ptb-parsing", "resolution-0.5", "biased"),
    ("PRPN, resolution 0.5, unbiased", "prpn-ptb-parsing", "resolution-0.5", "unbiased"),
]


def one_sentence() -> Picture:
    nlp = load("en")
    picture = sentence_picture(nlp.parse(SENTENCE), nlp.surprisal(SENTENCE))
    assert picture is not None
    return picture


def beliefs(sentence: str) -> Picture:
    return beliefs_picture(beliefs_of(load("en"), "en", sentence, ParseOptions()))


def garden_paths(kind: PictureKind = "points", regions: Sequence[str] = (), also: Sequence[str] = ()) -> Plot:
    """The stimuli of the tutorial."""
    models = {name: load(name) for name in ("en", *also)}
    columns = ["clause", "noun", "main_verb", "rest"]
    report = evaluate_items(
        models, EXAMPLES / "garden-paths.csv", condition=["verb_type", "comma"], regions=columns, critical="main_verb"
    )
    return report.plot(kind=kind, regions=regions)


def attraction() -> Plot:
    regions = ["subject", "modifier", "verb", "rest"]
    table = EXAMPLES / "attraction.csv"
    return evaluate_items(load("en"), table, condition=["head", "attractor"], regions=regions).plot()


def seeds() -> Plot:
    rows = [
        Seeds(name, [100 * value for value in trees(experiment, "WSJ sample", decoder, run).f1.values])
        for name, experiment, run, decoder in _ROWS
        if all_parsed(experiment, "wsj", run=run)
    ]
    return plot_seeds(
        "F1 of the seeds of SN-PCFG, ON-LSTM and PRPN",
        rows,
        {f"{name} {value:.1f}": value for name, value in levels().items()},
        "unlabelled F1, WSJ sample, all lengths, wsj-test; one dot per seed, mean as a line",
    )


def trees_as_signal() -> Plot:
    """The change of test perplexity by trees in training, for each model and each kind of trees."""
    rows = []
    for model, by_trees in signal.compared().items():
        without = signal.perplexities(by_trees["none"])
        for place, (kind, title) in enumerate(signal.TREES.items()):
            if kind != "none" and kind in by_trees:
                with_trees = signal.perplexities(by_trees[kind])
                changes = [100 * (perplexity / without[seed] - 1) for seed, perplexity in with_trees.items()]
                rows.append(Seeds(f"{signal.MODELS[model]}, {title}", changes, place=place - 1))
    plot = plot_seeds(
        "Test perplexity with trees in training, against the same model without",
        rows,
        {"no trees": 0},
        "change of test perplexity, a tenth of PTB; one dot per seed, mean as a line",
    )
    plot.axes[0].xaxis.set_major_formatter("{x:.0f}%")
    return plot


def levels() -> dict[str, float]:
    """Baselines and upper bound on the WSJ sample, in percent."""
    stored = baselines("wsj")
    bound = parsed("simple-pcfg-ptb", "wsj").first["baselines"]["binary_bound"]
    right = trees("simple-pcfg-ptb", "WSJ sample", "mbr").right_branching
    values = {"random": of_baseline(stored, "random").mean, "right branching": right, "upper bound": bound}
    return {name: 100 * value for name, value in values.items()}


PICTURES: Mapping[str, Callable[[], Picture | Plot]] = {
    "models.svg": lambda: models_plot(levels()),
    "seeds.svg": seeds,
    "trees-as-signal.svg": trees_as_signal,
    "one-sentence.svg": one_sentence,
    "beliefs.svg": partial(beliefs, GARDEN_PATH),
    "beliefs-while.svg": partial(beliefs, SECOND_GARDEN_PATH),
    "garden-paths.svg": garden_paths,
    "garden-paths-verb.svg": partial(garden_paths, regions=["main_verb"]),
    "garden-paths-contrasts.svg": partial(garden_paths, "contrasts", ["main_verb"], ["en-fast"]),
    "attraction.svg": attraction,
    "surprisal-bars.svg": lambda: load("en").surprisal(WORDS).plot(),
}


def main() -> None:
    for name, draw in PICTURES.items():
        (IMAGES / name).write_text(draw().svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
