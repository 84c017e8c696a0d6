"""How much probability the beam of a Transformer that builds a tree loses: perplexities with wider and wider beams.

    python -m laboratory.measurements.tree_beam MODEL TEXT [--sentences 300] [--beams 2 8 32] [--json]

The probability of a sentence is the sum over a beam of trees, a lower bound. Each perplexity is therefore an upper
bound, which falls as the beam grows.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

import syntaxlm
from laboratory.measurements.output import show
from syntaxlm.models.tree_transformer import TreeTransformer
from syntaxlm.scoring.engine import Scorer
from syntaxlm.storage.folder import ModelBundle


def main() -> None:
    """Measure a model on the first sentences of a text; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("text")
    parser.add_argument("--sentences", type=int, default=300, help="number of sentences, from the first")
    parser.add_argument("--beams", type=int, nargs="+", default=[2, 8, 32], help="hypotheses per word")
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    options = parser.parse_args()
    bundle = syntaxlm.load(options.model)
    with open(options.text, encoding="utf-8") as lines:
        sentences = [bundle.normaliser.tokens(line) for line, _ in zip(lines, range(options.sentences), strict=False)]
    show(perplexities(bundle, sentences, options.beams), options.json)


def perplexities(bundle: ModelBundle, sentences: Sequence[Sequence[str]], beams: Sequence[int]) -> dict[str, float]:
    """Return the number of sentences and of tokens with ends, and the perplexity with each beam."""
    model = bundle.model
    assert isinstance(model, TreeTransformer), "expected a model of type tree-transformer"
    tokens = sum(map(len, sentences)) + len(sentences)
    result: dict[str, float] = {"sentences": len(sentences), "tokens": tokens}
    for beam in beams:
        model.beam = beam
        nats = -Scorer.of(bundle).sentences(sentences).sum()
        result[f"perplexity, beam {beam}"] = float(np.exp(nats / tokens))
    return result


if __name__ == "__main__":
    main()
