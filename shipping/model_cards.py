"""Writes the model cards of the shipped English models, with the figures of results/shipped.

python -m shipping.model_cards
"""

from __future__ import annotations

from docs.generation.results import shipped_perplexity, shipped_speed, shipped_trees

from shipping.english import SHIPPED
from syntaxlm.storage.folder import read_model
from syntaxlm.storage.hub import CardFacts, write_card

DESCRIPTIONS = {
    "en": "English trees and surprisals from one small model: two neural PCFGs (SN-PCFG) whose span probabilities are"
    " averaged, and an LSTM for the probabilities of words. It was trained without any tree or tag.",
    "en-fast": "English trees from one small neural PCFG (SN-PCFG), for many sentences. It was trained without any tree"
    " or tag.",
}
DATA = """\
Text alone, 3.7 million words, of which MASC was read twice.

| source | words | terms |
|---|---|---|
| 17 novels of the 19th and early 20th century | 2.8 million | public domain |
| State of the Union addresses, inaugural addresses of American presidents | 0.5 million | public domain |
| MASC, written American English of many genres, without the articles that are part of the WSJ sample | 0.4 million | \
"linguistic education, research, and development, including commercial development" |

The recipes are `simple-pcfg-en`, `lstm-en` and `simple-pcfg-en-fast`; `python -m shipping.english` makes the models
again.
"""
LIMITS = """\
Most of the text was written before 1920, so that modern words are often unknown; unknown words are read by their
suffix. The trees are induced: about half of their brackets agree with those of a treebank. The text of novels and
speeches has the views and prejudices of its time, and so may sampled sentences. Punctuation is not read.
"""


def main() -> None:
    """Writes the cards."""
    for name, description in DESCRIPTIONS.items():
        parts = [
            description,
            "## Figures",
            "Unlabelled F1, decoder `mbr`, protocol `wsj-test`, preprocessing `ptb-keep`. GUM's constituency trees are"
            " automatic.",
            shipped_trees(),
            "Perplexity on the development and test splits of the English Web Treebank.",
            shipped_perplexity(),
            "Speed, on two cores of a machine shared with other work.",
            shipped_speed(),
            "## Limits",
            LIMITS,
        ]
        facts = CardFacts("mit", "en", DATA, "\n\n".join(parts))
        write_card(SHIPPED / name, read_model(SHIPPED / name), name, facts)


if __name__ == "__main__":
    main()
