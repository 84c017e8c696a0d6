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

STOP_QUESTIONS = ("add left", "add right", "add next left", "add next right")  # of the classifiers of where trees end

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
        numbers: the seed of each value of `scores`; () if they are not known.
        parameters: of the model.
        text: what the model read.
    """

    value: str
    scores: tuple[Figure, ...] = ()
    parts: tuple[str, ...] = ()
    source: tuple[str, str] | None = None
    how: str = ""
    seeds: str | int | None = None
    numbers: tuple[int, ...] = ()
    parameters: int | None = None
    text: str = ""


def measured(entry: Entry) -> Measured:
    """The value that an entry of published.yaml names. Raises KeyError or ValueError for one that is not stored."""
    for name, read in _READERS.items():
        if name in entry:
            return read(entry)
    raise ValueError(f"{entry}: found {', '.join(entry)}; expected one of {', '.join(_READERS)}")


def _of_runs(runs: Runs, experiment: str, value: Measured) -> Measured:
    """Fill in what all values of some runs share: parameters, seeds, source, and what was read in training."""
    parameters, source = runs.first_run.parameters, (experiment, runs.name)
    numbers = tuple(runs.by_seed)
    value = replace(value, parameters=parameters, seeds=runs.shown_seeds, numbers=numbers, source=source)
    try:
        training = trained(experiment, runs.name)
    except KeyError:
        return value
    tokens = training.first_run.epoch_tokens
    epochs = Figure.of(float(report["epochs"]) for report in training.reports.values()).mean
    text = f"{epochs:.1f}".removesuffix(".0") + (" epoch" if epochs == 1 else " epochs")
    text += f", {short(epochs * tokens)} tokens" if tokens else ""
    return replace(value, parameters=training.first_run.parameters, text=text)


def _trees(entry: Entry) -> Measured:
    """F1 of `evaluate parse`. An entry can ask for F1 of a layer, recall of a label, or depth or sides of the trees.

    Raises:
        ValueError: for recall, depth or sides of another decoder than that of the report, which stores them for one.
    """
    runs = evaluated(entry)
    decoder = entry.get("decoder", runs.first["decoder"])
    if decoder != runs.first["decoder"] and entry.keys() & {"label", "depth", "sides"}:
        raise ValueError(f"{entry}: found the decoder {runs.first['decoder']} in the report")
    reports = runs.reports.values()
    if "label" in entry:
        scores = Figure.of(100 * report["recall_by_label"][entry["label"]][0] for report in reports)
    elif entry.get("depth"):
        scores = Figure.of(report["predicted_shape"]["depth"] for report in reports)
    elif "layer" in entry:
        scores = Figure.of(100 * report["f1_by_layer"][str(entry["layer"])][decoder] for report in reports)
    else:
        scores = runs.f1_by(decoder).times(100)
    how = f"`{decoder}`, `{runs.first['protocol']}`, {runs.first['sentences']:,} sentences"
    if "sides" in entry:
        shapes = [report["predicted_shape"] for report in reports]
        sides = {name: Figure.of(shape[name] for shape in shapes) for name in entry["sides"]}
        value = ", ".join(f"{name} {share:.1f}" for name, share in sides.items())
        return _of_runs(runs, entry["reports"], Measured(value, tuple(sides.values()), tuple(sides), how=how))
    return _of_runs(runs, entry["reports"], Measured(f"{scores:.1f}", (scores,), how=how))


def _perplexity(entry: Entry) -> Measured:
    """Perplexity of the test text, or its bits per token, from the reports of `train`."""
    runs = trained(entry["training"], entry.get("run", ""))
    scores = runs.perplexity("test")
    text = perplexity(scores)
    if entry.get("bits"):
        scores = Figure.of(report["test"]["bits_per_token"] for report in runs.reports.values())
        text = f"{scores:.3f}"
    value = _of_runs(runs, entry["training"], Measured(text, (scores,)))
    return replace(value, seeds=None, text="") if runs.first.get("counted") else value


def _picture(entry: Entry) -> Measured:
    return Measured(f"[picture](figures.md#{entry['picture']})", how=entry.get("how", ""))


def _baseline(entry: Entry) -> Measured:
    """F1 of a baseline on an evaluation set, from the report of a model (`of: EXPERIMENT`) or of the gold trees."""
    report = (
        parsed(entry["of"], entry["baselines"], entry["run"]).first if "of" in entry else baselines(entry["baselines"])
    )
    how = f"`{report['protocol']}`, {report['sentences']:,} sentences"
    scores = of_baseline(report, entry["name"]).times(100)
    source = (entry["of"], entry["run"]) if "of" in entry else ("baselines", "")
    return Measured(f"{scores:.1f}", (scores,), source=source, how=how)


def _attachment(entry: Entry) -> Measured:
    """Attachment score of a model, or of a baseline (`baseline: NAME`)."""
    run = stored_run(entry["attachment"], what="attachment", run=entry.get("run", ""))
    how = f"{run.report['sentences']:,} sentences"
    source = (entry["attachment"], run.run)
    report = run.report["baselines"][entry["baseline"]] if "baseline" in entry else run.report
    scores = Figure(100 * report[entry["side"]])
    value = Measured(f"{scores:.1f}", (scores,), source=source, how=how)
    if "baseline" in entry:
        return value
    training = trained(entry["attachment"], run.run).first_run
    return replace(value, seeds=1, parameters=training.parameters)


def _pairs(entry: Entry) -> Measured:
    """Accuracy on all of Marvin and Linzen's pairs, or on those over a distance (`distance: long`)."""
    run = stored_run("minimal-pairs", run=entry["pairs"], data="marvin-linzen")
    accuracies, numbers = zip(*(_of_pairs(model, entry.get("distance")) for model in run.report["models"]), strict=True)
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
        parts = [scores["all"] for name, scores in constructions.items() if name.startswith(distance)]
    number = sum(part["pairs"] for part in parts)
    return 100 * sum(part["accuracy"] * part["pairs"] for part in parts) / number, number


def _completion(entry: Entry) -> Measured:
    """Accuracy of sentence completion."""
    run = stored_run("completion", run=entry["completion"], novels=entry["novels"])
    seeds = None if entry["completion"] == "kn5" else 1
    scores = Figure(100 * run.report["models"][0]["all"]["accuracy"])
    return Measured(f"{scores:.1f}", (scores,), source=("completion", run.run), how="all questions", seeds=seeds)


def _interpolated(entry: Entry) -> Measured:
    """Accuracy of an interpolation of models, or of one of them (`model: NAME`)."""
    run = stored_run("completion", run=entry["interpolated"])
    scores, how = run.report["interpolated"]["second_half"], "second half of the questions"
    if "model" in entry:
        (scores,) = (model["all"] for model in run.report["models"] if model["model"] == entry["model"])
        how = "all questions"
    accuracy = Figure(100 * scores["accuracy"])
    source = "completion", run.run
    return Measured(f"{accuracy:.1f}", (accuracy,), source=source, how=how, seeds=1, text=entry.get("read", ""))


def _boundaries(entry: Entry) -> Measured:
    """F1 of word boundaries by the distance of the space, or of as many boundaries in random gaps (`random: true`)."""
    run = stored_run("characters", what="boundaries", run=entry["boundaries"])
    (row,) = (row for row in run.report["scores"] if row["reading"] == "space" and row["layer"] == 1)
    scores = Figure(100 * row["random_f1" if entry.get("random") else "f1"])
    return Measured(f"{scores:.1f}", (scores,), source=("characters", run.run), seeds=1)


def _logic(entry: Entry) -> Measured:
    """Accuracy on logical inference for formulas longer than those of training."""
    runs = trained("logic", entry["logic"])
    scores = Figure.of(100 * report["test"]["longer"]["accuracy"] for report in runs.reports.values())
    epochs = Figure.of(report["epochs"] for report in runs.reports.values()).mean
    return Measured(
        f"{scores:.1f}", (scores,), source=("logic", runs.name), how="7 to 12 operators", seeds=runs.count,
        numbers=tuple(runs.by_seed), parameters=runs.first_run.parameters, text=f"{epochs:.1f} epochs",
    )  # fmt: skip


def _stops(entry: Entry) -> Measured:
    """Accuracy of the classifiers of where trees end, or of always stopping (`always: true`), for each question."""
    run = stored_run("stops", run=entry["stops"], data=entry["data"], reads=entry["reads"])
    scores = run.report["test"]["every_word"]
    name = "always_stop" if entry.get("always") else "accuracy"
    accuracies = tuple(Figure(100 * scores[question][name]) for question in STOP_QUESTIONS)
    value = ", ".join(f"{accuracy:.1f}" for accuracy in accuracies)
    seeds = None if entry.get("always") else 1
    return Measured(value, accuracies, STOP_QUESTIONS, source=("stops", run.run), seeds=seeds)


def _speed(entry: Entry) -> Measured:
    """Speed of a loss of TreeRNN, relative to a softmax for each edge type."""
    run = stored_run("speed", run="tree_rnn")
    rows = {(row["case"], row["form"]): row["tokens_per_second"] for row in run.report["rows"]}
    case = f"100-200, 64 trees, V {entry['words']}"
    ratio = Figure(rows[case, entry["speed"]] / rows[case, "softmaxes by edge"])
    return Measured(f"{ratio:.2f}", (ratio,), source=("speed", run.run))


def _splits(entry: Entry) -> Measured:
    """Shares of left and of right splits, in percent, or one of them (`side: right`)."""
    run = stored_run("palm-splits", run=entry.get("run", ""))
    series = run.report["series"][entry["splits"]]
    sides = {name: Figure.of(values) for name, values in zip(("left", "right"), zip(*series, strict=True), strict=True)}
    if "side" in entry:
        sides = {entry["side"]: sides[entry["side"]]}
    size, seeds = (None, None) if entry["splits"] == "gold trees" else (run.parameters, len(series))
    value = ", ".join(f"{name} {share:.1f}" for name, share in sides.items())
    source = ("palm-splits", entry["splits"])
    return Measured(value, tuple(sides.values()), tuple(sides), source=source, seeds=seeds, parameters=size)


def _signal(entry: Entry) -> Measured:
    """Test perplexity of a model of a part of the text with a kind of trees, or its perplexity of GUM, or its F1."""
    model, trees, part = entry["signal"], entry["trees"], entry.get("part", "tenth")
    row = signal.compared(part)[model][trees]
    is_of_gum = entry.get("text") == "gum"
    by_seed = signal.of_gum(trees, part) if is_of_gum else signal.perplexities(row)
    scores = Figure.of(by_seed.values())
    how = "without trees" if trees == "none" else f"{signal.TREES[trees]} trees"
    if entry.get("f1"):
        by_seed = signal.by_seed(row, lambda run: 100 * float(run["treebank"]["f1"]))
        scores = Figure.of(by_seed.values())
        how = f"`{row['treebank']['decoder']}`, {row['treebank']['sentences']:,} sentences"
    epochs = row["epochs"]["mean"]
    text = f"{epochs:.0f} epochs, {short(epochs * row['epoch_tokens'])} tokens"
    return Measured(
        f"{scores:.1f}", (scores,), source=(signal.EXPERIMENT, f"{part}-{model}-{trees}"), how=how,
        seeds=len(by_seed), numbers=tuple(by_seed), parameters=row["parameters"], text=text,
    )  # fmt: skip


def _measurement(entry: Entry) -> Measured:
    """Values of a report of a program of the laboratory, in the format of the entry."""
    run = stored_run(entry["measurement"], run=entry["run"])
    scores = tuple(Figure(run.report[name]) for name in entry["values"])
    value = ", ".join(f"{score:{entry['format']}}" for score in scores)
    parts = tuple(entry["values"]) if len(scores) > 1 else ()
    return Measured(value, scores, parts, source=(entry["measurement"], entry["run"]))


_READERS: dict[str, Callable[[Entry], Measured]] = {
    "reports": _trees, "training": _perplexity, "picture": _picture, "baselines": _baseline, "attachment": _attachment,
    "pairs": _pairs, "completion": _completion, "interpolated": _interpolated, "boundaries": _boundaries,
    "logic": _logic, "stops": _stops, "speed": _speed, "splits": _splits, "signal": _signal,
    "measurement": _measurement,
}  # fmt: skip
