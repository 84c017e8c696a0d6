"""A report on a model: one HTML page of its settings, training, perplexity and trees.

The page is a single file without scripts and needs no network. It states which parts are missing and why.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch

from syntaxlm.app.report.page import Block, Figure, KeyFigure, Page, Paragraph, Section, Table, WrittenReport
from syntaxlm.app.report.sentence import analyse
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import make_folder, parse_json, read_stored_text
from syntaxlm.drawing.charts import LineChart, Point, bar_chart
from syntaxlm.drawing.sentence import Drawing
from syntaxlm.drawing.svg import Theme
from syntaxlm.models.abilities import ParsesSentences
from syntaxlm.parsing.evaluation import evaluate_parsing
from syntaxlm.parsing.options import Decoder, DecodingOptions, ParseOptions
from syntaxlm.parsing.report import ParsingReport, ScoredSentence, scored_sentences
from syntaxlm.scoring.perplexity import LanguageModelScore
from syntaxlm.storage.folder import CONFIG, ModelBundle, read_model, structure_name
from syntaxlm.training.recipe import Recipe
from syntaxlm.training.recipe_files import is_pair_run
from syntaxlm.training.result import RESULT, TrainingResult, read_result
from syntaxlm.training.trainer import METRICS, RECIPE, read_run_recipe
from syntaxlm.trees.bounds import right
from syntaxlm.trees.preprocessing import GoldPreprocessing
from syntaxlm.trees.scoring import PROTOCOLS, ParsingScores, Protocol, score
from syntaxlm.trees.significance import BootstrapResult, SeedScores
from syntaxlm.trees.spans import trees_of

# Files of a training run in a model folder: recipe, metrics and result.


LARGEST_FIGURE = 1e15  # largest value of a curve: charts cannot show larger ones


@dataclass(frozen=True)
class Validation:
    """A validation in metrics.jsonl. Losses are in nats per token. best: whether its weights were saved."""

    epoch: float
    step: int
    train_loss: float
    valid_loss: float
    best: bool


@dataclass(frozen=True)
class Metrics:
    """The content of metrics.jsonl. training: (epoch, nats per token), one per line. rounds: number of rounds of a
    model that is trained by counting, which has no training loss.
    """

    training: tuple[Point, ...]
    validations: tuple[Validation, ...]
    rounds: int = 0


@dataclass(frozen=True)
class Run:
    """A training run in a model folder; None for a missing file."""

    folder: Path
    recipe: Recipe | None
    metrics: Metrics | None
    result: TrainingResult | None


def read_run(folder: Path) -> Run:
    """Read the files that exist. Raises InputError for a damaged file, but not for a missing one.

    Also raises it for the run of a pair classifier, whose files differ.
    """
    if is_pair_run(folder):
        raise InputError(
            f"{folder}: found the run of a classifier of sentence pairs; expected that of a language model or parser."
            " For its accuracy, use evaluate classifier"
        )
    return Run(
        folder,
        read_run_recipe(folder) if (folder / RECIPE).exists() else None,
        read_metrics(folder / METRICS) if (folder / METRICS).exists() else None,
        read_result(folder) if (folder / RESULT).exists() else None,
    )


def read_metrics(path: Path) -> Metrics:
    """Read metrics.jsonl. A last line without a line end is skipped: it is still being written.

    Raises InputError with file and line.
    """
    training: list[Point] = []
    validations: list[Validation] = []
    rounds = 0
    for number, line in enumerate(read_stored_text(path).split("\n")[:-1], 1):
        try:
            data = parse_json(line, "JSON")
            if data["event"] == "round":
                rounds += 1
                continue
            epoch, step, loss = _figure(data["epoch"]), int(_figure(data["step"])), _figure(data["train_loss"])
            training.append((epoch, loss))
            if data["event"] == "valid":
                validations.append(Validation(epoch, step, loss, _figure(data["valid_loss"]), bool(data["best"])))
        except (InputError, ValueError, KeyError, TypeError) as error:
            shown = line if len(line) <= 60 else line[:60] + " ..."
            raise InputError(
                f"{path}, line {number}: found {shown!r}; expected a JSON object with event, step, epoch and train_loss"
                f", and for a validation also valid_loss and best ({type(error).__name__}: {error})"
            ) from error
    return Metrics(tuple(training), tuple(validations), rounds)


def _figure(value: Any) -> float:
    """Return the value as a float. Raises ValueError if it is not a number or too large for charts."""
    if type(value) not in (int, float) or not abs(value) < LARGEST_FIGURE:
        raise ValueError(f"found {str(value)[:40]}; expected a number")
    return float(value)


# Sections of a report about the model itself: settings, training, perplexity.


POINTS = 1000  # per curve; longer curves are thinned evenly


def how_read(score: LanguageModelScore) -> str:
    """Return how the text was read for a score."""
    return "words given their trees" if score.given_trees else str(score.mode)


def settings_section(stored: ModelBundle, run: Run) -> Section:
    """Return all settings of the recipe; without a recipe, those of the model and normaliser."""
    facts = {
        "model type": stored.settings.model.name,
        "parameters": f"{stored.model.parameter_count:,}",
        "vocabulary": f"{len(stored.vocabulary):,} tokens",
        "trained on": stored.trained_on,
        "structure": structure_name(stored.model),
    }
    if run.recipe is not None:
        settings, first = run.recipe.to_dict(), Paragraph(f"All settings of {RECIPE}, by section.")
    else:
        own = stored.settings
        settings = {"model": dataclasses.asdict(own.model), "text": {"normaliser": dataclasses.asdict(own.normaliser)}}
        first = Paragraph(
            f"The folder has no {RECIPE}, so training text, optimiser and schedule are unknown. The settings shown are"
            f" from {CONFIG}.",
            missing=True,
        )
    tables = [_settings_table(name, values) for name, values in _flattened(settings)]
    return Section("Settings", (first, _settings_table("summary", facts), *tables), columns=True)


def _flattened(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield nested settings as flat ones, each section under its dotted name: text, text.normaliser, ..."""
    for name, values in settings.items():
        if isinstance(values, dict):
            own = {key: value for key, value in values.items() if not isinstance(value, dict)}
            if own:
                yield prefix + name, own
            yield from _flattened(values, f"{prefix}{name}.")


def _settings_table(title: str, values: Mapping[str, Any]) -> Table:
    rows = tuple((name, _setting(value)) for name, value in values.items())
    return Table(title, ("setting", "value"), rows, numeric=False)


def _setting(value: Any) -> str:
    """Return a value as written in a recipe."""
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value)) or "none"
    return value if isinstance(value, str) else json.dumps(value).replace("null", "none")


def training_section(run: Run, reading: str) -> Section:
    """Return training and validation loss as curves, with a table of all validations."""
    heading, metrics = "Training", run.metrics
    if metrics is not None and metrics.rounds:
        counted = f"Trained by counting; number of rounds: {metrics.rounds}. There are no loss curves."
        return Section(heading, (Paragraph(counted),))
    if metrics is None or not metrics.training:
        why = f"has no {METRICS}" if metrics is None else f"has an empty {METRICS}"
        return Section(heading, (Paragraph(f"The folder {why}, so there are no loss curves.", missing=True),))
    valid = [(one.epoch, one.valid_loss) for one in metrics.validations]
    curves = {"training": thinned(metrics.training), "validation": thinned(valid)}
    picture = LineChart(
        {name: line for name, line in curves.items() if line}, "Loss", "epochs of the training text", "nats per token"
    ).picture()
    texts = "" if run.recipe is None else f"; training text {run.recipe.text.train}, validation {run.recipe.text.valid}"
    source = (
        f"{METRICS}{texts}; read as {reading}. Training: mean over the steps since the previous validation, with"
        " dropout; validation: the whole text, without dropout."
    )
    return Section(
        heading, (Paragraph(_summary(run, metrics)), Figure(picture, source, table=_validation_table(metrics)))
    )


def _validation_table(metrics: Metrics) -> Table | None:
    if not metrics.validations:
        return None
    heads = "epoch", "step", "training loss", "validation loss", "weights"
    rows = tuple(
        (
            f"{one.epoch:.2f}", f"{one.step:,}", f"{one.train_loss:.4f}", f"{one.valid_loss:.4f}",
            "saved" if one.best else "",
        )
        for one in metrics.validations
    )  # fmt: skip
    return Table("All validations", heads, rows, folded=True)


def _summary(run: Run, metrics: Metrics) -> str:
    steps = "" if run.result is None else f"{run.result.steps:,} steps in {run.result.seconds / 60:,.1f} minutes. "
    if not metrics.validations:
        return f"{steps}Not validated yet."
    best = min(metrics.validations, key=lambda one: one.valid_loss)
    return (
        f"{steps}The lowest validation loss is {best.valid_loss:.4f} nats per token, after epoch {best.epoch:.2f}"
        f" (step {best.step:,}). The model has the weights of that step."
    )


def thinned(line: Sequence[Point]) -> list[Point]:
    """Return at most about POINTS points of a line, evenly chosen; the last point is included."""
    step = -(-len(line) // POINTS) or 1
    return [*line[:-1:step], *line[-1:]]


def perplexity_section(run: Run, floor: float | None = None) -> Section:
    """Score of the saved weights on validation and test text. floor: the lowest possible perplexity, if known."""
    heading = "Perplexity"
    if run.result is None:
        why = f"The folder has no {RESULT}: training has not finished. `syntaxlm evaluate perplexity` scores a text."
        return Section(heading, (Paragraph(why, missing=True),))
    scores = {name: one for name in ("valid", "test") if (one := getattr(run.result, name)) is not None}
    heads = "text", "perplexity", "bits per token", "bits per character", "tokens", "unknown tokens", "sentences"
    rows = tuple(_perplexity_row(f"{name} ({one.source})", one) for name, one in scores.items())
    modes = " and ".join(dict.fromkeys(how_read(one) for one in scores.values()))
    with_ends = any(one.mode.predict_eos and not one.given_trees for one in scores.values())
    estimates = dict.fromkeys(one.likelihood_estimate for one in scores.values() if one.likelihood_estimate)
    notes = ["ends of sentences count as tokens"] * with_ends + [f"figures are estimates: {one}" for one in estimates]
    source = "; ".join([f"{RESULT}; read {modes}", *notes]) + "."
    blocks: list[Block] = [Table("Scores of the saved weights", heads, rows, source)]
    if floor is not None and run.result.test is not None:
        ratio = run.result.test.perplexity / floor
        text = f"The lowest possible perplexity on the test text is {floor:.2f}; this model has {ratio:.2f} times that."
        blocks.append(Paragraph(text))
    if run.result.test is None:
        blocks.append(Paragraph("The recipe has no test text."))
    return Section(heading, tuple(blocks))


def _perplexity_row(name: str, one: LanguageModelScore) -> tuple[str, ...]:
    unknown = f"{one.unknown:,} ({100 * one.unknown / one.tokens:.1f}%)"
    bits = f"{one.bits_per_token:.3f}", f"{one.bits_per_character:.3f}"
    return name, f"{one.perplexity:,.2f}", *bits, f"{one.tokens:,}", unknown, f"{one.sentences:,}"


# Sections of a report about the model's trees: F1, recall by label, shape, and drawn sentences.


DRAWN = 3  # number of best and of worst sentences drawn
DRAWN_WORDS = range(6, 26)  # their lengths: long enough to have structure, short enough to read
LABELS, CHARTED_LABELS = 30, 10  # number of gold labels in the table and in the chart, most frequent first


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def parsing_source(parsing: ParsingReport, evidence: str) -> str:
    """Return data and protocol of figures measured on the treebank. evidence: such as "distances of layer 2"."""
    scores = parsing.scores[parsing.chosen]
    lengths = scores.by_sentence.lengths
    return (
        f"{parsing.gold.source}; preprocessing {parsing.gold.clean_up}; protocol {scores.protocol};"
        f" {scores.sentences:,} sentences of {lengths.min()} to {lengths.max()} words;"
        f" {evidence}, decoded by {' and '.join(parsing.scores)}"
    )


def parsing_sections(stored: ModelBundle, parsing: ParsingReport) -> list[Section]:
    """Return all sections that need a treebank evaluation."""
    evidence = structure_name(stored.model) if parsing.layer is None else f"distances of layer {parsing.layer}"
    chosen, source = parsing.scores[parsing.chosen], parsing_source(parsing, evidence)
    branching = score(right(parsing.gold.spans.lengths), parsing.gold.spans, chosen.protocol)
    compared = {**parsing.scores, "right branching": branching}
    return [
        f1_section(parsing, source),
        length_section(compared, source),
        label_section(compared, source),
        *induced_label_sections(parsing, source),
        shape_section(chosen, compared, source),
        *sentence_sections(stored, parsing),
    ]


def f1_section(parsing: ParsingReport, source: str) -> Section:
    """Return F1 of decoders, baselines and upper bounds; for a model with several layers also of each layer."""
    baselines = parsing.baselines
    rows = [
        _f1_row(f"{name} decoder{' (chosen)' * (name == parsing.chosen)}", one) for name, one in parsing.scores.items()
    ]
    rows += [
        _f1_row("right branching", baselines.right),
        _f1_row("left branching", baselines.left),
        _f1_row("balanced", baselines.balanced),
        *(_seeds_row(title, scores) for title, scores in baselines.random_rows().items()),
    ]
    if parsing.random_weights is not None:
        untrained = parsing.random_weights.f1_by_decoder()
        rows += [_seeds_row(f"random weights, {name} decoder", scores) for name, scores in untrained.items()]
    rows.append(_f1_row("binary upper bound", baselines.binary_bound))
    if baselines.biased_bound is not None:
        rows.append(_f1_row("upper bound of the biased decoder", baselines.biased_bound))
    table = Table("Unlabelled F1, percent", ("trees", "F1", "precision", "recall"), tuple(rows), source)
    differences = (_difference_to_right(name, found) for name, found in parsing.right_by_decoder.items())
    blocks: list[Block] = [table, *map(Paragraph, differences)]
    if parsing.f1_by_layer:
        blocks.append(layer_table(parsing))
    return Section("Unlabelled F1", tuple(blocks))


def _difference_to_right(decoder: str, found: BootstrapResult) -> str:
    return (
        f"{decoder} decoder minus right branching: F1 {100 * found.difference:+.1f}, 95% interval"
        f" {100 * found.low:+.1f} to {100 * found.high:+.1f}, p = {found.p_value:.4f} (paired bootstrap over"
        " sentences)."
    )


def layer_table(parsing: ParsingReport) -> Table:
    """Return F1 of every distance layer with each decoder."""
    rows = tuple(
        (f"layer {layer}{' (chosen)' * (layer == parsing.layer)}", *map(percent, values.values()))
        for layer, values in parsing.f1_by_layer.items()
    )
    heads = "distances", *(f"{name} decoder" for name in next(iter(parsing.f1_by_layer.values())))
    return Table("F1 by layer, percent", heads, rows, parsing_source(parsing, "distances of each layer"))


def _f1_row(name: str, scores: ParsingScores) -> tuple[str, ...]:
    return name, percent(scores.f1), percent(scores.precision), percent(scores.recall)


def _seeds_row(name: str, scores: SeedScores) -> tuple[str, ...]:
    spread = f"± {percent(scores.std)}, maximum {percent(scores.max)}"
    return f"{name}, mean of {scores.count} seeds ({spread})", percent(scores.mean), "", ""


def length_section(compared: Mapping[str, ParsingScores], source: str) -> Section:
    """Return compared: the decoders and right branching, by name."""
    values = {name: one.f1_by_length for name, one in compared.items()}
    return _measured("F1 by length", "F1, percent", ("words", "sentences"), values, source, None)


def label_section(compared: Mapping[str, ParsingScores], source: str) -> Section:
    """Return recall of each gold label. compared: the decoders and right branching, by name."""
    values = {name: one.recall_by_label for name, one in compared.items()}
    if not next(iter(values.values())):
        why = "The treebank's constituents have no labels."
        return Section("Recall by label", (Paragraph(why, missing=True),))
    source = source + "; spans of two or more words"
    return _measured("Recall by label", "recall, percent", ("label", "gold spans"), values, source, CHARTED_LABELS)


def induced_label_sections(parsing: ParsingReport, source: str) -> list[Section]:
    """Return the most frequent gold label of each induced label; empty for a model without labels."""
    found = parsing.labels
    if found is None:
        return []
    rows = tuple(
        (
            one.label,
            f"{one.spans:,}",
            f"{one.matched:,}",
            one.gold_label,
            percent(one.gold_spans / one.matched) if one.matched else "",
        )
        for one in found.labels[:LABELS]
    )
    heads = "induced label", "spans", "gold constituents", "most frequent gold label", "its share, percent"
    rest = len(found.labels) - len(rows)
    table = Table(
        "Induced labels, mapped many-to-one to gold labels",
        heads,
        rows,
        f"{source}; {parsing.chosen} decoder{f'; {rest} less frequent labels are not shown' * (rest > 0)}",
    )
    meaning = (
        f"Many-to-one accuracy {percent(found.accuracy)}: of the {found.matched:,} predicted spans that are gold"
        " constituents, the percentage whose gold label is the most frequent one for their induced label. With all"
        f" labels mapped to {found.most_frequent[0]}: {percent(found.baseline)}. The mapping is derived from the same"
        " gold trees."
    )
    return [Section("Induced labels", (table, Paragraph(meaning)))]


def _measured(
    heading: str,
    measure: str,
    heads: tuple[str, str],
    values: Mapping[str, Mapping[str, tuple[float, int]]],
    source: str,
    charted: int | None,
) -> Section:
    """Return a chart and a table. values: by series, then by row, (fraction, count). charted: rows in the chart, None:
    all.
    """
    counts = {row: count for row, (_, count) in next(iter(values.values())).items()}
    shown = list(counts)[:LABELS]
    bars = shown[:charted]
    series = {name: [round(100 * of_row[row][0], 1) for row in bars] for name, of_row in values.items()}
    rows = tuple((row, f"{counts[row]:,}", *(percent(of_row[row][0]) for of_row in values.values())) for row in shown)
    rest = len(counts) - len(shown)
    if rest:
        source += f"; {rest} less frequent ones are not shown"
    table = Table(f"{heading}: {measure}", (*heads, *values), rows)
    title = heading if len(bars) == len(counts) else f"{heading}: the {len(bars)} most frequent"
    return Section(heading, (Figure(bar_chart(bars, series, title, measure), source, table=table),))


def shape_section(chosen: ParsingScores, compared: Mapping[str, ParsingScores], source: str) -> Section:
    """Return depth and branching of the induced trees and of the gold trees."""
    shapes = {**{name: one.predicted_shape for name, one in compared.items()}, "gold": chosen.gold_shape}
    rows = tuple(
        (name, f"{shape.depth:.1f}", f"{shape.left:.1f}", f"{shape.right:.1f}")
        for name, shape in shapes.items()
        if shape is not None
    )
    heads = "trees", "mean depth", "left splits, percent", "right splits, percent"
    meaning = (
        "Depth: number of constituents above a word, averaged over a sentence's words, then over sentences. Splits:"
        " percentage of the spans of three or more words that split off their last word (left) or first word (right)."
    )
    return Section("Depth and branching", (Table("Shape of the trees", heads, rows, source), Paragraph(meaning)))


def sentence_sections(stored: ModelBundle, parsing: ParsingReport) -> list[Section]:
    """Return the best and the worst sentences, drawn next to their gold trees."""
    sentences = scored_sentences(parsing)
    best, worst, rule = best_and_worst(parsing, sentences)
    sections = []
    for heading, places in (("Best sentences", best), ("Worst sentences", worst)):
        blocks: list[Block] = [Paragraph(rule, missing=not places)]
        blocks += [_drawn(stored, parsing, place, sentences[place]) for place in places]
        sections.append(Section(heading, tuple(blocks)))
    return sections


def best_and_worst(
    parsing: ParsingReport, sentences: Sequence[ScoredSentence], count: int = DRAWN
) -> tuple[list[int], list[int], str]:
    """Return indices of the sentences with the highest and lowest F1, without overlap, and a note on how they were
    chosen.

    Ties: more gold spans first, then treebank order. sentences: all scored ones.
    """
    spans = parsing.scores[parsing.chosen].by_sentence.gold_spans.tolist()
    scorable = [place for place, number in enumerate(spans) if number > 0]
    places = [place for place in scorable if sentences[place].length in DRAWN_WORDS]
    rule = f"Chosen by F1 among the {len(places):,} sentences of {DRAWN_WORDS[0]} to {DRAWN_WORDS[-1]} words"
    if len(places) < 2 * count < len(scorable) or not places:
        places = scorable
        rule = f"Chosen by F1 among all {len(places):,} sentences"
    rule += " whose gold trees have scored spans; of equal F1, those with more such spans first."
    best = sorted(places, key=lambda place: (-sentences[place].f1, -spans[place]))[:count]
    rest = set(places) - set(best)
    worst = sorted(rest, key=lambda place: (sentences[place].f1, -spans[place], place))[:count]
    return best, worst, rule


def _drawn(stored: ModelBundle, parsing: ParsingReport, place: int, sentence: ScoredSentence) -> Figure:
    """Return the scored tree next to the gold tree; the bars are the distances."""
    index = parsing.scores[parsing.chosen].by_sentence.indices[[place]]
    gold = parsing.gold.trees[int(index[0])]
    (tree,) = trees_of(parsing.predicted[parsing.chosen].select(index), [gold.words])
    analysis = analyse(stored, gold, ParseOptions(decoder=cast(Decoder, parsing.chosen), layer=parsing.layer))
    source = (
        f"F1 {percent(sentence.f1)}, precision {percent(sentence.precision)}, recall {percent(sentence.recall)}."
        f" Sentence {sentence.number:,} of {parsing.gold.source}, {sentence.length} words; {sentence.decoder} decoder;"
        f" preprocessing {parsing.gold.clean_up}; protocol {sentence.protocol}."
    )
    if any(analysis.unknown):
        source += " Underlined words are not in the model's vocabulary."
    return Figure(Drawing(replace(analysis, tree=tree), gold).tree_picture(), source, " ".join(gold.words))


PAGE = "report.html"


def write_report(
    folder: str | Path,
    output: str | Path,
    treebank: str | Path | None = None,
    protocol: Protocol = PROTOCOLS["wsj-test"],
    options: DecodingOptions = DecodingOptions(),
    clean_up: GoldPreprocessing | str | Path = "ptb-keep",
    theme: Theme = "auto",
    device: torch.device | str = "cpu",
) -> WrittenReport:
    """Evaluate the model of a folder on a treebank and write report.html into the folder `output`.

    options: of parsing. Without a treebank, or for a model that does not parse,
    the page only covers the language model.
    device: where the model runs.
    Raises InputError like `read_model` and `evaluate_parsing`, and for damaged files of the run.

    >>> syntaxlm.write_report("my-run", "my-report", "corpus/test.mrg").path.name
    'report.html'
    """
    folder, output = Path(folder), Path(output)
    stored, run = read_model(folder), read_run(folder)
    stored.to(device)
    parsing = None
    if treebank is not None and isinstance(stored.model, ParsesSentences):
        parsing = evaluate_parsing(stored, treebank, protocol, options, clean_up)
    page = page_of(stored, run, parsing)
    make_folder(output)
    return page.write(output / PAGE, theme)


def page_of(stored: ModelBundle, run: Run, parsing: ParsingReport | None, floor: float | None = None) -> Page:
    """Return the page of a model.

    parsing: the model's evaluation on a treebank, or None. floor: the lowest possible perplexity on the test text, if
    known.
    """
    sections = [
        settings_section(stored, run),
        training_section(run, stored.trained_on),
        perplexity_section(run, floor),
    ]
    if parsing is None:
        sections.append(Section("Unlabelled F1", (Paragraph(_why_no_trees(stored), missing=True),)))
    else:
        sections += parsing_sections(stored, parsing)
    name = run.folder if run.folder.name else run.folder.resolve().name
    return Page(f"Report on {name}", key_figures(stored, run, parsing), tuple(sections))


def _why_no_trees(stored: ModelBundle) -> str:
    if not isinstance(stored.model, ParsesSentences):
        return (
            f"This model, of type {stored.name}, gives neither distances nor span scores or probabilities, so it does"
            " not parse. No treebank was read."
        )
    return "No treebank was given, so the trees were not evaluated."


def key_figures(stored: ModelBundle, run: Run, parsing: ParsingReport | None) -> tuple[KeyFigure, ...]:
    """Return the main results, for the top of the page."""
    figures = []
    texts = [] if run.result is None else [("test", run.result.test), ("validation", run.result.valid)]
    name, of_test = next(((name, one) for name, one in texts if one is not None), ("", None))
    if of_test is not None:
        what, value = "perplexity", f"{of_test.perplexity:,.2f}"
        if stored.normaliser.units == "characters":
            what, value = "bits per character", f"{of_test.bits_per_character:.3f}"
        estimate = f", {of_test.likelihood_estimate}" if of_test.likelihood_estimate else ""
        figures.append(KeyFigure(f"{name} {what}", value, f"{of_test.source}, read {how_read(of_test)}{estimate}"))
    if parsing is not None:
        scores = parsing.scores[parsing.chosen]
        layer = f", layer {parsing.layer}" if parsing.f1_by_layer else ""
        source = f"{parsing.gold.source}, {scores.sentences:,} sentences, protocol {scores.protocol}{layer}"
        figures.append(KeyFigure(f"F1, {parsing.chosen} decoder", percent(scores.f1), source))
        figures.append(KeyFigure("F1, right branching", percent(parsing.baselines.right.f1), "the same sentences"))
    return tuple(figures)
