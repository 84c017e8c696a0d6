"""Measures the shipped English models, and stores the reports in results/shipped.

    python -m shipping.figures DATA RUNS

DATA: a folder with wsj-sample/mrg, gum/test.mrg and english/ewt_test.sentences.txt.gz.
RUNS: the folder of `shipping.english`; its run kn5, if there is one, is measured as well.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from shipping.english_text import tokenised
from syntaxlm.app.cli import main as run
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import to_json, write_text
from syntaxlm.core.text_files import read_lines
from syntaxlm.parsing.parse import parse_lines
from syntaxlm.storage.folder import read_model

RESULTS = Path(__file__).parents[1] / "results" / "shipped"
MODELS = ("en", "en-fast")
TREEBANKS = {"wsj": "wsj-sample/mrg", "gum": "gum/test.mrg"}
EWT = "english/ewt_test.sentences.txt.gz"
TIMED_SENTENCES = 2_000
SHORT = 10  # words


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
        for name, treebank in TREEBANKS.items():
            _report(f"{model}-{name}", "evaluate", "parse", model, treebank)
            _report(f"{model}-{name}{SHORT}", "evaluate", "parse", model, treebank, "--max-words", str(SHORT))
        _time(model)
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("ewt-test.txt").write_text(
            "".join(tokenised(line) + "\n" for _, line in read_lines(data / EWT)), encoding="utf-8"
        )
        for model, folder_of in {"en": "en", "en-fast": "en-fast", "kn5": runs / "kn5"}.items():
            for ending, option in {"ewt": "carry", "ewt-sentences": "reset"}.items():
                if model != "en-fast" or ending == "ewt-sentences":  # grammars read sentences by themselves
                    _report(
                        f"{model}-{ending}",
                        "evaluate",
                        "perplexity",
                        str(folder_of),
                        "ewt-test.txt",
                        "--context",
                        option,
                    )


def _report(name: str, *arguments: str) -> None:
    """Stores the JSON that a command prints."""
    path = RESULTS / f"{name}.json"
    if code := run([*arguments, "--json", "--quiet", "-o", str(path)]):
        raise InputError(f"syntaxlm {' '.join(arguments)}: exit code {code}")
    print(path.name)


def _time(model: str) -> None:
    """Stores the sentences parsed per second, in this process with torch's threads, without loading and first use."""
    import torch

    stored = read_model(model)
    lines = [line for _, line in read_lines(EWT)][:TIMED_SENTENCES]
    parse_lines(stored, lines[:100])
    begin = time.perf_counter()
    parse_lines(stored, lines)
    seconds = time.perf_counter() - begin
    figures = {"sentences": len(lines), "text": EWT, "threads": torch.get_num_threads()}
    figures["sentences_per_second"] = round(len(lines) / seconds, 1)
    write_text(to_json(figures, indent=1) + "\n", RESULTS / f"{model}-speed.json")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
