"""The tables of PCFGs: runs, sizes and types of grammars, their averages, and other languages."""

from __future__ import annotations

from laboratory.pages.markdown import table
from laboratory.pages.stored_results import Figure, Runs, percent, perplexity, run, runs

_SETS = [  # endings of the files, and what they measure
    ("wsj", "all (3,901), `wsj-test`"),
    ("wsj-test", "test half (1,987), `wsj-test`"),
    ("wsj10", "up to 10 words (542), `wsj-test`"),
    ("prpn10", "up to 10 words (555), `prpn`"),
]


def pcfg_trees() -> str:
    """F1 of all runs of simple-pcfg-ptb, one row per run."""
    found = {ending: {one.name: one for one in runs("simple-pcfg-ptb", ending)} for ending, _ in _SETS}
    names = sorted(set().union(*found.values()), key=lambda name: (name.count("/"), name))
    rows = (
        [
            _run_name(name),
            next(one[name] for one in found.values() if name in one).shown_seeds,
            *(_f1(found[ending].get(name)) for ending, _ in _SETS),
        ]
        for name in names
    )
    right = ["right branching", "", *(percent(_first(found[ending]).right_branching) for ending, _ in _SETS)]
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
    trained, parsed = run("simple-pcfg-ptb", "training"), run("simple-pcfg-ptb", "wsj")
    rows = (
        [
            str(seed),
            percent(parsed.reports[seed]["f1"]),
            *(f"{report[part]['perplexity']:.1f}" for part in ("valid", "test")),
        ]
        for seed, report in trained.reports.items()
    )
    mean = ["mean", percent(parsed.f1), *(perplexity(trained.perplexity(part)) for part in ("valid", "test"))]
    return table(["seed", "F1, WSJ sample, all", "perplexity, `ptb.valid`", "perplexity, `ptb.test`"], [*rows, mean])


_SIZES = [(128, "simple-pcfg-sizes", "r1b67-"), (256, "simple-pcfg-sizes", "m256-"), (512, "simple-pcfg-ptb", "")]


def pcfg_sizes() -> str:
    """F1 and perplexity by the number of nonterminals; files of a size share the start of their names."""
    rows = []
    for nonterminals, folder, start in _SIZES:
        trained, parsed = (
            [report for one in runs(folder, ending) if _is_size(one, start) for report in one.reports.values()]
            for ending in ("training", "wsj")
        )
        seconds = [report["seconds"] for report in trained]
        minutes = dict.fromkeys(f"{value / 60:.0f}" for value in (min(seconds), max(seconds)))
        rows.append([
            str(nonterminals), f"{trained[0]['epochs']:.0f}", str(len(trained)), " to ".join(minutes),
            percent(Figure.of(report["f1"] for report in parsed)),
            perplexity(Figure.of(report["valid"]["perplexity"] for report in trained)),
        ])  # fmt: skip
    heads = ["nonterminals", "epochs", "seeds", "minutes", "F1, WSJ sample, all", "perplexity, `ptb.valid`"]
    return table(heads, rows)


def _is_size(one: Runs, start: str) -> bool:
    return one.name.startswith(start) if start else not one.name


def pcfg_focus() -> str:
    """F1 on the first half of the WSJ sample of every run of `focus`: its average, and its focused grammar."""
    rows = []
    for name, title in (("average", "average of four grammars"), ("focused", "one grammar, focused on its trees")):
        reports = run("simple-pcfg-ptb-128", "wsj-half", name).reports
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
        half, test = (run("simple-pcfg-ptb-128", ending, name) for ending in ("wsj-half", "wsj-test"))
        for decoder, marks in (("mbr", "no"), ("mbr with marks (both)", "yes")):
            scores = [report["f1_by_decoder"][decoder] for report in half.reports.values()]
            means = percent(Figure.of(scores)), percent(test.f1_by(decoder))
            rows.append([title, marks, *map(percent, scores), *means])
    for decoder, marks in (("mbr", "no"), ("mbr with marks (both)", "yes")):
        scores = [
            run("simple-pcfg-ptb-128", ending, "three-average").f1_by(decoder) for ending in ("wsj-half", "wsj-test")
        ]
        rows.append(["the three averages, averaged", marks, *[""] * half.count, *map(percent, scores)])
    return table(["parser", "marks at parse time", *map(str, half.reports), "mean", "mean, test half"], rows)


def pcfg_single() -> str:
    """F1 of every single grammar of these runs that is of the recipe itself, on both halves of the WSJ sample."""
    half, test = (run("simple-pcfg-ptb-128", ending, "single") for ending in ("wsj-half", "wsj-test"))
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
        parsed, trained = (run("pcfg-types", ending, name) for ending in ("wsj-half", "training"))
        epochs = Figure.of(report["epochs"] for report in trained.reports.values())
        rows.append([
            title, f"{epochs.mean:.1f}", ", ".join(str(report['steps']) for report in trained.reports.values()),
            ", ".join(percent(report["f1_by_decoder"]["mbr"]) for report in parsed.reports.values()),
            percent(parsed.f1_by("mbr")), percent(parsed.f1_by("mbr with marks (both)")),
            perplexity(trained.perplexity("valid")),
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
    parsed = {one.name: one for one in runs("pcfg-averages", "wsj-half")}
    if parsed.keys() != _PCFG_AVERAGES.keys():
        raise ValueError(
            f"laboratory/results/pcfg-averages: found {', '.join(parsed)}; expected {', '.join(_PCFG_AVERAGES)}"
        )
    decoders = "mbr", "mbr with marks (both)"
    test = {one.name: one for one in runs("pcfg-averages", "wsj-test")}
    rows = [
        [title, *(percent(of[name].f1_by(one)) if name in of else "" for of in (parsed, test) for one in decoders)]
        for name, title in _PCFG_AVERAGES.items()
    ]
    return table(["parser", "F1", "with marks", "F1, test half", "with marks"], rows)


def languages() -> str:
    """F1 of every stored report of simple-pcfg-languages."""
    rows = (
        [
            *(_run_name(one.name), words, f"`{one.preprocessing}`", f"{one.first['sentences']:,}"),
            *(f"`{one.first['decoder']}`", f"`{one.first['protocol']}`", str(one.count), percent(one.f1)),
            percent(marked) if (marked := one.first["f1_by_decoder"].get("mbr with marks (both)")) else "",
            percent(one.right_branching),
            *(percent(one.first["baselines"][name]) for name in ("left", "balanced")),
            percent(one.first["baselines"]["random"]["mean"]),
        ]
        for ending, words in (("test", "all"), ("test10", "up to 10 words"))
        for one in runs("simple-pcfg-languages", ending)
    )
    heads = ["run", "length", "preprocessing", "sentences", "decoder", "protocol", "models", "F1", "with marks",
             "right", "left", "balanced", "random"]  # fmt: skip
    return table(heads, rows)
