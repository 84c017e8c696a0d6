"""F1 of published systems beside ours, minimal pairs by construction, and tests between models, for docs/papers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from laboratory.pages.markdown import table
from laboratory.pages.stored_results import Figure, Runs, Trees, all_parsed, baselines, of_baseline, parsed, percent
from laboratory.results.store import select, stored_report
from syntaxlm.core.yaml_files import read_yaml

PUBLISHED = Path(__file__).parent / "published.yaml"
BASELINES = ("left", "random", "random_binary", "right", "binary_bound")
_TITLES = {
    "left": "left branching",
    "random": "random trees, uniform over splits",
    "random_binary": "random trees, uniform over binary trees",
    "random_biased": "random distances, biased",
    "right": "right branching",
    "binary_bound": "binary upper bound",
}


def published() -> dict[str, Any]:
    """Return published.yaml, without the runs of ours marked `if_stored` that are not stored yet."""
    read: dict[str, Any] = read_yaml(PUBLISHED)
    for row in (row for paper in read["experiments"].values() for row in paper["rows"] if "systems" in row):
        leave_out_missing(row)
    for compared in read["comparisons"].values():
        compared["ours"] = _without_missing(compared["ours"])
    return read


def leave_out_missing(row: dict[str, Any]) -> None:
    """Remove from a row of an experiment what is not stored yet, and the claims about it."""
    before = _measured_systems(row)
    row["systems"] = _without_missing(row["systems"])
    missing = before - _measured_systems(row)
    claims = row.get("claims", ())
    kept = [claim for claim in claims if missing.isdisjoint(side for side in claim.values() if isinstance(side, str))]
    if len(kept) < len(claims):
        row.pop("claims")
        row |= {"claims": kept} if kept else {}


def _measured_systems(row: dict[str, Any]) -> set[str]:
    """Return the systems of a row with a value of ours."""
    return {system["system"] for system in row["systems"] if "here" in system}


def seeds(count: int) -> str:
    return f"{count} seed" + "s" * (count > 1)


def _without_missing(systems: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the systems that are stored, and missing ones with a published value, without the place of our value."""
    kept = []
    for system in systems:
        if not system.get("if_stored") or _is_stored(system.get("here", system)):
            kept.append(system)
        elif "published" in system:
            kept.append({name: value for name, value in system.items() if name != "here"})
    return kept


def _is_stored(entry: dict[str, Any]) -> bool:
    """Return whether there are results of a run that is parsed, trained or measured."""
    if "splits" in entry:
        return bool(select("palm-splits", what="splits", run=entry["run"]))
    if "training" in entry:
        return bool(select(entry["training"], what="training", run=entry["run"]))
    return bool(all_parsed(entry["reports"], entry["scored_on"], run=entry["run"]))


def evaluated(entry: dict[str, Any]) -> Runs:
    """The runs of `evaluate parse` that an entry of published.yaml names."""
    return parsed(entry["reports"], entry["scored_on"], entry.get("run", ""), entry.get("decoder"))


def f1_of(entry: dict[str, Any]) -> Trees:
    """F1 and what it depends on, from the place that an entry of published.yaml names."""
    runs = evaluated(entry)
    sentences, protocol = (runs.first[name] for name in ("sentences", "protocol"))
    decoder = entry.get("decoder", runs.first["decoder"])
    f1 = runs.f1_by(decoder) if "decoder" in entry else runs.f1
    return Trees(f1, runs.right_branching, sentences, protocol, decoder, runs.shown_seeds)


def comparison(name: str) -> str:
    """F1 of published systems, and below them of our models, each with its data, protocol and sentences."""
    compared = published()["comparisons"][name]
    heads = ["system", "F1", "learns from", "sentences, protocol", "decoder", "seeds", "source"]
    rows = [
        [
            system["system"],
            f"{system['f1']:.1f}" + (f" ± {system['std']:.1f}" if "std" in system else ""),
            system["data"],
            system.get("sentences", compared["data"]),
            "",
            "",
            system["source"],
        ]
        for system in compared["published"]
    ]
    return table(heads, [*rows, *(row for entry in compared["ours"] for row in _our_rows(entry))])


def _our_rows(entry: dict[str, Any]) -> Iterator[list[str]]:
    """Yield the row of a model, or a row for each baseline."""
    if "baselines" in entry:
        report = baselines(entry["baselines"])
        scored_on, source = _sentences(report["sentences"], report["protocol"]), _stored("baselines")
        for name in (*BASELINES[:3], "random_biased", *BASELINES[3:]):
            yield [f"here: {_TITLES[name]}", percent(of_baseline(report, name)), "", scored_on, "", "", source]
        return
    trees = f1_of(entry)
    scored_on, source = _sentences(trees.sentences, trees.protocol), _stored(entry["reports"])
    name, f1 = f"**here: {entry['system']}**", f"**{percent(trees.f1)}**"
    yield [name, f1, entry.get("data", "words of PTB"), scored_on, f"`{trees.decoder}`", trees.seeds, source]


def _sentences(count: int, protocol: str) -> str:
    return f"WSJ sample, {count:,}; `{protocol}`"


def _stored(experiment: str) -> str:
    """Return a link to the stored results of an experiment."""
    return f"[{experiment}](../laboratory/results/{experiment}.jsonl)"


_PAIRS = {"SN-PCFG": "simple-pcfg", "ON-LSTM": "on-lstm", "LSTM": "lstm"}  # runs of the experiment minimal-pairs


def marvin_linzen_models(run: str) -> list[dict[str, Any]]:
    """The models of a report of `evaluate pairs` on Marvin and Linzen's pairs, one for each seed."""
    models: list[dict[str, Any]] = stored_report("minimal-pairs", run=run, data="marvin-linzen")["models"]
    return models


def marvin_linzen(distance: str) -> str:
    """Accuracy on Marvin & Linzen's pairs by construction: published and ours, in percent. distance: long or short."""
    reports = {model: marvin_linzen_models(run) for model, run in _PAIRS.items()}
    rows = []
    for name, accuracies in published()["constructions"][distance].items():
        cells = [name, *(f"{100 * accuracy:.0f}" for accuracy in accuracies)]
        for models in reports.values():
            by_seed = [model["by_group"]["construction"][f"{distance}, {name}"] for model in models]
            cells += [_accuracy([scores[part] for scores in by_seed]) for part in ("all", "differing_words_known")]
        rows.append(cells)
    heads = ["construction", "ON-LSTM, published", "LSTM, published"]
    for model, models in reports.items():
        heads += [f"{model}, here, {seeds(len(models))}: all pairs", f"{model}: differing words known"]
    return table(heads, rows)


def _accuracy(by_seed: list[dict[str, Any]]) -> str:
    """The accuracy of a model over its seeds, and the number of pairs."""
    pairs = by_seed[0]["pairs"]
    return f"{percent(Figure.of(scores['accuracy'] for scores in by_seed))} ({pairs:,})" if pairs else "(no pairs)"


def _side(model: dict[str, Any]) -> str:
    """The score of a model over its seeds; right branching has no seeds."""
    score = model["score"]
    if model["files"] == ["right-branching"]:
        return percent(Figure(score["mean"]))
    return f"{percent(Figure(score['mean'], score['std']))} ({seeds(score['count'])})"


def significance() -> str:
    """All stored comparisons of `evaluate significance`."""
    rows = []
    for run in select("significance", what="significance"):
        report, difference = run.report, run.report["difference"]
        rows.append(
            [
                str(run.factors["first"]),
                str(run.factors["second"]),
                f"{report['measure']}, {report['items']:,} items",
                *(_side(report[side]) for side in ("first", "second")),
                f"{100 * difference['difference']:+.1f}",
                f"{100 * difference['low']:+.1f} to {100 * difference['high']:+.1f}",
                f"{difference['p_value']:.4f}",
            ]
        )
    return table(
        ["first", "second", "measure", "first: score", "second: score", "difference", "95% interval", "p"], rows
    )
