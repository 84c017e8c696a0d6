"""The tables of minimal pairs, test suites, reading times and stop classifiers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from laboratory.pages.experiments import STOP_QUESTIONS
from laboratory.pages.markdown import table
from laboratory.pages.stored_results import percent
from laboratory.results.store import select, stored_report


def pairs() -> str:
    """Accuracy on minimal pairs of the seeds of SN-PCFG."""
    rows = []
    for name, title in (("marvin-linzen", "Marvin & Linzen"), ("blimp", "BLiMP")):
        report = stored_report("minimal-pairs", run="simple-pcfg", data=name)
        for seed, model in enumerate(report["models"], 1):
            chosen = (model[key] for key in ("all", "differing_words_known", "all_words_known"))
            cells = (f"{percent(part['accuracy'])} ({part['pairs']:,})" for part in chosen)
            rows.append([title, str(seed), *cells, percent(model["mean_over_cases"])])
    return table(["pairs", "seed", "all", "differing words known", "all words known", "mean over cases"], rows)


SUITE_MODELS = {
    "en": "`en` (LSTM)", "en-fast": "`en-fast` (SN-PCFG)", "lstm-en": "LSTM, 17 minutes",
    "on-lstm-en": "ON-LSTM, 17 minutes", "prpn-en": "PRPN, 13 minutes", "kn5": "5-grams, same text as `en`",
}  # fmt: skip


def suites() -> str:
    """Accuracy on the test suites of SyntaxGym by circuit, of all items and of those whose words are known."""
    report = stored_report("suites", data="syntaxgym")

    def row(title: str, suites: int, figures: list[dict[str, Any]]) -> list[str]:
        scores = (f"{percent(one['all']['accuracy'])} ({_or_dash(one['words_known']['accuracy'])})" for one in figures)
        return [title, str(suites), str(figures[0]["all"]["items"]), percent(figures[0]["chance"]), *scores]

    models = report["models"]
    circuits = [suite["circuit"] for suite in models[0]["by_suite"].values()]
    names = dict.fromkeys(circuits)
    rows = [row(name, circuits.count(name), [one["by_circuit"][name] for one in models]) for name in names]
    rows.append(row("mean over suites", report["suites"], models))
    return table(["circuit", "suites", "items", "chance", *(SUITE_MODELS[one["model"]] for one in models)], rows)


def _or_dash(value: float | None) -> str:
    return "-" if value is None else percent(value)


READING_MODELS = {
    "kn5": "5-grams",
    "lstm-1": "LSTM",
    "on-lstm-1": "ON-LSTM, 13 minutes",
    "prpn-1": "PRPN, 13 minutes",
    "pcfg-1": "SN-PCFG, seed 1",
    "pcfg-2": "SN-PCFG, seed 2",
    "en": "combination of the SN-PCFGs and the LSTM",
}


def reading_times() -> str:
    """How well surprisals predict the reading times of Natural Stories."""
    return _reading_times("reading-times")


def shipped_reading_times() -> str:
    """The same for the bundled model `en`."""
    return _reading_times("shipped", {"en": "`en`"})


def _reading_times(experiment: str, models: Mapping[str, str] = READING_MODELS) -> str:
    report = stored_report(experiment, what="reading-times")
    rows = []
    for one in report["models"]:
        gain = one["delta_log_likelihood"]
        value, low, high = (f"{1000 * gain[key]:.2f}" for key in ("value", "low", "high"))
        rows.append([models[one["model"]], one["context"], f"{one['mean_surprisal']:.2f}", value, f"{low} to {high}"])
    heads = ["model", "context", "mean surprisal, bits", "delta log-likelihood, 10^-3 nats per word", "95% interval"]
    return table(heads, rows)


STOP_DATA = {"gum": "GUM, gold trees", "war-and-peace": "War and Peace, automatic trees"}
STOP_MODELS = {"tree-rnn": "TreeRNN", "ltree-rnn": "LTreeRNN"}
STOP_PUBLISHED = {"always stop": (72.2, 70.3, 78.9, 82.9), "states": (84.2, 83.7, 86.0, 90.3)}


def stop_classifiers() -> str:
    """Accuracy of the classifiers of where trees end on test trees, from the reports of `tune stops`."""
    rows = []
    for data, title in STOP_DATA.items():
        reports = {
            (model, run.report["reads"]): run.report
            for model in STOP_MODELS
            for run in select("stops", data=data, run=model)
        }
        tests = [report["test"] for report in reports.values()]
        where = f"{title} ({tests[0]['words']:,} words)"
        always = [f"{100 * tests[0]['every_word'][question]['always_stop']:.1f}" for question in STOP_QUESTIONS]
        rows.append([where, "", "always stop", *always])
        for (model, reads), test in zip(reports, tests, strict=True):
            scores = [f"{100 * test['every_word'][question]['accuracy']:.1f}" for question in STOP_QUESTIONS]
            rows.append([where, STOP_MODELS[model], reads.replace("-", " "), *scores])
    rows += [
        ["Penn Treebank, published", "TreeRNN" if read != "always stop" else "", read, *map(str, scores)]
        for read, scores in STOP_PUBLISHED.items()
    ]
    return table(["test trees", "model", "classifiers read", *STOP_QUESTIONS], rows)
