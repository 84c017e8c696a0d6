"""The columns of results, from the tables that files and data frames are made with."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import get_args

from laboratory.pages.markdown import plain, table
from syntaxlm.cli import all_commands
from syntaxlm.evaluation.items import REGION_COLUMNS
from syntaxlm.reports.tables import Column, Columns
from syntaxlm.scoring.options import Measure
from syntaxlm.scoring.regions import combination
from syntaxlm.scoring.surprisal import MEASURES, SURPRISALS

# Each table, and the commands that write it.
TABLES = {
    "syntaxlm.scoring.surprisal:SURPRISALS": ["score"],
    "syntaxlm.evaluation.item_design:MEANS": ["items --table means"],
    "syntaxlm.evaluation.item_design:CONTRASTS": ["items --table contrasts"],
    "syntaxlm.parsing.result:CONSTITUENTS": ["parse"],
    "syntaxlm.generation.sentences:GENERATED_SENTENCES": ["generate"],
    "syntaxlm.generation.sentences:SAMPLED_TREES": ["generate --trees"],
    "syntaxlm.generation.trees:GENERATED_TREES": ["generate"],
    "syntaxlm.evaluation.perplexity:PERPLEXITIES": ["evaluate perplexity"],
    "syntaxlm.evaluation.inspection:FILES_READ": ["inspect"],
    "syntaxlm.evaluation.tree_report:PARSING_SCORES": ["evaluate parse", "evaluate trees"],
    "syntaxlm.evaluation.attachment:DEPENDENCY_SCORES": ["evaluate parse"],
    "syntaxlm.evaluation.agreement:MODEL_AGREEMENT": ["evaluate agreement"],
    "syntaxlm.comparison.averages:AVERAGED_TREES": ["average"],
    "syntaxlm.evaluation.boundaries:BOUNDARY_SCORES": ["evaluate boundaries"],
    "syntaxlm.evaluation.pairs:PAIR_ACCURACIES": ["evaluate pairs"],
    "syntaxlm.evaluation.suites:SUITE_ACCURACIES": ["evaluate suites"],
    "syntaxlm.evaluation.completion:COMPLETION_ACCURACIES": ["evaluate completion"],
    "syntaxlm.evaluation.pair_classification:CLASSIFIER_ACCURACIES": ["evaluate logic", "evaluate classifier"],
    "syntaxlm.evaluation.significance:COMPARED_MODELS": ["evaluate significance"],
    "syntaxlm.evaluation.reranking:RERANKING_SCORES": ["rerank"],
    "syntaxlm.comparison.report:COMPARED_RECIPES": ["compare"],
    "syntaxlm.evaluation.cache_tuning:CACHE_TRIALS": ["tune cache"],
    "syntaxlm.evaluation.grammar:GRAMMAR_ENTRIES": ["grammar"],
    "syntaxlm.evaluation.grammar:CONCORDANCE": ["grammar"],
    "syntaxlm.api.listings:MODEL_FOLDERS": ["models list"],
    "syntaxlm.api.listings:BUNDLED_RECIPES": ["recipes list"],
}


def measure_table() -> str:
    """The columns of `syntaxlm score` that measure a word."""
    return _column_table({"surprisal": SURPRISALS["surprisal"], **MEASURES})


def item_table() -> str:
    """The columns of `syntaxlm items`."""
    return _column_table({"model": Column("text", "name of the model"), **REGION_COLUMNS})


def _column_table(columns: Mapping[str, Column]) -> str:
    """A row for each column."""
    rows = ([f"`{name}`", column.type, plain(column.meaning)] for name, column in columns.items())
    return table(["column", "type", "meaning"], rows)


def combination_table() -> str:
    """How `syntaxlm items` combines the values of words in a region."""
    ways = {"sum": "sum over the words", "first": "value of the first word", "last": "value of the last word"}
    measures = ["surprisal", *get_args(Measure)]
    by_way = {way: [f"`{name}`" for name in measures if combination(name) == way] for way in ways}
    return table(["value of a region", "measures"], ([title, ", ".join(by_way[way])] for way, title in ways.items()))


def format_table() -> str:
    """The formats of every command, and the extensions of an output file that choose them."""
    rows = []
    for name, command in all_commands().items():
        option = command.declared.get("format")
        if option is not None:
            names = " ".join(f"`{choice}`" for choice in option.choices)
            default = f"`{option.default}`" if option.default else "see the command"
            suffixes = " ".join(f"`{suffix}`" for suffix in command.formats or ())
            rows.append([f"`{name}`", names, default, suffixes])
    return table(["command", "formats", "default", "extensions of `-o FILE`"], rows)


def list_of_tables() -> str:
    """Each table, what its rows are, and the commands that write it."""
    rows = (
        [table_at(place).name, plain(table_at(place).row), ", ".join(map(_link, commands))]
        for place, commands in TABLES.items()
    )
    return table(["table", "one row per", "written by"], rows)


def _link(command: str) -> str:
    page = command.partition(" --")[0].replace(" ", "-")
    return f"[`{command}`](../commands/{page}.md#output-columns)"


def table_at(place: str) -> Columns:
    """The table at "module:NAME"."""
    module, _, name = place.partition(":")
    columns: Columns = getattr(importlib.import_module(module), name)
    return columns


def columns_of(place: str, titled: bool = False) -> str:
    """The columns of a table. titled: below its name, for a command with several."""
    columns = table_at(place)
    heading = f"### {columns.name[0].upper()}{columns.name[1:]}\n\n" if titled else ""
    return f"{heading}One row per {plain(columns.row)}.\n\n{_column_table(columns)}"
