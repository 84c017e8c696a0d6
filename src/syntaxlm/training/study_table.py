"""The results of a comparison of recipes: figures over seeds, as a table and as rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from syntaxlm.core.tables import Column, Columns, HasRows
from syntaxlm.scoring.perplexity import LanguageModelScore
from syntaxlm.training.recipe import LanguageModelRecipe, TreeRecipe
from syntaxlm.training.result import Figure, TrainingResult
from syntaxlm.training.treebank_scores import SHORT, TreebankBaseline, TreebankScore


@dataclass(frozen=True)
class Row:
    """The finished runs of one recipe.

    parameters: number of trainable parameters; tied parameters are counted once.
    epoch_tokens: number of tokens that are predicted in an epoch of training.
    vocabulary: the tokens of the vocabulary, without those that stand for the start and end of a sentence.
    trees: for each run, its score on the treebank; None for a model that does not parse, and without a treebank.
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
        found = [getattr(run, text) for run in self.runs]
        return [score for score in found if score is not None]

    def figure(self, text: str, measure: str) -> Figure | None:
        """Return a statistic over the finished runs, if any.  measure: "perplexity" or "bits_per_character"."""
        return Figure.of([getattr(score, measure) for score in self.scores(text)])

    @property
    def epochs(self) -> Figure | None:
        return Figure.of([run.epochs for run in self.runs])

    @property
    def seconds(self) -> Figure | None:
        """Training time, including the time for validation."""
        return Figure.of([run.seconds for run in self.runs])

    @property
    def minutes(self) -> Figure | None:
        return Figure.of([run.seconds / 60 for run in self.runs])

    @property
    def tokens_per_second(self) -> Figure | None:
        """Training speed, including the time for validation."""
        tokens = self.epoch_tokens
        if tokens is None:
            return None
        return Figure.of([run.epochs * tokens / run.seconds for run in self.runs if run.seconds])

    @property
    def criterion(self) -> Figure | None:
        """The models' own criterion on the validation text, for models without probabilities."""
        return Figure.of([run.criterion.value for run in self.runs if run.criterion is not None])

    @property
    def tree_scores(self) -> list[TreebankScore]:
        return [score for score in self.trees if score is not None]

    def tree_figure(self, name: str) -> Figure | None:
        """Return a statistic of an attribute of `TreebankScore` over the runs that have it."""
        values = [getattr(score, name) for score in self.tree_scores]
        return Figure.of([value for value in values if value is not None])

    @property
    def decoder(self) -> str:
        """The decoder of the trees, such as "biased, layer 2"; empty without trees."""
        decoders = {f"{one.decoder}, layer {one.layer}" if one.layer else one.decoder for one in self.tree_scores}
        return "; ".join(sorted(decoders))

    def to_dict(self) -> dict[str, Any]:
        """Return all figures for JSON."""
        texts = {
            text: {measure: _plain(self.figure(text, measure)) for measure in ("perplexity", "bits_per_character")}
            for text in ("valid", "test")
        }
        costs = {name: _plain(getattr(self, name)) for name in ("epochs", "seconds", "minutes", "tokens_per_second")}
        counts = {"parameters": self.parameters, "epoch_tokens": self.epoch_tokens}
        scores = self.trees or [None] * len(self.runs)
        runs = [
            run.to_dict() | {"treebank": score and score.to_dict()}
            for run, score in zip(self.runs, scores, strict=True)
        ]
        own = {"criterion": self._criterion(), "treebank": self._tree_figures()}
        return {"recipe": self.name, "reads": self.reads} | texts | counts | costs | own | {"runs": runs}

    def _criterion(self) -> dict[str, Any] | None:
        for run in self.runs:
            if run.criterion is not None:
                return {"name": run.criterion.name, "unit": run.criterion.unit, **(_plain(self.criterion) or {})}
        return None

    def _tree_figures(self) -> dict[str, Any] | None:
        if not self.tree_scores:
            return None
        first = self.tree_scores[0]
        return {
            "f1": _plain(self.tree_figure("f1")),
            f"f1_up_to_{SHORT}": _plain(self.tree_figure("short_f1")),
            "sentences": first.sentences,
            f"sentences_up_to_{SHORT}": first.short_sentences,
            "decoder": self.decoder,
            "sentences_per_second": _plain(self.tree_figure("sentences_per_second")),
        }


def _plain(figure: Figure | None) -> dict[str, Any] | None:
    return None if figure is None else {"mean": figure.mean, "std": figure.std, "count": figure.count}


COMPARED_RECIPES = Columns(
    "comparison of recipes",
    "recipe and text, or baseline",
    {
        "recipe": Column("text", "name of the recipe or of the baseline"),
        "text": Column("text", "valid or test, the text of the perplexity; missing for a baseline"),
        "perplexity": Column("number", "mean perplexity over the finished runs; missing for models without one"),
        "perplexity_std": Column("number", "sample standard deviation over runs"),
        "bits_per_character": Column("number", "mean bits per character over the finished runs"),
        "bits_per_character_std": Column("number", "sample standard deviation over runs"),
        "runs": Column("integer", "number of finished runs"),
        "seeds": Column("integer", "requested number of runs; for random trees, number of seeds"),
        "parameters": Column("integer", "number of trainable parameters"),
        "epochs": Column("number", "mean number of epochs"),
        "minutes": Column("number", "mean training time in minutes"),
        "tokens_per_second": Column("number", "mean training speed, with validation"),
        "seconds": Column("number", "mean training time in seconds"),
        "reads": Column("text", "words, characters, tags or dependency trees; perplexities of different ones differ"),
        "role": Column("text", "recipe or baseline"),
        "f1": Column("number", "mean unlabelled F1 on the treebank, 0 to 1; the same for valid and test"),
        "f1_std": Column("number", "sample standard deviation over runs or seeds"),
        f"f1_up_to_{SHORT}": Column("number", f"mean F1 of the sentences of up to {SHORT} words"),
        f"f1_up_to_{SHORT}_std": Column("number", "sample standard deviation over runs or seeds"),
        "decoder": Column("text", "decoder of the trees, the default of the model; and the layer, for distances"),
        "sentences_per_second": Column(
            "number",
            "sentences of the treebank, up to the limit of length if there is one, divided by the wall-clock time of"
            " parsing them, without loading the model, reading and scoring",
        ),
        "treebank": Column("text", "file of the gold trees"),
        "protocol": Column("text", "name of the protocol"),
        "preprocessing": Column("text", "gold-tree preprocessing"),
    },
)


@dataclass(frozen=True)
class Comparison(HasRows):
    """The results of a comparison.

    recipes: the runs of each recipe.
    seeds: requested number of seeds.
    faults: error messages of the runs that failed, by folder.
    stopped: whether the comparison was interrupted.
    treebank: path, protocol and preprocessing of the treebank; None without a treebank.
    baselines: F1 of trees that need no model; empty without a treebank.
    text_notes: notes about texts that differ.
    """

    folder: Path
    recipes: list[Row]
    seeds: int
    faults: dict[str, str] = field(default_factory=dict)
    stopped: bool = False
    treebank: Mapping[str, Any] | None = None
    baselines: Sequence[TreebankBaseline] = ()
    text_notes: Sequence[str] = ()

    columns = COMPARED_RECIPES

    @property
    def measure(self) -> str:
        """The measure of the table: bits per character if any model is a character-level model, else perplexity."""
        return _measure(self.recipes)

    @property
    def groups(self) -> list[list[Row]]:
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

    def to_dict(self) -> dict[str, Any]:
        """Return all figures for JSON."""
        treebank = self.treebank and {**self.treebank, "baselines": [one.to_dict() for one in self.baselines]}
        return {
            "schema_version": 2,  # 1 had "deviation" for "std"
            "folder": str(self.folder),
            "measure": self.measure,
            "seeds": self.seeds,
            "rows": [row.to_dict() for row in self.recipes],
            "treebank": treebank,
            "notes": self.notes,
            "faults": self.faults,
            "stopped": self.stopped,
        }

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row for each baseline, and for each recipe and text with a result: the columns of
        `COMPARED_RECIPES`.
        """
        empty = dict.fromkeys(self.columns) | self._treebank_cells()
        for recipe in self.recipes:
            costs = {name: getattr(recipe, name) for name in ("epochs", "minutes", "seconds", "tokens_per_second")}
            of_recipe = {
                "recipe": recipe.name,
                "role": "recipe",
                "reads": recipe.reads,
                "runs": len(recipe.runs),
                "seeds": self.seeds,
                "parameters": recipe.parameters,
                "decoder": recipe.decoder or None,
                "sentences_per_second": _mean(recipe.tree_figure("sentences_per_second")),
                **{name: _mean(figure) for name, figure in costs.items()},
                **_cells("f1", recipe.tree_figure("f1")),
                **_cells(f"f1_up_to_{SHORT}", recipe.tree_figure("short_f1")),
            }
            for text in ("valid", "test"):
                if not recipe.runs or getattr(recipe.recipe.data, text) is None:
                    continue
                for name in ("perplexity", "bits_per_character"):
                    of_recipe |= _cells(name, recipe.figure(text, name))
                yield empty | of_recipe | {"text": text}
        for baseline in self.baselines:
            yield empty | {
                "recipe": baseline.name,
                "role": "baseline",
                "seeds": baseline.seeds,
                "f1": baseline.f1,
                "f1_std": baseline.std,
                f"f1_up_to_{SHORT}": baseline.short_f1,
                f"f1_up_to_{SHORT}_std": baseline.short_std,
            }

    def _treebank_cells(self) -> dict[str, Any]:
        if self.treebank is None:
            return {}
        names = {"preprocessing": self.treebank["preprocessing"], "protocol": self.treebank["protocol"]["name"]}
        return {"treebank": self.treebank["source"], **names}

    def __str__(self) -> str:
        groups, blocks = self.groups, []
        for rows in groups:
            units = " and ".join(dict.fromkeys(row.reads for row in rows))
            title = "recipe" if len(groups) == 1 else f"recipe ({units})"
            blocks.append([self._heads(rows, title), *(self._cells_of(row, _measure(rows)) for row in rows)])
        blocks[-1] += [self._baseline_cells(one, len(blocks[0][0])) for one in self.baselines]
        widths = [max(map(len, column)) for column in zip(*(line for block in blocks for line in block), strict=True)]
        shown = ["\n".join(_aligned(cells, widths) for cells in block) for block in blocks]
        notes = [*self._explained(), *(f"note: {note}" for note in self.notes)]
        stopped = ["Stopped; finished runs and checkpoints are saved. Resume with the same command."]
        return "\n".join(["\n\n".join(shown), *notes, *(stopped if self.stopped else [])])

    def _heads(self, rows: Sequence[Row], title: str) -> list[str]:
        measure = _measure(rows).replace("_", " ")
        trees = ["F1", f"F1 to {SHORT}", "decoder"] if self.treebank else []
        speed = ["sentences/s"] if self.treebank else []
        costs = ["parameters", "epochs", "seconds", "tokens/s", *speed, "seeds"]
        return [title, *trees, f"valid {measure}", f"test {measure}", *costs]

    def _cells_of(self, row: Row, measure: str) -> list[str]:
        decimals = 3 if measure == "bits_per_character" else 2
        trees, speed = [], []
        if self.treebank:
            trees = [_percent(row.tree_figure("f1")), _percent(row.tree_figure("short_f1")), row.decoder or "-"]
            speed = [_shown_mean(row.tree_figure("sentences_per_second"), 0)]
        return [
            row.name,
            *trees,
            _shown(row.figure("valid", measure), decimals),
            _shown(row.figure("test", measure), decimals),
            "-" if row.parameters is None else f"{row.parameters:,}",
            _shown_mean(row.epochs, 2),
            _shown_mean(row.seconds, 1),
            _shown_mean(row.tokens_per_second, 0),
            *speed,
            f"{len(row.runs)} of {self.seeds}",
        ]

    @staticmethod
    def _baseline_cells(baseline: TreebankBaseline, columns: int) -> list[str]:
        seeds = baseline.seeds or 1
        f1 = _percent(Figure(baseline.f1, baseline.std or 0.0, seeds))
        short = None if baseline.short_f1 is None else Figure(baseline.short_f1, baseline.short_std or 0.0, seeds)
        return [baseline.name, f1, _percent(short), *([""] * (columns - 4)), f"{seeds}" if baseline.seeds else ""]

    def _explained(self) -> list[str]:
        """Describe the F1 of the table."""
        scores = [score for row in self.recipes for score in row.tree_scores]
        if self.treebank is None:
            return []
        protocol, preprocessing = self.treebank["protocol"]["name"], self.treebank["preprocessing"]
        first = f"F1: {self.treebank['source']}   preprocessing {preprocessing}   protocol {protocol}"
        if scores:
            first += f"   sentences {scores[0].sentences:,}, {scores[0].short_sentences:,} of up to {SHORT} words"
        return ["", first]


def _measure(rows: Sequence[Row]) -> str:
    characters = any(row.recipe.data.normaliser.units == "characters" for row in rows)
    return "bits_per_character" if characters else "perplexity"


def _reading_notes(rows: Sequence[Row]) -> list[str]:
    """Return reasons why the perplexities of these recipes are not directly comparable."""
    notes, measure = [], _measure(rows)
    readings = {row.name: _reading(row.recipe) for row in rows}
    if len(set(readings.values())) > 1:
        of_rows = "; ".join(f"{name}: {reading}" for name, reading in readings.items())
        notes.append(f"the recipes read the text in different ways: {of_rows}")
    for reads in dict.fromkeys(row.reads for row in rows):
        of_units = [row for row in rows if row.reads == reads and row.vocabulary]
        if len({row.vocabulary for row in of_units}) > 1:
            sizes = ", ".join(f"{row.name} {len(row.vocabulary):,}" for row in of_units)
            notes.append(
                f"the recipes have different vocabularies (numbers of {reads}: {sizes}), so their perplexities are not"
                " comparable"
            )
    for text in ("valid", "test"):
        counts = {}
        for row in rows:
            for score in row.scores(text)[:1]:
                of_measure = score.characters if measure == "bits_per_character" else score.tokens
                counts[row.name] = of_measure, score.unknown
        if len(set(counts.values())) > 1:
            unit = "characters" if measure == "bits_per_character" else "tokens"
            of_rows = ", ".join(f"{name} {count:,} ({unknown:,} unknown)" for name, (count, unknown) in counts.items())
            notes.append(f"{text}: the recipes predict different {unit}: {of_rows}")
    return notes


def _reading(recipe: LanguageModelRecipe) -> str:
    """Describe how a recipe's model reads text."""
    return "words given their trees" if isinstance(recipe, TreeRecipe) else str(recipe.mode)


def _mean(figure: Figure | None) -> float | None:
    return None if figure is None else figure.mean


def _cells(name: str, figure: Figure | None) -> dict[str, float | None]:
    return {name: _mean(figure), f"{name}_std": None if figure is None else figure.std}


def _shown(figure: Figure | None, decimals: int) -> str:
    return "-" if figure is None else figure.shown(decimals)


def _shown_mean(figure: Figure | None, decimals: int) -> str:
    return _shown(figure and dataclasses.replace(figure, count=1), decimals)


def _percent(figure: Figure | None) -> str:
    return _shown(figure and Figure(100 * figure.mean, 100 * figure.std, figure.count), 1)


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join([cells[0].ljust(widths[0]), *map(str.rjust, cells[1:], widths[1:])]).rstrip()
