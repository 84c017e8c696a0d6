"""Training steps of PCFGs, timed beside a released program: python -m laboratory.benchmarks.released FOLDER [--store].

FOLDER is a clone of github.com/sustcsonglin/TN-PCFG, the program of Yang et al. 2021. Its N-PCFG, C-PCFG and TN-PCFG
and the models of the same names here are timed in turn, on the same sentences, with the same sizes and one thread:
- step: forward and backward pass of the loss of a batch, without the optimiser;
- inside: forward and backward pass of the inside algorithm alone, from given probabilities.
A batch has 4 random sentences of one length, as in the configurations of the program. All algorithms of the clone are
timed. Ratios are to the fastest of them, in float32; bf16-mixed, in which models are trained here, has no ratio. Times
are CPU times of the process, so that other processes matter less.

Before a model is timed, both programs compute the log-likelihood of the batch from the same probabilities of rules and
words, in float64 and float32; the benchmark stops if they differ in float64. The code in FOLDER is executed. --quick
checks the program at small sizes; its times mean nothing.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from laboratory.benchmarks.inside import sentences, token_batch
from laboratory.benchmarks.timing import PROCESSOR, Contestant, matrix_rate, times_in_turn
from laboratory.results.store import add, with_head
from syntaxlm.core.errors import InputError
from syntaxlm.core.systems import keep_freed_memory
from syntaxlm.models.pcfg.grammars import (
    CompoundPCFGConfig,
    NeuralPCFGConfig,
    PCFGConfig,
    Sentences,
    Tables,
    TensorPCFGConfig,
)
from syntaxlm.models.pcfg.sentence_pcfg import SentencePCFG
from syntaxlm.models.registry import build_model
from syntaxlm.models.sentences import SPECIALS
from syntaxlm.ops.inside import FactoredRules, Layout, TableRules, log_partition

ADDRESS = "github.com/sustcsonglin/TN-PCFG"
WORDS = 10_000  # vocabulary size
BATCH = 4  # sentences
LENGTHS = 10, 20, 40
OWN = "syntaxlm"
MOST_DIFFERENCE = 1e-3  # between log-likelihoods of a sentence in float64, in nats; some algorithms add 1e-9 to sums

# Classes of the program, by module. It needs the first of each module; others are timed if the clone has them.
_CLASSES = {
    "parser.model.N_PCFG": ("NeuralPCFG",),
    "parser.model.C_PCFG": ("CompoundPCFG",),
    "parser.model.TN_PCFG": ("TNPCFG", "FastTNPCFG"),
    "parser.pcfgs.pcfg": ("PCFG", "Faster_PCFG"),
    "parser.pcfgs.tdpcfg": ("TDPCFG", "Fastest_TDPCFG"),
}
_PACKAGES = "parser", "parser.model", "parser.pcfgs", "parser.modules"
# Models of the program and the inside algorithms that can compute their losses, by the name of the model.
_FORMS = {
    "N-PCFG": (("NeuralPCFG", "PCFG"), ("NeuralPCFG", "Faster_PCFG")),
    "C-PCFG": (("CompoundPCFG", "PCFG"), ("CompoundPCFG", "Faster_PCFG")),
    "TN-PCFG": (("TNPCFG", "TDPCFG"), ("FastTNPCFG", "Fastest_TDPCFG")),
}
_READS_PROBABILITIES = "Fastest_TDPCFG"  # of the rules; other algorithms read their logarithms


@dataclass(frozen=True)
class Program:
    """A released program.

    Attributes:
        commit: hash of the clone's commit, and "-dirty" if files were changed; None if FOLDER is no git repository.
        sha256: hashes of the imported files, by their paths in the folder.
        classes: models and inside algorithms, by name.
    """

    commit: str | None
    sha256: Mapping[str, str]
    classes: Mapping[str, Callable[..., Any]]

    def forms(self, model: str) -> list[tuple[str, str]]:
        """Return the classes of a model and of its algorithms that the clone has."""
        return [form for form in _FORMS[model] if set(form) <= self.classes.keys()]


@dataclass(frozen=True)
class Case:
    """A model with its sizes and the length of the sentences."""

    model: str
    config: PCFGConfig
    words: int
    length: int

    @property
    def symbols(self) -> str:
        """Numbers of nonterminals and preterminals, and the rank of the rules, if there is one."""
        rank = getattr(self.config, "rank", None)
        return f"{self.config.nonterminals}/{self.config.preterminals}" + (f", rank {rank}" if rank else "")


@dataclass(frozen=True)
class Agreement:
    """How the log-likelihoods of two programs differ, from the same probabilities: the largest of any sentence.

    Attributes:
        form: inside algorithm of the released program.
        released_parameters, own_parameters: numbers of weights of the models.
        log_likelihood: mean over the sentences, in nats.
        float64, float32: largest absolute difference of a sentence, in nats.
    """

    model: str
    symbols: str
    length: int
    form: str
    released_parameters: int
    own_parameters: int
    log_likelihood: float
    float64: float
    float32: float


@dataclass(frozen=True)
class Timing:
    """One line of the benchmark.

    Attributes:
        part: step or inside.
        program: the inside algorithm of the released program, or "syntaxlm".
        seconds, fastest, slowest: median and range.
        ratio: speed relative to the fastest form of the released program; None in another precision than its own.
    """

    model: str
    symbols: str
    length: int
    part: str
    program: str
    precision: str
    seconds: float
    fastest: float
    slowest: float
    ratio: float | None


# ---- the released program


def read_program(folder: Path) -> Program:
    """Import the models and algorithms of a clone, without the packages that only its training needs.

    Raises:
        InputError: a file, a class or a package that it imports is missing.
    """
    files = {module: folder / f"{module.replace('.', '/')}.py" for module in _CLASSES}
    if missing := [str(path.relative_to(folder)) for path in files.values() if not path.is_file()]:
        raise InputError(f"{folder}: missing {', '.join(missing)}; expected a clone of {ADDRESS}")
    classes: dict[str, Callable[..., Any]] = {}
    with _packages(folder):
        for module, names in _CLASSES.items():
            try:
                imported = import_module(module)
            except ModuleNotFoundError as error:
                raise InputError(f"{files[module]}: {_missing(folder, error)}") from error
            except ImportError as error:
                raise InputError(f"{files[module]}: {error}; expected files of one commit") from error
            classes |= {name: vars(imported)[name] for name in names if name in vars(imported)}
            if names[0] not in classes:
                raise InputError(f"{files[module]}: the class {names[0]} is missing; expected a file of {ADDRESS}")
        paths = sorted(
            Path(module.__file__) for name, module in sys.modules.items() if _is_of_clone(name) and module.__file__
        )
    hashes = {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    return Program(_commit(folder), hashes, classes)


@contextmanager
def _packages(folder: Path) -> Iterator[None]:
    """Make the packages of a clone importable without running their __init__.py, which imports other programs."""
    before = {name: module for name, module in sys.modules.items() if _is_of_clone(name)}
    for name in before:
        del sys.modules[name]
    for name in _PACKAGES:
        package = ModuleType(name)
        package.__path__ = [str(folder / name.replace(".", "/"))]
        package.__file__ = None
        sys.modules[name] = package
    try:
        yield
    finally:
        for name in list(filter(_is_of_clone, sys.modules)):
            del sys.modules[name]
        sys.modules.update(before)


def _is_of_clone(module: str) -> bool:
    return module.partition(".")[0] == "parser"


def _missing(folder: Path, error: ModuleNotFoundError) -> str:
    """What a file of the clone imports that is missing, and what to do."""
    name = error.name or str(error)
    if _is_of_clone(name):
        return f"imports {folder / name.replace('.', '/')}.py, which is missing; expected a clone of {ADDRESS}"
    return f"imports the package {name.partition('.')[0]}, which is not installed; install it, or use an earlier commit"


def _commit(folder: Path) -> str | None:
    """The commit of the clone; None if it is no git repository."""
    if not (folder / ".git").exists():
        return None
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip() or None


def released_model(program: Program, form: tuple[str, str], case: Case) -> torch.nn.Module:
    """Return a model of the released program with fresh weights and an inside algorithm."""
    config = case.config
    sizes = SimpleNamespace(
        NT=config.nonterminals, T=config.preterminals, s_dim=config.embedding_size, word_emb_size=0,
        r_dim=getattr(config, "rank", None), z_dim=getattr(config, "latent_size", None),
        w_dim=getattr(config, "encoder_size", None), h_dim=getattr(config, "encoder_size", None),
    )  # fmt: skip
    torch.manual_seed(0)
    model: torch.nn.Module = program.classes[form[0]](
        sizes, SimpleNamespace(device=PROCESSOR, word_vocab=range(case.words))
    )
    model.pcfg = program.classes[form[1]]()  # some commits do not set the algorithm of N-PCFG
    return model


def released_rules(tables: Tables, sentence_count: int, probabilities: bool) -> dict[str, Tensor]:
    """Return probabilities as the released program's algorithms read them, for each sentence.

    Args:
        tables: of sentences of one length.
        probabilities: whether factored rules are read as probabilities, not as their logarithms.
    """
    rules = tables.rules
    words = tables.emissions[tables.words].view(sentence_count, -1, tables.emissions.shape[-1])
    shared = {"unary": words, "root": rules.root.log().expand(sentence_count, -1)}
    if isinstance(rules, TableRules):
        return shared | {"rule": rules.binary.log().expand(sentence_count, -1, -1, -1).contiguous()}
    assert rules.parent is not None
    factors = {"head": rules.parent, "left": rules.left.T, "right": rules.right.T}
    return shared | {
        name: (factor if probabilities else factor.log()).expand(sentence_count, -1, -1)
        for name, factor in factors.items()
    }


# ---- what is compared


def cases(models: Sequence[str], lengths: Sequence[int], quick: bool) -> list[Case]:
    """Return the models at their published sizes, or at small ones."""
    words = 100 if quick else WORDS
    configs: list[tuple[str, PCFGConfig]] = [
        ("N-PCFG", NeuralPCFGConfig()),
        ("C-PCFG", CompoundPCFGConfig()),
        ("TN-PCFG", TensorPCFGConfig(nonterminals=30, preterminals=60, rank=60)),
        ("TN-PCFG", TensorPCFGConfig(nonterminals=250, preterminals=500, rank=500)),
    ]
    if quick:
        small = NeuralPCFGConfig(nonterminals=5, preterminals=10, embedding_size=16)
        compound = CompoundPCFGConfig(
            nonterminals=5, preterminals=10, embedding_size=16, latent_size=4, encoder_size=16
        )
        tensor = TensorPCFGConfig(nonterminals=5, preterminals=10, embedding_size=16, rank=10)
        configs = [("N-PCFG", small), ("C-PCFG", compound), ("TN-PCFG", tensor)]
    return [Case(name, config, words, length) for name, config in configs if name in models for length in lengths]


def random_tables(case: Case, batch: Sentences) -> Tables:
    """Return random probabilities for a batch, one grammar per sentence for C-PCFG.

    Unlike those of fresh weights, they are far from equal, so that a comparison would find exchanged symbols.
    """
    config, generator = case.config, torch.Generator().manual_seed(0)
    parents, symbols = config.nonterminals, config.nonterminals + config.preterminals

    def distributions(*shape: int) -> Tensor:
        return torch.softmax(2 * torch.randn(shape, generator=generator), -1)

    words, rows = torch.unique(batch.words, return_inverse=True)
    emissions = distributions(config.preterminals, case.words)[:, words].T.log()
    if isinstance(config, TensorPCFGConfig):
        left, right = distributions(config.rank, symbols), distributions(config.rank, symbols)
        rules = FactoredRules(distributions(parents), left, right, distributions(parents, config.rank))
        return Tables(rules, emissions, rows)
    if isinstance(config, NeuralPCFGConfig):
        binary = distributions(parents, symbols**2).unflatten(-1, (symbols, symbols))
        return Tables(TableRules(distributions(parents), binary), emissions, rows)
    count = len(batch.lengths)
    binary = distributions(count, parents, symbols**2).unflatten(-1, (symbols, symbols))
    return Tables(TableRules(distributions(count, parents), binary), emissions[rows], torch.arange(len(rows)))


def own_model(case: Case) -> SentencePCFG:
    """A model of this package with fresh weights."""
    torch.manual_seed(0)
    model = build_model(case.config, case.words + SPECIALS)
    assert isinstance(model, SentencePCFG)
    return model.train()


@torch.no_grad()
def agreement(program: Program, form: tuple[str, str], case: Case, batch: Sentences) -> Agreement:
    """Compare the log-likelihoods that both programs compute from the same probabilities.

    Raises:
        InputError: they differ in float64.
    """
    single = random_tables(case, batch)
    double = single._replace(rules=single.rules.double(), emissions=single.emissions.double())
    lengths = torch.tensor(batch.lengths)
    differences, means = [], []
    for tables in (double, single):
        layout = Layout(batch.lengths, PROCESSOR)
        own = log_partition(tables.rules, tables.emissions, tables.words, layout)
        rules = released_rules(tables, len(batch.lengths), form[1] == _READS_PROBABILITIES)
        released = program.classes[form[1]]()._inside(rules=rules, lens=lengths)["partition"].detach()
        differences.append(float((released - own).abs().max()))
        means.append(float(own.mean()))
    if not differences[0] <= MOST_DIFFERENCE:
        raise InputError(
            f"{form[1]} of the released program: its log-likelihoods of sentences of {case.length} words differ by"
            f" {differences[0]:g} nats in float64 from those of {OWN}; expected at most {MOST_DIFFERENCE:g}"
        )
    released_count, own_count = (
        sum(weight.numel() for weight in model.parameters())
        for model in (released_model(program, form, case), own_model(case))
    )
    return Agreement(case.model, case.symbols, case.length, form[1], released_count, own_count, means[0], *differences)


def released_steps(program: Program, form: tuple[str, str], case: Case, batch: Sentences) -> dict[str, Contestant]:
    """Return a training step of the released program and its inside algorithm, by part."""
    model = released_model(program, form, case)
    count = len(batch.lengths)
    inputs = {"word": batch.words.view(count, -1), "seq_len": torch.tensor(batch.lengths)}

    def step() -> None:
        model.zero_grad()
        model.loss(inputs).backward()  # type: ignore[operator]

    rules = released_rules(random_tables(case, batch), count, form[1] == _READS_PROBABILITIES)
    leaves = {name: rule.contiguous().requires_grad_() for name, rule in rules.items()}
    algorithm = program.classes[form[1]]()

    def inside() -> None:
        for leaf in leaves.values():
            leaf.grad = None
        algorithm._inside(rules=leaves, lens=inputs["seq_len"])["partition"].sum().backward()

    tokens = sum(batch.lengths)
    return {name: Contestant(form[1], "32", run, tokens) for name, run in (("step", step), ("inside", inside))}


def own_steps(case: Case, batch: Sentences, precision: str) -> dict[str, Contestant]:
    """Return a training step of this program and its inside algorithm, by part.

    Full tables have no products in bfloat16, so their inside algorithm has no other precision than float32.
    """
    model = own_model(case)
    training_batch = token_batch(batch, PROCESSOR)
    is_bfloat16 = precision == "bf16-mixed"

    def step() -> None:
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=is_bfloat16):
            total = model.loss(training_batch).total
        (total / len(batch.lengths)).backward()

    tables = random_tables(case, batch)
    fields = {field.name: getattr(tables.rules, field.name) for field in dataclasses.fields(tables.rules)}
    leaves = {name: rule.contiguous().requires_grad_() for name, rule in fields.items()}
    rules, emissions = type(tables.rules)(**leaves), tables.emissions.contiguous().requires_grad_()

    def inside() -> None:
        for leaf in (*leaves.values(), emissions):
            leaf.grad = None
        with torch.autocast("cpu", torch.bfloat16, enabled=is_bfloat16):
            layout = Layout(batch.lengths, PROCESSOR)
            total = log_partition(rules, emissions, tables.words, layout).sum()
        total.backward()

    tokens = sum(batch.lengths)
    steps = {"step": Contestant(OWN, precision, step, tokens), "inside": Contestant(OWN, precision, inside, tokens)}
    return {"step": steps["step"]} if is_bfloat16 and case.config.full_table else steps


def timed(case: Case, part: str, contestants: Sequence[Contestant], rounds: int) -> list[Timing]:
    """Time contestants in turn, with ratios of those in float32 to the fastest of the released program."""
    times = times_in_turn(contestants, rounds, time.process_time)
    medians = list(map(statistics.median, times))
    fastest = min(median for entry, median in zip(contestants, medians, strict=True) if entry.form != OWN)
    return [
        Timing(
            case.model, case.symbols, case.length, part, entry.form, entry.precision, median, min(seconds),
            max(seconds), fastest / median if entry.precision == "32" else None,
        )
        for entry, seconds, median in zip(contestants, times, medians, strict=True)
    ]  # fmt: skip


def measured(program: Program, chosen: Sequence[Case], rounds: int) -> tuple[list[Agreement], list[Timing]]:
    """Compare and time both programs.

    Raises:
        InputError: a model of the released program fails, or log-likelihoods differ.
    """
    agreements, timings = [], []
    for case in chosen:
        print(f"{case.model} {case.symbols}, {case.length} words ...", file=sys.stderr)
        batch = sentences(case.words, BATCH, case.length, case.length)
        contestants = []
        for form in program.forms(case.model):
            try:
                agreements.append(agreement(program, form, case, batch))
                contestants.append(released_steps(program, form, case, batch))
                contestants[-1]["step"].step()
            except (AttributeError, IndexError, KeyError, RuntimeError, TypeError) as error:
                raise InputError(
                    f"{form[0]} of the released program, with {form[1]}, fails: "
                    f"{type(error).__name__}: {error}; use another commit, or leave the model out with --models"
                ) from error
        contestants += [own_steps(case, batch, precision) for precision in ("32", "bf16-mixed")]
        for part in ("step", "inside"):
            timings += timed(case, part, [steps[part] for steps in contestants if part in steps], rounds)
    return agreements, timings


def report_of(
    program: Program, agreements: Sequence[Agreement], timings: Sequence[Timing], rounds: int
) -> dict[str, Any]:
    """The report, with its head."""
    rates = {"32": matrix_rate(torch.float32), "bf16-mixed": matrix_rate(torch.bfloat16)}
    return with_head(
        {
            "schema_version": 1, "torch": torch.__version__, "threads": torch.get_num_threads(), "gflops": rates,
            "released": {"address": ADDRESS, "commit": program.commit, "sha256": dict(program.sha256)},
            "sentences": BATCH, "rounds": rounds,
            "agreement": list(map(asdict, agreements)), "rows": list(map(asdict, timings)),
        }
    )  # fmt: skip


def show(agreements: Sequence[Agreement], timings: Sequence[Timing]) -> None:
    console = Console(width=130)
    table = Table("model", "symbols", "words", "algorithm", "parameters", "syntaxlm's", "float64", "float32")
    table.title = "Largest difference of a sentence's log-likelihood from the same probabilities, in nats"
    for row in agreements:
        counts = f"{row.released_parameters:,}", f"{row.own_parameters:,}"
        differences = f"{row.float64:.1e}", f"{row.float32:.1e}"
        table.add_row(row.model, row.symbols, str(row.length), row.form, *counts, *differences)
    console.print(table)
    table = Table("model", "symbols", "words", "part", "program", "precision", "seconds", "range", "ratio")
    table.title = f"Forward and backward pass of {BATCH} sentences: CPU seconds, and speed to the fastest released form"
    for timing in timings:
        facts = timing.model, timing.symbols, str(timing.length), timing.part, timing.program, timing.precision
        seconds = f"{timing.seconds:.4f}", f"{timing.fastest:.4f} to {timing.slowest:.4f}"
        table.add_row(*facts, *seconds, "" if timing.ratio is None else f"{timing.ratio:.2f}")
    console.print(table)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m laboratory.benchmarks.released", description=__doc__.split("\n")[0]
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help=f"clone of {ADDRESS}, whose code is executed")
    parser.add_argument("--models", nargs="+", choices=tuple(_FORMS), default=list(_FORMS), help="default: all")
    parser.add_argument("--lengths", type=int, nargs="+", help="words of a sentence (default 10 20 40)")
    parser.add_argument("--rounds", type=int, default=5, help="timed steps of each (default %(default)s)")
    parser.add_argument("--quick", action="store_true", help="small sizes, to check the program")
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    parser.add_argument("--store", action="store_true", help="store the report in laboratory/results/speed.jsonl")
    options = parser.parse_args(arguments)
    if options.quick and options.store:
        parser.error("--store: times of --quick mean nothing and are not stored")
    lengths = options.lengths or ((4, 6) if options.quick else LENGTHS)
    if min(lengths) < 3 or options.rounds < 1:
        parser.error("expected --lengths of at least 3 words and at least one of --rounds")
    torch.set_num_threads(1)
    keep_freed_memory()
    for message in ("torch.utils.checkpoint", "None of the inputs have requires_grad"):  # of the released program
        warnings.filterwarnings("ignore", message=message)
    try:
        program = read_program(options.folder)
        agreements, timings = measured(program, cases(options.models, lengths, options.quick), options.rounds)
    except InputError as error:
        sys.exit(f"error: {error}")
    if not options.json:
        show(agreements, timings)
    if options.json or options.store:
        report = report_of(program, agreements, timings, options.rounds)
        if options.json:
            print(json.dumps(report, indent=1))
        if options.store:
            add("speed", report, what="released-speed", run="released", replace=True)


if __name__ == "__main__":
    main()
