"""docs/papers.md: every experiment of the papers with its outcome, its values beside ours, and the commands of ours."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from laboratory.pages import signal
from laboratory.pages.markdown import table
from laboratory.pages.papers import evaluated, marvin_linzen_models, published
from laboratory.pages.stored_results import (
    EVALUATION_SETS,
    Figure,
    Runs,
    baselines,
    general_command,
    of_baseline,
    parsed,
    percent,
    perplexity,
    short,
    trained,
)
from laboratory.pages.trainings import present_commands
from laboratory.results.store import StoredRun, select, stored_run

OUTCOMES = ("reproduced", "found at small size", "not found", "not run")
Entry = dict[str, Any]


@dataclass(frozen=True)
class Measured:
    """A stored value as text, and where it comes from.

    how: decoder, protocol and sentences of F1, or else what was measured.  seeds, parameters, text: of the model.
    """

    value: str
    how: str = ""
    seeds: str | int | None = None
    parameters: int | None = None
    text: str = ""
    commands: tuple[str, ...] = ()


def measured(one: Entry) -> Measured:
    """The value that an entry of published.yaml names. Raises KeyError or ValueError for one that is not stored."""
    for name, read in _READERS.items():
        if name in one:
            return read(one)
    raise ValueError(f"{one}: found {', '.join(one)}; expected one of {', '.join(_READERS)}")


def _of_runs(runs: Runs, experiment: str, commands: Sequence[str]) -> Callable[[str, str], Measured]:
    """Fill in what all values of some runs share; the caller adds the value and how it was measured."""
    known = Measured("", commands=tuple(commands), parameters=runs.first_run.parameters, seeds=runs.shown_seeds)
    try:
        training = trained(experiment, runs.name)
    except KeyError:
        return lambda value, how: replace(known, value=value, how=how)
    tokens = training.first_run.epoch_tokens
    epochs = Figure.of(float(report["epochs"]) for report in training.reports.values()).mean
    text = f"{epochs:.1f}".removesuffix(".0") + (" epoch" if epochs == 1 else " epochs")
    text += f", {short(epochs * tokens)} tokens" if tokens else ""
    size = training.first_run.parameters
    return lambda value, how: replace(known, value=value, how=how, parameters=size, text=text)


def _commands(run: StoredRun) -> tuple[str, ...]:
    """The commands that trained the model of a run and wrote its report. Raises KeyError if they are not known."""
    if run.command is None:
        raise KeyError(f"{run.what}, {run.run!r}: no command is stored of this run")
    return (*([general_command(run.training)] if run.training else []), run.command)


def _trees(one: Entry) -> Measured:
    """F1 of `evaluate parse`; by layer, recall of a label, or depth of the trees, where an entry asks for it."""
    runs = evaluated(one)
    decoder = one.get("decoder", runs.first["decoder"])
    reports = runs.reports.values()
    if "label" in one:
        value = percent(Figure.of(report["recall_by_label"][one["label"]][0] for report in reports))
    elif one.get("depth"):
        value = perplexity(Figure.of(report["predicted_shape"]["depth"] for report in reports))
    elif "layer" in one:
        value = percent(Figure.of(report["f1_by_layer"][str(one["layer"])][decoder] for report in reports))
    else:
        value = percent(runs.f1_by(decoder))
    how = f"`{decoder}`, `{runs.first['protocol']}`, {runs.first['sentences']:,} sentences"
    return _of_runs(runs, one["reports"], runs.evaluation_commands(decoder))(value, how)


def _perplexity(one: Entry) -> Measured:
    """Perplexity of the test text, or its bits per token, from the reports of `train`."""
    runs = trained(one["training"], one.get("run", ""))
    value = perplexity(runs.perplexity("test"))
    if one.get("bits"):
        value = f"{Figure.of(report['test']['bits_per_token'] for report in runs.reports.values()).mean:.3f}"
    shown = _of_runs(runs, one["training"], runs.training_commands)(value, "")
    return replace(shown, seeds=None, text="") if runs.first.get("counted") else shown


def _picture(one: Entry) -> Measured:
    return Measured(f"[picture](figures.md#{one['picture']})", one.get("how", ""))


def _baseline(one: Entry) -> Measured:
    """F1 of a baseline on an evaluation set, from the report of a model (`of: EXPERIMENT`) or of the gold trees."""
    on = EVALUATION_SETS[one["baselines"]]
    report = parsed(one["of"], one["baselines"], one["run"]).first if "of" in one else baselines(one["baselines"])
    command = f"syntaxlm evaluate trees wsj.mrg wsj.mrg --preprocessing ptb-keep --protocol {report['protocol']}"
    if on.max_words == 10:
        command += " --max-words 10"
    how = f"`{report['protocol']}`, {report['sentences']:,} sentences"
    return Measured(percent(of_baseline(report, one["name"])), how, commands=("cat WSJ/*.mrg > wsj.mrg", command))


def _attachment(one: Entry) -> Measured:
    run = stored_run(one["attachment"], what="attachment", run=one.get("run", ""))
    training, command = _commands(run)
    report, how = run.report, f"{run.report['sentences']:,} sentences"
    if "baseline" in one:
        return Measured(percent(report["baselines"][one["baseline"]][one["side"]]), how, commands=(command,))
    return Measured(percent(Figure(report[one["side"]])), how, 1, run.parameters, commands=(training, command))


def _pairs(one: Entry) -> Measured:
    """Accuracy on all of Marvin and Linzen's pairs."""
    models, run = (
        marvin_linzen_models(one["pairs"]),
        stored_run("minimal-pairs", run=one["pairs"], data="marvin-linzen"),
    )
    value = percent(Figure.of(model["all"]["accuracy"] for model in models))
    how = f"{models[0]['all']['pairs']:,} pairs"
    return Measured(value, how, len(models), run.parameters, commands=_commands(run))


def _completion(one: Entry) -> Measured:
    run = stored_run("completion", run=one["completion"], novels=one["novels"])
    seeds = None if one["completion"] == "kn5" else 1
    command = general_command(_commands(run)[-1] for run in select("completion") if "interpolated" not in run.run)
    return Measured(percent(run.report["models"][0]["all"]["accuracy"]), "all questions", seeds, commands=(command,))


def _interpolated(one: Entry) -> Measured:
    """Accuracy of an interpolation of models, or of one of them (`model: NAME`)."""
    run = stored_run("completion", run=one["interpolated"])
    scores, how = run.report["interpolated"]["second_half"], "second half of the questions"
    if "model" in one:
        (scores,) = (model["all"] for model in run.report["models"] if model["model"] == one["model"])
        how = "all questions"
    return Measured(percent(scores["accuracy"]), how, 1, text=one.get("read", ""), commands=_commands(run))


def _boundaries(one: Entry) -> Measured:
    """F1 of word boundaries by the distance of the space, or of as many boundaries in random gaps (`random: true`)."""
    run = stored_run("characters", what="boundaries", run=one["boundaries"])
    (row,) = (row for row in run.report["scores"] if row["reading"] == "space" and row["layer"] == 1)
    return Measured(percent(row["random_f1" if one.get("random") else "f1"]), "", 1, commands=_commands(run))


def _logic(one: Entry) -> Measured:
    runs = trained("logic", one["logic"])
    value = percent(Figure.of(report["test"]["longer"]["accuracy"] for report in runs.reports.values()))
    epochs = Figure.of(report["epochs"] for report in runs.reports.values()).mean
    return Measured(value, "7 to 12 operators", runs.count, runs.first_run.parameters, f"{epochs:.1f} epochs",
                    tuple(runs.training_commands))  # fmt: skip


def _stops(one: Entry) -> Measured:
    """Accuracy of the classifiers of where trees end, or of always stopping (`always: true`), for each question."""
    run = stored_run("stops", run=one["stops"], data=one["data"], reads=one["reads"])
    scores, name = run.report["test"]["every_word"], "always_stop" if one.get("always") else "accuracy"
    value = ", ".join(f"{100 * scores[question][name]:.1f}" for question in STOP_QUESTIONS)
    return Measured(value, "", None if one.get("always") else 1, commands=_commands(run))


STOP_QUESTIONS = ("add left", "add right", "add next left", "add next right")


def _speed(one: Entry) -> Measured:
    """Speed of a loss of TreeRNN, relative to a softmax for each edge type."""
    run = stored_run("speed", run="tree_rnn")
    rows = {(row["case"], row["form"]): row["tokens_per_second"] for row in run.report["rows"]}
    case = f"100-200, 64 trees, V {one['words']}"
    value = rows[case, one["speed"]] / rows[case, "softmaxes by edge"]
    return Measured(f"{value:.2f}", "", commands=_commands(run))


def _splits(one: Entry) -> Measured:
    """Shares of left and of right splits, in percent."""
    run = stored_run("palm-splits")
    series = run.report["series"][one["splits"]]
    shown = []
    for side, values in zip(("left", "right"), zip(*series, strict=True), strict=True):
        std = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
        shown.append(f"{side} {statistics.fmean(values):.1f}{std}")
    trees = one["splits"] == "gold trees"
    size, seeds = (None, None) if trees else (run.parameters, len(series))
    return Measured(", ".join(shown), "", seeds, size, commands=_commands(run))


def _signal(one: Entry) -> Measured:
    """Test perplexity of a model of a tenth of the text with a kind of trees, or its perplexity of GUM, or its F1."""
    model, trees, is_of_gum = one["signal"], one["trees"], one.get("text") == "gum"
    row = signal.compared()[model][trees]
    facts = {"text": "tenth", "model": model}
    commands = list(_commands(stored_run(signal.EXPERIMENT, what="comparison", trees=trees, **facts)))
    if is_of_gum:
        scored = select(signal.EXPERIMENT, what="perplexity", **facts)
        commands.append(general_command((_commands(run)[-1] for run in scored), "TREES"))
    values = signal.of_gum(trees) if is_of_gum else signal.perplexities(row)
    value, how = perplexity(Figure.of(values)), "without trees" if trees == "none" else f"{signal.TREES[trees]} trees"
    if one.get("f1"):
        value, how = signal.f1_of(row), f"`{row['treebank']['decoder']}`, {row['treebank']['sentences']:,} sentences"
    epochs = row["epochs"]["mean"]
    text = f"{epochs:.0f} epochs, {short(epochs * row['epoch_tokens'])} tokens"
    return Measured(value, how, len(values), row["parameters"], text, tuple(commands))


def _measurement(one: Entry) -> Measured:
    """Values of a report of a program of the laboratory, in the format of the entry."""
    run = stored_run(one["measurement"], run=one["run"])
    shown = ", ".join(f"{run.report[name]:{one['format']}}" for name in one["values"])
    return Measured(shown, commands=_commands(run))


_READERS: dict[str, Callable[[Entry], Measured]] = {
    "reports": _trees, "training": _perplexity, "picture": _picture, "baselines": _baseline, "attachment": _attachment,
    "pairs": _pairs, "completion": _completion, "interpolated": _interpolated, "boundaries": _boundaries,
    "logic": _logic, "stops": _stops, "speed": _speed, "splits": _splits, "signal": _signal,
    "measurement": _measurement,
}  # fmt: skip


def counts() -> str:
    """The number of experiments by paper and outcome."""
    papers = published()["experiments"]
    own = [paper for name, paper in papers.items() if name != "compared"]
    of_all = [row for paper in own for row in paper["rows"]]
    rows = [_counted(paper["title"], paper["rows"]) for paper in own]
    rows.append([f"**{cell}**" for cell in _counted("all of the above: the papers' own models", of_all)])
    rows.append(_counted(papers["compared"]["title"], papers["compared"]["rows"]))
    return table(["papers", *OUTCOMES, "experiments"], rows)


def _counted(title: str, rows: Sequence[Entry]) -> list[str]:
    outcomes = [row["outcome"] for row in rows]
    return [title, *(str(outcomes.count(one)) for one in OUTCOMES), str(len(outcomes))]


def experiments(paper: str) -> str:
    """A section for every table, figure or experiment of a paper."""
    return "\n".join(_section(row) for row in published()["experiments"][paper]["rows"])


def _section(row: Entry) -> str:
    if row["outcome"] not in OUTCOMES:
        raise ValueError(f"{row['item']}: outcome {row['outcome']!r}; expected one of {', '.join(OUTCOMES)}")
    lines = [row, *row.get("systems", ())]
    ours = [measured(one["here"]) if "here" in one else None for one in lines[1:]]
    text = f"### {row['item']}\n\n**{row['outcome'].capitalize()}.** {_sentence(row['why'])}"
    if "about" in row:
        text += f" {_sentence(row['about'])}"
    if "recipe" in row:
        text += f" Recipe at published size: `{row['recipe']}`."
    elif "experiment" in row:
        text += f" At published size: `python -m laboratory run {row['experiment']}`."
    if ours:
        text += "\n\n" + _table(row, lines[1:], ours) + also_published(row)
    stored = [line for one in ours if one for line in one.commands]
    made = dict.fromkeys(command for line in [*stored, *row.get("commands", ())] for command in present_commands(line))
    return text + ("\n```sh\n" + "\n".join(made) + "\n```\n" if made else "\n" * (not ours))


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}" + "." * (text[-1] not in ".?")


def also_published(row: Entry) -> str:
    """The published values of a table that have no value of ours, with the reason, as one paragraph; "" for none."""
    if "quoted" not in row:
        return ""
    values = "; ".join(f"{name}: {value}" for name, value in row["quoted"]["values"].items())
    return f"\nAlso published: {values}. {_sentence(row['quoted']['why'])}\n"


def _table(row: Entry, systems: Sequence[Entry], ours: Sequence[Measured | None]) -> str:
    """Published values beside ours; columns that are empty for all systems are left out."""
    heads = ["system", f"published: {row['measure']}", "here", "measured by", "seeds", "parameters", "text read"]
    cells = [_cells(row.get("scale", {}) | one, here or Measured("")) for one, here in zip(systems, ours, strict=True)]
    kept = [column for column in range(len(heads)) if any(line[column] for line in cells)]
    return table([heads[column] for column in kept], ([line[column] for column in kept] for line in cells))


def _cells(one: Entry, here: Measured) -> list[str]:
    scale = one if "published" in one else {}
    return [
        one["system"], str(one.get("published", "")), here.value, here.how,
        _beside(scale.get("seeds"), here.seeds),
        _beside(scale.get("parameters"), here.parameters and short(here.parameters)),
        _beside(scale.get("read"), here.text),
    ]  # fmt: skip


def _beside(theirs: object, ours: object) -> str:
    """What is known of the published model and of ours."""
    return f"{theirs or '-'} / {ours or '-'}" if theirs or ours else ""
