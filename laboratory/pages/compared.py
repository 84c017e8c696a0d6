"""Tables of the compared systems: CCM, DMV, parsers in the same time, sentence encoders on logical inference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from laboratory.pages.markdown import table
from laboratory.pages.stored_results import Figure, all_runs, parsed, percent
from laboratory.results.store import stored_report

_SHORT = "kleinmanning10", "evalb10"  # two protocols for sentences of up to 10 words


def ccm() -> str:
    """CCM on the sentences of up to 10 words of the WSJ sample, by two protocols, beside the published figures."""

    def reports(text: str) -> list[Mapping[str, Any]]:
        return [parsed("ccm", on, text).first for on in _SHORT]

    baselines_of = [report["baselines"] for report in reports("wsj")]
    rows = [
        [name, count, units, *(percent(report["f1_by_decoder"]["viterbi"]) for report in reports(text))]
        for name, text, count, units in (
            ("CCM, WSJ sample", "wsj", "555", "tags"),
            ("CCM, WSJ sample and MASC", "masc-and-wsj", "12,246", "tags"),
            ("CCM, WSJ sample", "words", "555", "words"),
        )
    ]
    for name, key in (("right branching", "right"), ("left branching", "left"), ("binary upper bound", "binary_bound")):
        rows.append([name, "", "", *(percent(one[key]) for one in baselines_of)])
    for name, count, units, f1 in (
        ("published: CCM", "7,422", "tags", "71.9"),
        ("published: right branching", "", "", "61.7"),
        ("published: left branching", "", "", "28.7"),
        ("published: binary upper bound", "", "", "88.1"),
    ):
        rows.append([name, count, units, "", f1])
    return table(["trained on", "sentences", "reads", "F1, `wsj10`", "F1, `evalb`, up to 10 words"], rows)


def dmv() -> str:
    """DMV and its variants on the sentences of up to 10 words of the WSJ sample, beside the published figures."""

    rows = []
    for title, name, count in (
        ("DMV, WSJ sample", "dmv-wsj10", "555"),
        ("DMV, WSJ sample and MASC", "dmv-masc10", "11,962"),
        ("DMV+CCM, WSJ sample", "dmv-ccm-wsj10", "555"),
        ("DEP-PCFG, WSJ sample", "dep-pcfg-wsj10", "555"),
        ("DEP-PCFG, WSJ sample and MASC", "dep-pcfg-masc10", "11,962"),
    ):
        heads = stored_report("dmv", what="attachment", run=name)
        f1 = [parsed("dmv", on, name).f1_by("heads-binary") for on in _SHORT]
        rows.append([title, count, *map(percent, (heads["directed"], heads["undirected"], *f1))])
    attached = stored_report("dmv", what="attachment", run="dmv-wsj10")["baselines"]
    for title, key in (
        ("head is the next word", "next_word"),
        ("head is the previous word", "previous_word"),
        ("random projective trees", "random"),
    ):
        rows.append([title, "", percent(attached[key]["directed"]), percent(attached[key]["undirected"]), "", ""])
    trees_of = [parsed("dmv", on, "dmv-wsj10").first["baselines"] for on in _SHORT]
    rows.append(["right branching", "", "", "", *(percent(one["right"]) for one in trees_of)])
    rows += [
        ["published: DMV", "7,422", "43.2", "62.7", "", ""],
        ["published: DMV+CCM", "7,422", "47.5", "64.5", "", "77.6"],
        ["published: DEP-PCFG", "7,422", "", "", "", "48.2"],
    ]
    titles = ["trained on", "sentences", "directed", "undirected", "F1, `wsj10`", "F1, `evalb`, up to 10 words"]
    return table(titles, rows)


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
