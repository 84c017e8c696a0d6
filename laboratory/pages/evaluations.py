"""Tables of evaluations whose lines follow from the reports: test suites, compared parsers, languages."""

from __future__ import annotations

from typing import Any

from laboratory.pages.markdown import table
from laboratory.pages.stored_results import percent
from laboratory.results.store import StoredRun, select, stored_report

SUITE_MODELS = {
    "en": "`en` (LSTM)", "en-fast": "`en-fast` (SN-PCFG)", "kn5": "5-grams, same text as `en`",
    "lstm-en": "LSTM, 17 minutes", "on-lstm-en": "ON-LSTM, 17 minutes", "prpn-en": "PRPN, 13 minutes",
}  # fmt: skip


def suites() -> str:
    """Accuracy on the test suites of SyntaxGym by circuit, of all items and of those whose words are known."""
    report = stored_report("shipped", what="suites", data="syntaxgym")

    def row(title: str, suites: int, scores: list[dict[str, Any]]) -> list[str]:
        accuracies = (
            f"{percent(score['all']['accuracy'])} ({_or_dash(score['words_known']['accuracy'])})" for score in scores
        )
        return [title, str(suites), str(scores[0]["all"]["items"]), percent(scores[0]["chance"]), *accuracies]

    bundled = [model["model"] for model in report["models"]]
    others = stored_report("suites", data="syntaxgym")["models"]
    models = [*report["models"], *(model for model in others if model["model"] not in bundled)]
    circuits = [suite["circuit"] for suite in models[0]["by_suite"].values()]
    names = dict.fromkeys(circuits)
    rows = [row(name, circuits.count(name), [model["by_circuit"][name] for model in models]) for name in names]
    rows.append(row("mean over suites", report["suites"], models))
    return table(["circuit", "suites", "items", "chance", *(SUITE_MODELS[model["model"]] for model in models)], rows)


def _or_dash(value: float | None) -> str:
    return "-" if value is None else percent(value)


def compared_parsers() -> str:
    """Parsers trained for the same time: the two comparisons of `syntaxlm compare`."""
    heads = [
        "run",
        "learns from",
        "F1",
        "F1, up to 10 words",
        "decoder",
        "test perplexity",
        "seconds",
        "sentences/s",
    ]
    rows: list[list[str]] = []
    for name, text in (("words", "words of PTB"), ("tags", "tags of the sample")):
        report = stored_report("compare", run=name)
        parsers = [row for row in report["rows"] if row["treebank"]]
        for row in sorted(parsers, key=lambda row: -float(row["treebank"]["f1"]["mean"])):
            trees = row["treebank"]
            f1 = [percent(trees[key]["mean"]) for key in ("f1", "f1_up_to_10")]
            speed = f"{trees['sentences_per_second']['mean']:,.0f}"
            rows.append([f"`{row['recipe']}`", text, *f1, trees["decoder"], *_costs(row), speed])
        others = [row for row in report["rows"] if not row["treebank"]]
        rows += [[f"`{row['recipe']}`", text, "", "", "", *_costs(row), ""] for row in others]
        for baseline in report["treebank"]["baselines"]:
            f1 = [percent(baseline[key]) for key in ("f1", "short_f1")]
            rows.append([baseline["name"], "", *f1, "", "", "", ""])
    return table(heads, rows)


def _costs(row: dict[str, Any]) -> tuple[str, str]:
    """Test perplexity and training time of a recipe."""
    perplexity = row["test"]["perplexity"]
    return f"{perplexity['mean']:.1f}" if perplexity else "", f"{row['seconds']['mean']:,.0f}"


def languages() -> str:
    """F1 of every stored evaluation of simple-pcfg-languages: of sentences of all lengths, then of short ones."""
    rows = [
        _language_row(run, length)
        for max_words, length in ((None, "all"), (10, "up to 10 words"))
        for run in sorted(select("simple-pcfg-languages", what="trees", max_words=max_words), key=_language_run)
    ]
    heads = ["run", "length", "preprocessing", "sentences", "decoder", "protocol", "models", "F1", "with marks",
             "right", "left", "balanced", "random"]  # fmt: skip
    return table(heads, rows)


def _language_run(run: StoredRun) -> str:
    return ", ".join(filter(None, [run.run.replace("-", " "), str(run.factors["language"])]))


def _language_row(run: StoredRun, length: str) -> list[str]:
    """The cells of an evaluation."""
    report, baselines = run.report, run.report["baselines"]
    marked = report["f1_by_decoder"].get("mbr with marks (both)")
    return [
        _language_run(run), length, f"`{report['preprocessing']}`", f"{report['sentences']:,}",
        f"`{report['decoder']}`", f"`{report['protocol']}`", str(report.get("averaged_models", 1)),
        percent(report["f1"]), percent(marked) if marked else "",
        *(percent(baselines[name]) for name in ("right", "left", "balanced")), percent(baselines["random"]["mean"]),
    ]  # fmt: skip
