"""What a Transformer that builds a tree loses by its beam: perplexities with wider and wider beams.

    python -m laboratory.measurements.tree_beam MODEL TEXT [--sentences 300] [--beams 2 8 32] [--json]

For each beam, two values: the perplexity of the words as the model predicts them with this beam, and an upper bound of
the perplexity by the sum over all trees, from the sum over the beam.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np

import syntaxlm
from laboratory.measurements.output import measurement_parser, show
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.models.tree_transformer import TreeTransformer
from syntaxlm.parsing.structure import batches_of
from syntaxlm.scoring.engine import Scorer
from syntaxlm.storage.folder import ModelBundle


def main() -> None:
    """Measure a model on the first sentences of a text; see the module."""
    parser = measurement_parser(__doc__)
    parser.add_argument("model")
    parser.add_argument("text")
    parser.add_argument("--sentences", type=int, default=300, help="number of sentences, from the first")
    parser.add_argument("--beams", type=int, nargs="+", default=[2, 8, 32], help="hypotheses per word")
    options = parser.parse_args()
    bundle = syntaxlm.load(options.model)
    with open(options.text, encoding="utf-8") as lines:
        sentences = [bundle.normaliser.tokens(line) for line in islice(lines, options.sentences)]
    show(perplexities(bundle, sentences, options.beams), options.json)


def perplexities(bundle: ModelBundle, sentences: Sequence[Sequence[str]], beams: Sequence[int]) -> dict[str, float]:
    """Return the numbers of sentences and of tokens, ends included, and the perplexities with each beam."""
    model = bundle.model
    assert isinstance(model, TreeTransformer), "expected a model of type tree-transformer"
    corpus = EncodedCorpus.from_sentences([bundle.vocabulary.encode(sentence) for sentence in sentences])
    tokens = corpus.word_count + len(corpus)
    result: dict[str, float] = {"sentences": len(sentences), "tokens": tokens}
    for beam in beams:
        model.beam = beam
        log_probs = Scorer.of(bundle).sentences(sentences).sum()
        bounds = sum(float(model.log_prob_bounds(batch).sum()) for batch, _ in batches_of(bundle, corpus))
        result[f"perplexity, beam {beam}"] = float(np.exp(-log_probs / tokens))
        result[f"bound, beam {beam}"] = float(np.exp(-bounds / tokens))
    return result


if __name__ == "__main__":
    main()
