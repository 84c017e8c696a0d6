"""A report on a model: one HTML page of its settings, its training, its perplexity and its trees.

The page needs no other file, no network and no script. What has no source is left out, and the page says why.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, cast

import syntaxlm
from syntaxlm.drawing.charts import Point, bar_chart, line_chart
from syntaxlm.drawing.sentence import Drawing, analyse
from syntaxlm.drawing.svg import Picture, Theme
from syntaxlm.drawing.text import printable
from syntaxlm.errors import InputError
from syntaxlm.files import make_folder, read_text, write_text
from syntaxlm.model_io import CONFIG, READING, Mode, ModelBundle, predicts_ends, read_model
from syntaxlm.parsing.evaluation import ParsingReport, ScoredSentence, evaluate_parsing, scored_sentences
from syntaxlm.parsing.structure import Rule
from syntaxlm.scoring.perplexity import LanguageModelScore
from syntaxlm.training.recipe import Recipe
from syntaxlm.training.result import RESULT, TrainingResult, read_result
from syntaxlm.training.trainer import METRICS, RECIPE, read_run_recipe
from syntaxlm.trees import PROTOCOLS, GoldPreprocessing, ParsingScores, Protocol, SeedScores, right, score, trees_of

PAGE, TEMPLATE = "report.html", "report.html.jinja"
POINTS = 1000  # of a curve's line: of longer ones, points evenly chosen
DRAWN = 3  # best sentences, and as many worst ones
DRAWN_WORDS = range(6, 26)  # lengths of those: long enough to have structure, short enough to be read
LABELS, CHARTED_LABELS = 30, 10  # of the most frequent gold labels, how many the table has, and how many the chart


@dataclass(frozen=True)
class Validation:
    """A line of metrics.jsonl. Losses in nats per token. best: whether its weights were kept."""

    epoch: float
    step: int
    train_loss: float
    valid_loss: float
    best: bool


@dataclass(frozen=True)
class Metrics:
    """What a run's metrics.jsonl tells. training: (epoch, nats per token) of every line."""

    training: tuple[Point, ...]
    validations: tuple[Validation, ...]


@dataclass(frozen=True)
class Run:
    """What a training run left in a model's folder; None where there is nothing."""

    folder: Path
    recipe: Recipe | None
    metrics: Metrics | None
    result: TrainingResult | None


def read_run(folder: Path) -> Run:
    """Raises InputError for a file that is damaged; one that is not there is none."""
    return Run(
        folder,
        read_run_recipe(folder) if (folder / RECIPE).exists() else None,
        read_metrics(folder / METRICS) if (folder / METRICS).exists() else None,
        read_result(folder) if (folder / RESULT).exists() else None,
    )


def read_metrics(path: Path) -> Metrics:
    """Raises InputError naming file and line. A last line without its end is left out: it is being written."""
    training: list[Point] = []
    validations: list[Validation] = []
    for number, line in enumerate(read_text(path).split("\n")[:-1], 1):
        try:
            data = json.loads(line)
            epoch, step, loss = float(data["epoch"]), int(data["step"]), float(data["train_loss"])
            training.append((epoch, loss))
            if data["event"] == "valid":
                validations.append(Validation(epoch, step, loss, float(data["valid_loss"]), bool(data["best"])))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            shown = line if len(line) <= 60 else line[:60] + " ..."
            raise InputError(
                f"{path}, line {number}: found {shown!r}; expected a JSON object with event, step, epoch and train_loss"
                f", for a validation valid_loss and best, too ({type(error).__name__}: {error})"
            ) from error
    return Metrics(tuple(training), tuple(validations))


@dataclass(frozen=True)
class Paragraph:
    """missing: it tells why something is left out."""

    kind: ClassVar[str] = "paragraph"
    text: str
    missing: bool = False


@dataclass(frozen=True)
class Table:
    """rows: the first cell names the row. source: data and protocol of the figures.

    figures: whether the cells are numbers. folded: shown on demand.
    """

    kind: ClassVar[str] = "table"
    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    source: str = ""
    figures: bool = True
    folded: bool = False


@dataclass(frozen=True)
class Figure:
    """A picture. source: data and protocol; heading: over it, "" for none; table: the same figures, of this source."""

    kind: ClassVar[str] = "figure"
    picture: Picture
    source: str
    heading: str = ""
    table: Table | None = None


Block = Paragraph | Table | Figure


@dataclass(frozen=True)
class Part:
    """A part of the page under a heading. Tables beside each other where `beside` is set."""

    heading: str
    blocks: tuple[Block, ...]
    beside: bool = False

    @property
    def missing(self) -> str:
        """Why it is left out; "" where it is not."""
        return " ".join(block.text for block in self.blocks if isinstance(block, Paragraph) and block.missing)


@dataclass(frozen=True)
class KeyFigure:
    """A figure for the head of the page. source: data and protocol."""

    name: str
    value: str
    source: str


@dataclass(frozen=True)
class Page:
    """All that a page says. figures: at its head."""

    title: str
    figures: tuple[KeyFigure, ...]
    parts: tuple[Part, ...]

    @property
    def left_out(self) -> dict[str, str]:
        """Headings of what has no source, and why."""
        return {part.heading: part.missing for part in self.parts if part.missing}

    def html(self, theme: Theme = "auto") -> str:
        """The page as text. theme: auto is as the reader's system is set."""
        import jinja2  # here, for nothing else needs it
        from markupsafe import Markup

        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(Path(__file__).parent),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            finalize=lambda value: value if isinstance(value, Markup) else printable(str(value)),
        )
        return environment.get_template(TEMPLATE).render(page=self, theme=theme, version=syntaxlm.__version__)

    def write(self, path: Path, theme: Theme = "auto") -> WrittenReport:
        """Writes the page, whole or not at all. Raises InputError."""
        write_text(self.html(theme), path)
        return WrittenReport(path, self.left_out)


@dataclass(frozen=True)
class WrittenReport:
    """Where a page is. left_out: as `Page.left_out`."""

    path: Path
    left_out: dict[str, str]

    def as_dict(self) -> dict[str, Any]:
        return {"path": str(self.path), "left_out": self.left_out}

    def __str__(self) -> str:
        return "\n".join([str(self.path), *(f"left out: {name}. {why}" for name, why in self.left_out.items())])


def write_report(
    folder: str | Path,
    output: str | Path,
    treebank: str | Path | None = None,
    protocol: Protocol = PROTOCOLS["wsj-test"],
    decoder: Rule | None = None,
    clean_up: GoldPreprocessing | str | Path = "ptb-keep",
    layer: int | None = None,
    theme: Theme = "auto",
) -> WrittenReport:
    """Measures the model of a folder on a treebank and writes report.html into the folder `output`.

    decoder, layer: whose trees; None: the model's own.
    Without a treebank, and for a model that does not parse, the page is of the language model alone.
    Raises InputError as `read_model` and `evaluate_parsing` do, and for damaged files of the run.
    """
    folder, output = Path(folder), Path(output)
    stored, run = read_model(folder), read_run(folder)
    parsing = None
    if treebank is not None and stored.model.parses:
        parsing = evaluate_parsing(stored, treebank, protocol, decoder, clean_up, layer)
    page = page_of(stored, run, parsing)
    make_folder(output)
    return page.write(output / PAGE, theme)


def page_of(stored: ModelBundle, run: Run, parsing: ParsingReport | None, floor: float | None = None) -> Page:
    """The page of a model.

    parsing: of the model alone; None where there is none. floor: the lowest perplexity possible on the test text, where
    it is known.
    """
    parts = [settings_part(stored, run), training_part(run, stored.settings.mode), perplexity_part(run, floor)]
    if parsing is None:
        parts.append(Part("Trees beside gold", (Paragraph(_why_no_trees(stored), missing=True),)))
    else:
        parts += parsing_parts(stored, parsing)
    name = run.folder if run.folder.name else run.folder.resolve().name
    return Page(f"Report on {name}", key_figures(stored, run, parsing), tuple(parts))


def _why_no_trees(stored: ModelBundle) -> str:
    if not stored.model.parses:
        return (
            f"This model, of the kind {stored.settings.model.name}, gives no distances between words and no scores of"
            " spans, and so no trees: it is a language model alone. No treebank was read."
        )
    return "No treebank was given to measure the trees against."


def key_figures(stored: ModelBundle, run: Run, parsing: ParsingReport | None) -> tuple[KeyFigure, ...]:
    """The few that a reader looks for first; none of what was not measured."""
    figures = []
    texts = [] if run.result is None else [("test", run.result.test), ("validation", run.result.valid)]
    name, of_test = next(((name, one) for name, one in texts if one is not None), ("", None))
    if of_test is not None:
        what, value = "perplexity", f"{of_test.perplexity:,.2f}"
        if stored.normaliser.units == "characters":
            what, value = "bits per character", f"{of_test.bits_per_character:.3f}"
        figures.append(KeyFigure(f"{name} {what}", value, f"{of_test.source}, {_reading(of_test.mode)}"))
    if parsing is not None:
        scores = parsing.scores[parsing.chosen]
        layer = f", layer {parsing.layer}" if parsing.f1_by_layer else ""
        source = f"{parsing.gold.source}, {scores.sentences:,} sentences, protocol {scores.protocol}{layer}"
        figures.append(KeyFigure(f"F1, {parsing.chosen} decoder", percent(scores.f1), source))
        figures.append(KeyFigure("F1, right branching", percent(parsing.baselines.right.f1), "the same sentences"))
    return tuple(figures)


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _reading(mode: Mode) -> str:
    return {
        "sentences": "each sentence by itself",
        "open-sentences": "each sentence by itself, without its end",
        "stream": "read as one stream, state carried",
        "trees": "P(S | T), words given their trees",
    }[mode]


def settings_part(stored: ModelBundle, run: Run) -> Part:
    """All settings of the recipe; without one, those of the model and its normaliser."""
    weights = stored.model.parameter_count
    facts = {
        "kind": stored.settings.model.name,
        "weights": f"{weights:,}",
        "vocabulary": f"{len(stored.vocabulary):,} tokens",
        "trained on": READING[stored.settings.mode],
        "layers of distances": str(stored.model.distance_layers),
        "scores of spans": "yes" if stored.model.gives_span_scores else "no",
    }
    if run.recipe is not None:
        settings, first = run.recipe.as_dict(), Paragraph(f"All settings of {RECIPE}, by its sections.")
    else:
        own = stored.settings
        settings = {"model": dataclasses.asdict(own.model), "text": {"normaliser": dataclasses.asdict(own.normaliser)}}
        why = f"The folder has no {RECIPE}: text, optimiser and schedule are not known. Settings are those of {CONFIG}."
        first = Paragraph(why, missing=True)
    tables = [_settings_table(name, values) for name, values in _sections(settings)]
    return Part("Settings", (first, _settings_table("the model in short", facts), *tables), beside=True)


def _sections(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Nested settings as flat ones, each section by its dotted name: text, text.normaliser, ..."""
    for name, values in settings.items():
        if isinstance(values, dict):
            own = {key: value for key, value in values.items() if not isinstance(value, dict)}
            if own:
                yield prefix + name, own
            yield from _sections(values, f"{prefix}{name}.")


def _settings_table(title: str, values: Mapping[str, Any]) -> Table:
    rows = tuple((name, _setting(value)) for name, value in values.items())
    return Table(title, ("setting", "value"), rows, figures=False)


def _setting(value: Any) -> str:
    """As a recipe has it."""
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value)) or "none"
    return value if isinstance(value, str) else json.dumps(value).replace("null", "none")


def training_part(run: Run, mode: Mode) -> Part:
    """The curves of both losses, and every validation."""
    heading = "Training"
    metrics = run.metrics
    if metrics is None or not metrics.training:
        why = f"has no {METRICS}" if metrics is None else f"has nothing in its {METRICS} yet"
        return Part(heading, (Paragraph(f"The folder {why}: the course of the losses is not known.", missing=True),))
    valid = [(one.epoch, one.valid_loss) for one in metrics.validations]
    curves = {"training": thinned(metrics.training), "validation": thinned(valid)}
    picture = line_chart(
        {name: line for name, line in curves.items() if line}, "Loss", "epochs of the training text", "nats per token"
    )
    texts = "" if run.recipe is None else f"; training text {run.recipe.text.train}, validation {run.recipe.text.valid}"
    source = (
        f"{METRICS}{texts}; {_reading(mode)}. Training: mean over the steps since the validation before, dropout at"
        " work; validation: the whole text, without dropout."
    )
    table = None
    if metrics.validations:
        rows = tuple(
            (
                f"{one.epoch:.2f}", f"{one.step:,}", f"{one.train_loss:.4f}", f"{one.valid_loss:.4f}",
                "kept" if one.best else "",
            )
            for one in metrics.validations
        )  # fmt: skip
        heads = "epoch", "step", "training loss", "validation loss", "weights"
        table = Table("Every validation", heads, rows, folded=True)
    return Part(heading, (Paragraph(_course(run, metrics)), Figure(picture, source, table=table)))


def _course(run: Run, metrics: Metrics) -> str:
    steps = "" if run.result is None else f"{run.result.steps:,} steps in {run.result.seconds / 60:,.1f} minutes. "
    if not metrics.validations:
        return f"{steps}Not validated yet."
    best = min(metrics.validations, key=lambda one: one.valid_loss)
    return (
        f"{steps}The lowest validation loss, {best.valid_loss:.4f} nats per token, is that after epoch {best.epoch:.2f}"
        f" (step {best.step:,}): the model has its weights."
    )


def thinned(line: Sequence[Point]) -> list[Point]:
    """A line of at most about POINTS points, its last among them."""
    step = -(-len(line) // POINTS) or 1
    return [*line[:-1:step], *line[-1:]]


def perplexity_part(run: Run, floor: float | None = None) -> Part:
    """The scores of the kept weights on the validation and the test text."""
    heading = "Perplexity"
    if run.result is None:
        why = f"The folder has no {RESULT}: its training did not end here. `syntaxlm evaluate lm` measures a text."
        return Part(heading, (Paragraph(why, missing=True),))
    scores = {name: one for name in ("valid", "test") if (one := getattr(run.result, name)) is not None}
    heads = "text", "perplexity", "bits per token", "bits per character", "tokens", "of them unknown", "sentences"
    rows = tuple(_perplexity_row(f"{name} ({one.source})", one) for name, one in scores.items())
    modes = " and ".join(dict.fromkeys(_reading(one.mode) for one in scores.values()))
    with_ends = any(predicts_ends(one.mode) for one in scores.values())
    ends = "; ends of sentences are tokens, too" if with_ends else ""
    source = f"{RESULT}; {modes}{ends}."
    blocks: list[Block] = [Table("Scores of the kept weights", heads, rows, source)]
    if floor is not None and run.result.test is not None:
        share = run.result.test.perplexity / floor
        text = f"No model can be under {floor:.2f} on the test text: this one is at {share:.2f} times this floor."
        blocks.append(Paragraph(text))
    if run.result.test is None:
        blocks.append(Paragraph("The recipe names no test text."))
    return Part(heading, tuple(blocks))


def _perplexity_row(name: str, one: LanguageModelScore) -> tuple[str, ...]:
    unknown = f"{one.unknown:,} ({100 * one.unknown / one.tokens:.1f}%)"
    bits = f"{one.bits_per_token:.3f}", f"{one.bits_per_character:.3f}"
    return name, f"{one.perplexity:,.2f}", *bits, f"{one.tokens:,}", unknown, f"{one.sentences:,}"


def parsing_source(parsing: ParsingReport, evidence: str) -> str:
    """Data and protocol of everything that is measured by the treebank. evidence: "distances of layer 2"."""
    scores = parsing.scores[parsing.chosen]
    lengths = scores.by_sentence.lengths
    return (
        f"{parsing.gold.source}; clean-up {parsing.gold.clean_up}; protocol {scores.protocol}; {scores.sentences:,}"
        f" sentences of {lengths.min()} to {lengths.max()} words; {evidence}, by the"
        f" {' and the '.join(parsing.scores)} decoder"
    )


def parsing_parts(stored: ModelBundle, parsing: ParsingReport) -> list[Part]:
    """All that the treebank tells."""
    evidence = "scores of spans" if parsing.layer is None else f"distances of layer {parsing.layer}"
    chosen, source = parsing.scores[parsing.chosen], parsing_source(parsing, evidence)
    branching = score(right(parsing.gold.spans.lengths), parsing.gold.spans, chosen.protocol)
    compared = {**parsing.scores, "right branching": branching}
    return [
        f1_part(parsing, source),
        length_part(compared, source),
        label_part(compared, source),
        shape_part(chosen, compared, source),
        *sentence_parts(stored, parsing),
    ]


def f1_part(parsing: ParsingReport, source: str) -> Part:
    """All decoders beside every baseline and bound; of a model of several layers also the F1 of each."""
    baselines, random = parsing.baselines, parsing.baselines.random
    names = {name: f"{name} decoder{' (chosen)' * (name == parsing.chosen)}" for name in parsing.scores}
    rows = [_f1_row(names[name], one) for name, one in parsing.scores.items()]
    rows += [
        _f1_row(name, one)
        for name, one in (
            ("right branching", baselines.right),
            ("left branching", baselines.left),
            ("balanced", baselines.balanced),
        )
    ]
    rows.append(_seeds_row("random", random))
    if parsing.random_weights is not None:
        rows.append(_seeds_row(f"random weights, {parsing.chosen} decoder", parsing.random_weights.f1))
    rows.append(_f1_row("best binary trees", baselines.binary_bound))
    if baselines.biased_bound is not None:
        rows.append(_f1_row("best trees of the biased decoder", baselines.biased_bound))
    found = parsing.against_right
    difference = (
        f"The {parsing.chosen} decoder against right branching: F1 {100 * found.difference:+.1f}, 95% interval"
        f" {100 * found.low:+.1f} to {100 * found.high:+.1f}, p = {found.p_value:.4f} (paired bootstrap over"
        " sentences)."
    )
    table = Table("Unlabelled F1, percent", ("trees", "F1", "precision", "recall"), tuple(rows), source)
    blocks: list[Block] = [table, Paragraph(difference)]
    if parsing.f1_by_layer:
        blocks.append(layer_table(parsing))
    return Part("Trees beside gold", tuple(blocks))


def layer_table(parsing: ParsingReport) -> Table:
    """F1 of every layer of distances, by each decoder."""
    rows = tuple(
        (f"layer {layer}{' (chosen)' * (layer == parsing.layer)}", *map(percent, values.values()))
        for layer, values in parsing.f1_by_layer.items()
    )
    heads = "distances", *(f"{name} decoder" for name in next(iter(parsing.f1_by_layer.values())))
    return Table("F1 by layer, percent", heads, rows, parsing_source(parsing, "distances of each layer"))


def _f1_row(name: str, scores: ParsingScores) -> tuple[str, ...]:
    return name, percent(scores.f1), percent(scores.precision), percent(scores.recall)


def _seeds_row(name: str, scores: SeedScores) -> tuple[str, ...]:
    spread = f"± {percent(scores.deviation)}, at most {percent(scores.max)}"
    return f"{name}, mean of {scores.count} seeds ({spread})", percent(scores.mean), "", ""


def length_part(compared: Mapping[str, ParsingScores], source: str) -> Part:
    """compared: the decoders and right branching, by name."""
    values = {name: one.f1_by_length for name, one in compared.items()}
    return _measured("F1 by length", "F1, percent", ("words", "sentences"), values, source, None)


def label_part(compared: Mapping[str, ParsingScores], source: str) -> Part:
    """Recall of the gold labels. compared: the decoders and right branching, by name."""
    values = {name: one.recall_by_label for name, one in compared.items()}
    if not next(iter(values.values())):
        why = "The treebank's constituents have no labels."
        return Part("Recall by label", (Paragraph(why, missing=True),))
    of_spans = source + "; spans of two words or more"
    return _measured("Recall by label", "recall, percent", ("label", "gold spans"), values, of_spans, CHARTED_LABELS)


def _measured(
    heading: str,
    measure: str,
    heads: tuple[str, str],
    values: Mapping[str, Mapping[str, tuple[float, int]]],
    source: str,
    charted: int | None,
) -> Part:
    """A chart and a table. values: by series, then by row, (fraction, count). charted: how many of the rows."""
    counts = {row: count for row, (_, count) in next(iter(values.values())).items()}
    shown = list(counts)[:LABELS]
    bars = shown[:charted]
    series = {name: [round(100 * of_row[row][0], 1) for row in bars] for name, of_row in values.items()}
    rows = tuple((row, f"{counts[row]:,}", *(percent(of_row[row][0]) for of_row in values.values())) for row in shown)
    rest = len(counts) - len(shown)
    if rest:
        source += f"; {rest} rarer ones are left out"
    table = Table(f"{heading}: {measure}", (*heads, *values), rows)
    title = heading if len(bars) == len(counts) else f"{heading}: the {len(bars)} most frequent"
    return Part(heading, (Figure(bar_chart(bars, series, title, measure), source, table=table),))


def shape_part(chosen: ParsingScores, compared: Mapping[str, ParsingScores], source: str) -> Part:
    """Depth and branching of the trees beside gold."""
    shapes = {**{name: one.predicted_shape for name, one in compared.items()}, "gold": chosen.gold_shape}
    rows = tuple(
        (name, f"{shape.depth:.1f}", f"{shape.left:.1f}", f"{shape.right:.1f}")
        for name, shape in shapes.items()
        if shape is not None
    )
    heads = "trees", "mean depth", "left splits, percent", "right splits, percent"
    meaning = (
        "Depth: constituents above a word, the mean over a sentence's words, then over sentences. Splits: of the spans"
        " of three words or more, those that split off their last word (left) or their first (right)."
    )
    return Part("Depth and branching", (Table("Shape of the trees", heads, rows, source), Paragraph(meaning)))


def sentence_parts(stored: ModelBundle, parsing: ParsingReport) -> list[Part]:
    """The best and the worst sentences, drawn beside gold."""
    sentences = scored_sentences(parsing)
    best, worst, rule = best_and_worst(parsing, sentences)
    parts = []
    for heading, places in (("The best sentences", best), ("The worst sentences", worst)):
        blocks: list[Block] = [Paragraph(rule, missing=not places)]
        blocks += [_drawn(stored, parsing, place, sentences[place]) for place in places]
        parts.append(Part(heading, tuple(blocks)))
    return parts


def best_and_worst(
    parsing: ParsingReport, sentences: Sequence[ScoredSentence], count: int = DRAWN
) -> tuple[list[int], list[int], str]:
    """Places of the sentences of highest and of lowest F1, none in both, and how they were chosen.

    Of equal ones, those with more gold spans, then those that come first. sentences: all scored ones.
    """
    spans = parsing.scores[parsing.chosen].by_sentence.gold_spans.tolist()
    telling = [place for place, number in enumerate(spans) if number > 0]
    places = [place for place in telling if sentences[place].length in DRAWN_WORDS]
    rule = f"Chosen by F1 among the {len(places):,} sentences of {DRAWN_WORDS[0]} to {DRAWN_WORDS[-1]} words"
    if len(places) < 2 * count < len(telling) or not places:
        places = telling
        rule = f"Chosen by F1 among all {len(places):,} sentences"
    rule += " whose gold tree has spans that count; of equal ones, those with more of them."
    best = sorted(places, key=lambda place: (-sentences[place].f1, -spans[place]))[:count]
    rest = set(places) - set(best)
    worst = sorted(rest, key=lambda place: (sentences[place].f1, -spans[place], place))[:count]
    return best, worst, rule


def _drawn(stored: ModelBundle, parsing: ParsingReport, place: int, sentence: ScoredSentence) -> Figure:
    """The scored tree and the gold one; the bars are the distances."""
    index = parsing.scores[parsing.chosen].by_sentence.indices[[place]]
    gold = parsing.gold.trees[int(index[0])]
    (tree,) = trees_of(parsing.predicted[parsing.chosen].select(index), [gold.words])
    analysis = analyse(stored, gold, cast(Rule, parsing.chosen), parsing.layer)
    source = (
        f"F1 {percent(sentence.f1)}, precision {percent(sentence.precision)}, recall {percent(sentence.recall)}."
        f" Sentence {sentence.number:,} of {parsing.gold.source}, {sentence.length} words; {sentence.decoder} decoder;"
        f" clean-up {parsing.gold.clean_up}; protocol {sentence.protocol}."
    )
    if any(analysis.unknown):
        source += " Underlined words are not in the model's vocabulary."
    return Figure(Drawing(replace(analysis, tree=tree), gold).tree_picture(), source, " ".join(gold.words))
