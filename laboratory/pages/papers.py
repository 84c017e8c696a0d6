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
    found: dict[str, Any] = read_yaml(PUBLISHED)
    for row in (row for paper in found["experiments"].values() for row in paper["rows"] if "systems" in row):
        leave_out_missing(row)
    for chosen in found["comparisons"].values():
        chosen["ours"] = _without_missing(chosen["ours"])
    return found


def leave_out_missing(row: dict[str, Any]) -> None:
    """Remove from a row of an experiment what is not stored yet, and the claims about it."""
    ours = {one["system"] for one in row["systems"] if "here" in one}
    row["systems"] = _without_missing(row["systems"])
    missing = ours - {one["system"] for one in row["systems"] if "here" in one}
    sides = [{side for side in claim.values() if isinstance(side, str)} for claim in row.get("claims", ())]
    if not all(missing.isdisjoint(named) for named in sides):
        kept = [claim for claim, named in zip(row["claims"], sides, strict=True) if missing.isdisjoint(named)]
        row.pop("claims")
        row |= {"claims": kept} if kept else {}


def seeds(count: int) -> str:
    return f"{count} seed" + "s" * (count > 1)


def _without_missing(systems: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the entries that are stored; of a missing one with a published value, all but the place of our value."""
    kept = []
    for one in systems:
        if not one.get("if_stored") or _is_stored(one.get("here", one)):
            kept.append(one)
        elif "published" in one:
            kept.append({name: value for name, value in one.items() if name != "here"})
    return kept


def _is_stored(ours: dict[str, Any]) -> bool:
    """Return whether there are results of a run that is parsed, trained or measured."""
    if "splits" in ours:
        return bool(select("palm-splits", what="splits", run=ours["run"]))
    if "training" in ours:
        return bool(select(ours["training"], what="training", run=ours["run"]))
    return bool(all_parsed(ours["reports"], ours["scored_on"], run=ours["run"]))


def evaluated(one: dict[str, Any]) -> Runs:
    """The runs of `evaluate parse` that an entry of published.yaml names."""
    return parsed(one["reports"], one["scored_on"], one.get("run", ""), one.get("decoder"))


def f1_of(one: dict[str, Any]) -> Trees:
    """F1 and what it depends on, from the place that an entry of published.yaml names."""
    found = evaluated(one)
    sentences, protocol = (found.first[name] for name in ("sentences", "protocol"))
    decoder = one.get("decoder", found.first["decoder"])
    f1 = found.f1_by(decoder) if "decoder" in one else found.f1
    return Trees(f1, found.right_branching, sentences, protocol, decoder, found.shown_seeds)


def comparison(name: str) -> str:
    """F1 of published systems, and below them ours, each with its data, protocol and sentences."""
    chosen = published()["comparisons"][name]
    heads = ["system", "F1", "learns from", "sentences, protocol", "decoder", "seeds", "source"]
    rows = [
        [
            one["system"],
            f"{one['f1']:.1f}" + (f" ± {one['std']:.1f}" if "std" in one else ""),
            one["data"],
            one.get("sentences", chosen["data"]),
            "",
            "",
            one["source"],
        ]
        for one in chosen["published"]
    ]
    return table(heads, [*rows, *(row for one in chosen["ours"] for row in _ours(one))])


def _ours(one: dict[str, Any]) -> Iterator[list[str]]:
    if "baselines" in one:
        report = baselines(one["baselines"])
        place = f"WSJ sample, {report['sentences']:,}; `{report['protocol']}`"
        for name in (*BASELINES[:3], "random_biased", *BASELINES[3:]):
            yield [
                f"here: {_TITLES[name]}",
                percent(of_baseline(report, name)),
                "",
                place,
                "",
                "",
                _stored("baselines"),
            ]
        return
    found, source = f1_of(one), _stored(one["reports"])
    place = f"WSJ sample, {found.sentences:,}; `{found.protocol}`"
    name, f1 = f"**here: {one['system']}**", f"**{percent(found.f1)}**"
    yield [name, f1, one.get("data", "words of PTB"), place, f"`{found.decoder}`", found.seeds, source]


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
    for name, figures in published()["constructions"][distance].items():
        rows.append([name, *(f"{100 * figure:.0f}" for figure in figures)])
        for models in reports.values():
            found = [model["by_group"]["construction"][f"{distance}, {name}"] for model in models]
            pairs = {part: found[0][part]["pairs"] for part in ("all", "differing_words_known")}
            rows[-1] += [
                f"{percent(Figure.of(one[part]['accuracy'] for one in found))} ({pairs[part]:,})"
                if pairs[part]
                else "(no pairs)"
                for part in pairs
            ]
    heads = ["construction", "ON-LSTM, published", "LSTM, published"]
    for model, models in reports.items():
        heads += [f"{model}, here, {seeds(len(models))}: all pairs", f"{model}: differing words known"]
    return table(heads, rows)


def _side(one: dict[str, Any]) -> str:
    """The score of a model over its seeds; right branching has none."""
    score = one["score"]
    if one["files"] == ["right-branching"]:
        return percent(Figure(score["mean"]))
    return f"{percent(Figure(score['mean'], score['std']))} ({seeds(score['count'])})"


def significance() -> str:
    """All stored comparisons of `evaluate significance`."""
    rows = []
    for run in select("significance", what="significance"):
        report, found = run.report, run.report["difference"]
        rows.append(
            [
                str(run.factors["first"]),
                str(run.factors["second"]),
                f"{report['measure']}, {report['items']:,} items",
                *(_side(report[side]) for side in ("first", "second")),
                f"{100 * found['difference']:+.1f}",
                f"{100 * found['low']:+.1f} to {100 * found['high']:+.1f}",
                f"{found['p_value']:.4f}",
            ]
        )
    return table(
        ["first", "second", "measure", "first: score", "second: score", "difference", "95% interval", "p"], rows
    )
