"""The values of tables that are specified in tables.yaml: functions of the facts of a cell, see `specified`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from laboratory.pages.stored_results import (
    Figure,
    Runs,
    baselines,
    of_baseline,
    parsed,
    percent,
    perplexity,
    short,
    trained,
    trained_of,
    untrained,
)
from laboratory.results.store import stored_report

Facts = Mapping[str, Any]


def scored_of(facts: Facts) -> Runs:
    """Return the runs whose trees were scored; those of a seed if there is one among the facts."""
    experiment, name, factors = facts["experiment"], facts.get("run", ""), facts.get("factors", {})
    *others, last = facts["scored_on"] if isinstance(facts["scored_on"], list) else [facts["scored_on"]]
    for evaluation_set in others:
        try:
            return _of_seed(parsed(experiment, evaluation_set, name, facts.get("decoder"), **factors), facts)
        except KeyError:  # not stored
            continue
    return _of_seed(parsed(experiment, last, name, facts.get("decoder"), **factors), facts)


def training_of(facts: Facts) -> Runs:
    return _of_seed(trained(facts["experiment"], facts.get("run", ""), **facts.get("factors", {})), facts)


def _of_seed(runs: Runs, facts: Facts) -> Runs:
    """Return the run of the seed among the facts, or all runs without one."""
    return runs if "seed" not in facts else Runs(runs.name, {facts["seed"]: runs.by_seed[facts["seed"]]})


def _f1(facts: Facts) -> Figure:
    runs = scored_of(facts)
    return runs.f1_by(facts["decoder"]) if facts.get("decoder") else runs.f1


def _baseline(name: str) -> Callable[[Facts], str]:
    return lambda facts: percent(of_baseline(scored_of(facts).first, name).mean)


def _gold_baseline(facts: Facts, name: str) -> Figure:
    """Return F1 of a baseline from the report of the gold trees; for random trees, with its standard deviation."""
    return of_baseline(baselines(facts["scored_on"]), name)


def _random_distances(facts: Facts) -> Figure:
    """Return F1 of random distances by the decoder `biased`, or of random trees for other decoders."""
    return _gold_baseline(facts, "random_biased" if facts["decoder"] == "biased" else "random")


def _without_training(facts: Facts) -> str:
    """Return F1 of random distances or trees, and of models with random weights, by the same decoder."""
    figures = _random_distances(facts), untrained(facts["experiment"], facts["decoder"])
    return " / ".join(percent(figure.mean) for figure in figures)


def _evaluated(facts: Facts) -> str:
    """Return the treebank with the number of its sentences, and the protocol."""
    report = scored_of(facts).first
    return f"{facts['treebank']} ({report['sentences']:,}), `{report['protocol']}`"


def report_of(facts: Facts) -> Facts:
    """Return the report of a line: of its run or item, or of the only run with its facts."""
    if "report" in facts:
        report: Facts = facts["report"]
        return report
    stored = {name: facts[name] for name in ("run", "seed") if name in facts}
    return stored_report(facts["experiment"], **stored, **facts.get("facts", {}), **facts.get("factors", {}))


def at(report: Any, place: str) -> Any:
    """Return what is at a place of a report, such as test.perplexity."""
    for key in place.split("."):
        report = report[key]
    return report


def _shown(value: Any, facts: Facts, usual_format: str = "") -> str:
    """Return a value with its name, or a number in the format of the cell with its unit; "" for none."""
    if value is None:
        return ""
    if isinstance(value, str):
        return facts.get("names", {}).get(value, value)
    form = facts.get("format", usual_format)
    number = percent(float(value)) if form == "percent" else f"{value * facts.get('times', 1):{form}}"
    return f"{number} {facts['unit']}" if "unit" in facts else number


def _report_value(facts: Facts) -> str:
    places = facts["key"] if isinstance(facts["key"], list) else [facts["key"]]
    shown = facts.get("between", " to ").join(_shown(at(report_of(facts), place), facts) for place in places)
    return facts["around"].format(shown) if "around" in facts else shown


def _score(facts: Facts) -> str:
    """Return a score of a report."""
    return _shown(at(report_of(facts), facts["key"])[facts["score"]], facts)


def _mean_score(facts: Facts) -> str:
    """Return a score of the reports of trainings, in percent: its mean and standard deviation over seeds."""
    reports = training_of(facts).reports.values()
    return percent(Figure.of(float(at(report, facts["key"])[facts["score"]]) for report in reports))


def _accuracy_of_pairs(facts: Facts) -> str:
    """Return an accuracy, and the number of pairs."""
    part = at(report_of(facts), facts["key"])
    return f"{percent(part['accuracy'])} ({part['pairs']:,})"


def _unknown_words(facts: Facts) -> str:
    report = report_of(facts)
    return f"{report['unknown'] / report['tokens']:.1%}"


def _epochs(facts: Facts) -> str:
    epochs = Figure.of(float(report["epochs"]) for report in training_of(facts).reports.values())
    return _shown(epochs.mean, facts, ".0f")


def _perplexity(facts: Facts) -> str:
    """Return the perplexity of trainings on a text, or that of a report, and its unit."""
    is_of_report = "facts" in facts
    value = Figure(report_of(facts)["perplexity"]) if is_of_report else training_of(facts).perplexity(facts["part"])
    return f"{perplexity(value)} {facts['unit']}" if "unit" in facts else perplexity(value)


def _perplexity_of_parsed(facts: Facts) -> str:
    """Return the test perplexity of the models that were scored, and how the text was read."""
    trainings = trained_of(scored_of(_one_decoder(facts)), facts["experiment"], facts.get("run", ""))
    return f"{perplexity(trainings.perplexity('test'))}, {trainings.reading}"


def _seeds_of_parsed(facts: Facts) -> str:
    return scored_of(_one_decoder(facts)).shown_seeds


def _one_decoder(facts: Facts) -> Facts:
    """Return the facts with the first of several decoders: all of them parsed the same models."""
    return {**facts, "decoder": facts["decoder"][0]} if isinstance(facts.get("decoder"), list) else facts


def _beside(facts: Facts) -> str:
    """Return the perplexity of another model, after its label; "" without another model."""
    if "beside" not in facts:
        return ""
    other = facts["beside"]
    shown = _perplexity({"part": facts["part"], **other}) + other.get("mark", "")
    return f"{other['label']} {shown}" if "label" in other else shown


def _perplexity_by_seed(facts: Facts) -> str:
    return ", ".join(f"{value:.1f}" for value in training_of(facts).perplexity(facts["part"]).values)


def _perplexity_difference(facts: Facts) -> str:
    """Return the differences to the perplexities of a baseline with the same seeds, signed; "" without a baseline.

    Raises:
        ValueError: the baseline has other seeds.
    """
    if "baseline" not in facts:
        return ""
    run, baseline = (trained(facts["experiment"], facts[name]) for name in ("run", "baseline"))
    if list(run.by_seed) != list(baseline.by_seed):
        raise ValueError(f"{facts['run']}: seeds {run.seeds}; {facts['baseline']}: seeds {baseline.seeds}")
    values, others = (runs.perplexity(facts["part"]).values for runs in (run, baseline))
    return ", ".join(f"{value - other:+.1f}" for value, other in zip(values, others, strict=True))


def _gain_over_right_branching(facts: Facts) -> str:
    """The 95% interval of the difference in F1, by a bootstrap over sentences."""
    difference = scored_of(facts).first["against_right_branching"]
    return f"{percent(difference['low'])} to {percent(difference['high'])}"


def _agreement(facts: Facts) -> str:
    """Return the agreement of a seed's trees with those of the other seeds."""
    report = stored_report(facts["experiment"], what="agreement")
    return percent(report["with_others"][trained(facts["experiment"]).seeds.index(facts["seed"])])


def _attachment(facts: Facts) -> str:
    """Return the attachment score of a model, or of one of its baselines."""
    report = stored_report(facts["experiment"], what="attachment", run=facts["run"])
    scores = report["baselines"][facts["attachment_of"]] if "attachment_of" in facts else report
    return percent(scores[facts["side"]])


def _compared(facts: Facts) -> str:
    """Return a number of a recipe in a comparison of the experiment `compare`; "" if it was not compared."""
    rows = {row["recipe"]: row for row in stored_report("compare", run=facts["compared"])["rows"]}
    number = rows.get(facts["recipe"], {}).get(facts["key"], "")
    if isinstance(number, dict):  # over seeds
        return f"{number['mean']:,.0f}"
    return f"{number:,}" if number else ""


VALUES: dict[str, Callable[[Facts], str]] = {
    # of trees
    "f1": lambda facts: percent(_f1(facts)),
    "f1_by_seed": lambda facts: ", ".join(map(percent, _f1(facts).values)),
    "lowest_f1": lambda facts: percent(min(_f1(facts).values)),
    "right_branching": _baseline("right"),
    "left_branching": _baseline("left"),
    "balanced": _baseline("balanced"),
    "random": _baseline("random"),
    "binary_bound": _baseline("binary_bound"),
    "gold_baseline": lambda facts: percent(_gold_baseline(facts, facts["name"])),
    "random_distances": lambda facts: percent(_random_distances(facts)),
    "untrained": lambda facts: percent(untrained(facts["experiment"], facts["decoder"])),
    "without_training": _without_training,
    "evaluated": _evaluated,
    "seeds": _seeds_of_parsed,
    "sentences": lambda facts: f"{scored_of(facts).first['sentences']:,}",
    "gain_over_right_branching": _gain_over_right_branching,
    "decoder": lambda facts: f"`{facts['decoder']}`",
    "agreement": _agreement,
    "attachment": _attachment,
    # of trainings
    "trainings": lambda facts: str(training_of(facts).count),
    "seeds_of_training": lambda facts: str(len(training_of(facts).seeds) or ""),
    "perplexity": _perplexity,
    "perplexity_of_parsed": _perplexity_of_parsed,
    "beside": _beside,
    "perplexity_by_seed": _perplexity_by_seed,
    "perplexity_difference": _perplexity_difference,
    "epochs": _epochs,
    "minutes": lambda facts: training_of(facts).shown_minutes,
    "mean_score": _mean_score,
    "training": lambda facts: _shown(at(training_of(facts).first, facts["key"]), facts),
    "steps": lambda facts: ", ".join(str(report["steps"]) for report in training_of(facts).reports.values()),
    "parameters": lambda facts: short(training_of(facts).first_run.parameters or 0),
    # of other reports
    "recipe": lambda facts: f"`{facts['recipe']}`",
    "compared": _compared,
    "report": _report_value,
    "score": _score,
    "accuracy_of_pairs": _accuracy_of_pairs,
    "number": lambda facts: str(facts["number"]),
    "run": lambda facts: _shown(facts["run"], facts),
    "command": lambda facts: f"`python -m laboratory.benchmarks.{facts['run']}`",
    "unknown_words": _unknown_words,
}
