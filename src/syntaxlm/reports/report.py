"""A report on a model: one HTML page of its settings, training, perplexity and trees.

The page is a single file without scripts and needs no network. It states which parts are missing and why.
"""

from __future__ import annotations

from pathlib import Path

import torch

from syntaxlm.drawing.svg import Theme
from syntaxlm.files import make_folder
from syntaxlm.model_io import ModelBundle, read_model
from syntaxlm.models.abilities import Parses
from syntaxlm.parsing.evaluation import evaluate_parsing
from syntaxlm.parsing.report import ParsingReport
from syntaxlm.parsing.structure import Rule
from syntaxlm.reports.model_sections import how_read, perplexity_section, settings_section, training_section
from syntaxlm.reports.page import KeyFigure, Page, Paragraph, Section, WrittenReport
from syntaxlm.reports.parsing_sections import parsing_sections, percent
from syntaxlm.reports.run import Run, read_run
from syntaxlm.trees import PROTOCOLS, GoldPreprocessing, Protocol

PAGE = "report.html"


def write_report(
    folder: str | Path,
    output: str | Path,
    treebank: str | Path | None = None,
    protocol: Protocol = PROTOCOLS["wsj-test"],
    decoder: Rule | None = None,
    clean_up: GoldPreprocessing | str | Path = "ptb-keep",
    layer: int | None = None,
    theme: Theme = "auto",
    device: torch.device | str = "cpu",
) -> WrittenReport:
    """Evaluate the model of a folder on a treebank and write report.html into the folder `output`.

    decoder, layer: used to parse; None: the model's default. Without a treebank, or for a model that does not parse,
    the page only covers the language model.
    device: where the model runs.
    Raises InputError like `read_model` and `evaluate_parsing`, and for damaged files of the run.
    """
    folder, output = Path(folder), Path(output)
    stored, run = read_model(folder), read_run(folder)
    stored.to(device)
    parsing = None
    if treebank is not None and isinstance(stored.model, Parses):
        parsing = evaluate_parsing(stored, treebank, protocol, decoder, clean_up, layer)
    page = page_of(stored, run, parsing)
    make_folder(output)
    return page.write(output / PAGE, theme)


def page_of(stored: ModelBundle, run: Run, parsing: ParsingReport | None, floor: float | None = None) -> Page:
    """The page of a model.

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
    if not isinstance(stored.model, Parses):
        return (
            f"This model, of type {stored.name}, gives neither distances nor span scores or probabilities, so it does"
            " not parse. No treebank was read."
        )
    return "No treebank was given, so the trees were not evaluated."


def key_figures(stored: ModelBundle, run: Run, parsing: ParsingReport | None) -> tuple[KeyFigure, ...]:
    """The main results, for the top of the page."""
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
