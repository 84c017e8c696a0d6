"""The model zoo: the bundled models, from their folders, and the recipes whose results are stored."""

from __future__ import annotations

from laboratory.pages.markdown import plain, table
from laboratory.pages.stored_results import parsed, percent
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
        facts = describe(bundled_folder(name), full=True)
        trees = parsed("shipped", treebank, name)
        perplexity = stored_report("shipped", what="perplexity", run=name, **reading)["perplexity"]
        rows.append([
            f"`{name}`", facts["model_type"], facts["language"], plain(facts["trained_on"]), facts["licence"].upper(),
            f"{facts['parameters']:,}", shown_size(facts["bytes"]), f"{facts['vocabulary']:,}",
            f"{percent(trees.f1)} ({_TITLES[treebank]})", percent(trees.right_branching),
            f"{perplexity:.1f} ({how})",
        ])  # fmt: skip
    heads = ["model", "type", "language", "training text", "licence", "parameters", "size", "vocabulary", "F1",
             "right branching", "perplexity"]  # fmt: skip
    return table(heads, rows)
