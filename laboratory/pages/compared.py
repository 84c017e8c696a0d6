"""Tables of the compared systems: CCM, DMV, parsers in the same time, sentence encoders on logical inference."""

from __future__ import annotations

from typing import Any

from laboratory.pages.markdown import table
from laboratory.pages.stored_results import Figure, all_runs, percent
from laboratory.results.store import stored_report


def compared_parsers() -> str:
    """Parsers trained for the same time: the two comparisons of `syntaxlm compare`."""
    heads = [
        "recipe",
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
        found = stored_report("compare", run=name)
        parsers = [row for row in found["rows"] if row["treebank"]]
        for row in sorted(parsers, key=lambda row: -float(row["treebank"]["f1"]["mean"])):
            trees = row["treebank"]
            f1 = [percent(trees[key]["mean"]) for key in ("f1", "f1_up_to_10")]
            speed = f"{trees['sentences_per_second']['mean']:,.0f}"
            rows.append([f"`{row['recipe']}`", text, *f1, trees["decoder"], *_costs(row), speed])
        others = [row for row in found["rows"] if not row["treebank"]]
        rows += [[f"`{row['recipe']}`", text, "", "", "", *_costs(row), ""] for row in others]
        for one in found["treebank"]["baselines"]:
            rows.append([one["name"], "", *map(percent, (one["f1"], one["short_f1"])), "", "", "", ""])
    return table(heads, rows)


def _costs(row: dict[str, Any]) -> tuple[str, str]:
    """Test perplexity and training time of a recipe."""
    perplexity = row["test"]["perplexity"]
    return f"{perplexity['mean']:.1f}" if perplexity else "", f"{row['seconds']['mean']:,.0f}"


def logical_inference() -> str:
    """Accuracy of sentence encoders on logical inference, from the result.json of pair classifiers."""
    found = {runs.name: [*runs.reports.values()] for runs in all_runs("logic")}
    rows = []
    for encoder, reports in sorted(found.items(), key=lambda item: -item[1][0]["test"]["longer"]["accuracy"]):
        parts = [
            Figure.of(report["test"][part]["accuracy"] for report in reports) for part in ("trained_lengths", "longer")
        ]
        epochs = Figure.of(float(report["epochs"]) for report in reports)
        size = f"{reports[0]['parameters']:,}"
        rows.append([f"`logic/{encoder}-tiny`", size, f"{epochs.mean:.1f}", str(len(reports)), *map(percent, parts)])
    test = next(iter(found.values()))[0]["test"]
    majority = [percent(float(test[part]["majority"])) for part in ("trained_lengths", "longer")]
    rows.append(["always the most frequent relation", "", "", "", *majority])
    return table(["encoder", "parameters", "epochs", "seeds", "up to 6 operators", "7 to 12 operators"], rows)
