"""The leaderboard of docs/results.md: all parsers scored on the whole WSJ sample by one protocol, also as a CSV file.

To add a parser: store the reports of `train` and of `evaluate parse MODEL 'WSJ/*.mrg' --format json` with
`python -m laboratory.results add`, and write a line in PARSERS.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from laboratory.pages.markdown import table
from laboratory.pages.stored_results import Figure, Runs, baselines, of_baseline, parsed, percent, short, trained

CSV = Path(__file__).parents[2] / "docs" / "leaderboard.csv"


@dataclass(frozen=True)
class Parser:
    """A parser, and the experiment and the run of its reports. decoders: those to show, else the one of the reports.

    averaged: the members of an average whose reports do not name them.
    members: the runs of the members of an average that are trained with it.
    """

    model: str
    learns_from: str
    experiment: str
    run: str = ""
    decoders: tuple[str, ...] = ()
    averaged: int = 0
    members: tuple[str, ...] = ()


_PTB = "words of PTB"
_BOTH = ("biased", "unbiased")
PARSERS = [
    Parser(
        "six unlike SN-PCFGs averaged",
        _PTB,
        "simple-pcfg-ptb-128",
        run="six-average",
        members=("single", "six-larger", "six-unbiased"),
    ),
    Parser(
        "three averages of six unlike SN-PCFGs, averaged",
        _PTB,
        "simple-pcfg-ptb-128",
        run="three-average",
        members=("single", "six-larger", "six-unbiased"),
    ),
    Parser("span parser, trained on the trees of six SN-PCFGs", _PTB, "simple-pcfg-ptb-128", run="six-student"),
    Parser("SN-PCFG, focused on the trees of six", _PTB, "simple-pcfg-ptb-128", run="six-focused"),
    Parser("SN-PCFG, five seeds averaged", _PTB, "simple-pcfg-ptb", run="average"),
    Parser("SN-PCFG, focused on four seeds", _PTB, "simple-pcfg-ptb", run="focused"),
    Parser("SN-PCFG", _PTB, "simple-pcfg-ptb"),
    Parser("Hol-PCFG", _PTB, "holographic-pcfg-ptb"),
    Parser("LSTM with the trees of two SN-PCFGs, sentences", _PTB, "trees-as-signal", run="sentences"),
    Parser("LSTM with the trees of two SN-PCFGs, stream", _PTB, "trees-as-signal", run="stream"),
    Parser("ON-LSTM, layer 2", _PTB, "on-lstm-ptb-words-small", decoders=_BOTH),
    Parser("PRPN", _PTB, "prpn-ptb-parsing", decoders=_BOTH),
    Parser("PRPN, near convergence", _PTB, "converged", run="prpn", decoders=("biased",)),
    Parser("PRPN, near convergence", _PTB, "converged", run="prpn", decoders=("unbiased",)),
    Parser("ON-LSTM, layer 2 of 2, near convergence", _PTB, "converged", run="on-lstm", decoders=("biased",)),
    Parser("ON-LSTM, layer 2 of 2, near convergence", _PTB, "converged", run="on-lstm", decoders=("unbiased",)),
    Parser("StructFormer", _PTB, "structformer", decoders=_BOTH),
    Parser("DIORA", _PTB, "diora"),
    Parser("DIORA, word vectors of an LSTM", _PTB, "diora", run="vectors"),
    Parser("Gumbel Tree-LSTM", "pairs of sentences of PTB", "encoders", run="gumbel-tree-lstm"),
    Parser("RL-SPINN", "pairs of sentences of PTB", "encoders", run="rl-spinn"),
    Parser("PaLM-S", "words and silver trees of GUM", "palm-s-gum-small", decoders=("greedy-sum", "greedy-right")),
    Parser("`en`, a span parser and an SN-PCFG averaged", "other English text", "shipped", run="en", averaged=2),
    Parser("`en-fast`, an SN-PCFG", "other English text", "shipped", run="en-fast"),
]
_TITLES = {"binary_bound": "best binary trees", "right": "right branching", "balanced": "balanced trees",
           "random": "random trees", "left": "left branching"}  # fmt: skip


@dataclass(frozen=True)
class Line:
    """A row. parameters, tokens and minutes: the mean over seeds, or the sum if these are averaged."""

    model: str
    learns_from: str
    decoder: str
    seeds: int | None
    averaged: bool | None
    f1: float
    f1_std: float | None
    parameters: int | None
    tokens: int | None
    minutes: float | None
    right_branching: float
    sentences: int
    protocol: str
    source: str


def lines() -> list[Line]:
    """All parsers and baselines, best F1 first."""
    return sorted([*_parsers(), *_baselines()], key=lambda line: -line.f1)


def _parsers() -> Iterator[Line]:
    for one in PARSERS:
        decoder = one.decoders[0] if len(one.decoders) == 1 else None
        found = parsed(one.experiment, "wsj", one.run, decoder)
        members = found.first.get("averaged_models")
        stored = one.experiment != "shipped"  # the training reports of the bundled models are not stored
        size, tokens, minutes = _costs(one, found, members) if stored else (None, None, None)
        for decoder in one.decoders or (found.first["decoder"],):
            f1 = found.f1_by(decoder)
            yield Line(
                one.model, one.learns_from, decoder, one.averaged or found.count, bool(one.averaged or members),
                f1.mean, f1.std, size, tokens, minutes, found.right_branching, found.first["sentences"],
                found.first["protocol"], f"laboratory/results/{one.experiment}.jsonl",
            )  # fmt: skip


def _costs(one: Parser, found: Runs, members: int | None) -> tuple[int | None, int | None, float]:
    """Parameters, tokens and minutes of a run, or of all members of an average. found: the runs of the parser."""
    if one.members:
        trainings = [trained(one.experiment, name) for name in one.members]
        reports = [each for runs in trainings for each in runs.reports.values()]
        size, epochs, seconds = (
            sum(each[what] for each in reports) / len(found.reports) for what in ("parameters", "epochs", "seconds")
        )
        return round(size), round(epochs * (trainings[0].first_run.epoch_tokens or 0)), seconds / 60
    training = trained(one.experiment, "" if members else one.run)
    size, tokens, times = training.first_run.parameters, training.first_run.epoch_tokens, members or 1
    epochs, seconds = (
        Figure.of(float(each[what]) for seed, each in training.reports.items() if members or seed in found.reports).mean
        for what in ("epochs", "seconds")
    )
    return size and times * size, tokens and round(times * epochs * tokens), times * seconds / 60


def _baselines() -> Iterator[Line]:
    report = baselines("wsj")
    right = of_baseline(report, "right").mean
    for name, title in _TITLES.items():
        f1 = of_baseline(report, name)
        yield Line(title, "", "", None, None, f1.mean, f1.std, None, None, None, right, report["sentences"],
                   report["protocol"], "laboratory/results/baselines.jsonl")  # fmt: skip


def leaderboard() -> str:
    """The table of docs/results.md."""
    rows = []
    for line in lines():
        sizes = (short(value) if value else "" for value in (line.parameters, line.tokens))
        minutes = f"{line.minutes:.0f}" if line.minutes else ""
        seeds = f"{line.seeds or ''}" + ", averaged" * bool(line.averaged)
        decoder = f"`{line.decoder}`" if line.decoder else ""
        rows.append([line.model, line.learns_from, *sizes, minutes, seeds, decoder,
                     percent(Figure(line.f1, line.f1_std)), percent(line.right_branching)])  # fmt: skip
    heads = [
        "model",
        "learns from",
        "parameters",
        "tokens read",
        "minutes",
        "seeds",
        "decoder",
        "F1",
        "right branching",
    ]
    return table(heads, rows)


def csv_text() -> str:
    """docs/leaderboard.csv: F1 as a fraction, empty cells for what is not known."""
    out = io.StringIO()
    writer = csv.DictWriter(out, [field.name for field in fields(Line)], lineterminator="\n")
    writer.writeheader()
    for line in lines():
        cells = asdict(line)
        cells |= {name: f"{cells[name]:.4f}" for name in ("f1", "f1_std", "right_branching") if cells[name] is not None}
        cells["averaged"] = "" if line.averaged is None else str(line.averaged).lower()
        writer.writerow(cells | ({"minutes": f"{line.minutes:.1f}"} if line.minutes else {}))
    return out.getvalue()
