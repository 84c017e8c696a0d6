"""PaLM: left and right splits of untrained models by seed, and of trained ones.

    python -m laboratory.figures.palm_splits --untrained NAME=RECIPE --text TEXT --treebank WSJ -o splits.svg
    python -m laboratory.figures.palm_splits NAME=MODEL [NAME=MODEL ...] --treebank WSJ -o splits.svg
    python -m laboratory.figures.palm_splits -o docs/images/palm-splits.svg

Each point is the trees of one model: the percentage of splits that separate the last word from the rest (left) or the
first (right). Untrained models have the settings of a recipe, the vocabulary of a text, and initial weights. Trees are
decoded by the published greedy algorithm. The published points are from Peng, Schwartz and Smith 2019. --store FILE
also writes the points as JSON, for `laboratory.results add palm-splits`. Without models, the stored points are drawn.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from statistics import fmean, stdev

import torch

from laboratory.figures import shared
from laboratory.results.store import stored_runs, with_head
from syntaxlm.api.model import load
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import to_json, write_text
from syntaxlm.core.progress import progress_bar
from syntaxlm.data.treebanks import read_treebank, treebank_tokens
from syntaxlm.drawing.plots import FAINT, Plot, Point, draw_points, label_axes, new_plot
from syntaxlm.evaluation.trees import gold_trees, protocol_named, with_fresh_weights
from syntaxlm.models.abilities import ParsesSentences
from syntaxlm.parsing.structure import structure_of
from syntaxlm.storage.folder import ModelBundle, ModelSettings
from syntaxlm.training.language_model import TextTask
from syntaxlm.training.recipe import TextRecipe, read_recipe
from syntaxlm.trees.decoding import SpanRule
from syntaxlm.trees.f1 import score
from syntaxlm.trees.spans import SpanSets

RULE: SpanRule = "greedy-right"
UNIFORM = "untrained-uniform"  # the run whose untrained models have uniform weights
PUBLISHED_SPREAD = "untrained, published: left 39.3 ± 10.5%, right 41.2 ± 8.8%"
PUBLISHED = {"untrained, published mean": (39.3, 41.2), "trained, published": (1.1, 85.6)}


def splits(predicted: SpanSets, gold: SpanSets, protocol: str) -> Point:
    """Percentages of left and of right splits, of the sentences that a protocol scores."""
    shape = score(predicted, gold, protocol_named(protocol)).predicted_shape
    if shape is None:
        raise InputError(f"no sentence has three or more words under the protocol {protocol}")
    return shape.left, shape.right


def untrained(recipe: str, text: str, initial_weights: str = "orthogonal") -> ModelBundle:
    """Return a model with the settings of a recipe and the vocabulary of a text, before training."""
    texts = {"text.train": text, "text.valid": text, "text.test": None}
    settings = read_recipe(recipe, texts | {"model.initial_weights": initial_weights})
    assert isinstance(settings, TextRecipe)
    task = TextTask(settings, torch.device("cpu"))
    mode = settings.mode
    stored = ModelSettings(settings.model, settings.text.normaliser, mode.carry_state, mode.predict_eos)
    return ModelBundle(task.model, stored, task.vocabulary)


def points(
    trained: Sequence[tuple[str, ModelBundle]],
    fresh: Sequence[tuple[str, ModelBundle]],
    treebank: str,
    seeds: int,
    protocol: str,
) -> dict[str, list[Point]]:
    """Return (left, right) by series: untrained models, trained models by name, the gold trees.

    Args:
        trained: models by name; seeds may share a name.
        fresh: models by name, of which only settings and vocabulary are used.
        treebank: gold trees.
        seeds: number of untrained models of each name.
        protocol: protocol whose sentences are counted.

    Raises:
        InputError: for a model that the published algorithm cannot decode.
    """
    for name, model in (*trained, *fresh):
        if not isinstance(model.model, ParsesSentences) or RULE not in model.model.decoders:
            raise InputError(f"{name}: found a model of type {model.settings.model.name}; expected a PaLM")
    sentences = read_treebank(treebank, "ptb-keep")
    gold = SpanSets.of(gold_trees(sentences))

    def point_of(model: ModelBundle) -> Point:
        tokens = treebank_tokens(sentences, model.normaliser)
        return splits(structure_of(model, tokens, labels=False).decode(RULE), gold, protocol)

    series: dict[str, list[Point]] = {}
    for name, model in fresh:
        by_seed = (with_fresh_weights(model, seed) for seed in range(seeds))
        series[f"{name}, {seeds} seeds"] = list(map(point_of, progress_bar(by_seed, name, seeds)))
    for name, model in trained:
        series.setdefault(name, []).append(point_of(model))
    return series | {"gold trees": [splits(gold, gold, protocol)]}


def stored_points() -> dict[str, list[Point]]:
    """(left, right) by series, as stored, without the models of uniform weights, which the paper does not have."""
    runs = sorted((run for run in stored_runs("palm-splits") if run.run != UNIFORM), key=lambda run: run.run)
    series = dict(chain.from_iterable(run.report["series"].items() for run in runs))
    return {name: [(left, right) for left, right in shares] for name, shares in series.items()}


def picture(series: Mapping[str, Sequence[Point]]) -> Plot:
    """The figure. series: (left, right) by name."""
    published = {name: [point] for name, point in PUBLISHED.items()}
    plot = new_plot("Splits of untrained and trained models", size=(7.6, 6.0))
    panel = plot.axes[0]
    handles = draw_points(panel, {**series, **published})
    panel.plot([0, 100], [100, 0], color=FAINT, linestyle="--", linewidth=1, zorder=1)
    label_axes(panel, "left splits, %", "right splits, %", plot.title)
    plot.add_legend(handles)
    notes = ["Dashed line: every split is left or right.", *(_spread(name, shares) for name, shares in series.items())]
    plot.add_note(*filter(None, notes), PUBLISHED_SPREAD)
    return plot


def _spread(name: str, shares: Sequence[Point]) -> str:
    """Means and standard deviations of several points as text; "" for one point."""
    if len(shares) < 2:
        return ""
    left, right = (f"{fmean(values):.1f} ± {stdev(values):.1f}%" for values in zip(*shares, strict=True))
    mostly_left = sum(left > right for left, right in shares)
    return f"{name}: left {left}, right {right}; more left than right: {mostly_left} of {len(shares)}"


def main() -> tuple[Plot, argparse.Namespace]:
    parser = shared.options(__doc__)
    parser.add_argument("models", nargs="*", metavar="NAME=MODEL", help="trained models; seeds may share a name")
    parser.add_argument("--untrained", nargs="+", default=[], metavar="NAME=RECIPE", help="models without training")
    parser.add_argument("--text", metavar="FILE", help="text whose words the untrained models know")
    parser.add_argument("--treebank", metavar="TREEBANK")
    parser.add_argument("--initial-weights", default="orthogonal", metavar="KIND", help="of untrained models")
    parser.add_argument("--seeds", type=int, default=25, metavar="N", help="number of untrained models; default 25")
    parser.add_argument("--protocol", default="wsj40", metavar="NAME", help="default wsj40")
    parser.add_argument("--store", type=Path, metavar="FILE", help="write the points as JSON")
    chosen = parser.parse_args()
    if not chosen.models and not chosen.untrained:
        return picture(stored_points()), chosen
    if chosen.treebank is None or (chosen.untrained and chosen.text is None):
        raise InputError("expected --treebank with the models, and --text with untrained ones")
    trained = [(name, load(path)) for name, path in shared.named(chosen.models)]
    weights = chosen.initial_weights
    fresh = [(name, untrained(recipe, chosen.text, weights)) for name, recipe in shared.named(chosen.untrained)]
    series = points(trained, fresh, chosen.treebank, chosen.seeds, chosen.protocol)
    if chosen.store is not None:
        facts = {
            "schema_version": 1, "treebank": chosen.treebank, "protocol": chosen.protocol, "decoder": RULE,
            "parameters": (trained or fresh)[0][1].model.parameter_count,
        }  # fmt: skip
        write_text(to_json(with_head(facts | {"series": series}), indent=2) + "\n", chosen.store)
    return picture(series), chosen


if __name__ == "__main__":
    shared.run(main)
