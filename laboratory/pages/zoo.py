"""The model zoo: the bundled models, from their folders, and the recipes whose results are stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from laboratory.pages.markdown import plain, table
from laboratory.pages.stored_results import parsed, percent, perplexity, trained
from laboratory.results.store import stored_report
from syntaxlm.api.listings import describe, shown_size
from syntaxlm.storage.bundled import bundled_folder, bundled_names

_MEASURED_ON = {  # evaluation set of the trees; facts about the perplexity; of which text, and how it was read
    "en": ("wsj", {"context": "carry", "predicted": "words and marks"}, "EWT, words and marks, stream"),
    "en-fast": ("wsj", {"context": "reset"}, "EWT, words, sentences"),
    "is": ("icepahc", {}, "IcePaHC, last tenth, words, sentences"),
}
_TITLES = {"wsj": "WSJ sample", "icepahc": "IcePaHC, last tenth"}


def bundled_models() -> str:
    """The bundled models: the facts of `models list` and `models info`, and F1 from the stored reports."""
    rows = []
    for name in bundled_names():
        treebank, reading, how = _MEASURED_ON[name]
        facts, report = describe(bundled_folder(name), full=True), parsed("shipped", treebank, name)
        predicted = stored_report("shipped", what="perplexity", run=name, **reading)
        rows.append([
            f"`{name}`", facts["model_type"], facts["language"], plain(facts["trained_on"]), facts["licence"].upper(),
            f"{facts['parameters']:,}", shown_size(facts["bytes"]), f"{facts['vocabulary']:,}",
            f"{percent(report.f1)} ({_TITLES[treebank]})", percent(report.right_branching),
            f"{predicted['perplexity']:.1f} ({how})",
        ])  # fmt: skip
    heads = ["model", "type", "language", "training text", "licence", "parameters", "size", "vocabulary", "F1",
             "right branching", "perplexity"]  # fmt: skip
    return table(heads, rows)


@dataclass(frozen=True)
class Measured:
    """A recipe with stored results. folder: of its reports, if it has another name; decoder: None for no trees."""

    recipe: str
    model: str
    reading: str  # text, and how it is read
    decoder: str | None = None
    folder: str = ""
    treebank: str = "wsj"


_MEASURED = [
    Measured("simple-pcfg-ptb", "SN-PCFG", "PTB, sentences", "mbr"),
    Measured("on-lstm-ptb-words-small", "ON-LSTM, layer 2", "PTB, stream", "biased"),
    Measured("prpn-ptb-parsing", "PRPN", "PTB, sentences", "biased"),
    Measured("diora-ptb", "DIORA", "", "mbr", "diora"),
    Measured("palm-s-gum-small", "PaLM-S", "GUM, stream", "greedy-sum", treebank="gum"),
    Measured("awd-lstm-gum-small", "AWD-LSTM", "GUM, stream"),
]  # fmt: skip
_OF_TAGS = [  # recipe, model, experiment, run, decoder
    ("dmv-ccm-wsj10", "DMV+CCM", "dmv", "dmv-ccm-wsj10", "heads-binary"),
    ("ccm-wsj10", "CCM", "ccm", "wsj", "viterbi"),
    ("dmv-wsj10", "DMV", "dmv", "dmv-wsj10", "heads-binary"),
    ("dep-pcfg-wsj10", "DEP-PCFG", "dmv", "dep-pcfg-wsj10", "heads-binary"),
]
_TREEBANK_NAMES = {"wsj": "WSJ sample (3,901)", "gum": "GUM test, silver trees (1,397)"}


def measured_recipes() -> str:
    """Recipes whose trainings are stored: minutes, F1 by the named decoder (`wsj-test`) and test perplexity."""
    heads = ["recipe", "model", "parameters", "seeds", "minutes", "treebank (sentences)", "decoder", "F1",
             "right branching", "test perplexity"]  # fmt: skip
    return table(heads, map(_measured, _MEASURED))


def _measured(one: Measured) -> list[str]:
    folder = one.folder or one.recipe
    training = trained(folder)
    trees = ["", "", "", ""]
    if one.decoder is not None:
        scored = parsed(folder, one.treebank)
        f1 = percent(scored.f1_by(one.decoder))
        trees = [_TREEBANK_NAMES[one.treebank], f"`{one.decoder}`", f1, percent(scored.right_branching)]
    words = f"{perplexity(training.perplexity('test'))} ({one.reading})" if one.reading else ""
    compared = _compared("words").get(one.recipe)
    parameters = f"{compared['parameters']:,}" if compared else ""
    return [f"`{one.recipe}`", one.model, parameters, str(len(training.reports)), training.shown_minutes, *trees, words]


def _compared(name: str) -> dict[str, dict[str, Any]]:
    """The rows of a stored comparison, by recipe."""
    return {row["recipe"]: row for row in stored_report("compare", run=name)["rows"]}


def measured_tag_recipes() -> str:
    """Parsers of part-of-speech tags: F1 on the sentences of up to 10 words that they were trained on (`wsj10`)."""
    compared = _compared("tags")
    rows = []
    for recipe, model, experiment, name, decoder in _OF_TAGS:
        report = parsed(experiment, "kleinmanning10", name).first
        f1, right = report["f1_by_decoder"][decoder], report["baselines"]["right"]
        costs = f"{compared[recipe]['parameters']:,}", f"{compared[recipe]['seconds']['mean']:,.0f}"
        scored = f"{report['sentences']:,}", f"`{decoder}`", percent(f1), percent(right)
        rows.append([f"`{recipe}`", model, *costs, *scored])
    return table(["recipe", "model", "parameters", "seconds", "sentences", "decoder", "F1", "right branching"], rows)
