"""Measures the bundled English models, and stores the reports in the experiment `shipped`."""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from itertools import product
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from laboratory.results.store import What, add, with_head
from laboratory.shipping.english import CHOICE
from laboratory.shipping.english_text import tokenised
from syntaxlm.cli import main as run
from syntaxlm.core.errors import InputError
from syntaxlm.core.text_files import read_lines
from syntaxlm.evaluation.trees import evaluate_parsing
from syntaxlm.parsing.parse import parse_lines
from syntaxlm.scoring.options import Context, ScoreOptions
from syntaxlm.scoring.surprisal import surprisals
from syntaxlm.storage.folder import ModelBundle, read_model
from syntaxlm.text.options import AS_WRITTEN
from syntaxlm.trees.marks import is_mark
from syntaxlm.trees.tree import parse_brackets

EXPERIMENT = "shipped"
ORDINARY, ORDINARY_2 = (Path(__file__).with_name(f"ordinary-sentences{number}.mrg") for number in ("", "-2"))
MODELS = ("en", "en-fast")
TREEBANKS: Sequence[tuple[str, str, Sequence[str]]] = [  # name of the data, treebank, options
    ("wsj", "wsj-sample/mrg", ()),
    ("wsj-second-half", "wsj-sample/mrg/wsj_01*", ()),
    ("wsj", "wsj-sample/mrg", ("--max-words", "10")),
    ("gum-test", "gum/test.mrg", ()),
    ("gum-test", "gum/test.mrg", ("--max-words", "10")),
    ("craft-dev", "craft/craft-dev.mrg.gz", ("--max-words", "40")),
    ("ordinary-sentences", str(ORDINARY), ("--preprocessing", "letters")),
    ("ordinary-sentences-2", str(ORDINARY_2), ("--preprocessing", "letters")),
]
EWT = "english/ewt_test.sentences.txt.gz"
TIMED_SENTENCES = 2_000
CONTEXTS: Sequence[Context] = ("carry", "reset")
STORIES = (
    "--words", "natural-stories/all_stories.tok.gz", "--times", "natural-stories/wordinfo.tsv.gz",
    "--time-column", "meanItemRT", "--group", "item", "--context", "both",
)  # fmt: skip


def measure(data: Path, runs: Path) -> None:
    """Measures the models.

    Args:
        data: a folder with wsj-sample/mrg, gum/test.mrg, craft, blimp, natural-stories, syntaxgym and
            english/ewt_test.sentences.txt.gz.
        runs: the folder of `english.make_english`, with the text and the n-grams.
    """
    data, runs = data.resolve(), runs.resolve()
    os.chdir(data)  # so that the reports name the data by relative paths
    for model in MODELS:
        for name, treebank, options in TREEBANKS:
            store_report(model, name, "evaluate", "parse", model, treebank, *options)
        _time(model, "parse", lambda stored, lines: parse_lines(stored, lines))
    _time("en", "score", lambda stored, lines: list(surprisals(stored, lines)))
    _store_ordinary()
    _store(json.loads((runs / CHOICE).read_text("utf-8")), "agreement", "en", "validation")
    _perplexities(runs)
    compared = "--also", "en-fast", "--also", str(runs / "kn5")
    store_report("", "blimp", "evaluate", "pairs", "en", "blimp", *compared)
    store_report("", "syntaxgym", "evaluate", "suites", "en", "syntaxgym", *compared)
    words = "--frequencies", str(runs / "data" / "train.txt")
    store_report("en", "natural-stories", "evaluate", "reading-times", "en", *STORIES, *words)


def store_report(name: str, data: str, *arguments: str, factors: Mapping[str, str] | None = None) -> None:
    """Stores the JSON that a command prints.  name: of the run.  data, factors: see `StoredRun`."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        if code := run([*arguments, "--json", "--quiet"]):
            raise InputError(f"syntaxlm {' '.join(arguments)}: exit code {code}")
    text = printed.getvalue()
    # Reports name no folder of this machine.
    short_names = {str(path): f"shipping/{path.name}" for path in (ORDINARY, ORDINARY_2)}
    short_names |= {path: Path(path).name for path in arguments if Path(path).is_absolute() and path not in short_names}
    for path, name_of_file in short_names.items():
        text = text.replace(path, name_of_file)
    add(EXPERIMENT, json.loads(text), run=name, data=data, factors=factors or {}, replace=True)
    print(name, data)


def _store(
    figures: Mapping[str, Any], what: What, name: str, data: str, factors: Mapping[str, str] | None = None
) -> None:
    """Stores figures of this program."""
    add(EXPERIMENT, with_head(figures), what=what, run=name, data=data, factors=factors or {}, replace=True)


def _time(model: str, use: str, process: Callable[[ModelBundle, list[str]], object]) -> None:
    """Stores the sentences processed per second, with torch's threads, without loading and first use."""
    import torch

    stored = read_model(model)
    lines = [line for _, line in read_lines(EWT)][:TIMED_SENTENCES]
    process(stored, lines[:100])
    started = time.perf_counter()
    process(stored, lines)
    seconds = time.perf_counter() - started
    figures = {"sentences": len(lines), "text": EWT, "threads": torch.get_num_threads()}
    figures["sentences_per_second"] = round(len(lines) / seconds, 1)
    _store(figures, "speed", model, "ewt-test", {"use": use})
    print(json.dumps(figures))


def _store_ordinary() -> None:
    """Stores the trees of `en` for the ordinary sentences, and the gold constituents that they lack."""
    bundle = read_model("en")
    for data, treebank in (("ordinary-sentences", ORDINARY), ("ordinary-sentences-2", ORDINARY_2)):
        rows = []
        for scored in evaluate_parsing(bundle, treebank, preprocessing="letters").details():
            predicted, gold = parse_brackets(f"{scored.predicted} {scored.gold}")
            predicted_spans = {(start, end) for _, start, end in predicted.constituents}
            missed = [
                f"{label}: {' '.join(gold.words[start:end])}"
                for label, start, end in gold.constituents
                if end - start > 1 and (start, end) not in predicted_spans
            ]
            rows.append({"sentence": " ".join(gold.words), "tree": scored.predicted, "missed": missed})
        complete = sum(not row["missed"] for row in rows)
        _store({"right": complete, "sentences": rows}, "missed-constituents", "en", data)


def _perplexities(runs: Path) -> None:
    """Stores the perplexity of EWT: of all tokens, and of the words alone, which grammars predict."""
    lines = [tokenised(line) for _, line in read_lines(EWT)]
    data_folder = Path.cwd()
    with TemporaryDirectory() as folder:
        os.chdir(folder)  # so that the reports name the text by its file alone
        try:
            text = "ewt-test.txt"
            Path(text).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            paths = {"en": "en", "kn5": str(runs / "kn5")}
            for (model, path), context in product(paths.items(), CONTEXTS):
                command = "evaluate", "perplexity", path, text, "--context", context
                store_report(model, "ewt-test", *command, factors={"context": context, "predicted": "words and marks"})
                figures = _perplexity_of_words(read_model(path), lines, context)
                _store(figures, "perplexity", model, "ewt-test", {"context": context, "predicted": "words"})
            factors = {"context": "reset", "predicted": "words"}
            store_report("en-fast", "ewt-test", "evaluate", "perplexity", "en-fast", text, factors=factors)
        finally:
            os.chdir(data_folder)


def _perplexity_of_words(model: ModelBundle, lines: Sequence[str], context: Context) -> dict[str, float]:
    """The perplexity of the words and ends of tokenised sentences, given the marks before them."""
    scored = surprisals(model, lines, ScoreOptions(context=context, **AS_WRITTEN))
    rows = [row for sentence in scored for row in sentence if not (row.word and is_mark(row.word))]
    bits = [row.surprisal for row in rows if row.surprisal is not None]
    unknown = sum(row.in_vocabulary is False for row in rows)
    return {"perplexity": 2 ** fmean(bits), "tokens": len(bits), "unknown": unknown}
