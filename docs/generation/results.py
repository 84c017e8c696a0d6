"""The tables of README.md, docs/results.md, docs/papers.md and other pages, from the stored results.

`python -m docs.generation.results` rewrites what stands between `<!-- results: NAME -->` and `<!-- end of results -->`,
and docs/leaderboard.csv.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from docs.generation import signal
from docs.generation.compared import ccm, compared_parsers, dmv, logical_inference
from docs.generation.experiments import counts, experiments
from docs.generation.leaderboard import CSV, csv_text, leaderboard
from docs.generation.markdown import table
from docs.generation.papers import (
    baselines,
    comparison,
    marvin_linzen,
    of_baseline,
    percent,
    published,
    significance,
)
from docs.generation.readme import readme_perplexity, readme_trees
from docs.generation.seeds import DISTANCES, PALM, agreement, decoder_gain, near_convergence
from docs.generation.speed import aims, command_speed, job_speed, matrix_speed, training_speed
from docs.generation.stored_results import RESULTS, Figure, Runs, Trees, perplexity_of_test, run, runs, trees
from syntaxlm.drawing.terminal import draw_tree
from syntaxlm.parsing.agreement import outlier
from syntaxlm.trees.tree import parse_brackets

ROOT = Path(__file__).parents[2]
_NAMES = (
    "results.md", "papers.md", "figures.md", "guides/bundled-models.md",
    "guides/ordinary-sentences.md", "models/ccm.md",
    "models/dmv.md", "reference/speed.md", "guides/very-large-jobs.md", "explanation/trees-as-signal.md",
)  # fmt: skip
PAGES = [ROOT / "README.md", *(ROOT / "docs" / name for name in _NAMES)]
_BLOCK = re.compile(r"(<!-- results: (?P<name>\S+) -->\n).*?(<!-- end of results -->)", re.DOTALL)
_MODELS = {"README.md": "docs/models", "bundled-models.md": "../models"}  # the folder of the models' pages
_WSJ, _GUM = "WSJ sample", "GUM test"


def perplexity(figure: Figure) -> str:
    """With one decimal place, or none if the standard deviation is 5 or more."""
    places = 0 if figure.std is not None and figure.std >= 5 else 1
    return f"{figure.mean:.{places}f}" + (f" ± {figure.std:.{places}f}" if figure.std is not None else "")


@dataclass(frozen=True)
class Row:
    """A recipe in the overview.

    text: test text, as shown.  lstm: the recipe of an LSTM on the same text.  run: the name of the run in its folder.
    """

    model: str
    recipe: str
    text: str
    lstm: str
    treebank: str = ""
    decoders: tuple[str, ...] = ()
    run: str = ""
    mark: str = ""  # of a footnote to the LSTM's perplexity


_PTB_LSTM, _GUM_LSTM, _TREES_LSTM = "awd-lstm-ptb-words-small", "awd-lstm-gum-small", "lstm-gum-trees-small"
OVERVIEW = [
    Row("[SN-PCFG](MODELS/pcfg.md)", "simple-pcfg-ptb", "PTB, sentences", _PTB_LSTM, _WSJ, ("mbr",), mark=" ¹"),
    Row("[PRPN](MODELS/prpn.md)", "prpn-ptb-parsing", "PTB, sentences", _PTB_LSTM, _WSJ, ("biased", "unbiased"),
        mark=" ¹"),
    Row("[ON-LSTM](MODELS/on-lstm.md), layer 2", "on-lstm-ptb-words-small", "PTB, stream", _PTB_LSTM, _WSJ,
        ("biased", "unbiased")),
    Row("[PaLM-S](MODELS/palm.md), trained with trees", "palm-s-gum-small", "GUM, stream", _GUM_LSTM, _GUM,
        ("greedy-sum", "greedy-right")),
    Row("[TreeRNN](MODELS/tree-rnn.md)", "tree-rnn-gum-small", "GUM, words given their trees ²", _TREES_LSTM),
    Row("[LSTM](MODELS/lstm.md)", _PTB_LSTM, "PTB, stream", _PTB_LSTM),
    Row("[Kneser-Ney 5-grams](MODELS/ngram.md)", "kn5", "PTB, stream", _PTB_LSTM, run="ptb-words-stream"),
]  # fmt: skip


def overview() -> str:
    """A row for every model type and decoder. LSTM: an LSTM's perplexity on the same test text."""
    heads = ["model", "decoder", "treebank (sentences), protocol", "seeds", "F1", "random, same decoder",
             "right branching", "test perplexity", "LSTM"]  # fmt: skip
    return table(heads, [_shipped_line(), *(line for row in OVERVIEW for line in _lines(row))])


def _shipped_line() -> list[str]:
    one = trees("shipped", _WSJ, "mbr", "en")
    random = percent(run("shipped", "wsj", "en").first["baselines"]["random"]["mean"])
    place = f"{_named(_WSJ)} ({one.sentences:,}), `{one.protocol}`"
    figure = f"{run('shipped', 'ewt', 'en').first['perplexity']:.1f} (EWT with marks, stream)"
    cells = place, "2, averaged", percent(one.f1), random, percent(one.right_branching), figure
    return ["`en`, bundled", "`mbr`", *cells, "its own"]


def _lines(row: Row) -> Iterator[list[str]]:
    """One line per decoder, with the perplexities in the first, and one for averaged trees where they are stored."""
    _, seeds = perplexity_of_test(row.recipe, row.run)
    perplexities = [f"{_perplexity(row.recipe, row.run)} ({row.text})", _perplexity(row.lstm) + row.mark]
    if not row.decoders:
        yield [row.model, "gives no trees", "", str(seeds or ""), "", "", "", *perplexities]
    for number, decoder in enumerate(row.decoders):
        cells = _cells(row, trees(row.recipe, row.treebank, decoder))
        yield [row.model, *cells, *perplexities] if number == 0 else ["", *cells, "", ""]
    for one in runs(row.recipe, "wsj"):
        if one.name == "average":
            average = trees(row.recipe, row.treebank, one.first["decoder"], one.name)
            yield ["the same, seeds averaged", *_cells(row, average), "", ""]


def _perplexity(recipe: str, name: str = "") -> str:
    return perplexity(perplexity_of_test(recipe, name)[0])


def _cells(row: Row, one: Trees) -> list[str]:
    place = f"{_named(row.treebank)} ({one.sentences:,}), `{one.protocol}`"
    random = " / ".join(_without_training(row, one.decoder))
    return [f"`{one.decoder}`", place, str(one.count), percent(one.f1), random, percent(one.right_branching)]


def _named(treebank: str) -> str:
    """A treebank as shown: GUM's constituency trees are automatic."""
    return f"{treebank}, silver trees" if treebank == _GUM else treebank


_STORED = {_WSJ: "wsj-all", _GUM: "gum-test"}  # names of the baselines of a treebank, in results/baselines


def _without_training(row: Row, decoder: str) -> Iterator[str]:
    """F1 of random distances (of random trees for other structures), and of untrained models, by the same decoder."""
    name = "random_biased" if decoder == "biased" else "random"
    yield percent(of_baseline(baselines(_STORED[row.treebank]), name).mean)
    yield percent(_untrained(row.recipe, decoder).mean)


def _untrained(recipe: str, decoder: str) -> Figure:
    """F1 of untrained models: `random_weights` of evaluate parse, in results/baselines/untrained-RECIPE.json."""
    path = RESULTS / "baselines" / f"untrained-{recipe}.json"
    found = json.loads(path.read_text(encoding="utf-8"))["random_weights"]["f1_by_decoder"][decoder]
    return Figure(found["mean"], found["std"])


def rule() -> str:
    """F1 with and without training by every decoder: how much of a score is the rule."""
    rows = []
    for row in OVERVIEW:
        for decoder in row.decoders:
            one, untrained = trees(row.recipe, row.treebank, decoder), _untrained(row.recipe, decoder)
            stored = baselines(_STORED[row.treebank])
            random = of_baseline(stored, "random_biased" if decoder == "biased" else "random")
            distances = decoder in ("biased", "unbiased")
            rows.append([
                row.model, f"`{decoder}`", _named(row.treebank), percent(one.f1), percent(random) if distances else "",
                percent(untrained), percent(one.right_branching),
                percent(of_baseline(stored, "random")), percent(of_baseline(stored, "random_binary")),
            ])  # fmt: skip
    heads = ["model", "decoder", "treebank", "F1, trained", "random distances, same decoder",
             "untrained models, same decoder", "right branching", "random, uniform over splits",
             "random, uniform over binary trees"]  # fmt: skip
    return table(heads, rows)


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
            str(_number_of_seeds(next(one[name] for one in found.values() if name in one))),
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


def _seeds_of(one: Runs | None) -> str:
    return str(_number_of_seeds(one)) if one else ""


def _number_of_seeds(one: Runs) -> int:
    """The models of an average, or the seeds of a run."""
    return one.first.get("averaged_models") or len(one.reports)


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
        raise ValueError(f"results/pcfg-averages: found {', '.join(parsed)}; expected {', '.join(_PCFG_AVERAGES)}")
    decoders = "mbr", "mbr with marks (both)"
    test = {one.name: one for one in runs("pcfg-averages", "wsj-test")}
    rows = [
        [title, *(percent(of[name].f1_by(one)) if name in of else "" for of in (parsed, test) for one in decoders)]
        for name, title in _PCFG_AVERAGES.items()
    ]
    return table(["parser", "F1", "with marks", "F1, test half", "with marks"], rows)


def agreeing_seeds() -> str:
    """F1 of all choices of three seeds of PRPN, and of those that `focus` would keep."""
    reports = run("prpn-ptb-parsing", "wsj").reports
    stored = json.loads((RESULTS / "prpn-ptb-parsing" / "agreement.json").read_text(encoding="utf-8"))
    agreement = np.array(stored["agreement"])
    rows = []
    for decoder in ("biased", "unbiased"):
        scores = [reports[seed]["f1_by_decoder"][decoder] for seed in sorted(reports)]
        threes = list(combinations(range(len(scores)), 3))
        kept = [[seed for seed in three if seed != outlier(agreement, three)] for three in threes]
        means = [[Figure.of(scores[seed] for seed in chosen).mean for chosen in choice] for choice in (threes, kept)]
        lowest = [100 * min(scores[seed] for chosen in choice for seed in chosen) for choice in (threes, kept)]
        names = "all three", "those that agree"
        for name, mean, low in zip(names, means, lowest, strict=True):
            rows.append([f"`{decoder}`", name, percent(Figure.of(mean)), f"{low:.1f}"])
    return table(["decoder", "seeds", "F1, mean of a choice", "lowest seed"], rows)


def languages() -> str:
    """F1 of every stored report of simple-pcfg-languages."""
    rows = (
        [
            *(_run_name(one.name), words, f"`{one.preprocessing}`", f"{one.first['sentences']:,}"),
            *(f"`{one.first['decoder']}`", f"`{one.first['protocol']}`", str(_number_of_seeds(one)), percent(one.f1)),
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


def pairs() -> str:
    """Accuracy on minimal pairs of the models of simple-pcfg-pairs."""
    rows = []
    for name, title in (("marvin-linzen", "Marvin & Linzen"), ("blimp", "BLiMP")):
        report = json.loads((RESULTS / "simple-pcfg-pairs" / f"{name}.json").read_text(encoding="utf-8"))
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
    report = json.loads((RESULTS / "suites" / "syntaxgym.json").read_text(encoding="utf-8"))

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


SHIPPED = {"en": "`en`", "en-fast": "`en-fast`"}
SHIPPED_TREEBANKS = {
    "wsj": ("WSJ sample", "all"),
    "wsj-second": ("WSJ sample, second half", "all"),
    "wsj10": ("WSJ sample", "up to 10 words"),
    "gum": ("GUM test", "all"),
    "gum10": ("GUM test", "up to 10 words"),
    "craft": ("CRAFT", "up to 40 words"),
    "ordinary": ("ordinary sentences", "all"),
}


def shipped_trees() -> str:
    """F1 of the bundled models, from the reports that `shipping.figures` stores."""
    rows = []
    for ending, (title, words) in SHIPPED_TREEBANKS.items():
        for model, shown in SHIPPED.items():
            one = run("shipped", ending, model)
            with_marks = one.first["f1_by_decoder"].get("mbr with marks (both)")
            figures = [percent(one.f1), "" if with_marks is None else percent(with_marks), percent(one.right_branching)]
            rows.append([shown, title, words, f"{one.first['sentences']:,}", *figures])
    return table(["model", "treebank", "length", "sentences", "F1", "F1 with marks", "right branching"], rows)


def shipped_reliability() -> str:
    """Reliability of the probabilities of `en` on the WSJ sample."""
    bins = run("shipped", "wsj", "en").first["reliability"]["constituents"]
    rows = [
        [
            f"{one['low']:.1f} to {one['high']:.1f}",
            f"{one['size']:,}",
            percent(one["probability"]),
            percent(one["correct"]),
        ]
        for one in bins
    ]
    return table(["probability", "constituents", "mean probability", "share in the gold trees"], rows)


def shipped_pairs() -> str:
    """Accuracy on BLiMP of the bundled models and of Kneser-Ney 5-grams, by field and linguistics term."""
    models = _blimp()
    means = ("mean_over_cases", "mean_over_cases_differing_words_known")
    paradigms = [[model[means[0]], None, model[means[1]]] for model in models]
    title = f"mean over {len(models[0]['by_case'])} paradigms"
    rows = [_pair_row("all", models), _cells_of_pairs(title, "", paradigms)]
    for grouping, names in models[0]["by_group"].items():
        title = grouping.replace("_", " ")
        rows += [_pair_row(f"{title}: {name}", [one["by_group"][grouping][name] for one in models]) for name in names]
    return table(_pair_heads(models), rows)


def shipped_pairs_by_paradigm() -> str:
    """The same by paradigm."""
    models = _blimp()
    rows = [_pair_row(f"`{name}`", [one["by_case"][name] for one in models]) for name in models[0]["by_case"]]
    return table(_pair_heads(models), rows)


def _blimp() -> list[dict[str, Any]]:
    report = json.loads((RESULTS / "shipped" / "blimp.json").read_text(encoding="utf-8"))
    return list(report["models"])


def _pair_heads(models: Sequence[Mapping[str, Any]]) -> list[str]:
    shown = [(SHIPPED | {"kn5": "5-grams"})[model["model"]] for model in models]
    return ["pairs of BLiMP", "number", *(one + what for one in shown for what in ("", ", unknown", ", known"))]


def _pair_row(title: str, of_models: Sequence[Mapping[str, Any]]) -> list[str]:
    """A group of pairs, with each model's accuracy, share of pairs with an unknown differing word, and accuracy on the
    others.
    """
    figures = [
        [one["all"]["accuracy"], one["share_unknown"], one["differing_words_known"]["accuracy"]] for one in of_models
    ]
    return _cells_of_pairs(title, f"{of_models[0]['all']['pairs']:,}", figures)


def _cells_of_pairs(title: str, number: str, figures: Sequence[Sequence[float | None]]) -> list[str]:
    return [title, number, *("" if one is None else percent(one) for of_model in figures for one in of_model)]


def ordinary_sentences() -> str:
    """The trees of `en` for the ordinary sentences, with the gold constituents that they lack."""
    report = json.loads((RESULTS / "shipped" / "en-ordinary-trees.json").read_text(encoding="utf-8"))
    recall = run("shipped", "ordinary", "en").first["recall_by_label"]
    shown = ", ".join(
        f"{label} {100 * share:.0f}% of {count}" for label, (share, count) in recall.items() if count > 10
    )
    parts = [
        f"All constituents are correct in {report['right']} of {len(report['sentences'])} sentences. Found: {shown}."
    ]
    for one in report["sentences"]:
        (tree,) = parse_brackets(one["tree"])
        verdict = "; ".join(one["missed"]) or "nothing"
        parts.append(f"```text\n{draw_tree(tree)}\n```\n\nMissed: {verdict}.")
    return "\n\n".join(parts)


def shipped_perplexity() -> str:
    """Perplexity of the bundled models and of Kneser-Ney 5-grams on EWT."""
    rows = []
    for model, shown in (*SHIPPED.items(), ("kn5", "Kneser-Ney 5-grams, same text")):
        for ending, read in (("ewt", "as a stream"), ("ewt-sentences", "sentence by sentence")):
            for kind, counted in ((ending, "words and marks"), (f"{ending}-words", "words")):
                for one in (found.first for found in runs("shipped", kind) if found.name == model):
                    of_model = "words" if model == "en-fast" else counted
                    share = f"{one['unknown'] / one['tokens']:.1%}"
                    rows.append([shown, read, of_model, f"{one['perplexity']:.1f}", f"{one['tokens']:,}", share])
    return table(["model", "read", "predicted", "perplexity", "tokens", "unknown words"], rows)


def shipped_icelandic() -> str:
    """Figures of the Icelandic model on the last tenth of IcePaHC."""
    rows = []
    for name, length in (("icepahc", "all"), ("icepahc10", "up to 10 words")):
        one = run("shipped", name, "is")
        with_marks = percent(one.first["f1_by_decoder"]["mbr with marks (both)"])
        figures = [
            percent(one.f1),
            with_marks,
            percent(one.right_branching),
            percent(one.first["baselines"]["balanced"]),
        ]
        rows.append([length, f"{one.first['sentences']:,}", *figures])
    return table(["length", "sentences", "F1", "F1 with marks", "right branching", "balanced"], rows)


SCORERS = {"lstm-en": "LSTM", "awd-lstm-en": "AWD-LSTM", "on-lstm-en": "ON-LSTM"}


def scorer_types() -> str:
    """Language models of three types on the text of `en`, in the same minutes, as `compare` stored them."""
    compared = json.loads((RESULTS / "shipped/scorer-types.json").read_text(encoding="utf-8"))
    rows = []
    for row in compared["rows"]:
        perplexities = [f"{row[part]['perplexity']['mean']:.1f}" for part in ("valid", "test")]
        read = [f"{row['minutes']['mean']:.0f}", f"{row['epochs']['mean']:.2f}"]
        rows.append([SCORERS[row["recipe"]], f"`{row['recipe']}`", f"{row['parameters']:,}", *read, *perplexities])
    return table(["model", "recipe", "parameters", "minutes", "epochs", "validation", "test"], rows)


def shipped_speed() -> str:
    """Sentences parsed and scored per second by the bundled models."""
    rows = []
    for model, shown, use in (*((*one, "parse") for one in SHIPPED.items()), ("en-score", SHIPPED["en"], "score")):
        one = run("shipped", "speed", model).first
        speed = f"{one['sentences_per_second']:,.0f}"
        rows.append([shown, use, speed, f"{one['sentences']:,} of EWT", str(one["threads"])])
    return table(["model", "command", "sentences per second", "sentences", "threads"], rows)


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
    return _reading_times("reading-times/natural-stories")


def shipped_reading_times() -> str:
    """The same for the bundled model `en`."""
    return _reading_times("shipped/en-stories", {"en": "`en`"})


def _reading_times(name: str, models: Mapping[str, str] = READING_MODELS) -> str:
    report = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    rows = []
    for one in report["models"]:
        gain = one["delta_log_likelihood"]
        value, low, high = (f"{1000 * gain[key]:.2f}" for key in ("value", "low", "high"))
        rows.append([models[one["model"]], one["context"], f"{one['mean_surprisal']:.2f}", value, f"{low} to {high}"])
    heads = ["model", "context", "mean surprisal, bits", "delta log-likelihood, 10^-3 nats per word", "95% interval"]
    return table(heads, rows)


def unknown_words() -> str:
    """What classes of unknown words change, from the reports of `shipping.unknown_words` and `evaluate parse`."""
    rows = []
    texts = {"simple-pcfg": ("small SN-PCFG", "EWT"), "kn5": ("5-grams", "EWT"), "kn5-valid": ("5-grams", "validation")}
    for name, (model, text) in texts.items():
        report = json.loads((RESULTS / "shipped" / f"unknown-words-{name}.json").read_text(encoding="utf-8"))
        for key, words in (("words", "all"), ("words_after_unknown_words", "after an unknown word")):
            means = report["mean_surprisal" + key.removeprefix("words")]
            rows.append(
                [f"{model}, bits per known word of {text}, {words} ({report[key]:,})", *(f"{x:.2f}" for x in means)]
            )
    f1 = [percent(run("shipped", "wsj", name).f1) for name in ("with-classes", "without-classes")]
    rows.append(["small SN-PCFG, F1 on the WSJ sample", *f1])
    return table(["", "with classes", "without"], rows)


STOP_QUESTIONS = ("add left", "add right", "add next left", "add next right")
STOP_DATA = {"gum": "GUM, gold trees", "novel": "War and Peace, automatic trees"}
STOP_MODELS = {"tree-rnn": "TreeRNN", "ltree-rnn": "LTreeRNN"}
STOP_PUBLISHED = {"always stop": (72.2, 70.3, 78.9, 82.9), "states": (84.2, 83.7, 86.0, 90.3)}


def stop_classifiers() -> str:
    """Accuracy of the classifiers of where trees end on test trees, from the reports of `tune stops`."""
    rows = []
    for data, title in STOP_DATA.items():
        reports = {
            (model, report["reads"]): report
            for model in STOP_MODELS
            for path in sorted((RESULTS / "stops").glob(f"{data}-{model}-*.json"))
            for report in [json.loads(path.read_text(encoding="utf-8"))]
        }
        tests = [report["test"] for report in reports.values()]
        if not tests:
            continue
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


BLOCKS: dict[str, Callable[[], str]] = {
    "logical-inference": logical_inference,
    "compared-parsers": compared_parsers,
    "readme-trees": readme_trees,
    "readme-perplexity": readme_perplexity,
    "dmv": dmv,
    "ccm": ccm,
    "overview": overview,
    "distance-seeds": DISTANCES.markdown,
    "palm-seeds": PALM.markdown,
    "pcfg-trees": pcfg_trees,
    "pcfg-seeds": pcfg_seeds,
    "pcfg-sizes": pcfg_sizes,
    "pcfg-focus": pcfg_focus,
    "pcfg-types": pcfg_types,
    "pcfg-averages": pcfg_averages,
    "agreeing-seeds": agreeing_seeds,
    "languages": languages,
    "pairs": pairs,
    "suites": suites,
    "shipped-trees": shipped_trees,
    "shipped-perplexity": shipped_perplexity,
    "scorer-types": scorer_types,
    "shipped-icelandic": shipped_icelandic,
    "shipped-speed": shipped_speed,
    "shipped-reliability": shipped_reliability,
    "ordinary-sentences": ordinary_sentences,
    "unknown-words": unknown_words,
    "reading-times": reading_times,
    "shipped-reading-times": shipped_reading_times,
    "shipped-pairs": shipped_pairs,
    "shipped-pairs-by-paradigm": shipped_pairs_by_paradigm,
    "stop-classifiers": stop_classifiers,
    "training-speed": training_speed,
    "matrix-speed": matrix_speed,
    "speed-aims": aims,
    "command-speed": command_speed,
    "job-speed": job_speed,
    "experiments": counts,
    "leaderboard": leaderboard,
    "near-convergence": near_convergence,
    "signal-full": signal.full,
    "signal-tenth": signal.tenth,
    "signal-outside": signal.outside,
    "signal-pairs": signal.minimal_pairs,
    "decoder-gain": decoder_gain,
    "agreement": agreement,
    **{f"pairs-{distance}": partial(marvin_linzen, distance) for distance in published()["constructions"]},
    "significance": significance,
    "rule": rule,
    **{f"experiments-{paper}": partial(experiments, paper) for paper in published()["experiments"]},
    **{f"comparison-{name}": partial(comparison, name) for name in published()["comparisons"]},
}


def with_results(text: str, models: str) -> str:
    """A page with all its blocks generated anew. models: the folder of the models' pages, seen from the page."""

    def block(found: re.Match[str]) -> str:
        return f"{found.group(1)}\n{BLOCKS[found['name']]().replace('MODELS', models)}\n{found.group(3)}"

    return _BLOCK.sub(block, text)


def generated(page: Path) -> str:
    """What a page should be."""
    return with_results(page.read_text(encoding="utf-8"), _MODELS.get(page.name, "models"))


def without_results(text: str) -> str:
    """A page without its generated blocks."""
    return _BLOCK.sub("", text)


def main() -> None:
    for page in PAGES:
        page.write_text(generated(page), encoding="utf-8")
    CSV.write_text(csv_text(), encoding="utf-8")


if __name__ == "__main__":
    main()
