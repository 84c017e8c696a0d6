"""Commands that are interrupted at each change of the file system leave nothing half-written, and can be repeated.

After each interruption, every file is the earlier one, or complete. The same command then writes the same bytes as one
that was not interrupted.
"""

from __future__ import annotations

import csv
import random
import shlex
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from syntaxlm.cli import main
from syntaxlm.storage.folder import write_model
from tests.fuzz.interruption import (
    FULL,
    INTERRUPT,
    LIMIT,
    NOTHING,
    OBSERVE,
    STATES,
    TEMPORARY,
    TERMINATE,
    TORN,
    Ended,
    Interruption,
    is_unfinished,
    run,
    snapshot,
)
from tests.grammar_models import grammar
from tests.storage.small_transformers import write_masked

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks, and limits on the size of files")

LONG = pytest.mark.long
STORED = Path(__file__).parents[1] / "stored_models"
EARLIER = b"earlier\n"
BERT = "bert"  # folder of a masked model


class Case(NamedTuple):
    """A command, which runs in a folder beside those with models and other inputs.

    Attributes:
        words: of the command.
        earlier: files that it replaces, whose earlier content may not be lost.
        before: a command that wrote what this one replaces.
        has_threads: whether a library has threads that a fork of this process lacks.
    """

    words: str
    earlier: tuple[str, ...] = ()
    before: str = ""
    has_threads: bool = False


def to(words: str, *outputs: str, has_threads: bool = False) -> Case:
    """Return a command whose output files exist; the first is given by -o."""
    return Case(f"{words} -o {outputs[0]}", outputs, has_threads=has_threads)


TIMES = (
    "../models/lstm --words ../made/words.csv --times ../made/times.csv --time-column rt --sentence-column sentence"
    " --subject reader --frequencies ../inputs/toy/train.txt"
)
CASES = {
    "parse to brackets": to("parse ../models/prpn ../inputs/sentences.txt", "out.mrg"),
    "parse to TSV": to("parse ../models/prpn ../inputs/sentences.txt", "out.tsv"),
    "parse to JSON": to("parse ../models/prpn ../inputs/sentences.txt", "out.jsonl"),
    "parse to Parquet": to("parse ../models/prpn ../inputs/sentences.txt", "out.parquet", has_threads=True),
    "score to TSV": to("score ../models/lstm ../inputs/sentences.txt", "out.tsv"),
    "score to CSV": to("score ../models/lstm ../inputs/sentences.txt", "out.csv"),
    "score to JSON": to("score ../models/lstm ../inputs/sentences.txt", "out.jsonl"),
    "score to Parquet": to("score ../models/lstm ../inputs/sentences.txt", "out.parquet", has_threads=True),
    "score, masked": to("score hf:../bert ../made/short.txt", "out.tsv", has_threads=True),
    "items": to("items ../models/lstm ../inputs/stimuli.csv --picture means.svg", "out.csv", "means.svg"),
    "generate": to("generate ../models/lstm --sentences 3 --seed 1", "out.txt"),
    "grammar": to("grammar ../made/pcfg ../inputs/sentences.txt", "out.html"),
    "draw to SVG": to("draw ../models/prpn 'the cat sees a dog'", "out.svg"),
    "draw to a page": to("draw ../models/prpn 'the cat sees a dog'", "out.html"),
    "draw to LaTeX": to("draw ../models/prpn 'the cat sees a dog'", "out.tex"),
    "report": Case("report ../models/prpn ../inputs/test.mrg -o out", before="report ../models/prpn -o out"),
    "perplexity": to("evaluate perplexity ../models/lstm ../inputs/test.txt", "out.csv"),
    "evaluate parse": to(
        "evaluate parse ../models/prpn ../inputs/test.mrg --details trees.jsonl", "out.tsv", "trees.jsonl"
    ),
    "pairs": to(
        "evaluate pairs ../models/prpn ../inputs/pairs.jsonl --also ../models/lstm --details rows.jsonl",
        "out.csv", "rows.jsonl",
    ),
    "reading times": to(
        f"evaluate reading-times {TIMES} --export rows.csv --details words.csv", "out.tsv", "rows.csv", "words.csv"
    ),
    "completion": to(
        "evaluate completion ../models/lstm ../inputs/questions.txt ../inputs/answers.txt --details rows.csv",
        "out.tsv", "rows.csv",
    ),
    "average": to("average ../inputs/predicted/prpn.mrg ../inputs/predicted/palm.mrg", "out.mrg"),
    "sentences of books": to("data sentences ../made/book.txt --valid-output valid.txt", "out.txt", "valid.txt"),
    "words of trees": to("data words ../inputs/test.mrg", "out.txt"),
    "tags of trees": to("data tags ../inputs/test.mrg", "out.txt"),
    "baseline trees": to("data trees ../inputs/sentences.txt --shape random --seed 1", "out.mrg"),
    "toy": Case("data toy -o out --sentences 30"),
    "toy again": Case("data toy -o out --sentences 30", before="data toy -o out --sentences 20"),
    "formulas": Case("data logic -o out --pairs 100"),
    "next sentences": Case("data next-sentence ../inputs/toy/train.txt -o out"),
    "n-grams to ARPA": to("ngram to-arpa ../models/ngram", "out.arpa"),
    "n-grams from ARPA": Case("ngram from-arpa ../made/model.arpa -o out"),
    "combine": Case("combine ../made/pcfg ../made/pcfg -o out"),
    "export": Case("models export ../models/lstm -o out"),
    "card": to("models info ../models/lstm", "out.txt"),
    "recipe": to("recipes show prpn-toy", "out.yaml"),
    "job to parse": Case("parse ../models/prpn ../inputs/sentences.txt --workers 1 --lines-per-shard 8 -o out"),
    "job to score": Case("score ../models/lstm ../inputs/sentences.txt --workers 1 --lines-per-shard 8 -o out"),
}  # fmt: skip

QUICK = ("parse to brackets", "pairs", "sentences of books", "export")


@pytest.fixture(scope="session")
def made(made_once) -> Path:
    """A folder of inputs that are not stored."""
    return made_once("interrupted-inputs", _write_inputs)


def _write_inputs(folder: Path) -> None:
    folder.mkdir()
    write_model(folder / "pcfg", grammar("simple-pcfg"))
    sentences = (STORED / "inputs" / "sentences.txt").read_text().splitlines()
    words = [(word, place) for place, line in enumerate(sentences) for word in line.split()]
    with open(folder / "words.csv", "w", newline="") as file:
        rows = [(code, word, place) for code, (word, place) in enumerate(words)]
        csv.writer(file).writerows([("code", "word", "sentence"), *rows])
    times = (
        (code, reader, 300 + 5 * len(word) + 7 * ((code * 31 + ord(reader)) % 11))
        for code, (word, _) in enumerate(words)
        for reader in "ab"
    )
    (folder / "times.csv").write_text("code,reader,rt\n" + "".join(f"{a},{b},{c}\n" for a, b, c in times))
    (folder / "book.txt").write_text("\n\n".join(f"The {line}. A {line}." for line in sentences))
    (folder / "short.txt").write_text("the old cat sees a dog .\ncats see the older dogs !\n")
    assert run(["ngram", "to-arpa", str(STORED / "models" / "ngram"), "-o", "model.arpa"], folder).code == 0


GROWING = ("done.jsonl",)  # files of jobs to which a line is added for each shard


class Place(NamedTuple):
    """A folder in which a command runs, with links to its inputs beside it."""

    case: Case
    folder: Path

    @classmethod
    def make(cls, case: Case, root: Path, made: Path) -> Place:
        folder = root / "work"
        folder.mkdir(parents=True)
        for name, target in (
            ("models", STORED / "models"),
            ("inputs", STORED / "inputs"),
            ("made", made),
            (BERT, made.with_name(BERT)),
        ):
            (root / name).symlink_to(target)
        for name in case.earlier:
            (folder / name).write_bytes(EARLIER)
        place = cls(case, folder)
        if case.before:
            ended = run(shlex.split(case.before), folder)
            assert ended.code == 0, ended.errors
        return place

    def run(self, interruption: Interruption = NOTHING, number: int = 0, read_only: bool = False) -> Ended:
        words = shlex.split(self.case.words)
        ended = run(words, self.folder, interruption, number, read_only, in_fork=not self.case.has_threads)
        assert "Traceback" not in ended.errors, ended.errors
        return ended

    def files(self) -> dict[str, bytes]:
        """The files, without those that a killed command left half-written."""
        return {name: content for name, content in snapshot(self.folder).items() if not is_unfinished(name)}

    def check(self, earlier: dict[str, bytes], whole: dict[str, bytes], cleans: bool) -> None:
        """Check what an interrupted command has left.

        Args:
            earlier: the files before the first run.
            whole: the files after an uninterrupted run.
            cleans: whether the command has removed its temporary files.
        """
        files = self.files()
        for name, content in files.items():
            is_begun = Path(name).name in GROWING and whole.get(name, b"").startswith(content)
            is_left = is_begun or content in (earlier.get(name), whole.get(name))
            assert is_left, f"{name}: neither the earlier file nor complete"
        assert earlier.keys() <= files.keys(), "an earlier file is lost"
        if cleans:
            assert snapshot(self.folder).keys() == files.keys(), "a half-written file remains"
            left = [path for path in (self.folder.parent / TEMPORARY).iterdir() if not _is_of_torch(path)]
            assert not left, "a temporary file remains"


def _is_of_torch(path: Path) -> bool:
    """Return whether this is the empty folder that torch makes for its compiler when transformers is imported."""
    return path.name.startswith("torchinductor_") and not any(path.iterdir())


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in QUICK else LONG) for name in CASES])
def test_an_interrupted_command_loses_nothing_and_can_be_repeated(tmp_path, monkeypatch, made, made_once, name):
    case, moments = CASES[name], random.Random(name)
    if "hf:" in case.words:
        pytest.importorskip("transformers")
        made_once(BERT, lambda folder: write_masked("bert", folder))
    place = Place.make(case, tmp_path / "place", made)
    earlier = snapshot(place.folder)

    # Not interrupted, in this process, whose forks then have imported what they need.
    if not case.has_threads:
        here = Place.make(case, tmp_path / "here", made)
        monkeypatch.chdir(here.folder)
        assert main(shlex.split(case.words)) == 0

    # Not interrupted, and all states that SIGKILL would leave.
    code, errors = place.run(OBSERVE)
    whole = snapshot(place.folder)
    assert code == 0, errors
    assert whole != earlier
    assert case.has_threads or snapshot(here.folder) == whole
    states = sorted((place.folder.parent / STATES).iterdir())
    assert len(states) > 3
    repeated = [earlier, whole]
    for number, state in enumerate(states):
        left = Place.make(case, tmp_path / str(number), made)
        shutil.rmtree(left.folder)
        state.rename(left.folder)
        left.check(earlier, whole, cleans=False)
        if (files := left.files()) not in repeated:
            repeated.append(files)
            code, errors = left.run()
            assert (code, left.files()) == (0, whole), errors

    # By a signal, without space on the disk, and in the middle of a file. Nothing is removed in between.
    place = Place.make(case, tmp_path / "interrupted", made)
    half = max(map(len, whole.values())) // 2
    for how in (TERMINATE, INTERRUPT, FULL, LIMIT, TORN):
        number = moments.randrange(half) if how.limits else 1 + moments.randrange(len(states))
        code, errors = place.run(how, number)
        place.check(earlier, whole, how.cleans)
        # A job goes on from what earlier runs have done, so the rest may be below the limit.
        is_done = how.limits and "--workers" in case.words and place.files() == whole
        assert code == how.code or ((how is FULL or is_done) and code == 0), (how.name, number, errors)
        assert how is not FULL or not code or "No space left on device. Free some space" in errors
        assert how is not LIMIT or not code or "File too large" in errors
    code, errors = place.run()
    assert (code, place.files()) == (0, whole), errors


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in QUICK else LONG) for name in CASES])
def test_a_command_that_may_not_write_says_so_and_leaves_everything_as_it_was(tmp_path, made, name):
    place = Place.make(CASES[name], tmp_path, made)
    earlier = snapshot(place.folder)
    folders = [place.folder, *(path for path in place.folder.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    code, errors = place.run(read_only=True)
    for folder in folders:
        folder.chmod(0o755)
    assert (code, snapshot(place.folder)) == (2, earlier), errors
    assert "Permission denied. Check its permissions" in errors
