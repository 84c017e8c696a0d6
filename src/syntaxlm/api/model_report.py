"""A report on a model: one HTML page of its settings, training, perplexity and trees.

The page is a single file without scripts and needs no network. It states which parts are missing and why.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import make_folder
from syntaxlm.data.treebanks import Preprocessing
from syntaxlm.drawing.plots import Plot, bars_size, draw_bars, has_matplotlib, label_axes, new_plot
from syntaxlm.drawing.sentence import Drawing
from syntaxlm.evaluation.perplexity import LanguageModelScore
from syntaxlm.evaluation.tree_report import ParsingReport, ScoredSentence
from syntaxlm.evaluation.trees import WITH_MARKS, evaluate_parsing
from syntaxlm.models.abilities import ParsesSentences
from syntaxlm.parsing.analysis import analyse
from syntaxlm.parsing.options import Decoder, DecodingOptions, ParseOptions
from syntaxlm.reports.page import (
    Block,
    HtmlTable,
    KeyFigure,
    Page,
    PageFigure,
    Paragraph,
    Section,
    Theme,
    WrittenReport,
)
from syntaxlm.reports.tables import PERCENT, RIGHT, ReportTable, format_value
from syntaxlm.storage.folder import CONFIG, ModelBundle, read_model, structure_name
from syntaxlm.training.learning_curves import loss_unit, plot_learning_curves, read_metrics
from syntaxlm.training.recipe import PairRecipe, Recipe
from syntaxlm.training.result import RESULT, TrainingResult, read_result
from syntaxlm.training.run import METRICS, RECIPE, read_run_recipe
from syntaxlm.trees.bounds import right
from syntaxlm.trees.f1 import PROTOCOLS, Protocol, score
from syntaxlm.trees.spans import trees_of

PAGE = "report.html"
DRAWN = 3  # number of best and of worst sentences drawn
DRAWN_WORDS = range(6, 26)  # their lengths: long enough to have structure, short enough to read
LABELS, CHARTED_LABELS = 30, 10  # number of gold labels in the table and in the chart, most frequent first


@dataclass(frozen=True)
class StoredRun:
    """A training run in a model folder; None for a missing file.

    Attributes:
        metrics: the lines of metrics.jsonl.
    """

    folder: Path
    recipe: Recipe | None
    metrics: list[dict[str, Any]] | None
    result: TrainingResult | None


def read_run(folder: Path) -> StoredRun:
    """Read the files that exist. Raises InputError for a damaged file, but not for a missing one.

    Also raises it for the run of a pair classifier, whose files differ.
    """
    recipe = read_run_recipe(folder) if os.path.lexists(folder / RECIPE) else None
    if isinstance(recipe, PairRecipe):
        raise InputError(
            f"{folder}: found the run of a classifier of sentence pairs; expected the run of a language model or"
            " parser. For its accuracy, use evaluate classifier"
        )
    return StoredRun(
        folder,
        recipe,
        read_metrics(folder / METRICS) if (folder / METRICS).exists() else None,
        read_result(folder) if (folder / RESULT).exists() else None,
    )


def how_read(score: LanguageModelScore) -> str:
    """Return how the text was read for a score."""
    return "words given their trees" if score.given_trees else str(score.mode)


def settings_section(bundle: ModelBundle, run: StoredRun) -> Section:
    """Return all settings of the recipe; without a recipe, those of the model and normaliser."""
    facts = {
        "model type": bundle.settings.model.name,
        "parameters": f"{bundle.model.parameter_count:,}",
        "vocabulary": f"{len(bundle.vocabulary):,} tokens",
        "trained on": bundle.trained_on,
        "structure": structure_name(bundle.model),
    }
    if run.recipe is not None:
        settings = run.recipe.to_dict()
        first = Paragraph(f"All settings of {RECIPE}, by section.")
    else:
        normaliser = dataclasses.asdict(bundle.settings.normaliser)
        settings = {"model": dataclasses.asdict(bundle.settings.model), "text": {"normaliser": normaliser}}
        first = Paragraph(
            f"The folder has no {RECIPE}, so training text, optimiser and schedule are unknown. The settings shown are"
            f" from {CONFIG}.",
            missing=True,
        )
    tables = [_settings_table(name, values) for name, values in _flattened(settings)]
    return Section("Settings", (first, _settings_table("summary", facts), *tables), columns=True)


def _flattened(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield nested settings as flat ones, each section under its dotted name: text.normaliser, model.parsers 1."""
    for name, values in settings.items():
        if isinstance(values, dict):
            values = _numbered(values)
            plain = {key: value for key, value in values.items() if not isinstance(value, dict)}
            if plain:
                yield prefix + name, plain
            yield from _flattened(values, f"{prefix}{name}.")


def _numbered(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with an entry for each of several parsers: parsers 1, parsers 2."""
    entries: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, list | tuple) and any(isinstance(parser, dict) for parser in value):
            entries |= {f"{name} {number}": parser for number, parser in enumerate(value, 1)}
        else:
            entries[name] = value
    return entries


def _settings_table(title: str, values: Mapping[str, Any]) -> HtmlTable:
    """Return settings as written in a recipe."""
    rows = []
    for name, value in values.items():
        if isinstance(value, (list, tuple)):
            value = " ".join(map(str, value)) or "none"
        rows.append([name, value if isinstance(value, str) else json.dumps(value).replace("null", "none")])
    return HtmlTable(ReportTable({"setting": "", "value": ""}, rows, title))


def training_section(run: StoredRun, reading: str) -> Section:
    """Return training and validation loss as curves, with a table of all validations."""
    heading, metrics = "Training", run.metrics
    if not metrics:
        why = f"has no {METRICS}" if metrics is None else f"has an empty {METRICS}"
        return Section(heading, (Paragraph(f"The folder {why}, so there are no loss curves.", missing=True),))
    rounds = sum(line["event"] == "round" for line in metrics)
    if rounds:
        counted = f"Trained by counting; number of rounds: {rounds}. There are no loss curves."
        return Section(heading, (Paragraph(counted),))
    validations = [line for line in metrics if line["event"] == "valid"]
    summary = "" if run.result is None else f"{run.result.steps:,} steps in {run.result.seconds / 60:,.1f} minutes. "
    table = None
    if validations:
        best, last = min(validations, key=lambda line: line["valid_loss"]), validations[-1]
        keeps_last = run.recipe is not None and run.recipe.schedule.keep == "last"
        kept = f"the last validation (step {last['step']:,})" if keeps_last else "that step"
        summary += (
            f"The lowest validation loss is {best['valid_loss']:.4f} {loss_unit(metrics)}, after epoch"
            f" {best['epoch']:.2f} (step {best['step']:,}). The model has the weights of {kept}."
        )
        headings = {"epoch": ".2f", "step": ",", "training loss": ".4f", "validation loss": ".4f", "weights": ""}
        rows = [
            [*(line[name] for name in ("epoch", "step", "train_loss", "valid_loss")), "saved" if is_saved else ""]
            for line in validations
            for is_saved in [line is last if keeps_last else line["best"]]
        ]
        table = HtmlTable(ReportTable(headings, rows, "All validations"), is_folded=True)
    else:
        summary += "Not validated yet."
    data = None if run.recipe is None else run.recipe.data
    texts = "" if data is None else f"; training text {data.train}, validation {data.valid or 'none'}"
    source = (
        f"{METRICS}{texts}; read as {reading}. Training: mean over the steps since the previous validation, with"
        " dropout; validation: without dropout."
    )
    return Section(heading, (Paragraph(summary), *_plotted(partial(plot_learning_curves, metrics), source, table)))


def _plotted(draw: Callable[[], Plot], source: str, table: HtmlTable | None) -> list[Block]:
    """Return a plot with its values as a table; without matplotlib, the table and what to install."""
    if has_matplotlib():
        return [PageFigure(draw(), source, table=table)]
    note = Paragraph(
        "matplotlib is not installed, so there is no plot. Install it with: pip install 'syntaxlm[plot]'", missing=True
    )
    return [note] if table is None else [note, replace(table, source=source, is_folded=False)]


def perplexity_section(run: StoredRun, floor: float | None = None) -> Section:
    """Score of the saved weights on validation and test text.

    Args:
        floor: the lowest possible perplexity, if known.
    """
    heading = "Perplexity"
    if run.result is None:
        command = "syntaxlm evaluate perplexity"
        why = f"The folder has no {RESULT}, written at the end of training. The command {command} scores a text."
        return Section(heading, (Paragraph(why, missing=True),))
    texts = [(name, scores) for name in ("valid", "test") if (scores := getattr(run.result, name)) is not None]
    headings = {
        "text": "", "perplexity": ",.2f", "bits per token": ".3f", "bits per character": ".3f", "tokens": ",",
        "unknown tokens": RIGHT, "sentences": ",",
    }  # fmt: skip
    rows = [
        [
            f"{name} ({scores.source})", scores.perplexity, scores.bits_per_token, scores.bits_per_character,
            scores.tokens, f"{scores.unknown:,} ({100 * scores.unknown / scores.tokens:.1f}%)", scores.sentences,
        ]
        for name, scores in texts
    ]  # fmt: skip
    modes = " and ".join(dict.fromkeys(how_read(scores) for _, scores in texts))
    with_ends = any(scores.mode.predict_eos and not scores.given_trees for _, scores in texts)
    estimates = dict.fromkeys(scores.likelihood_estimate for _, scores in texts if scores.likelihood_estimate)
    notes = ["ends of sentences count as tokens"] * with_ends
    notes += [f"figures are estimates: {estimate}" for estimate in estimates]
    source = "; ".join([f"{RESULT}; read {modes}", *notes]) + "."
    blocks: list[Block] = [HtmlTable(ReportTable(headings, rows, "Scores of the saved weights"), source)]
    if floor is not None and run.result.test is not None:
        ratio = run.result.test.perplexity / floor
        text = f"The lowest possible perplexity on the test text is {floor:.2f}; this model has {ratio:.2f} times that."
        blocks.append(Paragraph(text))
    if run.result.test is None:
        blocks.append(Paragraph("The recipe has no test text."))
    return Section(heading, tuple(blocks))


def parsing_source(parsing: ParsingReport, evidence: str) -> str:
    """Return data and protocol of figures measured on the treebank.

    Args:
        evidence: such as "distances of layer 2".
    """
    scores = parsing.scores[parsing.chosen]
    lengths = scores.by_sentence.lengths
    return (
        f"{parsing.gold.source}; preprocessing {parsing.gold.preprocessing}; protocol {scores.protocol};"
        f" {scores.sentences:,} sentences of {lengths.min()} to {lengths.max()} words;"
        f" {evidence}, decoded by {' and '.join(parsing.scores)}"
    )


def parsing_sections(bundle: ModelBundle, parsing: ParsingReport) -> list[Section]:
    """Return all sections that need a treebank evaluation."""
    evidence = structure_name(bundle.model) if parsing.layer is None else f"distances of layer {parsing.layer}"
    chosen = parsing.scores[parsing.chosen]
    source = parsing_source(parsing, evidence)
    branching = score(right(parsing.gold.spans.lengths), parsing.gold.spans, chosen.protocol)
    compared = {**parsing.scores, "right branching": branching}
    by_length = {name: scores.f1_by_length for name, scores in compared.items()}
    by_label = {name: scores.recall_by_label for name, scores in compared.items()}
    if chosen.recall_by_label:
        label_source = f"{source}; spans of two or more words"
        heads = ("label", "gold spans")
        labels = _measured("Recall by label", "recall, percent", heads, by_label, label_source, CHARTED_LABELS)
    else:
        labels = Section("Recall by label", (Paragraph("The treebank's constituents have no labels.", missing=True),))
    shapes = {**{name: scores.predicted_shape for name, scores in compared.items()}, "gold": chosen.gold_shape}
    rows = [[name, shape.depth, shape.left, shape.right] for name, shape in shapes.items() if shape is not None]
    headings = {"trees": "", **dict.fromkeys(("mean depth", "left splits, percent", "right splits, percent"), ".1f")}
    meaning = (
        "Depth: number of constituents above a word, averaged over a sentence's words, then over sentences. Splits:"
        " percentage of the spans of three or more words that split off their last word (left) or first word (right)."
    )
    shape_blocks = HtmlTable(ReportTable(headings, rows, "Shape of the trees"), source), Paragraph(meaning)
    sentences = parsing.details()
    best, worst, choice = best_and_worst(parsing, sentences)
    drawn = []
    for heading, places in (("Best sentences", best), ("Worst sentences", worst)):
        figures = [_drawn(bundle, parsing, place, sentences[place]) for place in places]
        note = choice if places else "All sentences whose gold trees have scored spans are among the best ones."
        drawn.append(Section(heading, (Paragraph(note, missing=not places), *figures)))
    return [
        f1_section(parsing, source),
        _measured("F1 by length", "F1, percent", ("words", "sentences"), by_length, source, None),
        labels,
        *induced_label_sections(parsing, source),
        Section("Depth and branching", shape_blocks),
        *drawn,
    ]


def f1_section(parsing: ParsingReport, source: str) -> Section:
    """Return F1 of decoders, baselines and upper bounds; for a model with several layers also of each layer."""
    report = parsing.report()
    names = {"trees": "trees", "f1": "F1", "precision": "precision", "recall": "recall"}
    names |= {"std": "± std", "max": "max", "seeds": "seeds"}
    marked = {parsing.chosen: f"{parsing.chosen} (chosen)"}
    rows = [{**row, "trees": marked.get(row["trees"], row["trees"])} for row in report.rows]
    scores = ReportTable.of(report.columns, rows, names, "Unlabelled F1, percent", missing="")
    blocks: list[Block] = [HtmlTable(scores, source)]
    blocks += [
        Paragraph(f"{name} compared with right branching: {result} (paired bootstrap over sentences).")
        for name, result in parsing.right_by_decoder.items()
    ]
    if parsing.f1_by_layer:
        headings = {"distances": "", **dict.fromkeys(next(iter(parsing.f1_by_layer.values())), PERCENT)}
        layers = [
            [f"layer {layer}{' (chosen)' if layer == parsing.layer else ''}", *values.values()]
            for layer, values in parsing.f1_by_layer.items()
        ]
        layer_source = parsing_source(parsing, "distances of each layer")
        blocks.append(HtmlTable(ReportTable(headings, layers, "F1 by layer, percent"), layer_source))
    return Section("Unlabelled F1", tuple(blocks))


def induced_label_sections(parsing: ParsingReport, source: str) -> list[Section]:
    """Return the most frequent gold label of each induced label; empty for a model without labels."""
    labels = parsing.labels
    if labels is None:
        return []
    table = dataclasses.replace(labels.table(parsing.chosen), title="Induced labels, mapped many-to-one to gold labels")
    rest = len(labels.labels) - len(table.rows)
    source += f"; {parsing.chosen} decoder{f'; {rest} less frequent labels are not shown' * (rest > 0)}"
    accuracy, baseline = (format_value(value, PERCENT) for value in (labels.accuracy, labels.baseline))
    meaning = (
        f"Many-to-one accuracy {accuracy}: of the {labels.matched:,} predicted spans that are gold constituents, the"
        " percentage whose gold label is the most frequent one for their induced label. With all labels mapped to"
        f" {labels.most_frequent[0]}: {baseline}. The mapping is derived from the same gold trees."
    )
    return [Section("Induced labels", (HtmlTable(table, source), Paragraph(meaning)))]


def _measured(
    heading: str,
    measure: str,
    heads: tuple[str, str],
    values: Mapping[str, Mapping[str, tuple[float, int]]],
    source: str,
    charted: int | None,
) -> Section:
    """Return a chart and a table.

    Args:
        values: by series, then by row, (fraction, count).
        charted: rows in the chart, None: all.
    """
    counts = {row: count for row, (_, count) in next(iter(values.values())).items()}
    shown = list(counts)[:LABELS]
    bars = shown[:charted]
    series = {name: [round(100 * row_values[row][0], 1) for row in bars] for name, row_values in values.items()}
    rows = [[row, counts[row], *(row_values[row][0] for row_values in values.values())] for row in shown]
    headings = {heads[0]: "", heads[1]: ",", **dict.fromkeys(values, PERCENT)}
    rest = len(counts) - len(shown)
    if rest:
        source += f"; {rest} less frequent ones are not shown"
    table = HtmlTable(ReportTable(headings, rows, f"{heading}: {measure}"))
    title = heading if len(bars) == len(counts) else f"{heading}: the {len(bars)} most frequent"
    return Section(heading, tuple(_plotted(partial(_bar_plot, bars, series, title, measure), source, table)))


def _bar_plot(names: Sequence[str], series: Mapping[str, Sequence[float]], title: str, measure: str) -> Plot:
    plot = new_plot(title, size=bars_size(names, len(series)))
    plot.add_legend(draw_bars(plot.axes[0], names, series))
    label_axes(plot.axes[0], "", measure, title)
    return plot


def best_and_worst(parsing: ParsingReport, sentences: Sequence[ScoredSentence]) -> tuple[list[int], list[int], str]:
    """Return indices of the sentences with the highest and lowest F1, without overlap, and a note on how they were
    chosen.

    Ties: more gold spans first, then treebank order.

    Args:
        sentences: all scored ones.
    """
    spans = parsing.scores[parsing.chosen].by_sentence.gold_spans.tolist()
    scorable = [place for place, number in enumerate(spans) if number > 0]
    places = [place for place in scorable if sentences[place].length in DRAWN_WORDS]
    rule = f"Chosen by F1 among the {len(places):,} sentences of {DRAWN_WORDS[0]} to {DRAWN_WORDS[-1]} words"
    if len(places) < 2 * DRAWN < len(scorable) or not places:
        places = scorable
        rule = f"Chosen by F1 among all {len(places):,} sentences"
    rule += " whose gold trees have scored spans; of equal F1, those with more such spans first."
    best = sorted(places, key=lambda place: (-sentences[place].f1, -spans[place]))[:DRAWN]
    rest = set(places) - set(best)
    worst = sorted(rest, key=lambda place: (sentences[place].f1, -spans[place], place))[:DRAWN]
    return best, worst, rule


def _drawn(bundle: ModelBundle, parsing: ParsingReport, place: int, sentence: ScoredSentence) -> PageFigure:
    """Return the scored tree next to the gold tree; the bars are the distances."""
    index = parsing.scores[parsing.chosen].by_sentence.indices[[place]]
    gold = parsing.gold.trees[int(index[0])]
    (tree,) = trees_of(parsing.predicted[parsing.chosen].select(index), [gold.words])
    decoder = cast(Decoder, parsing.chosen.partition(WITH_MARKS)[0])
    analysis = analyse(bundle, gold, ParseOptions(decoder=decoder, layer=parsing.layer))
    scores = {"F1": sentence.f1, "precision": sentence.precision, "recall": sentence.recall}
    source = (
        f"{', '.join(f'{name} {format_value(value, PERCENT)}' for name, value in scores.items())}."
        f" Sentence {sentence.number:,} of {parsing.gold.source}, {sentence.length} words; {sentence.decoder} decoder;"
        f" preprocessing {parsing.gold.preprocessing}; protocol {sentence.protocol}."
    )
    if any(analysis.unknown):
        source += " Underlined words are not in the model's vocabulary."
    return PageFigure(Drawing(replace(analysis, tree=tree), gold).tree_picture(), source, " ".join(gold.words))


def write_report(
    folder: str | Path,
    output: str | Path,
    treebank: str | Path | None = None,
    protocol: Protocol = PROTOCOLS["wsj-test"],
    options: DecodingOptions = DecodingOptions(),
    preprocessing: Preprocessing = "ptb-keep",
    theme: Theme = "auto",
    device: torch.device | str = "cpu",
) -> WrittenReport:
    """Evaluate the model of a folder on a treebank and write report.html into the folder `output`.

    Args:
        options: the options of parsing. Without a treebank, or for a model that does not parse, the page only covers
            the language model.
        device: where the model runs.

    Raises:
        InputError: like `read_model` and `evaluate_parsing`, and for damaged files of the run.

    Examples:
        >>> syntaxlm.write_report("my-run", "my-report", "corpus/test.mrg").path.name
        'report.html'
    """
    folder, output = Path(folder), Path(output)
    bundle, run = read_model(folder), read_run(folder)
    bundle.to(device)
    parsing = None
    if treebank is not None and isinstance(bundle.model, ParsesSentences):
        parsing = evaluate_parsing(bundle, treebank, protocol, **vars(options), preprocessing=preprocessing)
    page = page_of(bundle, run, parsing)
    make_folder(output)
    return page.write(output / PAGE, theme)


def page_of(bundle: ModelBundle, run: StoredRun, parsing: ParsingReport | None, floor: float | None = None) -> Page:
    """Return the page of a model.

    Args:
        parsing: the model's evaluation on a treebank, or None.
        floor: the lowest possible perplexity on the test text, if known.
    """
    sections = [training_section(run, bundle.trained_on), perplexity_section(run, floor)]
    if parsing is None:
        why = "No treebank was given, so the trees were not evaluated."
        if not isinstance(bundle.model, ParsesSentences):
            why = (
                f"This model, of type {bundle.name}, gives neither distances nor span scores or probabilities, so it"
                " does not parse. No treebank was read."
            )
        sections.append(Section("Unlabelled F1", (Paragraph(why, missing=True),)))
    else:
        sections += parsing_sections(bundle, parsing)
    sections.append(settings_section(bundle, run))
    name = run.folder if run.folder.name else run.folder.resolve().name
    return Page(f"Report on {name}", tuple(sections), key_figures(bundle, run, parsing))


def key_figures(bundle: ModelBundle, run: StoredRun, parsing: ParsingReport | None) -> tuple[KeyFigure, ...]:
    """Return the main results, for the top of the page."""
    figures = []
    texts = [] if run.result is None else [("test", run.result.test), ("validation", run.result.valid)]
    name, measured = next(filter(lambda text: text[1] is not None, texts), ("", None))
    if measured is not None:
        what, value = "perplexity", f"{measured.perplexity:,.2f}"
        if bundle.normaliser.units == "characters":
            what = "bits per character"
            value = f"{measured.bits_per_character:.3f}"
        estimate = f", {measured.likelihood_estimate}" if measured.likelihood_estimate else ""
        source = f"{measured.source}, read {how_read(measured)}{estimate}"
        figures.append(KeyFigure(f"{name} {what}", value, source))
    if parsing is not None:
        scores = parsing.scores[parsing.chosen]
        layer = f", layer {parsing.layer}" if parsing.f1_by_layer else ""
        source = f"{parsing.gold.source}, {scores.sentences:,} sentences, protocol {scores.protocol}{layer}"
        figures.append(KeyFigure(f"F1, {parsing.chosen} decoder", format_value(scores.f1, PERCENT), source))
        figures.append(
            KeyFigure("F1, right branching", format_value(parsing.baselines.right.f1, PERCENT), "the same sentences")
        )
    return tuple(figures)
