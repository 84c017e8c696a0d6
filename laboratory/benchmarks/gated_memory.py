"""Training speed of PRPN: python -m laboratory.benchmarks.gated_memory [--json].

A step is forward, loss over the vocabulary, backward, clipping and optimiser. In one run:
- the fast form, in float32 and bf16-mixed;
- the reference: the same model with the references of its ops, per-step autograd loops, in float32;
- nn.LSTM: a language model of the same embedding, hidden size and layers, in both precisions, with PyTorch's operator
  (in bfloat16, `LSTMBackbone` itself uses a faster op).

words: the published word model, E 800, H 1200, 2 layers, T 35, B 64, V 10,000.
sentences: the released parsing model, E 200, H 400, no residual block, on real sentences, counting real tokens. The
reference reads batches of 64 in corpus order, padded to the longest, as the released program does, and also computes
the padding. The fast form reads batches of mixed lengths, as PRPN is trained, and nn.LSTM batches of similar length.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from torch import Tensor

from laboratory.benchmarks import training
from laboratory.benchmarks.timing import Contestant, Row, benchmark_parser, race, refuse_failing_tests, show
from laboratory.benchmarks.training import WORDS, random_stream
from syntaxlm.batches import SentenceBatches
from syntaxlm.data.corpora import EncodedCorpus, count_tokens
from syntaxlm.data.toy import english_fragment
from syntaxlm.models.abilities import Model
from syntaxlm.models.backbone import NeuralModel
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.models.layers import Rows
from syntaxlm.models.lstm import LSTMBackbone, LSTMConfig
from syntaxlm.models.prpn import PRPNConfig
from syntaxlm.models.registry import build_model
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.training.recipe import OptimiserSettings

TEXT = Path("data/ptb/ptb.train.txt")
SAMPLE = 8  # batches of 64 sentences, as a sample of the corpus
TOKEN_BUDGET = 1536
SETTINGS = OptimiserSettings(learning_rate=0.001, beta1=0.0)


class TorchLSTM(LSTMBackbone):
    """Reads with nn.LSTM in every precision."""

    def _read_rows(self, inputs: Tensor, rows: Rows, state: State) -> tuple[Tensor, dict[str, Tensor]]:
        hidden, after = self._read(rows.padded(inputs), state)
        return rows.of(hidden), after


def model_of(config: PRPNConfig | LSTMConfig) -> Model:
    """The model of a configuration; an LSTM reads with PyTorch's operator."""
    if isinstance(config, LSTMConfig):
        return NeuralModel(TorchLSTM(config), config, WORDS)
    return build_model(config, WORDS)


def contestant(
    config: PRPNConfig | LSTMConfig,
    batches: Sequence[TokenBatch],
    form: str,
    precision: str,
    tokens: Sequence[int] | None = None,
) -> Contestant:
    """Trains on the batches in turn."""
    return training.contestant(partial(model_of, config), batches, form, precision, SETTINGS, tokens)


def words(rounds: int) -> list[Row]:
    """The published word model on random tokens."""
    prpn = PRPNConfig(
        embedding_size=800,
        hidden_size=1200,
        residual_blocks=0,
        dropout=0.7,
        layer_dropout=0.5,
        recurrent_dropout=0.5,
    )
    lstm = LSTMConfig(embedding_size=800, hidden_size=1200, dropout=0.7, layer_dropout=0.5)
    batches = random_stream(WORDS, 35, 64)
    contestants = [
        contestant(prpn, batches, "fast", "bf16-mixed"),
        contestant(prpn, batches, "fast", "32"),
        contestant(prpn, batches, "reference", "32"),
        contestant(lstm, batches, "nn.LSTM", "32"),
        contestant(lstm, batches, "nn.LSTM", "bf16-mixed"),
    ]
    return race("words E800 H1200 T35 B64", contestants, rounds, "reference", "nn.LSTM")


def sentences(rounds: int, text: Path) -> list[Row]:
    """The parsing model on real sentences, or on the built-in corpus if the text is missing."""
    normaliser = Normaliser()
    if text.exists():
        vocabulary = Vocabulary.build(count_tokens(text, normaliser), maximum_size=WORDS)
        corpus = EncodedCorpus.encode(text, normaliser, vocabulary)
        name = text.name
    else:
        sample = [sentence.words for sentence in english_fragment().sample(20_000, seed=0)]
        vocabulary = Vocabulary(["<unk>", "<s>", "</s>", *english_fragment().vocabulary])
        corpus = EncodedCorpus.from_sentences([vocabulary.encode(sentence) for sentence in sample])
        name = "built-in corpus"
    alike, mixed = (
        SentenceBatches(corpus, vocabulary, TOKEN_BUDGET, shuffle=True, seed=0, mixed=is_mixed)
        for is_mixed in (False, True)
    )
    samples: dict[str, list[TokenBatch]] = {}
    for lengths, batches in (("alike", alike), ("mixed", mixed)):
        epoch = batches.epoch(0)
        samples[lengths] = [batches.batch(indices) for indices in epoch[:: len(epoch) // SAMPLE]]

    # A batch without lengths also computes its padding, as the released program does.
    padded, token_counts = [], []
    for start in np.linspace(0, len(corpus) - 64, SAMPLE).astype(np.int64).tolist():
        indices = np.arange(start, start + 64)
        batch = mixed.batch(indices[np.argsort(-corpus.lengths[indices], kind="stable")])
        token_counts.append(batch.token_count())
        padded.append(TokenBatch(batch.tokens, batch.targets))
    prpn = PRPNConfig(residual_blocks=0)
    contestants = [
        contestant(prpn, samples["mixed"], "fast", "bf16-mixed"),
        contestant(prpn, samples["mixed"], "fast", "32"),
        contestant(prpn, padded, "reference", "32", token_counts),
        contestant(LSTMConfig(), samples["alike"], "nn.LSTM", "32"),
        contestant(LSTMConfig(), samples["alike"], "nn.LSTM", "bf16-mixed"),
    ]
    return race(f"sentences E200 H400, {name}", contestants, rounds, "reference", "nn.LSTM")


def main() -> None:
    parser = benchmark_parser("gated_memory", __doc__, rounds=3)
    parser.add_argument("--case", choices=["words", "sentences"], help="run only this case")
    parser.add_argument("--text", type=Path, default=TEXT, help="one sentence per line (default %(default)s)")
    options = parser.parse_args()
    refuse_failing_tests("tests/ops/test_gated_memory.py", "tests/models/test_prpn.py")
    rows = []
    if options.case != "sentences":
        rows += words(options.rounds)
    if options.case != "words":
        rows += sentences(options.rounds, options.text)
    show(rows, options.json)


if __name__ == "__main__":
    main()
