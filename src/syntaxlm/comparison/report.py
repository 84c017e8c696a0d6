"""The results of a comparison of recipes: figures over seeds, F1 on a treebank, and their report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from syntaxlm.comparison.treebank import SHORT, TreebankBaseline, TreebankScore
from syntaxlm.core.errors import InputError
from syntaxlm.drawing.plot import Plot
from syntaxlm.drawing.seed_plot import Seeds, plot_seeds
from syntaxlm.evaluation.perplexity import LanguageModelScore
from syntaxlm.reports.report import HasReport, Report
from syntaxlm.reports.tables import RIGHT, Column, Columns, ReportTable
from syntaxlm.reports.writers import plain
from syntaxlm.statistics.intervals import mean_interval
from syntaxlm.training.recipe import LanguageModelRecipe, TreeRecipe
from syntaxlm.training.result import Figure, TrainingResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PlottedMeasure = Literal["f1", "perplexity", "bits_per_character"]
FEWEST_SEEDS = 3  # whose mean has an interval in a plot
_F1_OF_SHORT = f"f1_up_to_{SHORT}"
_TEXTS = ("valid", "test")
_MEASURES = ("perplexity", "bits_per_character")


@dataclass
class RecipeRuns:
    """The finished runs of one recipe.

    Attributes:
        parameters: number of trainable parameters; tied parameters are counted once.
        epoch_tokens: number of tokens that are predicted in an epoch of training.
        vocabulary: without the tokens of the start and end of a sentence.
        trees: by run; None without a treebank, and for a model that does not parse.
    """

    name: str
    recipe: LanguageModelRecipe
    runs: tuple[TrainingResult, ...] = ()
    parameters: int | None = None
    epoch_tokens: int | None = None
    vocabulary: frozenset[str] = frozenset()
    trees: tuple[TreebankScore | None, ...] = ()

    @property
    def reads(self) -> str:
        """What the models read: words, characters, tags, or dependency trees."""
        return "dependency trees" if isinstance(self.recipe, TreeRecipe) else self.recipe.data.normaliser.units

    def scores(self, text: str) -> list[LanguageModelScore]:
        """Return the score of each finished run on a text, "valid" or "test"."""
        scores = [getattr(run, text) for run in self.runs]
        return [score for score in scores if score is not None]

    def figure(self, text: str, measure: str) -> Figure | None:
        """Return a statistic over the finished runs, if any.

        Args:
            measure: "perplexity" or "bits_per_character".
        """
        return Figure.of([getattr(score, measure) for score in self.scores(text)])

    @property
    def figures(self) -> dict[str, Figure | None]:
        """Statistics over the finished runs, by column of the report: of training with validation, and of the trees."""
        runs = self.runs
        tokens = self.epoch_tokens
        trees = self.tree_scores
        values = {
            "epochs": [run.epochs for run in runs],
            "seconds": [run.seconds for run in runs],
            "minutes": [run.seconds / 60 for run in runs],
            "tokens_per_second": [run.epochs * tokens / run.seconds for run in runs if run.seconds] if tokens else [],
            "f1": [score.f1 for score in trees],
            _F1_OF_SHORT: [score.short_f1 for score in trees if score.short_f1 is not None],
            "sentences_per_second": [score.sentences_per_second for score in trees],
        }
        return {name: Figure.of(numbers) for name, numbers in values.items()}

    @property
    def tree_scores(self) -> list[TreebankScore]:
        return [score for score in self.trees if score is not None]

    @property
    def decoder(self) -> str | None:
        """The decoder of the trees, such as "biased, layer 2"; None without trees."""
        scores = self.tree_scores
        decoders = {f"{score.decoder}, layer {score.layer}" if score.layer else score.decoder for score in scores}
        return "; ".join(sorted(decoders)) or None

    def to_dict(self) -> dict[str, Any]:
        figures, trees = self.figures, self.tree_scores
        tree_figures: dict[str, Any] = {
            name: figures.pop(name) for name in ("f1", _F1_OF_SHORT, "sentences_per_second")
        }
        if trees:
            counts = {"sentences": trees[0].sentences, f"sentences_up_to_{SHORT}": trees[0].short_sentences}
            tree_figures |= counts | {"decoder": self.decoder}
        # For models without probabilities, their own criterion on the validation text.
        criteria = [run.criterion for run in self.runs if run.criterion is not None]
        criterion = Figure.of([criterion.value for criterion in criteria])
        scores = self.trees or [None] * len(self.runs)
        entries = {
            "recipe": self.name,
            "reads": self.reads,
            **{text: {measure: self.figure(text, measure) for measure in _MEASURES} for text in _TEXTS},
            "parameters": self.parameters,
            "epoch_tokens": self.epoch_tokens,
            **figures,
            "criterion": criterion and {"name": criteria[0].name, "unit": criteria[0].unit, **vars(criterion)},
            "treebank": tree_figures if trees else None,
            "runs": [run.to_dict() | {"treebank": score} for run, score in zip(self.runs, scores, strict=True)],
        }
        content: dict[str, Any] = plain(entries)
        return content


COMPARED_RECIPES = Columns(
    "comparison of recipes",
    "recipe and text, or baseline",
    {
        "recipe": Column("text", "name of the recipe or of the baseline"),
        "text": Column("text", "valid or test, the text of the perplexity; missing for a baseline"),
        "perplexity": Column("number", "mean perplexity over the finished runs; missing for models without one"),
        "perplexity_std": Column("number", "sample standard deviation over runs; missing for one run"),
        "bits_per_character": Column("number", "mean bits per character over the finished runs"),
        "bits_per_character_std": Column("number", "sample standard deviation over runs; missing for one run"),
        "runs": Column("integer", "number of finished runs"),
        "seeds": Column("integer", "requested number of runs; for random trees, number of seeds"),
        "parameters": Column("integer", "number of trainable parameters"),
        "epochs": Column("number", "mean number of epochs"),
        "minutes": Column("number", "mean training time in minutes"),
        "tokens_per_second": Column("number", "mean training speed, with validation"),
        "seconds": Column("number", "mean training time in seconds"),
        "reads": Column("text", "words, characters, tags or dependency trees, whose perplexities cannot be compared"),
        "role": Column("text", "recipe or baseline"),
        "f1": Column("number", "mean unlabelled F1 on the treebank, 0 to 1 (equal in the rows valid and test)"),
        "f1_std": Column("number", "sample standard deviation over runs or seeds; missing for one"),
        f"f1_up_to_{SHORT}": Column("number", f"mean F1 of the sentences of up to {SHORT} words"),
        f"f1_up_to_{SHORT}_std": Column("number", "sample standard deviation over runs or seeds; missing for one"),
        "decoder": Column("text", "default decoder of the model, which made the trees, and the layer for distances"),
        "sentences_per_second": Column(
            "number",
            "number of parsed sentences of the treebank, divided by the wall-clock time of parsing, without loading,"
            " reading and scoring",
        ),
        "treebank": Column("text", "file of the gold trees"),
        "protocol": Column("text", "name of the protocol"),
        "preprocessing": Column("text", "gold-tree preprocessing"),
    },
)


@dataclass
class Comparison(HasReport):
    """The results of a comparison.

    Attributes:
        recipes: the runs of each recipe.
        seeds: requested number of seeds.
        faults: error messages of the runs that failed, by folder.
        stopped: whether the comparison was interrupted.
        treebank: path, protocol and preprocessing of the treebank; None without a treebank.
        baselines: F1 of trees that need no model; empty without a treebank.
        text_notes: notes about texts that differ.
    """

    folder: Path
    recipes: list[RecipeRuns]
    seeds: int
    faults: dict[str, str] = field(default_factory=dict)
    stopped: bool = False
    treebank: Mapping[str, Any] | None = None
    baselines: Sequence[TreebankBaseline] = ()
    text_notes: Sequence[str] = ()

    @property
    def measure(self) -> str:
        """The measure of the table: bits per character if any model is a character-level model, else perplexity."""
        return _measure(self.recipes)

    @property
    def groups(self) -> list[list[RecipeRuns]]:
        """The recipes whose perplexities may be comparable: those that read text, and those that read tags."""
        tags = [row for row in self.recipes if row.reads == "tags"]
        return [rows for rows in ([row for row in self.recipes if row not in tags], tags) if rows]

    @property
    def notes(self) -> list[str]:
        """Reasons why the figures of some recipes are not directly comparable."""
        notes = list(self.text_notes)
        for rows in self.groups:
            notes += _reading_notes(rows)
        for row in self.recipes:
            scores = [*row.scores("valid"), *row.scores("test")]
            if scores and scores[0].likelihood_estimate:
                notes.append(f"{row.name}: figures are estimates, {scores[0].likelihood_estimate}")
        return notes

    def report(self) -> Report:
        treebank, notes = self.treebank, self.notes
        figures = {
            "schema_version": 2,
            "folder": str(self.folder),
            "measure": self.measure,
            "seeds": self.seeds,
            "rows": self.recipes,
            "treebank": treebank and {**treebank, "baselines": self.baselines},
            "notes": notes,
            "faults": self.faults,
            "stopped": self.stopped,
        }
        described, facts = {}, {}
        if treebank is not None:
            described = {"preprocessing": treebank["preprocessing"], "protocol": treebank["protocol"]["name"]}
            facts = {"F1:": treebank["source"], **described}
            described["treebank"] = treebank["source"]
        if scores := [score for row in self.recipes for score in row.tree_scores]:
            facts["sentences"] = f"{scores[0].sentences:,}, {scores[0].short_sentences:,} of up to {SHORT} words"
        stopped = "Stopped; finished runs and checkpoints are saved. Resume with the same command."
        return Report(
            COMPARED_RECIPES,
            [dict.fromkeys(COMPARED_RECIPES) | described | row for row in self._rows()],
            figures,
            facts,
            tables=[self._table(rows) for rows in self.groups],
            notes=[*(f"note: {note}" for note in notes), *([stopped] if self.stopped else [])],
        )

    def plot(self, measure: PlottedMeasure | None = None, ax: Axes | None = None) -> Plot:
        """Return a row for each recipe: a dot per seed, their mean, and from three seeds on its 95% interval (t).

        Args:
            measure: "f1", of the treebank, with baselines as lines; or "perplexity" or "bits_per_character", on the
                test text or, if a recipe has none, on the validation text. By default F1, without a treebank the
                measure of the table.
            ax: axes of matplotlib to draw on, instead of a new figure

        Raises:
            InputError: no run has the measure, or matplotlib is not installed.
        """
        chosen = measure or ("f1" if self.treebank is not None else self.measure)
        levels = {}
        if chosen == "f1":
            values = {row.name: [100 * score.f1 for score in row.tree_scores] for row in self.recipes}
            levels = {f"{baseline.name} {100 * baseline.f1:.1f}": 100 * baseline.f1 for baseline in self.baselines}
            treebank = self.treebank or {"source": "", "protocol": {"name": ""}}
            label = f"unlabelled F1, {Path(treebank['source']).name}, {treebank['protocol']['name']}"
        else:
            text = "test" if all(row.scores("test") for row in self.recipes if row.scores("valid")) else "valid"
            values = {row.name: [getattr(score, chosen) for score in row.scores(text)] for row in self.recipes}
            label = f"{text} {chosen.replace('_', ' ')}"
        rows = [_seeds(name, of_seeds) for name, of_seeds in values.items() if of_seeds]
        if not rows:
            raise InputError(f"measure: found {chosen!r}, which no finished run has; expected a measure of the table")
        label += "; one dot per seed, mean" + " with 95% interval (t)" * any(row.interval for row in rows)
        return plot_seeds(f"Seeds of {len(rows)} recipes", rows, levels, label, ax)

    def _rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row for each recipe and text with a result, and for each baseline."""
        for recipe in self.recipes:
            for text in _TEXTS:
                if not recipe.runs or getattr(recipe.recipe.data, text) is None:
                    continue
                row = {
                    "recipe": recipe.name,
                    "role": "recipe",
                    "reads": recipe.reads,
                    "runs": len(recipe.runs),
                    "seeds": self.seeds,
                    "parameters": recipe.parameters,
                    "decoder": recipe.decoder,
                    "text": text,
                }
                text_figures = {measure: recipe.figure(text, measure) for measure in _MEASURES}
                for name, figure in (recipe.figures | text_figures).items():
                    row[name] = figure and figure.mean
                    if f"{name}_std" in COMPARED_RECIPES:
                        row[f"{name}_std"] = figure and figure.std
                yield row
        for baseline in self.baselines:
            yield {
                "recipe": baseline.name,
                "role": "baseline",
                "seeds": baseline.seeds,
                "f1": baseline.f1,
                "f1_std": baseline.std,
                _F1_OF_SHORT: baseline.short_f1,
                f"{_F1_OF_SHORT}_std": baseline.short_std,
            }

    def _table(self, rows: Sequence[RecipeRuns]) -> ReportTable:
        """Return one table for reading; the last one has the baselines."""
        measure = _measure(rows)
        units = " and ".join(dict.fromkeys(row.reads for row in rows))
        lines = [self._line(row, measure) for row in rows]
        for baseline in self.baselines if rows == self.groups[-1] else ():
            line: dict[str, str | None] = {"recipe": baseline.name, "seeds": str(baseline.seeds or "")}
            short_figures = (f"F1 to {SHORT}", baseline.short_f1, baseline.short_std)
            for heading, mean, std in (("F1", baseline.f1, baseline.std), short_figures):
                line[heading] = _percent(None if mean is None else Figure(mean, std, baseline.seeds or 1))
            lines.append(line)
        names = list(dict.fromkeys(name for line in lines for name in line))
        title = "recipe" if len(self.groups) == 1 else f"recipe ({units})"
        headings = {
            title if name == "recipe" else name: "" if name in ("recipe", "decoder") else RIGHT for name in names
        }
        return ReportTable(headings, [[line.get(name, "") for name in names] for line in lines])

    def _line(self, row: RecipeRuns, measure: str) -> dict[str, str | None]:
        """Return the cells of a recipe, by heading."""
        figures = row.figures
        decimals = 3 if measure == "bits_per_character" else 2
        means = {"epochs": ("epochs", 2), "seconds": ("seconds", 1), "tokens/s": ("tokens_per_second", 0)}
        line: dict[str, str | None] = {"recipe": row.name}
        if self.treebank is not None:
            line |= {"F1": _percent(figures["f1"]), f"F1 to {SHORT}": _percent(figures[_F1_OF_SHORT])}
            line["decoder"] = row.decoder
            means["sentences/s"] = ("sentences_per_second", 0)
        for text in _TEXTS:
            perplexity = row.figure(text, measure)
            line[f"{text} {measure.replace('_', ' ')}"] = None if perplexity is None else perplexity.shown(decimals)
        line["parameters"] = None if row.parameters is None else f"{row.parameters:,}"
        for heading, (name, places) in means.items():
            figure = figures[name]
            line[heading] = None if figure is None else f"{figure.mean:,.{places}f}"
        return line | {"seeds": f"{len(row.runs)} of {self.seeds}"}


def _seeds(name: str, values: Sequence[float]) -> Seeds:
    """Return the values of the seeds of a recipe, with the interval of their mean if they are not too few."""
    interval = mean_interval(np.array(values))
    return Seeds(name, values, (interval.low, interval.high) if len(values) >= FEWEST_SEEDS else None)


def _percent(figure: Figure | None) -> str | None:
    if figure is None:
        return None
    std = None if figure.std is None else 100 * figure.std
    return Figure(100 * figure.mean, std, figure.count).shown(1)


def _measure(rows: Sequence[RecipeRuns]) -> str:
    characters = any(row.recipe.data.normaliser.units == "characters" for row in rows)
    return "bits_per_character" if characters else "perplexity"


def _reading_notes(rows: Sequence[RecipeRuns]) -> list[str]:
    """Return reasons why the perplexities of these recipes are not directly comparable."""
    notes, measure = [], _measure(rows)
    readings = {
        row.name: "words given their trees" if isinstance(row.recipe, TreeRecipe) else str(row.recipe.mode)
        for row in rows
    }
    if len(set(readings.values())) > 1:
        described = "; ".join(f"{name}: {reading}" for name, reading in readings.items())
        notes.append(f"the recipes read the text in different ways: {described}")
    for reads in dict.fromkeys(row.reads for row in rows):
        same_units = [row for row in rows if row.reads == reads and row.vocabulary]
        if len({row.vocabulary for row in same_units}) > 1:
            sizes = ", ".join(f"{row.name} {len(row.vocabulary):,}" for row in same_units)
            notes.append(
                f"the recipes have different vocabularies (numbers of {reads}: {sizes}), so their perplexities are not"
                " comparable"
            )
    unit = "characters" if measure == "bits_per_character" else "tokens"
    for text in _TEXTS:
        # Of each recipe, the runs that predict as many tokens together: a time limit may cut the text of some.
        counts = {
            row.name: tuple(dict.fromkeys((getattr(score, unit), score.unknown) for score in row.scores(text)))
            for row in rows
            if row.scores(text)
        }
        if len(set().union(*counts.values())) > 1:
            different = "recipes" if len(set(counts.values())) > 1 else "runs"
            described = ", ".join(
                f"{name} {count:,} ({unknown:,} unknown)" for name, pairs in counts.items() for count, unknown in pairs
            )
            notes.append(f"{text}: the {different} predict different {unit}: {described}")
    return notes
