"""Training speed of PCFGs: python -m benchmarks.inside [--json].

A step is rules, emissions, inside, outside, backward, clipping and Adam of an SN-PCFG with 512 nonterminals, 1,024
preterminals, embeddings of 256 and 10,000 words, on 32 sentences of 2 to 30 words. In one run: products in bfloat16 and
in float32, the torch kernels, and the reference (in logarithms, by autograd) on two sentences of 8 words.
The share of the peak is that of the step's products in the rate of a product of 2048 x 2048 in the same precision.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.timing import refuse_failing_tests
from syntaxlm.allocation import keep_freed_memory
from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.pcfg import PCFG, SPECIALS
from syntaxlm.models.pcfg.grammars import Sentences, SimpleGrammar
from syntaxlm.ops.inside import fast, reference

NONTERMINALS, PRETERMINALS, EMBEDDING, WORDS = 512, 1024, 256, 10_000
SENTENCES, LONGEST = 32, 30
BOS, EOS = 1, 2


@dataclass(frozen=True)
class Row:
    """One line. Seconds are those of the step's thread, so that other work on the machine counts less."""

    form: str
    precision: str
    tokens_per_second: float
    ratio_to_reference: float
    share_of_peak: float | None


def sentences(count: int, shortest: int, longest: int) -> Sentences:
    """Random words; lengths spread evenly."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.linspace(shortest, longest, count).long().tolist()
    return Sentences.of(torch.randint(WORDS, (length,), generator=generator).tolist() for length in lengths)


def token_batch(batch: Sentences) -> TokenBatch:
    """The sentences as training reads them, longest first."""
    sizes = sorted(batch.lengths, reverse=True)
    parts = sorted(batch.words.split(batch.lengths), key=len, reverse=True)
    tokens = torch.full((sizes[0] + 2, len(sizes)), EOS)
    tokens[0] = BOS
    for column, words in enumerate(parts):
        tokens[1 : len(words) + 1, column] = words + SPECIALS * (words > 0)
    return TokenBatch(tokens[:-1], tokens[1:], torch.tensor(sizes) + 1)


def product_operations(batch: Sentences) -> float:
    """Floating-point operations of the matrix products of a step, forward and backward."""
    spans = sum(length * (length + 1) // 2 - length - 1 for length in batch.lengths)
    charts = 3 * 2 * spans * NONTERMINALS * 2 * NONTERMINALS
    words = 3 * 2 * len(batch.words.unique()) * PRETERMINALS * 2 * NONTERMINALS
    emissions = 3 * 2 * PRETERMINALS * WORDS * EMBEDDING
    rules = 3 * 2 * 2 * NONTERMINALS * (NONTERMINALS + PRETERMINALS) * EMBEDDING
    return float(charts + words + emissions + rules)


def reference_loss(model: PCFG, batch: Sentences) -> torch.Tensor:
    tables = model.grammar.tables(batch)
    parts = tables.words.split(batch.lengths)
    return -torch.stack([reference.log_partition(tables.rules, tables.emissions[part]) for part in parts]).sum()


def step(form: str, precision: str, batch: Sentences) -> Callable[[], None]:
    torch.manual_seed(0)
    model = PCFG(SimpleGrammar(NONTERMINALS, PRETERMINALS, WORDS, EMBEDDING))
    given = token_batch(batch)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.75, 0.999), fused=True)

    def run() -> None:
        usable = fast.usable
        if form == "torch":
            fast.usable = lambda *_: None
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16-mixed"):
            total = reference_loss(model, batch) if form == "reference" else model.loss(given).total
        optimiser.zero_grad()
        (total / len(batch)).backward()
        fast.usable = usable
        torch.nn.utils.clip_grad_norm_(model.parameters(), 3.0)
        optimiser.step()

    return run


def seconds(run: Callable[[], object], rounds: int) -> float:
    """The median thread time of a step, behind one that warms up."""
    times = []
    for number in range(rounds + 1):
        started = time.thread_time() if torch.get_num_threads() == 1 else time.perf_counter()
        run()
        ended = time.thread_time() if torch.get_num_threads() == 1 else time.perf_counter()
        if number:
            times.append(ended - started)
    return statistics.median(times)


def peak(dtype: torch.dtype, size: int = 2048) -> float:
    """Operations per second of a square product, by the clock that times the steps."""
    left, right = (torch.randn(size, size).to(dtype) for _ in range(2))
    return 2 * size**3 / seconds(lambda: torch.mm(left, right), 5)


def measured(rounds: int, count: int) -> list[Row]:
    batch, few = sentences(count, 2, LONGEST), sentences(2, 8, 8)
    forms = (("compiled", "bf16-mixed"), ("compiled", "32"), ("torch", "32"))
    base = len(few.words) / seconds(step("reference", "32", few), 1)
    rows = []
    for form, precision in forms:
        taken = seconds(step(form, precision, batch), rounds if form == "compiled" else 1)
        rate = peak(torch.bfloat16 if precision == "bf16-mixed" else torch.float32)
        speed = len(batch.words) / taken
        rows.append(Row(form, precision, speed, speed / base, product_operations(batch) / taken / rate))
    return [*rows, Row("reference", "32", base, 1.0, None)]


def show(rows: list[Row], as_json: bool) -> None:
    if as_json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
        return
    table = Table("form", "precision", "tokens/s", "x reference", "share of peak")
    for row in rows:
        share = "" if row.share_of_peak is None else f"{row.share_of_peak:.0%}"
        table.add_row(row.form, row.precision, f"{row.tokens_per_second:,.0f}", f"{row.ratio_to_reference:.1f}", share)
    Console(width=110).print(table)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.inside", description=__doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print a JSON list of objects")
    parser.add_argument("--rounds", type=int, default=5, help="timed steps; their median counts (default 5)")
    parser.add_argument("--sentences", type=int, default=SENTENCES, help=f"of a step (default {SENTENCES})")
    parser.add_argument("--no-tests", action="store_true", help="skip the tests that otherwise must pass first")
    options = parser.parse_args()
    if not options.no_tests:
        refuse_failing_tests("tests/ops/test_inside.py", "tests/models/pcfg")
    keep_freed_memory()
    show(measured(options.rounds, options.sentences), options.json)


if __name__ == "__main__":
    main()
