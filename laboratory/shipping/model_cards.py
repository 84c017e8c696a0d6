"""Writes the model cards of the bundled models, with the figures of the experiment `shipped`.

python -m laboratory.shipping.model_cards
"""

from __future__ import annotations

from laboratory.pages.specified import specified_table
from laboratory.pages.stored_results import parsed, percent
from laboratory.results.store import select
from laboratory.shipping.english import SHIPPED
from laboratory.shipping.psycholinguists import psycholinguists
from syntaxlm.storage.cards import FOR_PSYCHOLINGUISTS
from syntaxlm.storage.folder import read_model
from syntaxlm.storage.hub import CardFacts, write_card
from syntaxlm.storage.model_index import (
    F1,
    LANGUAGE_MODELLING,
    PARSING,
    PERPLEXITY,
    DataSet,
    EvaluatedTask,
    Facts,
    Metric,
    Result,
)

DESCRIPTIONS = {
    "en": "English trees and surprisals from one small model: a neural PCFG (SN-PCFG) and a span parser whose span"
    " probabilities are averaged, and an LSTM for the probabilities of words and punctuation. It was trained without"
    " any tree or tag.",
    "en-fast": "English trees from one small neural PCFG (SN-PCFG). It was trained without any tree or tag.",
}
TEXTBOOKS = """\
American Government; Anatomy and Physiology; Astronomy; Business Ethics; Business Law; Chemistry (bundle);
College Success (bundle); Entrepreneurship; Introduction to Anthropology; Introduction to Business;
Introduction to Intellectual Property; Introduction to Philosophy; Introduction to Political Science;
Introduction to Sociology; Life, Liberty, and the Pursuit of Happiness; Microbiology; Nursing (bundle);
Principles of Economics (bundle); Principles of Finance; Principles of Marketing; Psychology; U.S. History;
World History; Writing Guide"""
DATA = f"""\
Textbooks, novels, speeches and MASC, 10 million words. Only the text was used, without trees or tags. MASC was read
twice.

| source | words | terms |
|---|---|---|
| 24 textbooks of 2017 to 2026: {" ".join(TEXTBOOKS.split())} | 6.1 million | OpenStax, Rice University, CC BY 4.0 |
| 17 novels of the 19th and early 20th century | 2.8 million | public domain |
| State of the Union addresses, inaugural addresses of American presidents | 0.5 million | public domain |
| MASC, written American English of many genres, without the articles that are part of the WSJ sample | 0.4 million | \
"linguistic education, research, and development, including commercial development" |

The experiment `english` (`laboratory/experiments`) has the recipes and their settings;
`python -m laboratory.shipping` makes the models again.
"""
LIMITS = """\
The trees are induced: a quarter of the constituents of the WSJ sample is missing. Unknown words are read by their
suffix. The text has the views and prejudices of its time, and so may sampled sentences.
"""
ICELANDIC = """\
Icelandic trees and surprisals from one small neural PCFG (SN-PCFG). It was trained without any tree or tag, and learned
from the trees of three grammars of the same text.
"""
ICEPAHC = """\
Icelandic Parsed Historical Corpus (IcePaHC), 0.7 million words and marks. These are its first eight tenths, texts of
the 12th to the 21st century (Wallenberg, Ingason, Sigurðsson and Rögnvaldsson; CC BY 4.0). Its trees were not used.

The experiment `english` has the recipe and its settings;
`python -m laboratory.shipping.languages is` makes the model again.
"""
TREEBANKS = {
    "en": {
        "wsj": "WSJ sample, all",
        "wsj-second-half": "WSJ sample, second half, all",
        "wsj10": "WSJ sample, up to 10 words",
        "gum": "GUM test, all (automatic trees)",
        "gum10": "GUM test, up to 10 words (automatic trees)",
        "craft40": "CRAFT, up to 40 words",
        "ordinary": "ordinary sentences, first sixty",
        "ordinary-2": "ordinary sentences, second sixty",
    },
    "is": {"icepahc": "last tenth of IcePaHC, all", "icepahc10": "last tenth of IcePaHC, up to 10 words"},
}
"""The treebanks of the cards' results, by language."""


def write_cards() -> None:
    """Writes the cards."""
    write_icelandic()
    for name, description in DESCRIPTIONS.items():
        parts = [
            description,
            f"## {FOR_PSYCHOLINGUISTS}",
            psycholinguists(name),
            "## Figures",
            "Unlabelled F1, decoder `mbr`, protocol `wsj-test`, preprocessing `ptb-keep` (`letters` for the ordinary"
            " sentences), without and with punctuation as evidence. GUM's constituency trees are automatic.",
            specified_table("shipped-trees"),
            "Perplexity on the development and test splits of the English Web Treebank.",
            specified_table("shipped-perplexity"),
            "Speed, on two cores of a processor with bfloat16 instructions.",
            specified_table("shipped-speed"),
            "## Limits",
            LIMITS,
        ]
        results = tree_results(name) + perplexity_results(name)
        facts = CardFacts("mit", "en", DATA, "\n\n".join(parts), results)
        write_card(SHIPPED / name, read_model(SHIPPED / name), name, facts)


def write_icelandic() -> None:
    """Writes the card of `is`."""
    parts = [
        ICELANDIC,
        f"## {FOR_PSYCHOLINGUISTS}",
        psycholinguists("is"),
        "## Figures",
        "The last tenth of IcePaHC. Unlabelled F1, decoder `mbr`, protocol `wsj-test`, preprocessing `letters`, without"
        " and with punctuation as evidence.",
        specified_table("shipped-icelandic"),
        "## Limits",
        "Most of the text is older than the 20th century, and so are its spelling, words and topics. One word of seven"
        " of the test text is unknown.",
    ]
    facts = CardFacts("mit", "is", ICEPAHC, "\n\n".join(parts), tree_results("is"))
    write_card(SHIPPED / "is", read_model(SHIPPED / "is"), "is", facts)


def tree_results(model: str) -> list[Result]:
    """F1 of a bundled model, for the index of its card."""
    results = []
    for treebank, title in TREEBANKS["is" if model == "is" else "en"].items():
        runs = parsed("shipped", treebank, model)
        protocol: Facts = {name: runs.first[name] for name in ("decoder", "protocol", "preprocessing")}
        protocol |= {"average": "sentences"}
        values = {"F1": runs.f1, "F1 with marks": runs.first["f1_by_decoder"].get("mbr with marks (both)")}
        metrics = [
            Metric(type=F1, value=float(percent(value)), name=name, args=protocol)
            for name, value in values.items()
            if value is not None
        ]
        facts = {"sentences": runs.first["sentences"], "right branching": float(percent(runs.right_branching))}
        data = DataSet(type=treebank, name=title, args=facts)
        results.append(Result(task=EvaluatedTask(type=PARSING), dataset=data, metrics=metrics))
    return results


def perplexity_results(model: str) -> list[Result]:
    """Perplexity of a bundled English model on EWT, for the index of its card."""
    predicted = "words" if model == "en-fast" else "words and marks"
    results = []
    for context, reading in (("carry", "as a stream"), ("reset", "sentence by sentence")):
        facts = {"run": model, "data": "ewt-test", "context": context, "predicted": predicted}
        for run in select("shipped", what="perplexity", **facts):
            name = "English Web Treebank, development and test"
            data = DataSet(type="ewt", name=name, args={"tokens": run.report["tokens"]})
            protocol: Facts = {"read": reading, "predicted": predicted}
            value = round(run.report["perplexity"], 1)
            metric = Metric(type=PERPLEXITY, value=value, name="perplexity", args=protocol)
            results.append(Result(task=EvaluatedTask(type=LANGUAGE_MODELLING), dataset=data, metrics=[metric]))
    return results


if __name__ == "__main__":
    write_cards()
