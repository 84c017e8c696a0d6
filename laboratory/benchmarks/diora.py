"""Speed of DIORA's inside and outside passes: python -m laboratory.benchmarks.diora [--sizes 128 400] [--json].

A step is forward and backward of both passes over sentences of 18 words. In one run:
- all splits of a width together, 32 sentences, in float32 and bf16-mixed;
- the reference, split by split, in float32; it takes sentences one at a time, so one sentence gives its speed;
- nn.LSTM with as many features over the same words, in float32.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from laboratory.benchmarks.timing import Contestant, Row, benchmark_parser, race, refuse_failing_tests, show
from syntaxlm.core.systems import keep_freed_memory
from syntaxlm.ops import diora
from syntaxlm.ops.diora import Composition, inside_outside_reference

SENTENCES, WORDS = 32, 18


def tensors(size: int, sentences: int) -> tuple[Tensor, Tensor, Composition]:
    """Leaves, the root vector, and weights."""
    torch.manual_seed(0)
    shapes = (size, 2 * size), (size,), (size, size), (size,), (size, size)
    leaves, root = normalize(torch.randn(sentences, WORDS, size), dim=-1), normalize(torch.randn(size), dim=0)
    composition = Composition(*(torch.randn(*shape, requires_grad=True) for shape in shapes))
    return leaves.requires_grad_(), root.requires_grad_(), composition


def together(size: int, precision: str) -> Contestant:
    """Both passes over all sentences, with all splits of a width together."""
    leaves, root, composition = tensors(size, SENTENCES)

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision != "32"):
            vectors = diora.outside(leaves, root, composition)
        vectors.sum().backward()

    return Contestant("width by width", precision, step, SENTENCES * WORDS)


def by_split(size: int) -> Contestant:
    """The reference on one sentence, split by split."""
    leaves, root, composition = tensors(size, 1)

    def step() -> None:
        charts = inside_outside_reference(leaves[0], root, composition)
        torch.stack([charts.outside[word, word + 1].vector for word in range(WORDS)]).sum().backward()

    return Contestant("reference", "32", step, WORDS)


def from_left_to_right(size: int) -> Contestant:
    """nn.LSTM over the same words."""
    layer, inputs = nn.LSTM(size, size), torch.randn(WORDS, SENTENCES, size)

    def step() -> None:
        layer(inputs)[0].sum().backward()

    return Contestant("nn.LSTM", "32", step, SENTENCES * WORDS)


def main() -> None:
    parser = benchmark_parser("diora", __doc__, rounds=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=[128, 400], help="features of a vector")
    options = parser.parse_args()
    refuse_failing_tests("tests/ops/test_diora.py")
    keep_freed_memory()
    rows: list[Row] = []
    for size in options.sizes:
        contestants = [together(size, "bf16-mixed"), together(size, "32"), by_split(size), from_left_to_right(size)]
        rows += race(f"{size} features, {WORDS} words", contestants, options.rounds, "reference", "nn.LSTM")
    show(rows, options.json)


if __name__ == "__main__":
    main()
