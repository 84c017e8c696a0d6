"""Pages on stimuli and the first tutorial show what the program prints, and their R code runs."""

from __future__ import annotations

import csv
import math
import re
import shlex
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import syntaxlm
from syntaxlm import cli
from tests.docs.examples import ROOT

EXAMPLES = ROOT / "docs" / "examples"
STIMULI, ATTRACTION = EXAMPLES / "garden-paths.csv", EXAMPLES / "attraction.csv"
CONSTRUCTIONS = EXAMPLES / "garden-path-constructions.csv"
REGIONS = ["clause", "noun", "main_verb", "rest"]
PAGES = [
    "docs/tutorials/stimuli.md", "docs/explanation/first-word.md", "docs/reference/measures.md",
    "docs/commands/items.md", "docs/commands/score.md", "docs/tutorials/first-ten-minutes.md",
    "docs/tutorials/attraction.md",
]  # fmt: skip
SHORT = ("docs/tutorials/first-ten-minutes.md", "docs/commands/items.md", "docs/commands/score.md")
_BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<body>.*?)^```$", re.M | re.S)
RSCRIPT = shutil.which("Rscript")


def blocks(page: str) -> Iterator[tuple[str, str, str | None]]:
    """The language and body of each code block, and the block of text right after it, which is what it prints."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = list(_BLOCK.finditer(text))
    for block, after in pairwise([*found, None]):
        follows = after is not None and after["language"] == "text" and not text[block.end() : after.start()].strip()
        if block["language"] != "text":
            yield block["language"], block["body"], after["body"] if follows else None


def console(body: str) -> list[tuple[str, str]]:
    """The commands of a block, each with what it prints."""
    commands = [part.partition("\n") for part in re.split(r"^\$ ", body, flags=re.M) if part]
    return [(command, printed) for command, _, printed in commands]


def files_of(page: str) -> dict[str, str]:
    """The files that a page shows by `cat`."""
    shown = [one for language, body, _ in blocks(page) if language == "console" for one in console(body)]
    return {command.split()[1]: printed for command, printed in shown if command.startswith("cat ")}


def is_same(printed: str, shown: str) -> bool:
    """Whether two outputs agree, numbers within what processors differ by."""
    first, second = (
        [word for word in re.split(r"(?:[\s,;|=]|-(?![\d.]))+", text) if word] for text in (printed, shown)
    )
    return len(first) == len(second) and all(map(_is_same_word, first, second))


def _is_same_word(one: str, other: str) -> bool:
    try:
        return math.isclose(float(one), float(other), rel_tol=0.01, abs_tol=0.02)
    except ValueError:
        return one == other


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for stimuli in (STIMULI, ATTRACTION):
        shutil.copy(stimuli, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=() if page in SHORT else pytest.mark.long) for page in PAGES]
)
def test_commands_and_python_code_print_what_the_page_shows(page, folder, capsys):
    for name, text in files_of(page).items():
        (folder / name).write_text(text, encoding="utf-8")
    names: dict[str, object] = {}
    for language, body, shown in blocks(page):
        if language == "python":
            exec(body, names)
            assert shown is None or is_same(capsys.readouterr().out, shown)
        for command, expected in console(body) if language == "console" else ():
            if command.startswith("syntaxlm "):
                assert cli.main(shlex.split(command)[1:]) == 0
                printed = capsys.readouterr().out
            else:
                printed = subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout
            assert is_same(printed, expected), printed


def test_outputs_with_another_number_or_word_are_not_the_same():
    assert is_same("a 5.14  4.67 to 5.65", "a 5.13 4.67 to 5.65\n")
    assert not is_same("a 5.14", "a 5.24")
    assert not is_same("a 5.14", "b 5.14")


@pytest.mark.parametrize(
    "page", [f"docs/tutorials/{name}.md" for name in ("stimuli", "first-ten-minutes", "attraction")]
)
def test_figures_in_the_text_of_a_tutorial_are_those_of_its_outputs(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    shown = " ".join(block["body"] for block in _BLOCK.finditer(text))
    printed = {f"{float(number):.2f}" for number in re.findall(r"-?\d+\.\d+", shown)}
    written = re.findall(r"(?<![\w.])-?\d+\.\d+(?![.\d])", _BLOCK.sub("", text))
    assert len(written) >= 2
    assert {number.lstrip("-") for number in written} <= {number.lstrip("-") for number in printed}, "as -1 or 1 less"


def test_the_model_knows_all_words_of_the_stimuli():
    nlp = syntaxlm.load("en")
    report = nlp.evaluate_items(STIMULI, condition=["verb_type", "comma"], regions=REGIONS)
    assert not report.warnings
    attraction = ["subject", "modifier", "verb", "rest"]
    assert not nlp.evaluate_items(ATTRACTION, condition=["head", "attractor"], regions=attraction).warnings


def test_bundled_models_know_all_words_of_the_three_constructions_and_their_sentences_differ_in_the_verb():
    rows = list(csv.DictReader(CONSTRUCTIONS.read_text(encoding="utf-8").splitlines()))
    assert Counter(row["construction"] for row in rows) == {"NP/Z": 48, "NP/S": 48, "MV/RR": 48}
    for ambiguous, unambiguous in zip(rows[::2], rows[1::2], strict=True):
        assert ambiguous | {"reading": "unambiguous", "verb": unambiguous["verb"]} == unambiguous

    regions = ("start", "verb", "phrase", "critical", "rest")
    words = {word for row in rows for name in regions for word in row[name].rstrip(".").split()}
    for model in ("en", "en-fast"):
        known = syntaxlm.load(model).vocabulary.knows
        assert not [word for word in words if not known(word.lower())]


def test_the_model_knows_all_words_of_the_sentences_in_readme():
    sentences = re.findall(r'"([A-Z][^"]+\.)"', (ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(sentences) >= 2
    words = [word for one in syntaxlm.load("en").surprisal(sentences) for word in one]
    assert all(word.in_vocabulary for word in words)


def test_items_are_complete_and_conditions_differ_where_they_should():
    rows = list(csv.DictReader(STIMULI.read_text(encoding="utf-8").splitlines()))
    by_item: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        by_item.setdefault(row["item"], []).append(row)
    assert len(by_item) == 16
    for own in by_item.values():
        assert len({(row["verb_type"], row["comma"]) for row in own}) == len(own) == 4
        assert len({tuple(row[region] for region in REGIONS[1:]) for row in own}) == 1
        assert all(row["clause"].endswith(",") == (row["comma"] == "present") for row in own)


def r_blocks(*pages: str) -> list[tuple[str, str | None]]:
    return [(body, shown) for page in pages for language, body, shown in blocks(page) if language == "r"]


@pytest.mark.skipif(RSCRIPT is None, reason="needs Rscript")
def test_the_r_code_of_all_pages_parses(tmp_path):
    guide = [body for language, body, _ in blocks("docs/guides/reading-times.md") if language == "r"]
    tutorial = [body for body, _ in r_blocks(*PAGES)]
    assert guide
    assert tutorial
    for number, body in enumerate(guide + tutorial):
        (tmp_path / f"{number}.R").write_text(body, encoding="utf-8")
        run_r(tmp_path, "-e", f'invisible(parse("{number}.R"))')


@pytest.mark.skipif(RSCRIPT is None, reason="needs Rscript")
@pytest.mark.parametrize("page", ["docs/tutorials/stimuli.md", "docs/tutorials/attraction.md"])
def test_the_r_code_prints_what_the_page_shows(page, folder):
    if run_r(folder, "-e", 'cat(requireNamespace("lme4", quietly = TRUE))') != "TRUE":
        pytest.skip("needs the R package lme4")
    commands = [command for language, body, _ in blocks(page) if language == "console" for command, _ in console(body)]
    (items,) = [command for command in commands if "-o rows.csv" in command]
    assert cli.main(shlex.split(items)[1:]) == 0
    (code, shown), *_ = r_blocks(page)
    (folder / "model.R").write_text(code, encoding="utf-8")
    assert shown is not None
    assert is_same(run_r(folder, "model.R"), shown)


def run_r(folder: Path, *arguments: str) -> str:
    assert RSCRIPT is not None
    result = subprocess.run([RSCRIPT, *arguments], cwd=folder, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    return result.stdout
