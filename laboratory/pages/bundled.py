"""The tables of the bundled models, and of what was tried for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from laboratory.pages.markdown import table
from laboratory.pages.stored_results import parsed, percent
from laboratory.results.store import stored_report, stored_run
from syntaxlm.drawing.terminal import draw_tree
from syntaxlm.trees.tree import parse_brackets

SHIPPED = {"en": "`en`", "en-fast": "`en-fast`"}
KINDS = (  # of the second sixty sentences, ten of each, in order
    "relative clauses", "coordination", "prepositional phrases", "subordinate clauses",
    "questions, passives and infinitives", "complement clauses, comparatives and quotations",
)  # fmt: skip


def headlines() -> str:
    """What README says about `en` in a few sentences: trees, surprisals and speed."""
    trees = parsed("shipped", "wsj", "en").first
    right, bound = (percent(trees["baselines"][name]) for name in ("right", "binary_bound"))
    en, five_grams = (_perplexity_of_ewt(name) for name in ("en", "kn5"))
    pairs = _blimp()[0]["all"]
    parses, scores = (
        stored_run("shipped", what="speed", run="en", factors={"use": use}).report["sentences_per_second"]
        for use in ("parse", "score")
    )
    return (
        f"- **Trees.** `en` reaches an unlabelled F1 of {percent(trees['f1'])} on {trees['sentences']:,} sentences of "
        f"the Wall Street Journal. Right-branching trees reach {right}, and the best possible binary trees {bound}.\n"
        f"- **Surprisals.** On the English Web Treebank, `en` reaches a perplexity of {en:.0f}, and 5-grams trained "
        f"on the same text reach {five_grams:.0f}. `en` prefers the grammatical sentence in "
        f"{percent(pairs['accuracy'])}% of {pairs['pairs']:,} BLiMP pairs.\n"
        f"- **Speed.** `en` parses {parses:.0f} sentences or scores {scores:.0f} sentences per second on two cores.\n"
    )


def _perplexity_of_ewt(name: str) -> float:
    facts = {"context": "carry", "predicted": "words and marks"}
    report = stored_report("shipped", what="perplexity", run=name, data="ewt-test", factors=facts)
    return float(report["perplexity"])


def shipped_choice() -> str:
    """Agreement of the parsers that learned from the teachers' trees, alone and averaged, with the teachers."""
    report = stored_report("shipped", what="agreement")
    rows = []
    for names, f1 in report["f1_with_teachers"].items():
        is_chosen = names == report["chosen"]
        parameters = f"{report['sizes'][names]:,}"
        rows.append([names.replace(" + ", "; "), "`en`" if is_chosen else "", parameters, percent(f1)])
    return table(["parsers, averaged", "", "parameters", "F1 with the teachers' trees"], rows)


def shipped_pairs() -> str:
    """Accuracy on BLiMP of the bundled models and of Kneser-Ney 5-grams, by field and linguistics term."""
    models = _blimp()
    means = ("mean_over_cases", "mean_over_cases_differing_words_known")
    paradigms = [[model[means[0]], None, model[means[1]]] for model in models]
    title = f"mean over {len(models[0]['by_case'])} paradigms"
    rows = [_pair_row("all", models), _cells_of_pairs(title, "", paradigms)]
    for grouping, names in models[0]["by_group"].items():
        title = grouping.replace("_", " ")
        for name in names:
            rows.append(_pair_row(f"{title}: {name}", [model["by_group"][grouping][name] for model in models]))
    return table(_pair_heads(models), rows)


def shipped_pairs_by_paradigm() -> str:
    """Accuracy on BLiMP of the bundled models and of Kneser-Ney 5-grams, by paradigm."""
    models = _blimp()
    rows = [_pair_row(f"`{name}`", [model["by_case"][name] for model in models]) for name in models[0]["by_case"]]
    return table(_pair_heads(models), rows)


def _blimp() -> list[dict[str, Any]]:
    return list(stored_report("shipped", what="pairs")["models"])


def _pair_heads(models: Sequence[Mapping[str, Any]]) -> list[str]:
    names = [(SHIPPED | {"kn5": "5-grams"})[model["model"]] for model in models]
    return ["pairs of BLiMP", "number", *(name + part for name in names for part in ("", ", unknown", ", known"))]


def _pair_row(title: str, groups: Sequence[Mapping[str, Any]]) -> list[str]:
    """A group of pairs, with each model's accuracy, share of pairs with an unknown differing word, and accuracy on the
    others. groups: of each model.
    """
    shares = [
        [group["all"]["accuracy"], group["share_unknown"], group["differing_words_known"]["accuracy"]]
        for group in groups
    ]
    return _cells_of_pairs(title, f"{groups[0]['all']['pairs']:,}", shares)


def _cells_of_pairs(title: str, number: str, shares: Sequence[Sequence[float | None]]) -> list[str]:
    return [title, number, *("" if share is None else percent(share) for share in chain.from_iterable(shares))]


def ordinary_sentences() -> str:
    """The trees of `en` for the ordinary sentences, with the gold constituents that they lack."""
    report = stored_report("shipped", what="missed-constituents", data="ordinary-sentences")
    recall = parsed("shipped", "ordinary", "en").first["recall_by_label"]
    by_label = ", ".join(
        f"{100 * share:.0f}% of the {count} {label}s" for label, (share, count) in recall.items() if count > 10
    )
    second_set = stored_report("shipped", what="missed-constituents", data="ordinary-sentences-2")
    is_complete = [not sentence["missed"] for sentence in second_set["sentences"]]
    by_kind = ", ".join(
        f"{sum(is_complete[10 * number : 10 * number + 10])} of 10 with {kind}" for number, kind in enumerate(KINDS)
    )
    parts = [
        f"In {report['right']} of {len(report['sentences'])} sentences, `en` finds all constituents."
        f" By label, it finds {by_label}."
        f" In the second set, it finds all constituents of {second_set['right']} sentences: {by_kind}."
    ]
    for sentence in report["sentences"]:
        (tree,) = parse_brackets(sentence["tree"])
        missed = "; ".join(sentence["missed"]) or "nothing"
        parts.append(f"```text\n{draw_tree(tree)}\n```\n\nMissed: {missed}.")
    return "\n\n".join(parts)


def unknown_words() -> str:
    """What classes of unknown words change, from the reports of `shipping.unknown_words` and `evaluate parse`."""
    rows = []
    for name, data in (("simple-pcfg", "ewt-test"), ("kn5", "ewt-test"), ("kn5", "validation")):
        report = stored_report("shipped", what="unknown-words", run=name, data=data)
        model = {"simple-pcfg": "small SN-PCFG", "kn5": "5-grams"}[name]
        text = "EWT" if data == "ewt-test" else data
        for key, words in (("words", "all"), ("words_after_unknown_words", "after an unknown word")):
            title = f"{model}, bits per known word (or end of a sentence) of {text}, {words} ({report[key]:,})"
            means = report["mean_surprisal" + key.removeprefix("words")]
            rows.append([title, *(f"{mean:.2f}" for mean in means)])
    f1 = [percent(parsed("shipped", "wsj", name).f1) for name in ("with-classes", "without-classes")]
    rows.append(["small SN-PCFG, F1 on the WSJ sample", *f1])
    return table(["", "with classes", "without"], rows)
