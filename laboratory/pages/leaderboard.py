"""The leaderboard of docs/results.md: parsers scored on the whole WSJ sample by one protocol, also as a CSV file.

Every run that was scored on the whole sample is in PARSERS or in OTHER_RUNS.

To add a parser: store the reports of `train` and of `evaluate parse MODEL 'WSJ/*.mrg' --format json` with
`python -m laboratory.results add`, and write a line in PARSERS.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from laboratory.pages.markdown import table
from laboratory.pages.stored_results import (
    Figure,
    Runs,
    all_parsed,
    baselines,
    of_baseline,
    parsed,
    percent,
    perplexity,
    short,
    trained,
    trained_of,
)

CSV = Path(__file__).parents[2] / "docs" / "leaderboard.csv"


@dataclass(frozen=True)
class Parser:
    """A parser, and its reports.

    Attributes:
        model: its name. A model with a report for each decoder has an entry for each, under the same name.
        learns_from: its training data.
        experiment: experiment of its reports.
        run: run of its reports.
        decoders: decoders to show; (): the decoder of the reports.
        if_stored: whether it is left out until its reports are stored.
        averaged: the number of members of an average whose reports do not name them.
        members: the runs of the members of an average that are trained with it.
        trained: whether the report of its training is stored.
        test_text: the text of its perplexity.
    """

    model: str
    learns_from: str
    experiment: str
    run: str = ""
    decoders: tuple[str, ...] = ()
    if_stored: bool = False
    averaged: int = 0
    members: tuple[str, ...] = ()
    trained: bool = True
    test_text: str = "PTB"


_PTB, _GUM, _GUM_TREES = "words of PTB", "words of GUM", "words and automatic trees of GUM"
_BOTH, _GREEDY = ("biased", "unbiased"), ("greedy-sum", "greedy-right")
PARSERS = [
    Parser(
        "six diverse SN-PCFGs averaged",
        _PTB,
        "simple-pcfg-ptb-128",
        run="six-average",
        members=("single", "six-larger", "six-unbiased"),
    ),
    Parser(
        "three averages of six diverse SN-PCFGs, averaged",
        _PTB,
        "simple-pcfg-ptb-128",
        run="three-average",
        members=("single", "six-larger", "six-unbiased"),
    ),
    Parser("span parser, trained on the trees of six SN-PCFGs", _PTB, "simple-pcfg-ptb-128", run="six-student"),
    Parser("SN-PCFG, focused on the trees of six", _PTB, "simple-pcfg-ptb-128", run="six-focused"),
    Parser("SN-PCFG, five seeds averaged", _PTB, "simple-pcfg-ptb", run="average"),
    Parser("SN-PCFG, focused on four seeds", _PTB, "simple-pcfg-ptb", run="focused"),
    Parser("SN-PCFG with end bias", _PTB, "simple-pcfg-ptb"),
    Parser("Hol-PCFG", _PTB, "holographic-pcfg-ptb"),
    Parser("Hol-PCFG, 1,024 nonterminals, two epochs", _PTB, "holographic-pcfg-ptb", run="nonterminals-1024"),
    Parser("LSTM with the trees of two SN-PCFGs, sentences", _PTB, "trees-as-signal", run="sentences"),
    Parser(
        "LSTM with the trees of two SN-PCFGs, sentences: same command, other processor",
        _PTB,
        "trees-as-signal",
        run="again",
    ),
    Parser("LSTM with the trees of two SN-PCFGs, stream", _PTB, "trees-as-signal", run="stream"),
    Parser("Transformer with the trees of two SN-PCFGs, stream", _PTB, "trees-as-signal", run="transformer-induced"),
    Parser(
        "two SN-PCFGs averaged, whose trees the LSTMs learn from",
        _PTB,
        "trees-as-signal",
        run="teacher",
        averaged=2,
        trained=False,
    ),
    Parser(
        "two SN-PCFGs averaged: same command, other processor",
        _PTB,
        "trees-as-signal",
        run="again-teacher",
        averaged=2,
        trained=False,
    ),
    Parser("ON-LSTM, layer 2 of 3", _PTB, "on-lstm-ptb-words-small", decoders=_BOTH),
    Parser(
        "PRPN, resolution 0.1 (released)",
        _PTB,
        "prpn-ptb-parsing",
        run="resolution-0.1",
        decoders=_BOTH,
        if_stored=True,
    ),
    Parser("PRPN, resolution 0.5", _PTB, "prpn-ptb-parsing", run="resolution-0.5", decoders=_BOTH, if_stored=True),
    Parser("PRPN, `form: paper`", _PTB, "prpn-ptb-parsing", run="paper-form", decoders=_BOTH, if_stored=True),
    Parser("PRPN, resolution 0.5, one residual block", _PTB, "prpn-ptb-parsing", decoders=_BOTH),
    Parser("PRPN, 12 epochs", _PTB, "converged", run="prpn", decoders=("biased",)),
    Parser("PRPN, 12 epochs", _PTB, "converged", run="prpn", decoders=("unbiased",)),
    Parser("ON-LSTM, layer 2 of 2, 18 epochs", _PTB, "converged", run="on-lstm", decoders=("biased",)),
    Parser("ON-LSTM, layer 2 of 2, 18 epochs", _PTB, "converged", run="on-lstm", decoders=("unbiased",)),
    Parser("StructFormer", _PTB, "structformer", decoders=_BOTH),
    Parser("DIORA", _PTB, "diora"),
    Parser("DIORA, word vectors of an LSTM", _PTB, "diora", run="vectors"),
    Parser("Gumbel Tree-LSTM", "pairs of sentences of PTB", "encoders", run="gumbel-tree-lstm"),
    Parser("RL-SPINN", "pairs of sentences of PTB", "encoders", run="rl-spinn"),
    Parser("Tree Transformer with the trees of two SN-PCFGs", _PTB, "tree-transformer", run="induced"),
    Parser(
        "Tree Transformer with the trees of two SN-PCFGs, weight of decisions 0.1",
        _PTB,
        "tree-transformer",
        run="induced-weight-0.1",
    ),
    Parser(
        "Tree Transformer with the trees of `en`, weight of decisions 0.1",
        f"{_PTB}, other English text",
        "tree-transformer",
        run="en-weight-0.1",
    ),
    Parser(
        "two SN-PCFGs averaged, whose trees the Tree Transformers learn from",
        _PTB,
        "tree-transformer",
        run="teacher",
        averaged=2,
        trained=False,
    ),
    Parser("PaLM-S", _GUM_TREES, "palm-gum", run="palm-s", decoders=_GREEDY, test_text="GUM"),
    Parser("PaLM-S, 30 epochs", _GUM_TREES, "palm-gum", run="palm-s-30-epochs", decoders=_GREEDY, test_text="GUM"),
    Parser("PaLM-U", _GUM, "palm-gum", run="palm", decoders=_GREEDY, test_text="GUM"),
    Parser("PaLM-U, 30 epochs", _GUM, "palm-gum", run="palm-30-epochs", decoders=_GREEDY, test_text="GUM"),
    Parser(
        "`en`, a span parser and an SN-PCFG averaged",
        "other English text",
        "shipped",
        run="en",
        averaged=2,
        trained=False,
    ),
    Parser("`en-fast`, an SN-PCFG", "other English text", "shipped", run="en-fast", trained=False),
]
OTHER_RUNS = {  # further settings, averages and baselines without a row, by experiment
    "diora": ("without-dropout",),
    "on-lstm-focus": ("", "average"),
    "on-lstm-ptb-words-small": ("averaged-trees",),
    "palm-gum": ("palm-after-last-layer", "palm-paper-form", "palm-pretrained"),
    "prpn-ptb-parsing": ("averaged-trees",),
    "shipped": ("with-classes", "without-classes"),
    "simple-pcfg-ptb": (
        "average-without-seed-5",
        "average-without-seed-5-with-both-focused",
        "average-without-seed-5-with-focused",
        "average-without-seed-5-with-xavier-focused",
        "xavier-start",
        "xavier-start/average-of-4",
        "xavier-start/average-with-small",
        "xavier-start/focused",
    ),
    "simple-pcfg-ptb-128": ("six-learned",),
    "simple-pcfg-sizes": ("",),
    "tree-transformer": (
        "right",
        "right-weight-0.1",
        "random",
        "tenth-induced",
        "tenth-random",
        "tenth-right",
        "tenth-teacher",
    ),
}
_TITLES = {"binary_bound": "best binary trees", "right": "right branching", "balanced": "balanced trees",
           "random": "random trees", "left": "left branching"}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Line:
    """A model with one decoder.

    Attributes:
        model: its name.
        learns_from: its training data.
        decoder: decoder of its trees; "" for baselines.
        seeds: number of seeds, or of the members of an average.
        averaged: whether the trees of all seeds are averaged into one tree per sentence.
        f1: mean over seeds.
        f1_std: standard deviation over seeds.
        perplexity: of the test text, mean over the same seeds; None: the model has none, or it is not stored.
        perplexity_std: standard deviation over seeds.
        test_text: which text, and how it was read: "PTB, stream".
        parameters: mean over seeds, or sum over the members of an average, as are tokens and minutes.
        tokens: number of tokens predicted in training.
        minutes: minutes of training.
        right_branching: F1 of right branching.
        sentences: number of sentences on which F1 was measured.
        protocol: protocol of F1.
        source: file of the results.
    """

    model: str
    learns_from: str = ""
    decoder: str = ""
    seeds: int | None = None
    averaged: bool | None = None
    f1: float
    f1_std: float | None
    perplexity: float | None = None
    perplexity_std: float | None = None
    test_text: str = ""
    parameters: int | None = None
    tokens: int | None = None
    minutes: float | None = None
    right_branching: float
    sentences: int
    protocol: str
    source: str


def lines() -> list[Line]:
    """All parsers and baselines, best F1 first."""
    return sorted([*_parsers(), *_baselines()], key=lambda line: -line.f1)


def _parsers() -> Iterator[Line]:
    """Yield a line for each parser and decoder."""
    for parser in PARSERS:
        if parser.if_stored and not all_parsed(parser.experiment, "wsj", run=parser.run):
            continue
        decoder = parser.decoders[0] if len(parser.decoders) == 1 else None
        scored = parsed(parser.experiment, "wsj", parser.run, decoder)
        members = scored.first.get("averaged_models")
        facts: dict[str, Any] = _costs(parser, scored, members) if parser.trained else {}
        if parser.trained and not members and not parser.members:
            facts |= _perplexity(parser, scored)
        for decoder in parser.decoders or (scored.first["decoder"],):
            f1 = scored.f1_by(decoder)
            yield Line(
                model=parser.model,
                learns_from=parser.learns_from,
                decoder=decoder,
                seeds=parser.averaged or scored.count,
                averaged=bool(parser.averaged or members),
                f1=f1.mean,
                f1_std=f1.std,
                right_branching=scored.right_branching,
                sentences=scored.first["sentences"],
                protocol=scored.first["protocol"],
                source=f"laboratory/results/{parser.experiment}.jsonl",
                **facts,
            )


def _perplexity(parser: Parser, scored: Runs) -> dict[str, Any]:
    """Return the test perplexity of the models that were scored, and its text; nothing if they predict no words."""
    trainings = trained_of(scored, parser.experiment, parser.run)
    if not (trainings.first.get("test") or {}).get("perplexity"):
        return {}
    scores = trainings.perplexity("test")
    text = f"{parser.test_text}, {trainings.reading}"
    return {"perplexity": scores.mean, "perplexity_std": scores.std, "test_text": text}


def _costs(parser: Parser, scored: Runs, members: int | None) -> dict[str, Any]:
    """Return parameters, tokens and minutes of a run, or of all members of an average.

    Args:
        parser: the parser.
        scored: its runs.
        members: the number of members of an average whose report names them.
    """
    if parser.members:  # sums over the members of each average, which are several runs
        trainings = [trained(parser.experiment, name) for name in parser.members]
        reports = [report for runs in trainings for report in runs.reports.values()]
        size, epochs, seconds = (
            sum(report[cost] for report in reports) / len(scored.reports)
            for cost in ("parameters", "epochs", "seconds")
        )
        tokens = round(epochs * (trainings[0].first_run.epoch_tokens or 0))
        return {"parameters": round(size), "tokens": tokens, "minutes": seconds / 60}

    # The members of an average are the seeds of one run. Otherwise, only seeds whose trees were scored count.
    training = trained(parser.experiment, "" if members else parser.run)
    reports = [report for seed, report in training.reports.items() if members or seed in scored.reports]
    epochs, seconds = (Figure.of(float(report[cost]) for report in reports).mean for cost in ("epochs", "seconds"))
    size, tokens, times = training.first_run.parameters, training.first_run.epoch_tokens, members or 1
    tokens = tokens and round(times * epochs * tokens)
    return {"parameters": size and times * size, "tokens": tokens, "minutes": times * seconds / 60}


def _baselines() -> Iterator[Line]:
    """Yield a line for each baseline."""
    report = baselines("wsj")
    for name, title in _TITLES.items():
        f1 = of_baseline(report, name)
        yield Line(
            model=title,
            f1=f1.mean,
            f1_std=f1.std,
            right_branching=of_baseline(report, "right").mean,
            sentences=report["sentences"],
            protocol=report["protocol"],
            source="laboratory/results/baselines.jsonl",
        )


def leaderboard() -> str:
    """The table of docs/results.md: a row for each model, with all its decoders."""
    models: dict[str, list[Line]] = {}
    for line in lines():
        models.setdefault(line.model, []).append(line)
    heads = [
        "model",
        "F1",
        "decoder",
        "seeds",
        "test perplexity",
        "learns from",
        "parameters",
        "tokens read",
        "minutes",
    ]
    return table(heads, (_row(model, decoded) for model, decoded in models.items()))


def _row(model: str, decoded: list[Line]) -> list[str]:
    """Return the cells of a model; the values of its decoders are separated by slashes."""
    line = decoded[0]
    f1 = " / ".join(percent(Figure(line.f1, line.f1_std)) for line in decoded)
    decoders = " / ".join(f"`{line.decoder}`" for line in decoded if line.decoder)
    seeds = f"{line.seeds or ''}" + ", averaged" * bool(line.averaged)
    score = f"{perplexity(Figure(line.perplexity, line.perplexity_std))} ({line.test_text})" if line.perplexity else ""
    sizes = [short(value) if value else "" for value in (line.parameters, line.tokens)]
    return [model, f1, decoders, seeds, score, line.learns_from, *sizes, f"{line.minutes:.0f}" if line.minutes else ""]


_FRACTIONS, _PERPLEXITIES = ("f1", "f1_std", "right_branching"), ("perplexity", "perplexity_std")


def csv_text() -> str:
    """docs/leaderboard.csv: F1 as a fraction, empty cells for what is not known."""
    out = io.StringIO()
    writer = csv.DictWriter(out, [field.name for field in fields(Line)], lineterminator="\n")
    writer.writeheader()
    for line in lines():
        cells = asdict(line)
        cells |= {name: f"{cells[name]:.4f}" for name in _FRACTIONS if cells[name] is not None}
        cells |= {name: f"{cells[name]:.2f}" for name in _PERPLEXITIES if cells[name] is not None}
        cells["averaged"] = "" if line.averaged is None else str(line.averaged).lower()
        writer.writerow(cells | ({"minutes": f"{line.minutes:.1f}"} if line.minutes else {}))
    return out.getvalue()
