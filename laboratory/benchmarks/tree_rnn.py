"""Speed of training a TreeRNN: python -m laboratory.benchmarks.tree_rnn [--trees FILE] [--json].

A step is forward, backward, clipping and SGD over a batch of 64 trees, 200 neurons, embeddings of size 100, on one
thread unless OMP_NUM_THREADS is set. In one run, for vocabularies of 10,000 and 22,000 words:
- softmaxes by edge; one shared softmax; noise-contrastive estimation with shared and with fresh noise; tanh cells;
- LSTM cells with one shared softmax;
- an nn.LSTM language model of the same sizes over the same sentences from left to right, padded: `lstm`, one layer;
- the reference: the softmax as its equation, differentiated by autograd.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from unittest.mock import patch

import torch
from torch.nn.utils import clip_grad_norm_

from laboratory.benchmarks.timing import Contestant, Row, benchmark_parser, race, refuse_failing_tests, show
from laboratory.benchmarks.tree_levels import TREES, batch_of
from syntaxlm.models import layers
from syntaxlm.models.abilities import Loss, Model, NeedsTextCounts, TextCounts
from syntaxlm.models.batches import TokenBatch, TreeBatch
from syntaxlm.models.lstm import LSTMConfig
from syntaxlm.models.registry import build_model
from syntaxlm.models.tree_rnn import TreeRNNConfig
from syntaxlm.ops.softmax import target_log_probs_reference

EMBEDDING, SIZE = 100, 200
VOCABULARIES = 10_000, 22_000


def with_words(batch: TreeBatch, vocabulary: int) -> TreeBatch:
    """The same trees with words drawn by Zipf's law: the r-th in proportion to 1 / (r + 1)."""
    generator = torch.Generator().manual_seed(1)
    drawn = torch.multinomial(1 / torch.arange(2.0, vocabulary + 2), 2 * len(batch.targets), True, generator=generator)
    return replace(batch, words=drawn[: len(batch.words)], targets=drawn[len(batch.words) :])


def sentences(batch: TreeBatch, vocabulary: int) -> TokenBatch:
    """The same number of words in sentences of the same lengths, longest first."""
    lengths = torch.bincount(batch.trees).sort(descending=True).values
    words = torch.randint(vocabulary, (int(lengths[0]) + 1, len(lengths)), generator=torch.Generator().manual_seed(1))
    return TokenBatch(words[:-1], words[1:], lengths)


def training(model: Model, batch: TokenBatch | TreeBatch) -> Callable[[], None]:
    """A training step of a model on a batch."""
    optimiser = torch.optim.SGD(model.train().parameters(), lr=1e-3)

    def step() -> None:
        computed: Loss = model.loss(batch)  # type: ignore[operator]
        loss = computed.total / computed.count
        optimiser.zero_grad()
        loss.backward()
        clip_grad_norm_(model.parameters(), 5.0)
        optimiser.step()

    return step


def with_reference_softmax(step: Callable[[], None]) -> Callable[[], None]:
    """The step with the softmax as its equation."""

    def reference_step() -> None:
        with patch.object(layers, "target_log_probs", target_log_probs_reference):
            step()

    return reference_step


def contestants(trees: TreeBatch, vocabulary: int) -> list[Contestant]:
    """The reference, the forms of TreeRNN, and the LSTM, for a vocabulary of this size."""
    batch, sizes = with_words(trees, vocabulary), {"embedding_size": EMBEDDING, "hidden_size": SIZE}
    forms: dict[str, dict[str, object]] = {
        "softmaxes by edge": {},
        "one softmax": {"output": "shared"},
        "nce, shared noise": {"loss": "nce", "shared_noise": True},
        "nce, fresh noise": {"loss": "nce"},
        "lstm cells, one softmax": {"cell": "lstm"},
    }
    timed = []
    for form, settings in forms.items():
        model = build_model(TreeRNNConfig(**sizes | settings), vocabulary)  # type: ignore[arg-type]
        assert isinstance(model, NeedsTextCounts)
        model.setup(TextCounts(torch.bincount(batch.targets, minlength=vocabulary) + 1, 1))
        timed.append(Contestant(form, "32", training(model, batch), batch.token_count()))
    reference = Contestant("reference", "32", with_reference_softmax(timed[0].step), batch.token_count())
    config = LSTMConfig(**sizes, layers=1, tied=False, dropout=0.0)  # type: ignore[arg-type]
    text = sentences(trees, vocabulary)
    lstm = Contestant("nn.LSTM", "32", training(build_model(config, vocabulary), text), text.token_count())
    return [reference, *timed, lstm]


def main() -> None:
    parser = benchmark_parser("tree_rnn", __doc__, rounds=5)
    parser.add_argument("--trees", metavar="FILE", help="dependency trees to sample a batch from")
    options = parser.parse_args()
    refuse_failing_tests("tests/models/test_tree_rnn.py", "tests/models/test_noise_contrastive.py")
    trees = batch_of(options.trees)
    rows: list[Row] = []
    for vocabulary in VOCABULARIES:
        case = f"{EMBEDDING}-{SIZE}, {TREES} trees, V {vocabulary:,}"
        rows += race(case, contestants(trees, vocabulary), options.rounds, "reference", "nn.LSTM")
    show(rows, options.json)


if __name__ == "__main__":
    main()
