"""docs/papers.md: published figures beside those of this project, from published.yaml and the stored results."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from docs.generation.markdown import table
from docs.generation.stored_results import RESULTS, Figure, Trees, earlier, run

PUBLISHED = Path(__file__).parent / "published.yaml"
OUTCOMES = ("reproduced", "same order", "different order", "not reachable here")
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
    found: dict[str, Any] = yaml.safe_load(PUBLISHED.read_text(encoding="utf-8"))
    return found


def baselines(name: str) -> dict[str, Any]:
    """A report in results/baselines, of `evaluate trees` of a treebank against itself: its baselines are used."""
    report: dict[str, Any] = json.loads((RESULTS / "baselines" / f"{name}.json").read_text(encoding="utf-8"))
    return report


def percent(figure: Figure | float) -> str:
    """A fraction as percent with one decimal place, with the standard deviation where there is one."""
    if isinstance(figure, float):
        return f"{100 * figure:.1f}"
    return f"{100 * figure.mean:.1f}" + (f" ± {100 * figure.std:.1f}" if figure.std is not None else "")


def perplexity(figure: Figure) -> str:
    return f"{figure.mean:.1f}" + (f" ± {figure.std:.1f}" if figure.std is not None else "")


def seeds(count: int) -> str:
    return f"{count} seed" + "s" * (count > 1)


def of_baseline(report: dict[str, Any], name: str) -> Figure:
    """F1 of a baseline of a report; of random trees with the standard deviation over seeds."""
    found = report["baselines"][name]
    return Figure(found["mean"], found["std"]) if isinstance(found, dict) else Figure(found)


def f1_of(one: dict[str, Any]) -> Trees:
    """F1 and what it depends on, from the place that an entry of published.yaml names."""
    if "earlier" not in one:
        found = run(one["reports"], one["ending"], one.get("run", ""))
        sentences, protocol = (found.first[name] for name in ("sentences", "protocol"))
        decoder = one.get("decoder", found.first["decoder"])
        f1 = found.f1_by(decoder) if "decoder" in one else found.f1
        return Trees(f1, found.right_branching, sentences, protocol, decoder, len(found.reports))
    file, asked = earlier(one["earlier"]), one["trees"]
    for old in file.trees:
        if all(getattr(old, name) == value for name, value in asked.items()):
            return Trees(old.figure, old.right_branching, old.sentences, old.protocol, old.decoder, len(file.seeds))
    raise ValueError(f"results/earlier/{one['earlier']}.json: no F1 of {asked}")


def shown(one: dict[str, Any]) -> str:
    """A stored figure as text, with model, decoder and seeds, or what the notebook records."""
    if "picture" in one:
        return f"{one['shows']} ([picture](figures.md#{one['picture']}))"
    if "notebook" in one:
        return f"{one['figures']} ([notebook](notebook.md#{one['notebook']}))"
    if "baselines" in one:
        report = baselines(one["baselines"])
        figures = (f"{_TITLES[name]} {percent(of_baseline(report, name))}" for name in BASELINES)
        return ", ".join(figures) + f" ({report['sentences']:,} sentences)"
    if "training" in one:
        trained = run(one["training"], "training", one.get("run", ""))
        figure, epochs = trained.perplexity(one["text"]), Figure.of(r["epochs"] for r in trained.reports.values())
        return f"{one['system']} {perplexity(figure)} ({seeds(len(trained.reports))}, {epochs.mean:.0f} epochs)"
    if "attachment" in one:
        attached = json.loads((RESULTS / "dmv" / f"{one['attachment']}-attachment.json").read_text(encoding="utf-8"))
        directed, undirected = (percent(Figure(attached[name])) for name in ("directed", "undirected"))
        return f"{one['system']} {directed} directed, {undirected} undirected ({attached['sentences']:,} sentences)"
    if "interpolated" in one:
        path = RESULTS / "completion-interpolated" / f"{one['interpolated']}.json"
        half = json.loads(path.read_text(encoding="utf-8"))["interpolated"]["second_half"]
        return f"{one['system']} {percent(Figure(half['accuracy']))} (second half of the questions)"
    if "completion" in one:
        answered = json.loads((RESULTS / "completion" / f"{one['completion']}.json").read_text(encoding="utf-8"))
        accuracy = Figure(answered["models"][0]["all"]["accuracy"])
        return f"{one['system']} {percent(accuracy)}"
    if "pairs" in one:
        models = _pairs(one["pairs"])
        accuracy = Figure.of(model["all"]["accuracy"] for model in models)
        return f"{one['system']} {percent(accuracy)} ({seeds(len(models))})"
    if "trees" in one or "reports" in one:
        found = f1_of(one)
        model = earlier(one["earlier"]).model if "earlier" in one else one["system"]
        place = f"`{found.decoder}`, `{found.protocol}`, {found.sentences:,} sentences, {seeds(found.count)}"
        return f"{model} {percent(found.f1)} ({place})"
    file = earlier(one["earlier"])
    for old in file.perplexity:
        if (old.part, old.reading) == (one["text"], one["reading"]):
            count = len(file.seeds)
            return f"{file.model} {perplexity(old.figure)}" + (f" ({seeds(count)})" if count else "")
    raise ValueError(f"results/earlier/{one['earlier']}.json: no perplexity of {one['text']}, {one['reading']}")


def experiments(paper: str) -> str:
    """One row per table, figure or experiment of a paper."""
    rows = published()["experiments"][paper]["rows"]
    return table(["experiment", "command", "published", "here", "outcome"], (_row(row) for row in rows))


def _row(row: dict[str, Any]) -> list[str]:
    if row["outcome"] not in OUTCOMES:
        raise ValueError(f"{row['item']}: outcome {row['outcome']!r}; expected one of {', '.join(OUTCOMES)}")
    here = "; ".join(shown(one) for one in row["ours"])
    about = f" {row['about'][0].upper()}{row['about'][1:]}." if "about" in row else ""
    command = f"`{row['command'].replace('|', chr(92) + '|')}`" if row["command"] else ""
    published = row["published"].replace("|", "&#124;")
    item = row["item"].replace("|", "&#124;")
    return [item, command, published, f"{here}.{about}" if here else "", f"**{row['outcome']}**: {row['why']}"]


def comparison(name: str) -> str:
    """F1 of published systems, and below them ours, each with its data, protocol and sentences."""
    chosen = published()["comparisons"][name]
    heads = ["system", "F1", "learns from", "sentences, protocol", "decoder", "seeds", "source"]
    rows = [
        [
            one["system"],
            f"{one['f1']:.1f}" + (f" ± {one['std']:.1f}" if "std" in one else ""),
            one["data"],
            chosen["data"],
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
                "`results/baselines`",
            ]
        return
    found = f1_of(one)
    source = f"results/{one['reports']}" if "reports" in one else f"results/earlier/{one['earlier']}.json"
    place = f"WSJ sample, {found.sentences:,}; `{found.protocol}`"
    name, f1 = f"**here: {one['system']}**", f"**{percent(found.f1)}**"
    yield [name, f1, one.get("data", "words of PTB"), place, f"`{found.decoder}`", str(found.count), f"`{source}`"]


_PAIRS = {"SN-PCFG": "simple-pcfg-pairs", "ON-LSTM": "on-lstm-pairs", "LSTM": "lstm-pairs"}  # folders of results


def _pairs(folder: str) -> list[dict[str, Any]]:
    """The models of a report of `evaluate pairs` on Marvin and Linzen's pairs, one for each seed."""
    models: list[dict[str, Any]] = json.loads((RESULTS / folder / "marvin-linzen.json").read_bytes())["models"]
    return models


def long_dependencies() -> str:
    """Accuracy on Marvin & Linzen's pairs over long distances: published and ours, in percent."""
    reports = {model: _pairs(folder) for model, folder in _PAIRS.items()}
    rows = []
    for name, figures in published()["long_dependencies"].items():
        rows.append([name, *(f"{100 * figure:.0f}" for figure in figures)])
        for models in reports.values():
            found = [model["by_group"]["construction"][f"long, {name}"] for model in models]
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
    for path in sorted((RESULTS / "significance").glob("*.json")):
        report = json.loads(path.read_text(encoding="utf-8"))
        found = report["difference"]
        first, second = path.stem.split("-against-")
        rows.append(
            [
                first.replace("_", " "),
                second.replace("_", " "),
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
