"""Training speed of PCFGs: python -m laboratory.benchmarks.inside [--json].

A step is rules, emissions, inside, outside, backward, clipping and Adam of an SN-PCFG on random sentences of 2 to 30
words. In one run: products in bfloat16 and in float32, the torch kernels, and the reference (in logarithms, by
autograd) on two sentences of 8 words. "Share of peak" is the rate of the step's products relative to that of the
fastest 2048 x 2048 product in the same precision. A GPU only runs the torch kernels. --tiny checks the program; its
figures mean nothing.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from laboratory.benchmarks.timing import Row, benchmark_parser, matrix_rate, refuse_failing_tests, show
from syntaxlm.core.systems import keep_freed_memory
from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.pcfg.grammars import Sentences, SimplePCFGConfig
from syntaxlm.models.pcfg.model import PCFG
from syntaxlm.models.sentences import SPECIALS
from syntaxlm.ops.backend import using
from syntaxlm.ops.inside import log_partition_reference

BOS, EOS = 1, 2
TESTS = "tests/ops/test_inside.py", "tests/models/pcfg"


@dataclass(frozen=True)
class Sizes:
    """Sizes of the grammar and of a batch: `sentences` sentences of 2 to `longest` words."""

    nonterminals: int = 512
    preterminals: int = 1024
    embedding: int = 256
    words: int = 10_000
    sentences: int = 32
    longest: int = 30


TINY = Sizes(8, 16, 8, 30, 4, 6)


def sentences(words: int, count: int, shortest: int, longest: int) -> Sentences:
    """Random words, with evenly spread lengths."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.linspace(shortest, longest, count).long().tolist()
    return Sentences.of(torch.randint(words, (length,), generator=generator).tolist() for length in lengths)


def token_batch(batch: Sentences, device: torch.device) -> TokenBatch:
    """The sentences as a training batch, longest first."""
    sizes = sorted(batch.lengths, reverse=True)
    parts = sorted(batch.words.split(batch.lengths), key=len, reverse=True)
    tokens = torch.full((sizes[0] + 2, len(sizes)), EOS)
    tokens[0] = BOS
    for column, words in enumerate(parts):
        tokens[1 : len(words) + 1, column] = words + SPECIALS * (words > 0)
    tokens = tokens.to(device)
    return TokenBatch(tokens[:-1], tokens[1:], torch.tensor(sizes) + 1)


def product_operations(sizes: Sizes, batch: Sentences) -> float:
    """Floating-point operations of the matrix products of a step, forward and backward."""
    # 3: forward, and the gradients of both factors. 2: an addition and a multiplication.
    spans = sum(length * (length + 1) // 2 - length - 1 for length in batch.lengths)
    symbols = sizes.nonterminals + sizes.preterminals
    charts = 3 * 2 * spans * sizes.nonterminals * 2 * sizes.nonterminals
    words = 3 * 2 * len(batch.words.unique()) * sizes.preterminals * 2 * sizes.nonterminals
    emissions = 3 * 2 * sizes.preterminals * sizes.words * sizes.embedding
    rules = 3 * 2 * 2 * sizes.nonterminals * symbols * sizes.embedding
    return float(charts + words + emissions + rules)


def reference_loss(model: PCFG, batch: Sentences) -> torch.Tensor:
    tables = model.grammar.tables(batch)
    parts = tables.words.split(batch.lengths)
    return -torch.stack([log_partition_reference(tables.rules, tables.emissions[part]) for part in parts]).sum()


def step(form: str, precision: str, sizes: Sizes, batch: Sentences, device: torch.device) -> Callable[[], None]:
    """A training step of a new SN-PCFG on a batch. form: compiled, torch or reference.  precision: 32 or bf16-mixed."""
    torch.manual_seed(0)
    config = SimplePCFGConfig(
        nonterminals=sizes.nonterminals, preterminals=sizes.preterminals, embedding_size=sizes.embedding
    )
    model = PCFG(config, sizes.words + SPECIALS).to(device)
    tokens = token_batch(batch, device)
    batch = Sentences(batch.words.to(device), batch.lengths)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.75, 0.999), fused=True)

    def run() -> None:
        autocast = torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16-mixed")
        with autocast, using("torch" if form == "torch" else "compiled"):
            total = reference_loss(model, batch) if form == "reference" else model.loss(tokens).total
        optimiser.zero_grad()
        (total / len(batch.lengths)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 3.0)
        optimiser.step()
        if device.type == "cuda":
            torch.cuda.synchronize()

    return run


def seconds(run: Callable[[], object], rounds: int, device: torch.device) -> float:
    """The median time of a step, after a warm-up; with one CPU thread, its CPU time."""
    clock = time.thread_time if device.type == "cpu" and torch.get_num_threads() == 1 else time.perf_counter
    times = []
    for number in range(rounds + 1):
        started = clock()
        run()
        if number:
            times.append(clock() - started)
    return statistics.median(times)


def measured(rounds: int, sizes: Sizes, device: torch.device) -> list[Row]:
    """Times the forms of the SN-PCFG, see the module. With one CPU thread, its CPU time is measured, so that other
    processes matter less.
    """
    case = f"SN-PCFG {sizes.nonterminals} nonterminals"
    batch = sentences(sizes.words, sizes.sentences, 2, sizes.longest)
    small_batch = sentences(sizes.words, 2, min(8, sizes.longest), min(8, sizes.longest))
    forms = [("compiled", "bf16-mixed"), ("compiled", "32"), ("torch", "32")]
    if device.type == "cuda":
        forms = [("torch", "bf16-mixed"), ("torch", "32")]
    base = len(small_batch.words) / seconds(step("reference", "32", sizes, small_batch, device), 1, device)
    rows = []
    for form, precision in forms:
        is_slow = form == "torch" and device.type == "cpu"
        step_seconds = seconds(step(form, precision, sizes, batch, device), 1 if is_slow else rounds, device)
        rate = 1e9 * matrix_rate(torch.bfloat16 if precision == "bf16-mixed" else torch.float32, device=device)
        speed = len(batch.words) / step_seconds
        share = product_operations(sizes, batch) / step_seconds / rate
        rows.append(Row(case, form, precision, speed, speed / base, None, share_of_peak=share))
    return [*rows, Row(case, "reference", "32", base, 1.0, None)]


def main(arguments: Sequence[str] | None = None) -> None:
    defaults = Sizes()
    parser = benchmark_parser("inside", __doc__, rounds=5)
    parser.add_argument("--sentences", type=int, default=defaults.sentences, help="per step (default %(default)s)")
    parser.add_argument(
        "--nonterminals", type=int, default=defaults.nonterminals, help="half the preterminals (default %(default)s)"
    )
    parser.add_argument("--no-tests", action="store_true", help="skip the tests that must otherwise pass first")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, to check the program")
    options = parser.parse_args(arguments)
    if not options.no_tests:
        refuse_failing_tests(*TESTS)
    keep_freed_memory()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    sizes = TINY
    if not options.tiny:
        count = options.nonterminals
        sizes = replace(defaults, nonterminals=count, preterminals=2 * count, sentences=options.sentences)
    rows = measured(options.rounds, sizes, device)
    show(rows, options.json, device)


if __name__ == "__main__":
    main()
