"""Measures the shipped English models, and stores the reports in laboratory/results/shipped.

    python -m laboratory.shipping.figures DATA RUNS

DATA: a folder with wsj-sample/mrg, gum/test.mrg, craft, blimp, natural-stories and english/ewt_test.sentences.txt.gz.
RUNS: the folder of `shipping.english`. Its folder kn5, a run of the recipe kn5-en, is measured as well.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

from laboratory.shipping.english_text import tokenised
from syntaxlm.cli import main as run
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import to_json, write_text
from syntaxlm.core.text_files import read_lines
from syntaxlm.evaluation.trees import evaluate_parsing
from syntaxlm.parsing.parse import parse_lines
from syntaxlm.scoring.options import Context, ScoreOptions
from syntaxlm.scoring.surprisal import surprisals
from syntaxlm.storage.folder import ModelBundle, read_model
from syntaxlm.text.options import AS_WRITTEN
from syntaxlm.trees.marks import is_mark
from syntaxlm.trees.tree import parse_brackets

RESULTS = Path(__file__).parents[1] / "results" / "shipped"
ORDINARY = Path(__file__).with_name("ordinary-sentences.mrg")
MODELS = ("en", "en-fast")
TREEBANKS: Mapping[str, tuple[str, Sequence[str]]] = {  # name: treebank, options
    "wsj": ("wsj-sample/mrg", ()),
    "wsj-second": ("wsj-sample/mrg/wsj_01*", ()),
    "wsj10": ("wsj-sample/mrg", ("--max-words", "10")),
    "gum": ("gum/test.mrg", ()),
    "gum10": ("gum/test.mrg", ("--max-words", "10")),
    "craft": ("craft/craft-dev.mrg.gz", ("--max-words", "40")),
    "ordinary": (str(ORDINARY), ("--preprocessing", "letters")),
}
EWT = "english/ewt_test.sentences.txt.gz"
TIMED_SENTENCES = 2_000
STORIES = (
    "--words", "natural-stories/all_stories.tok.gz", "--times", "natural-stories/wordinfo.tsv.gz",
    "--time-column", "meanItemRT", "--group", "item", "--context", "both",
)  # fmt: skip


def main() -> None:
    """Measures the models; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("runs", type=Path)
    options = parser.parse_args()
    data, runs = options.data.resolve(), options.runs.resolve()
    RESULTS.mkdir(parents=True, exist_ok=True)
    os.chdir(data)  # so that the reports name the data by relative paths
    for model in MODELS:
        for name, (treebank, further) in TREEBANKS.items():
            report(f"{model}-{name}", "evaluate", "parse", model, treebank, *further)
        _time(f"{model}-speed", lambda stored, lines: parse_lines(stored, lines), model)
    _time("en-score-speed", lambda stored, lines: list(surprisals(stored, lines)), "en")
    _store_ordinary()
    _perplexities(runs)
    report("blimp", "evaluate", "pairs", "en", "blimp", "--also", "en-fast", "--also", str(runs / "kn5"))
    report("en-stories", "evaluate", "reading-times", "en", *STORIES, "--frequencies", str(runs / "data" / "train.txt"))


def report(name: str, *arguments: str) -> None:
    """Stores the JSON that a command prints."""
    path = RESULTS / f"{name}.json"
    if code := run([*arguments, "--json", "--quiet", "-o", str(path)]):
        raise InputError(f"syntaxlm {' '.join(arguments)}: exit code {code}")
    named = {str(ORDINARY): f"shipping/{ORDINARY.name}"}
    named |= {file: Path(file).name for file in arguments if file.endswith("train.txt")}
    text = path.read_text(encoding="utf-8")
    for here, shown in named.items():
        text = text.replace(here, shown)  # reports name no folder of this machine
    write_text(text, path)
    print(path.name)


def _time(name: str, process: Callable[[ModelBundle, list[str]], object], model: str) -> None:
    """Stores the sentences processed per second, with torch's threads, without loading and first use."""
    import torch

    stored = read_model(model)
    lines = [line for _, line in read_lines(EWT)][:TIMED_SENTENCES]
    process(stored, lines[:100])
    begin = time.perf_counter()
    process(stored, lines)
    seconds = time.perf_counter() - begin
    figures = {"sentences": len(lines), "text": EWT, "threads": torch.get_num_threads()}
    figures["sentences_per_second"] = round(len(lines) / seconds, 1)
    write_text(to_json(figures, indent=1) + "\n", RESULTS / f"{name}.json")
    print(json.dumps(figures))


def _store_ordinary() -> None:
    """Stores the trees of `en` for ordinary sentences, and the gold constituents that they lack."""
    report = evaluate_parsing(read_model("en"), ORDINARY, preprocessing="letters")
    rows = []
    for scored in report.details():
        predicted, gold = parse_brackets(f"{scored.predicted} {scored.gold}")
        found = {(start, end) for _, start, end in predicted.constituents}
        missed = [
            f"{label}: {' '.join(gold.words[start:end])}"
            for label, start, end in gold.constituents
            if end - start > 1 and (start, end) not in found
        ]
        rows.append({"sentence": " ".join(gold.words), "tree": scored.predicted, "missed": missed})
    right = sum(not row["missed"] for row in rows)
    write_text(to_json({"right": right, "sentences": rows}, indent=1) + "\n", RESULTS / "en-ordinary-trees.json")


def _perplexities(runs: Path) -> None:
    """Stores the perplexity of EWT: of all tokens, and of the words alone, which grammars predict."""
    lines = [tokenised(line) for _, line in read_lines(EWT)]
    contexts: Mapping[str, Context] = {"ewt": "carry", "ewt-sentences": "reset"}
    here = Path.cwd()
    with TemporaryDirectory() as folder:
        os.chdir(folder)  # so that the reports name the text by its file alone
        try:
            text = Path("ewt-test.txt")
            text.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            for (model, named), (ending, context) in product(
                {"en": "en", "kn5": str(runs / "kn5")}.items(), contexts.items()
            ):
                report(f"{model}-{ending}", "evaluate", "perplexity", named, text.name, "--context", context)
                figures = _of_words(read_model(named), lines, context)
                write_text(to_json(figures, indent=1) + "\n", RESULTS / f"{model}-{ending}-words.json")
            report("en-fast-ewt-sentences", "evaluate", "perplexity", "en-fast", text.name)
        finally:
            os.chdir(here)


def _of_words(model: ModelBundle, lines: Sequence[str], context: Context) -> dict[str, float]:
    """The perplexity of the words and ends of tokenised sentences, given the marks before them."""
    scored = surprisals(model, lines, ScoreOptions(context=context, **AS_WRITTEN))
    rows = [row for of_line in scored for row in of_line if not (row.word and is_mark(row.word))]
    bits = [row.surprisal for row in rows if row.surprisal is not None]
    unknown = sum(row.in_vocabulary is False for row in rows)
    return {"perplexity": 2 ** fmean(bits), "tokens": len(bits), "unknown": unknown}


if __name__ == "__main__":
    main()
