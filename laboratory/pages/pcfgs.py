"""The tables of PCFGs: runs, sizes and types of grammars, their averages, and other languages."""

from __future__ import annotations

from laboratory.pages.markdown import table
from laboratory.pages.stored_results import (
    Figure,
    Runs,
    all_parsed,
    parsed,
    percent,
    perplexity,
    trained,
)
from laboratory.results.store import StoredRun, select

_SETS = [  # evaluation sets, and their titles
    ("wsj", "all (3,901), `wsj-test`"),
    ("wsj-second-half", "test half (1,987), `wsj-test`"),
    ("wsj10", "up to 10 words (542), `wsj-test`"),
    ("prpn10", "up to 10 words (555), `prpn`"),
]


_HALVES = "wsj-first-half", "wsj-second-half"


def pcfg_trees() -> str:
    """F1 of all runs of simple-pcfg-ptb, one row per run."""
    found = {on: {one.name: one for one in all_parsed("simple-pcfg-ptb", on)} for on, _ in _SETS}
    names = sorted(set().union(*found.values()), key=lambda name: (name.count("/"), name))
    rows = (
        [
            _run_name(name),
            next(one[name] for one in found.values() if name in one).shown_seeds,
            *(_f1(found[on].get(name)) for on, _ in _SETS),
        ]
        for name in names
    )
    right = ["right branching", "", *(percent(_first(found[on]).right_branching) for on, _ in _SETS)]
    return table(["run", "seeds", *(title for _, title in _SETS)], [*rows, right])


def _first(found: dict[str, Runs]) -> Runs:
    return next(iter(found.values()))


def _run_name(name: str) -> str:
    """ "focused/average" -> "focused, average"; the seeds of the recipe itself have no name."""
    return name.replace("-", " ").replace("/", ", ") or "single seeds, mean"


def _f1(one: Runs | None) -> str:
    return percent(one.f1) if one else ""


def pcfg_seeds() -> str:
    """F1 and perplexity of every seed of simple-pcfg-ptb."""
    training, scored = trained("simple-pcfg-ptb"), parsed("simple-pcfg-ptb", "wsj")
    rows = (
        [
            str(seed),
            percent(scored.reports[seed]["f1"]),
            *(f"{report[part]['perplexity']:.1f}" for part in ("valid", "test")),
        ]
        for seed, report in training.reports.items()
    )
    mean = ["mean", percent(scored.f1), *(perplexity(training.perplexity(part)) for part in ("valid", "test"))]
    return table(["seed", "F1, WSJ sample, all", "perplexity, `ptb.valid`", "perplexity, `ptb.test`"], [*rows, mean])


_SIZES: dict[int, tuple[str, dict[str, int]]] = {  # nonterminals: experiment, facts about its runs
    128: ("simple-pcfg-sizes", {"nonterminals": 128}),
    256: ("simple-pcfg-sizes", {"nonterminals": 256}),
    512: ("simple-pcfg-ptb", {}),
}


def pcfg_sizes() -> str:
    """F1 and perplexity by the number of nonterminals."""
    rows = []
    for nonterminals, (experiment, facts) in _SIZES.items():
        training, scored = trained(experiment, **facts), parsed(experiment, "wsj", **facts)
        rows.append([
            str(nonterminals), f"{training.first['epochs']:.0f}", str(training.count), training.shown_minutes,
            percent(scored.f1), perplexity(training.perplexity("valid")),
        ])  # fmt: skip
    heads = ["nonterminals", "epochs", "seeds", "minutes", "F1, WSJ sample, all", "perplexity, `ptb.valid`"]
    return table(heads, rows)


def pcfg_focus() -> str:
    """F1 on the first half of the WSJ sample of every run of `focus`: its average, and its focused grammar."""
    rows = []
    for name, title in (("average", "average of four grammars"), ("focused", "one grammar, focused on its trees")):
        reports = parsed("simple-pcfg-ptb-128", "wsj-first-half", name).reports
        for decoder, marks in (("mbr", "no"), ("mbr with marks (both)", "yes")):
            scores = [report["f1_by_decoder"][decoder] for report in reports.values()]
            rows.append([title, marks, *map(percent, scores), percent(Figure.of(scores))])
    return table(["parser", "marks at parse time", *map(str, reports), "mean"], rows)


_UNLIKE = {
    "six-average": "average of six unlike grammars",
    "six-focused": "one grammar, focused on its trees",
    "six-student": "span parser, trained on its trees",
    "six-learned": "average of these two",
}


def pcfg_unlike() -> str:
    """F1 of three runs of `focus` with unlike grammars, on both halves of the WSJ sample."""
    rows = []
    for name, title in _UNLIKE.items():
        half, test = (parsed("simple-pcfg-ptb-128", on, name) for on in _HALVES)
        for decoder, marks in (("mbr", "no"), ("mbr with marks (both)", "yes")):
            scores = [report["f1_by_decoder"][decoder] for report in half.reports.values()]
            means = percent(Figure.of(scores)), percent(test.f1_by(decoder))
            rows.append([title, marks, *map(percent, scores), *means])
    for decoder, marks in (("mbr", "no"), ("mbr with marks (both)", "yes")):
        scores = [parsed("simple-pcfg-ptb-128", on, "three-average").f1_by(decoder) for on in _HALVES]
        rows.append(["the three averages, averaged", marks, *[""] * half.count, *map(percent, scores)])
    return table(["parser", "marks at parse time", *map(str, half.reports), "mean", "mean, test half"], rows)


def pcfg_single() -> str:
    """F1 of every single grammar of these runs that is of the recipe itself, on both halves of the WSJ sample."""
    half, test = (parsed("simple-pcfg-ptb-128", on, "single") for on in _HALVES)
    listed = ", ".join(percent(report["f1"]) for report in half.reports.values())
    return table(
        ["seeds", "F1, first half", "mean", "lowest", "mean, test half"],
        [[half.shown_seeds, listed, percent(half.f1), percent(min(half.f1.values)), percent(test.f1)]],
    )


_PCFG_TYPES = {
    "simple-pcfg": "SN-PCFG, 128",
    "simple-pcfg-without-bias": "SN-PCFG, 128, without end bias",
    "holographic-pcfg": "Hol-PCFG, 128",
    "tensor-pcfg": "TN-PCFG, 128",
    "neural-pcfg": "N-PCFG, 30",
}


def pcfg_types() -> str:
    """F1 and validation perplexity of all types of PCFG after the same minutes."""
    rows = []
    for name, title in _PCFG_TYPES.items():
        scored, training = parsed("pcfg-types", "wsj-first-half", name), trained("pcfg-types", name)
        epochs = Figure.of(report["epochs"] for report in training.reports.values())
        rows.append([
            title, f"{epochs.mean:.1f}", ", ".join(str(report['steps']) for report in training.reports.values()),
            ", ".join(percent(report["f1_by_decoder"]["mbr"]) for report in scored.reports.values()),
            percent(scored.f1_by("mbr")), percent(scored.f1_by("mbr with marks (both)")),
            perplexity(training.perplexity("valid")),
        ])  # fmt: skip
    heads = [
        "type, nonterminals",
        "epochs",
        "steps",
        "F1",
        "F1, mean",
        "with marks",
        "perplexity, `ptb.valid`",
    ]
    return table(heads, rows)


_PCFG_AVERAGES = {
    "sn2": "average of SN-PCFG, seeds 301 and 302",
    "student-of-sn2": "student of this average",
    "sn1-nobias1": "average of SN-PCFG, seed 301, and one without end bias",
    "sn3": "average of three SN-PCFGs",
    "sn3-hol3": "of three SN-PCFGs and three Hol-PCFGs",
    "sn3-nobias1": "of three SN-PCFGs and one without end bias",
    "sn3-nobias2": "of three SN-PCFGs and two without end bias",
    "sn3-hol3-nobias2": "of all eight",
    "student-of-sn3-hol3-nobias2": "student of this average",
}


def pcfg_averages() -> str:
    """F1 of averages of the grammars of `pcfg_types`, and of a student."""
    half, test = ({one.name: one for one in all_parsed("pcfg-averages", on)} for on in _HALVES)
    if half.keys() != _PCFG_AVERAGES.keys():
        raise ValueError(f"pcfg-averages: found {', '.join(half)}; expected {', '.join(_PCFG_AVERAGES)}")
    decoders = "mbr", "mbr with marks (both)"
    rows = [
        [title, *(percent(runs[name].f1_by(one)) if name in runs else "" for runs in (half, test) for one in decoders)]
        for name, title in _PCFG_AVERAGES.items()
    ]
    return table(["parser", "F1", "with marks", "F1, test half", "with marks"], rows)


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
    report, baselines = run.report, run.report["baselines"]
    marked = report["f1_by_decoder"].get("mbr with marks (both)")
    return [
        _language_run(run), length, f"`{report['preprocessing']}`", f"{report['sentences']:,}",
        f"`{report['decoder']}`", f"`{report['protocol']}`", str(report.get("averaged_models", 1)),
        percent(report["f1"]), percent(marked) if marked else "",
        *(percent(baselines[name]) for name in ("right", "left", "balanced")), percent(baselines["random"]["mean"]),
    ]  # fmt: skip
