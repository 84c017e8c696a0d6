"""Our values beside the published ones: what an entry of published.yaml names, read from the stored results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from laboratory.pages import signal
from laboratory.pages.papers import evaluated
from laboratory.pages.stored_results import (
    Figure,
    Runs,
    baselines,
    of_baseline,
    parsed,
    perplexity,
    short,
    trained,
)
from laboratory.results.store import stored_run

Entry = dict[str, Any]


@dataclass(frozen=True)
class Measured:
    """A stored value, and where it comes from.

    Attributes:
        value: as a table shows it.
        scores: the numbers of the value, by seed where there are seeds, in its unit.
        parts: names of the numbers, if there are several.
        source: experiment and run of the stored lines.
        how: decoder, protocol and sentences of F1, or else what was measured.
        seeds: number of seeds; None: nothing in the value is random.
        parameters: of the model.
        text: what the model read.
    """

    value: str
    scores: tuple[Figure, ...] = ()
    parts: tuple[str, ...] = ()
    source: tuple[str, str] | None = None
    how: str = ""
    seeds: str | int | None = None
    parameters: int | None = None
    text: str = ""


def measured(one: Entry) -> Measured:
    """The value that an entry of published.yaml names. Raises KeyError or ValueError for one that is not stored."""
    for name, read in _READERS.items():
        if name in one:
            return read(one)
    raise ValueError(f"{one}: found {', '.join(one)}; expected one of {', '.join(_READERS)}")


def _of_runs(runs: Runs, experiment: str, shown: Measured) -> Measured:
    """Fill in what all values of some runs share."""
    parameters, source = runs.first_run.parameters, (experiment, runs.name)
    shown = replace(shown, parameters=parameters, seeds=runs.shown_seeds, source=source)
    try:
        training = trained(experiment, runs.name)
    except KeyError:
        return shown
    tokens = training.first_run.epoch_tokens
    epochs = Figure.of(float(report["epochs"]) for report in training.reports.values()).mean
    text = f"{epochs:.1f}".removesuffix(".0") + (" epoch" if epochs == 1 else " epochs")
    text += f", {short(epochs * tokens)} tokens" if tokens else ""
    return replace(shown, parameters=training.first_run.parameters, text=text)


def _trees(one: Entry) -> Measured:
    """F1 of `evaluate parse`; by layer, recall of a label, depth or sides of the trees, where an entry asks for it."""
    runs = evaluated(one)
    decoder = one.get("decoder", runs.first["decoder"])
    reports = runs.reports.values()
    if "label" in one:
        scores = Figure.of(100 * report["recall_by_label"][one["label"]][0] for report in reports)
    elif one.get("depth"):
        scores = Figure.of(report["predicted_shape"]["depth"] for report in reports)
    elif "layer" in one:
        scores = Figure.of(100 * report["f1_by_layer"][str(one["layer"])][decoder] for report in reports)
    else:
        scores = runs.f1_by(decoder).times(100)
    how = f"`{decoder}`, `{runs.first['protocol']}`, {runs.first['sentences']:,} sentences"
    if "sides" in one:
        shapes = [report["predicted_shape"] for report in reports]
        sides = {name: Figure.of(shape[name] for shape in shapes) for name in one["sides"]}
        value = ", ".join(f"{name} {share:.1f}" for name, share in sides.items())
        return _of_runs(runs, one["reports"], Measured(value, tuple(sides.values()), tuple(sides), how=how))
    return _of_runs(runs, one["reports"], Measured(f"{scores:.1f}", (scores,), how=how))


def _perplexity(one: Entry) -> Measured:
    """Perplexity of the test text, or its bits per token, from the reports of `train`."""
    runs = trained(one["training"], one.get("run", ""))
    scores = runs.perplexity("test")
    value = perplexity(scores)
    if one.get("bits"):
        scores = Figure.of(report["test"]["bits_per_token"] for report in runs.reports.values())
        value = f"{scores:.3f}"
    shown = _of_runs(runs, one["training"], Measured(value, (scores,)))
    return replace(shown, seeds=None, text="") if runs.first.get("counted") else shown


def _picture(one: Entry) -> Measured:
    return Measured(f"[picture](figures.md#{one['picture']})", how=one.get("how", ""))


def _baseline(one: Entry) -> Measured:
    """F1 of a baseline on an evaluation set, from the report of a model (`of: EXPERIMENT`) or of the gold trees."""
    report = parsed(one["of"], one["baselines"], one["run"]).first if "of" in one else baselines(one["baselines"])
    how = f"`{report['protocol']}`, {report['sentences']:,} sentences"
    scores = of_baseline(report, one["name"]).times(100)
    source = (one["of"], one["run"]) if "of" in one else ("baselines", "")
    return Measured(f"{scores:.1f}", (scores,), source=source, how=how)


def _attachment(one: Entry) -> Measured:
    run = stored_run(one["attachment"], what="attachment", run=one.get("run", ""))
    how, source = f"{run.report['sentences']:,} sentences", (one["attachment"], run.run)
    report = run.report["baselines"][one["baseline"]] if "baseline" in one else run.report
    scores = Figure(100 * report[one["side"]])
    shown = Measured(f"{scores:.1f}", (scores,), source=source, how=how)
    if "baseline" in one:
        return shown
    training = trained(one["attachment"], run.run).first_run
    return replace(shown, seeds=1, parameters=training.parameters)


def _pairs(one: Entry) -> Measured:
    """Accuracy on all of Marvin and Linzen's pairs, or on those over a distance (`distance: long`)."""
    run = stored_run("minimal-pairs", run=one["pairs"], data="marvin-linzen")
    accuracies, numbers = zip(*(_of_pairs(model, one.get("distance")) for model in run.report["models"]), strict=True)
    scores = Figure.of(accuracies)
    return Measured(
        f"{scores:.1f}", (scores,), source=("minimal-pairs", run.run), how=f"{numbers[0]:,} pairs",
        seeds=len(accuracies), parameters=run.parameters,
    )  # fmt: skip


def _of_pairs(model: Mapping[str, Any], distance: str | None) -> tuple[float, int]:
    """Return the accuracy of a model in percent, and the number of pairs."""
    parts = [model["all"]]
    if distance is not None:
        constructions = model["by_group"]["construction"]
        parts = [found["all"] for name, found in constructions.items() if name.startswith(distance)]
    number = sum(part["pairs"] for part in parts)
    return 100 * sum(part["accuracy"] * part["pairs"] for part in parts) / number, number


def _completion(one: Entry) -> Measured:
    run = stored_run("completion", run=one["completion"], novels=one["novels"])
    seeds = None if one["completion"] == "kn5" else 1
    scores = Figure(100 * run.report["models"][0]["all"]["accuracy"])
    return Measured(f"{scores:.1f}", (scores,), source=("completion", run.run), how="all questions", seeds=seeds)


def _interpolated(one: Entry) -> Measured:
    """Accuracy of an interpolation of models, or of one of them (`model: NAME`)."""
    run = stored_run("completion", run=one["interpolated"])
    scores, how = run.report["interpolated"]["second_half"], "second half of the questions"
    if "model" in one:
        (scores,) = (model["all"] for model in run.report["models"] if model["model"] == one["model"])
        how = "all questions"
    accuracy = Figure(100 * scores["accuracy"])
    source = "completion", run.run
    return Measured(f"{accuracy:.1f}", (accuracy,), source=source, how=how, seeds=1, text=one.get("read", ""))


def _boundaries(one: Entry) -> Measured:
    """F1 of word boundaries by the distance of the space, or of as many boundaries in random gaps (`random: true`)."""
    run = stored_run("characters", what="boundaries", run=one["boundaries"])
    (row,) = (row for row in run.report["scores"] if row["reading"] == "space" and row["layer"] == 1)
    scores = Figure(100 * row["random_f1" if one.get("random") else "f1"])
    return Measured(f"{scores:.1f}", (scores,), source=("characters", run.run), seeds=1)


def _logic(one: Entry) -> Measured:
    runs = trained("logic", one["logic"])
    scores = Figure.of(100 * report["test"]["longer"]["accuracy"] for report in runs.reports.values())
    epochs = Figure.of(report["epochs"] for report in runs.reports.values()).mean
    return Measured(
        f"{scores:.1f}", (scores,), source=("logic", runs.name), how="7 to 12 operators", seeds=runs.count,
        parameters=runs.first_run.parameters, text=f"{epochs:.1f} epochs",
    )  # fmt: skip


def _stops(one: Entry) -> Measured:
    """Accuracy of the classifiers of where trees end, or of always stopping (`always: true`), for each question."""
    run = stored_run("stops", run=one["stops"], data=one["data"], reads=one["reads"])
    scores, name = run.report["test"]["every_word"], "always_stop" if one.get("always") else "accuracy"
    accuracies = tuple(Figure(100 * scores[question][name]) for question in STOP_QUESTIONS)
    value, seeds = ", ".join(f"{accuracy:.1f}" for accuracy in accuracies), None if one.get("always") else 1
    return Measured(value, accuracies, STOP_QUESTIONS, source=("stops", run.run), seeds=seeds)


STOP_QUESTIONS = ("add left", "add right", "add next left", "add next right")


def _speed(one: Entry) -> Measured:
    """Speed of a loss of TreeRNN, relative to a softmax for each edge type."""
    run = stored_run("speed", run="tree_rnn")
    rows = {(row["case"], row["form"]): row["tokens_per_second"] for row in run.report["rows"]}
    case = f"100-200, 64 trees, V {one['words']}"
    ratio = Figure(rows[case, one["speed"]] / rows[case, "softmaxes by edge"])
    return Measured(f"{ratio:.2f}", (ratio,), source=("speed", run.run))


def _splits(one: Entry) -> Measured:
    """Shares of left and of right splits, in percent, or one of them (`side: right`)."""
    run = stored_run("palm-splits", run=one.get("run", ""))
    series = run.report["series"][one["splits"]]
    sides = {name: Figure.of(values) for name, values in zip(("left", "right"), zip(*series, strict=True), strict=True)}
    if "side" in one:
        sides = {one["side"]: sides[one["side"]]}
    trees = one["splits"] == "gold trees"
    size, seeds = (None, None) if trees else (run.parameters, len(series))
    value, source = ", ".join(f"{name} {share:.1f}" for name, share in sides.items()), ("palm-splits", one["splits"])
    return Measured(value, tuple(sides.values()), tuple(sides), source=source, seeds=seeds, parameters=size)


def _signal(one: Entry) -> Measured:
    """Test perplexity of a model of a part of the text with a kind of trees, or its perplexity of GUM, or its F1."""
    model, trees, part, is_of_gum = one["signal"], one["trees"], one.get("part", "tenth"), one.get("text") == "gum"
    row = signal.compared(part)[model][trees]
    scores = Figure.of(signal.of_gum(trees, part) if is_of_gum else signal.perplexities(row))
    how = "without trees" if trees == "none" else f"{signal.TREES[trees]} trees"
    if one.get("f1"):
        scores = Figure.of(100 * run["treebank"]["f1"] for run in row["runs"])
        how = f"`{row['treebank']['decoder']}`, {row['treebank']['sentences']:,} sentences"
    epochs = row["epochs"]["mean"]
    text = f"{epochs:.0f} epochs, {short(epochs * row['epoch_tokens'])} tokens"
    return Measured(
        f"{scores:.1f}", (scores,), source=(signal.EXPERIMENT, f"{part}-{model}-{trees}"), how=how,
        seeds=len(scores.values), parameters=row["parameters"], text=text,
    )  # fmt: skip


def _measurement(one: Entry) -> Measured:
    """Values of a report of a program of the laboratory, in the format of the entry."""
    run = stored_run(one["measurement"], run=one["run"])
    values = tuple(Figure(run.report[name]) for name in one["values"])
    shown = ", ".join(f"{value:{one['format']}}" for value in values)
    parts = tuple(one["values"]) if len(values) > 1 else ()
    return Measured(shown, values, parts, source=(one["measurement"], one["run"]))


_READERS: dict[str, Callable[[Entry], Measured]] = {
    "reports": _trees, "training": _perplexity, "picture": _picture, "baselines": _baseline, "attachment": _attachment,
    "pairs": _pairs, "completion": _completion, "interpolated": _interpolated, "boundaries": _boundaries,
    "logic": _logic, "stops": _stops, "speed": _speed, "splits": _splits, "signal": _signal,
    "measurement": _measurement,
}  # fmt: skip
