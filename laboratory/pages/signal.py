"""Language models with and without trees as a training signal: the tables of this experiment."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from math import sqrt
from typing import Any

from laboratory.pages.markdown import table
from laboratory.pages.stored_results import Figure, all_parsed, all_runs, percent, perplexity, trained
from laboratory.results.store import StoredRun, select, stored_report

EXPERIMENT = "trees-as-signal"
TREE_TRANSFORMER = "tree-transformer"
FIRST_SENTENCES = "ptb-test-first"  # the first 300 sentences of the test text
TREES = {
    "none": "none",
    "induced": "induced",
    "right": "right branching",
    "random": "random",
    "automatic": "of a supervised parser",
}
MODELS = {
    "lstm": "LSTM",
    "awd-lstm": "AWD-LSTM",
    "transformer": "Transformer",
    "on-lstm": "ON-LSTM",
    "prpn": "PRPN",
    "palm": "PaLM",
}
_WHOLE_TEXT = ("plain", "induced-weight-0.1", "en-weight-0.1", "right-weight-0.1")  # runs with three seeds
_T95 = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78}  # two-sided 95% point of Student's t, by degrees of freedom


def compared(text: str = "tenth") -> dict[str, dict[str, dict[str, Any]]]:
    """The row of `compare` on a training text, by model and by its trees.  text: tenth, third or gum."""
    rows: dict[str, dict[str, dict[str, Any]]] = {}
    for model in MODELS:
        for trees in TREES:
            for run in select(EXPERIMENT, what="comparison", text=text, model=model, trees=trees):
                (rows.setdefault(model, {})[trees],) = run.report["rows"]
    return rows


def perplexities(row: dict[str, Any]) -> dict[int, float]:
    """Test perplexity of a recipe by seed."""
    return by_seed(row, lambda run: float(run["test"]["perplexity"]))


def by_seed(row: dict[str, Any], value: Callable[[dict[str, Any]], float]) -> dict[int, float]:
    """Values of the runs of a recipe, by the seed in the name of their folder, such as lstm-none/seed-1."""
    return {int(run["folder"].rpartition("-")[2]): value(run) for run in row["runs"]}


def f1_of(row: dict[str, Any]) -> str:
    """F1 of a recipe on the treebank of `compare`, in percent; empty for models that do not parse."""
    return percent(Figure(row["treebank"]["f1"]["mean"], row["treebank"]["f1"]["std"])) if row["treebank"] else ""


def by_trees(text: str) -> str:
    """Test perplexity and F1 with each kind of trees, and the difference to none, in pairs of equal seeds."""
    lines = []
    for model, rows in compared(text).items():
        without = perplexities(rows["none"])
        for trees, row in rows.items():
            values = perplexities(row)
            difference = "" if trees == "none" else _difference(values, without)
            decoder = f"`{row['treebank']['decoder']}`" if row["treebank"] else ""
            lines.append([MODELS[model], TREES[trees], _mean(values.values()), difference, f1_of(row), decoder])
    heads = ["model", "trees in training", "test perplexity", "difference to none, 95% interval", "F1", "decoder"]
    return table(heads, lines)


def _difference(values: Mapping[int, float], without: Mapping[int, float]) -> str:
    """Mean of the differences of each seed and their 95% interval by Student's t.

    Args:
        values: by seed.
        without: the values that are subtracted, of these seeds and perhaps others.
    """
    differences = [value - without[seed] for seed, value in values.items()]
    mean, count = statistics.fmean(differences), len(differences)
    if count == 1:
        return f"{mean:+.1f} (one pair)"
    reach = _T95[count - 1] * statistics.stdev(differences) / sqrt(count)
    return f"{mean:+.1f} ({mean - reach:+.1f} to {mean + reach:+.1f})"


def while_reading(text: str) -> str:
    """Perplexity and F1 of Transformers that build a tree while they read, beside the plain one and the teachers.

    Runs with fewer seeds than the plain Transformer are compared with its runs of these seeds.

    Args:
        text: whole or tenth.
    """
    prefix = "" if text == "whole" else f"{text}-"
    plain = trained(TREE_TRANSFORMER, f"{prefix}plain")
    lines = [[TREES["none"], plain.shown_seeds, plain.shown_minutes, perplexity(plain.perplexity("test")), "", "", ""]]

    # The kinds of trees of which models were trained on this text, and the weight of the decisions' loss.
    for kind in ("induced", "induced-weight-0.1", "en-weight-0.1", "right", "right-weight-0.1", "random"):
        name = f"{prefix}{kind}"
        for runs in all_runs(TREE_TRANSFORMER, what="training", run=name):
            values, without = (
                {seed: report["test"]["perplexity"] for seed, report in of.reports.items()} for of in (runs, plain)
            )
            sizes = [runs.shown_seeds, runs.shown_minutes, perplexity(Figure.of(values.values()))]
            lines.append([_title(kind), *sizes, _difference(values, without), *_f1_cells(name)])

    # The parsers that predicted the induced trees, and on the tenth also parsers that read nothing else.
    teachers = {"teacher": "two SN-PCFGs averaged, the teachers"}
    if text == "tenth":
        teachers["tenth-teacher"] = "two SN-PCFGs averaged, trained on the tenth alone"
    lines += [[title, "", "", "", "", *_f1_cells(name)] for name, title in teachers.items()]
    heads = ["trees in training", "seeds", "minutes", "test perplexity", "difference to none, 95% interval",
             "F1, WSJ sample", "F1, its test half"]  # fmt: skip
    return table(heads, lines)


def beams() -> str:
    """Perplexity of the first test sentences by the number of hypotheses, beside the plain Transformer."""
    measured = "perplexity, beam "
    measurements = {
        "induced": "beam", "induced-weight-0.1": "beam-weight-0.1", "right-weight-0.1": "beam-right-weight-0.1",
    }  # fmt: skip
    reports = {_title(name): stored_report(TREE_TRANSFORMER, run=run) for name, run in measurements.items()}
    widths = sorted({key for report in reports.values() for key in report if key.startswith(measured)}, key=_number)
    plain = stored_report(TREE_TRANSFORMER, run="plain", seed=1, data=FIRST_SENTENCES)["perplexity"]
    lines = [[TREES["none"], perplexity(Figure.of([plain])), *[""] * len(widths)]]
    for title, report in reports.items():
        cells = [perplexity(Figure.of([report[width]])) if width in report else "" for width in widths]
        lines.append([title, "", *cells])
    heads = ["trees in training", "no beam", *(f"beam of {_number(width)}" for width in widths)]
    return table(heads, lines)


def seeds_of_beams() -> str:
    """Perplexity of the first test sentences over all seeds, with few and with many hypotheses."""
    plain = _reported(select(TREE_TRANSFORMER, run="plain", data=FIRST_SENTENCES), "perplexity")
    lines = [[TREES["none"], "", str(len(plain)), perplexity(Figure.of(list(plain.values()))), ""]]
    # With right-branching trees, wider beams change nothing, see `beams`.
    for name, widths in (("induced-weight-0.1", (4, 64)), ("en-weight-0.1", (4, 64)), ("right-weight-0.1", (4,))):
        runs = select(TREE_TRANSFORMER, run=name, data=FIRST_SENTENCES)
        for width in widths:
            values = _reported(runs, f"perplexity, beam {width}")
            figure = perplexity(Figure.of(values.values()))
            lines.append([_title(name), str(width), str(len(runs)), figure, _difference(values, plain)])
    return table(["trees in training", "beam", "seeds", "perplexity", "difference to none, 95% interval"], lines)


def items_of_seeds() -> str:
    """The models of `seeds_of_beams`, by four hypotheses, on suites, minimal pairs and reading times.

    Suites and pairs are those whose words are known. Chance is that of the suites with such items, and of pairs.
    """
    circuits = ("", "Agreement", "Garden-Path Effects")
    suites, pairs, times = (
        _by_run(what, data)
        for what, data in (("suites", "syntaxgym"), ("pairs", "marvin-linzen"), ("reading-times", "natural-stories"))
    )
    lines = []
    for name in _WHOLE_TEXT:
        line = [_title(name)]
        for circuit in circuits:
            parts = [_suites_with_known_words(model, circuit) for model in suites[name]]
            accuracies = [statistics.fmean(suite["words_known"]["accuracy"] for suite in part) for part in parts]
            line.append(_mean([100 * accuracy for accuracy in accuracies]))
        line.append(_mean([100 * model["differing_words_known"]["accuracy"] for model in pairs[name]]))
        line.append(_mean([1000 * model["delta_log_likelihood"]["value"] for model in times[name]]))
        lines.append(line)
    parts = [_suites_with_known_words(suites["plain"][0], circuit) for circuit in circuits]
    chances = [percent(statistics.fmean(suite["chance"] for suite in part)) for part in parts]
    lines.append(["chance", *chances, percent(0.5), ""])
    heads = ["trees in training", "SyntaxGym, mean over suites", "agreement", "garden-path effects",
             "Marvin and Linzen", "reading times, 10^-3 nats/word"]  # fmt: skip
    return table(heads, lines)


def _by_run(what: str, data: str) -> dict[str, list[Mapping[str, Any]]]:
    """The models of each run of the whole text, one for each seed, in the stored reports of a kind.

    A report names models by the part of their folders that differs.
    """
    models: dict[str, list[Mapping[str, Any]]] = {}
    for model in stored_report(TREE_TRANSFORMER, what=what, run=f"whole-text-{data}")["models"]:
        models.setdefault(model["model"].split("/")[-2], []).append(model)
    later = "en-weight-0.1"
    return models | {later: stored_report(TREE_TRANSFORMER, what=what, run=f"{later}-{data}")["models"]}


def _suites_with_known_words(model: Mapping[str, Any], circuit: str) -> list[Mapping[str, Any]]:
    """The suites of a circuit that have items without unknown words.  circuit: "" for all suites."""
    suites = model["by_suite"].values()
    return [suite for suite in suites if suite["words_known"]["items"] and circuit in ("", suite["circuit"])]


def _title(run: str) -> str:
    """The trees of a run of the experiment, and the weight of the decisions' loss if it is in the name."""
    trees, _, weight = run.partition("-weight-")
    title = {"plain": TREES["none"], "en": "of `en`"}.get(trees) or TREES[trees]
    return f"{title}, weight {weight}" if weight else title


def _number(measure: str) -> int:
    """The number at the end of the name of a measure."""
    return int(measure.split()[-1])


def _f1_cells(name: str) -> list[str]:
    """F1 of a run on the WSJ sample and on its test half, where they were measured."""
    cells = []
    for part in ("wsj", "wsj-second-half"):
        runs = all_parsed(TREE_TRANSFORMER, part, run=name)
        cells.append(percent(runs[0].f1) if runs else "")
    return cells


def outside() -> str:
    """The Transformers of parts of the text on GUM, and on items and reading times, where these were scored."""
    lines = []
    for text, part in (("tenth", "a tenth"), ("third", "three tenths")):
        for trees, title in TREES.items():
            if values := of_gum(trees, text):
                difference = "" if trees == "none" else _difference(values, of_gum("none", text))
                items = _of_items(trees) if text == "tenth" else [""] * 3
                lines.append([part, title, _mean(values.values()), difference, *items])
    heads = ["training text", "trees in training", "perplexity of GUM's test text", "difference to none, 95% interval",
             "Marvin and Linzen", "SyntaxGym", "reading times, 10^-3 nats/word"]  # fmt: skip
    return table(heads, lines)


def _of_items(trees: str) -> list[str]:
    """Accuracy on pairs and suites whose words are known, in percent; gain of surprisal in predicting reading times."""
    scores = {
        "pairs": lambda model: 100 * model["differing_words_known"]["accuracy"],
        "suites": lambda model: 100 * model["words_known"]["accuracy"],
        "reading-times": lambda model: 1000 * model["delta_log_likelihood"]["value"],
    }
    cells = []
    for what, score in scores.items():
        models = stored_report(EXPERIMENT, what=what, run="tenth, transformer")["models"]
        values = [score(model) for model in models if f"-{trees}/" in model["model"]]
        cells.append(_mean(values) if values else "")
    return cells


def of_gum(trees: str, text: str = "tenth") -> dict[int, float]:
    """Perplexity of GUM's test text of the Transformers with these trees, by seed.  text: see `compared`."""
    facts = {"what": "perplexity", "data": "gum-test", "text": text, "model": "transformer", "trees": trees}
    return _reported(select(EXPERIMENT, **facts), "perplexity")


def _reported(runs: Iterable[StoredRun], measure: str) -> dict[int, float]:
    """A value of the reports of some runs, by seed."""
    return {run.seed or 0: run.report[measure] for run in runs}


def _mean(numbers: Iterable[float]) -> str:
    values = list(numbers)
    return f"{statistics.fmean(values):.1f} ± {statistics.stdev(values):.1f}"


def minimal_pairs() -> str:
    """Accuracy on minimal pairs whose differing words are known, with and without trees, and the difference."""
    lines = []
    for name, title in (("marvin-linzen", "Marvin and Linzen"), ("blimp", "BLiMP, first 250 of each paradigm")):
        report = stored_report(EXPERIMENT, what="pairs", run="plain and sentences", data=name)
        scores = [model["differing_words_known"] for model in report["models"]]
        (against,) = report["against_first"].values()
        gain = against["differing_words_known"]
        interval = f"{100 * gain['difference']:+.1f} ({100 * gain['low']:+.1f} to {100 * gain['high']:+.1f})"
        lines.append([title, f"{scores[0]['pairs']:,}", *(percent(score["accuracy"]) for score in scores), interval])
    return table(["pairs", "number", "without trees", "with trees", "difference, 95% interval"], lines)
