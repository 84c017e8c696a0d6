"""Sections of a report about the model itself: settings, training, perplexity."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from syntaxlm.drawing.charts import Point, line_chart
from syntaxlm.model_io import CONFIG, ModelBundle, structure_name
from syntaxlm.reports.page import Block, Figure, Paragraph, Section, Table
from syntaxlm.reports.run import Metrics, Run
from syntaxlm.scoring.perplexity import LanguageModelScore
from syntaxlm.training.result import RESULT
from syntaxlm.training.trainer import METRICS, RECIPE

POINTS = 1000  # per curve; longer curves are thinned evenly


def how_read(score: LanguageModelScore) -> str:
    """How the text was read for a score."""
    return "words given their trees" if score.given_trees else str(score.mode)


def settings_section(stored: ModelBundle, run: Run) -> Section:
    """All settings of the recipe; without a recipe, those of the model and normaliser."""
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
    """Nested settings as flat ones, each section under its dotted name: text, text.normaliser, ..."""
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
    """A value as written in a recipe."""
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value)) or "none"
    return value if isinstance(value, str) else json.dumps(value).replace("null", "none")


def training_section(run: Run, reading: str) -> Section:
    """Training and validation loss as curves, with a table of all validations."""
    heading, metrics = "Training", run.metrics
    if metrics is not None and metrics.rounds:
        counted = f"Trained by counting; number of rounds: {metrics.rounds}. There are no loss curves."
        return Section(heading, (Paragraph(counted),))
    if metrics is None or not metrics.training:
        why = f"has no {METRICS}" if metrics is None else f"has an empty {METRICS}"
        return Section(heading, (Paragraph(f"The folder {why}, so there are no loss curves.", missing=True),))
    valid = [(one.epoch, one.valid_loss) for one in metrics.validations]
    curves = {"training": thinned(metrics.training), "validation": thinned(valid)}
    picture = line_chart(
        {name: line for name, line in curves.items() if line}, "Loss", "epochs of the training text", "nats per token"
    )
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
    """At most about POINTS points of a line, evenly chosen; the last point is included."""
    step = -(-len(line) // POINTS) or 1
    return [*line[:-1:step], *line[-1:]]


def perplexity_section(run: Run, floor: float | None = None) -> Section:
    """Scores of the saved weights on validation and test text. floor: the lowest possible perplexity, if known."""
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
