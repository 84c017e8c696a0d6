"""What an experimenter wants to know of a bundled model: its text, how it reads, and what it has learned of syntax."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from laboratory.pages.markdown import table
from laboratory.pages.stored_results import percent
from laboratory.results.store import stored_report
from laboratory.shipping.english import SHIPPED
from syntaxlm.core.yaml_files import parse_yaml
from syntaxlm.evaluation.significance import Accuracy
from syntaxlm.storage.folder import read_model

_GPT2 = Path(__file__).with_name("gpt2.yaml")
_ALL = "overall"
_AGREEMENT = "subject_verb_agreement"
_PAIRS = {  # of BLiMP: a paradigm, a term, or all
    _ALL: "BLiMP, 67 paradigms",
    _AGREEMENT: "BLiMP, subject-verb agreement",
    "distractor_agreement_relational_noun": "of these, with an attractor in a prepositional phrase",
    "distractor_agreement_relative_clause": "of these, with an attractor in a relative clause",
    "filler_gap_dependency": "BLiMP, filler-gap dependencies",
    "island_effects": "BLiMP, islands",
    "npi_licensing": "BLiMP, negative polarity items",
}
_CIRCUITS = {
    "Garden-Path Effects": "SyntaxGym, garden paths",
    "Agreement": "SyntaxGym, agreement across a relative clause",
}
_TEXTS = {
    "en": "10 million words of textbooks, novels, speeches and MASC",
    "en-fast": "10 million words of textbooks, novels, speeches and MASC",
    "is": "0.7 million words of the Icelandic Parsed Historical Corpus, 12th to 21st century",
}


def psycholinguists(name: str) -> str:
    """What an experimenter wants to know of a bundled model, as Markdown without a heading."""
    bundle = read_model(SHIPPED / name)
    normaliser = bundle.settings.normaliser
    classes = sum(token.startswith("<unk") for token in bundle.vocabulary.tokens)
    tokens = "words" if normaliser.drop_punctuation else "words and marks"
    marks = "not read" if normaliser.drop_punctuation else "read and predicted like words"
    capitals = "not distinguished" if normaliser.lower_case else "distinguished"
    reading = (
        f"`{name}` was trained on {_TEXTS[name]}. It knows {len(bundle.vocabulary):,} {tokens}; an unknown word is read"
        f" as one of {classes} classes by its form, and its surprisal is not comparable with that of a known word."
        f" Capitals are {capitals}, a number is read as `N`, and punctuation marks are {marks}."
    )
    if name == "is":
        return _wrapped(f"{reading} It was not tested on agreement or garden paths.")

    # A structure is learned if more items are correct than chance explains.
    circuits = _scores(name, what="suites")["by_circuit"]
    garden_path, across = (_verdict(circuits[circuit]["all"], circuits[circuit]["chance"]) for circuit in _CIRCUITS)
    agreement = _verdict(_pairs(name, _AGREEMENT), 0.5)
    fit = (
        f"Garden paths: {garden_path}. Agreement of subject and verb: {agreement}; across a relative clause with an"
        f" attractor: {across}. *Yes* means that the 95% interval of the accuracy is above chance."
    )
    return f"{_wrapped(reading)}\n\n{_wrapped(fit)}\n\n{comparison()}"


def comparison() -> str:
    """Accuracies of the English models beside those of GPT-2, as a table with its sources."""
    published = parse_yaml(_GPT2.read_text(encoding="utf-8"), str(_GPT2))
    rows = []
    for part, title in _PAIRS.items():
        accuracies = [percent(_accuracy(_pairs(name, part))) for name in ("en", "en-fast")]
        rows.append([title, "50.0", *accuracies, percent(published["blimp"]["shares"][part])])

    # GPT-2's accuracy on a circuit is the mean over its suites, which are published as numbers of correct items.
    correct = published["suites"]["correct"]
    models = [_scores(name, what="suites") for name in ("en", "en-fast")]
    en = models[0]
    gpt2 = {suite: correct[suite] / scores["all"]["items"] for suite, scores in en["by_suite"].items()}
    for circuit, title in _CIRCUITS.items():
        accuracies = [percent(model["by_circuit"][circuit]["all"]["accuracy"]) for model in models]
        of_gpt2 = fmean(gpt2[suite] for suite, scores in en["by_suite"].items() if scores["circuit"] == circuit)
        rows.append([title, percent(en["by_circuit"][circuit]["chance"]), *accuracies, percent(of_gpt2)])
    accuracies = [percent(model["all"]["accuracy"]) for model in models]
    rows.append([f"SyntaxGym, {len(gpt2)} suites", percent(en["chance"]), *accuracies, percent(fmean(gpt2.values()))])
    sources = (
        "Accuracy in percent. Stored results `shipped` (BLiMP: the first 250 pairs per paradigm)."
        f" GPT-2 as published: BLiMP, {published['blimp']['source']}; SyntaxGym, the same suites,"
        f" {published['suites']['source']}."
    )
    return f"{table(['test', 'chance', '`en`', '`en-fast`', 'GPT-2'], rows)}\n{_wrapped(sources)}"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def _verdict(scores: Mapping[str, Any], chance: float) -> str:
    """Whether a model is more often correct than chance, with its accuracy."""
    accuracy = Accuracy(scores["correct"], scores.get("pairs") or scores["items"])
    assert accuracy.interval is not None
    is_above = accuracy.interval[0] > chance
    return f"{'yes' if is_above else 'no'} ({percent(_accuracy(scores))}%, chance {percent(chance)}%)"


def _accuracy(scores: Mapping[str, Any]) -> float:
    return float(scores["accuracy"])


def _pairs(name: str, part: str) -> Mapping[str, Any]:
    """The scores of a model on a part of BLiMP."""
    scores = _scores(name, what="pairs", data="blimp")
    terms, paradigms = scores["by_group"]["linguistics_term"], scores["by_case"]
    groups: dict[str, dict[str, Mapping[str, Any]]] = {_ALL: scores, **terms, **paradigms}
    return groups[part]["all"]


def _scores(name: str, **facts: str) -> dict[str, Any]:
    """The scores of a bundled model in the stored report with these facts."""
    models: list[dict[str, Any]] = stored_report("shipped", **facts)["models"]
    (scores,) = (model for model in models if model["model"] == name)
    return scores
