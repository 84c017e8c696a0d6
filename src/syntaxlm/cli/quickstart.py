"""The quickstart: parses with the bundled model, trains a small model on the built-in corpus, evaluates and draws."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from syntaxlm.api.model_report import PAGE, page_of, read_run
from syntaxlm.core.files import check_name
from syntaxlm.data.corpora import read_lines
from syntaxlm.data.toy import write_corpus
from syntaxlm.drawing.terminal import draw_tree
from syntaxlm.evaluation.tree_report import ParsingReport
from syntaxlm.evaluation.trees import evaluate_parsing
from syntaxlm.models.abilities import ParsesSentences
from syntaxlm.parsing.options import DecodingOptions, ParseOptions
from syntaxlm.parsing.parse import parse_lines
from syntaxlm.storage.folder import read_model
from syntaxlm.text.options import AS_WRITTEN
from syntaxlm.training.recipe import read_recipe
from syntaxlm.training.recipe_files import find_recipe
from syntaxlm.training.result import TrainingResult
from syntaxlm.training.run import ProgressCallback, refuse_run, train

SENTENCES = 20_000
MINUTES = 0.5  # the most that training takes; it ends before the last epoch of some toy recipes
FIRST_MODEL = "en"
FIRST_SENTENCE = "The keys to the cabinet are on the table."
DRAWN_WORDS = range(6, 13)  # words per drawn sentence: enough for structure, few enough for a terminal


@dataclass(frozen=True)
class Quickstart:
    """Results of the quickstart.

    Attributes:
        floor: the lowest possible perplexity on the test text; None for a model that reads the trees.
        parsing: None for a model that does not parse, or if training was interrupted.
        report: path of the report; None if training was interrupted.
    """

    training: TrainingResult
    floor: float | None
    parsing: ParsingReport | None = None
    drawn: tuple[str, ...] = ()
    report: Path | None = None

    def to_dict(self) -> dict[str, Any]:
        parsing = self.parsing and self.parsing.to_dict()
        report = None if self.report is None else str(self.report)
        figures = {"training": self.training.to_dict(), "perplexity_floor": self.floor, "parsing": parsing}
        return figures | {"report": report}

    def __str__(self) -> str:
        if self.training.test is None:
            return str(self.training)
        perplexity = self.training.test.perplexity
        measured = f"Test perplexity {perplexity:.1f} of words given their trees, ends of sentences excluded."
        if self.floor is not None:
            measured = (
                f"Test perplexity {perplexity:.1f}; the lowest possible is {self.floor:.1f}, that of the grammar that"
                f" generated the text (ratio {perplexity / self.floor:.2f})."
            )
        lines = [measured, ""]
        if self.parsing is not None:
            seen = "Three sentences parsed by the model, which was trained without trees:"
            lines += [str(self.parsing), "", seen, *self.drawn, ""]
        lines.append(f"Model folder: {self.training.folder}")
        if self.report is not None:
            lines.append(f"Report: {self.report}")
        return "\n".join(lines)


def run_quickstart(
    folder: Path,
    model: str,
    seed: int = 1,
    say: Callable[[str], None] = print,
    callback: ProgressCallback | None = None,
    settings: Sequence[tuple[str, str]] = (),
) -> Quickstart:
    """Parse a sentence with the bundled model; then writes the corpus, trains the toy recipe of `model` on it,
    evaluates and draws. Raises InputError.

    Args:
        folder: a new folder; `corpus/`, `model/` and `report.html` are created in it.
        settings: overrides of the recipe, such as ("run.accelerator", "cpu").
    """
    check_name(folder)
    refuse_run(folder / "model")
    (first,) = parse_lines(read_model(FIRST_MODEL), [FIRST_SENTENCE], ParseOptions(**AS_WRITTEN))
    say(f"A parse by the bundled model {FIRST_MODEL}, which was trained without trees:\n{draw_tree(first.tree)}\n")
    say(f"Writing the built-in corpus, {SENTENCES:,} sentences, to {folder / 'corpus'}")
    corpus = folder / "corpus"
    write_corpus(corpus, SENTENCES, seed=0)
    path = find_recipe(f"{model}-toy")
    section = read_recipe(path).data_section
    of_trees = section == "trees"
    # The floor is that of words and sentence ends, without trees.
    floor = None if of_trees else json.loads((corpus / "floor.json").read_text(encoding="utf-8"))["test"]["floor"]
    suffix = "conllu" if of_trees else "txt"
    texts = [(f"{section}.{part}", os.fspath(corpus / f"{part}.{suffix}")) for part in ("train", "valid", "test")]
    recipe = read_recipe(path, [*texts, ("run.seed", str(seed)), ("schedule.minutes", str(MINUTES)), *settings])
    say(
        f"Training a {recipe.model.name} model on {'dependency trees' if of_trees else 'the words alone'},"
        f" for {60 * MINUTES:.0f} seconds at most"
    )
    result = train(recipe, folder / "model", callback)
    if result.stopped:
        return Quickstart(result, floor)
    stored = read_model(folder / "model")
    parsing: ParsingReport | None = None
    drawn: tuple[str, ...] = ()
    if isinstance(stored.model, ParsesSentences):
        say("Parsing the test sentences")
        # Distances are decoded by the unbiased rule, which prefers neither direction.
        decoding = DecodingOptions(decoder="unbiased" if "unbiased" in stored.model.decoders else None)
        parsing = evaluate_parsing(stored, corpus / "test.mrg", **vars(decoding))
        lines = [line for _, line in read_lines(corpus / "test.txt") if len(line.split()) in DRAWN_WORDS][:3]
        parses = parse_lines(stored, lines, ParseOptions(decoder=decoding.decoder, **AS_WRITTEN))
        drawn = tuple(draw_tree(parse.tree) for parse in parses)
    report = page_of(stored, read_run(folder / "model"), parsing, floor=floor).write(folder / PAGE)
    return Quickstart(result, floor, parsing, drawn, report.path)
