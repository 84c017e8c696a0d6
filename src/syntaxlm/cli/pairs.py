"""`evaluate pairs`."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from syntaxlm.cli.options import add_json, add_model, print_result


def add_pairs(kinds: Any) -> None:
    parser = kinds.add_parser(
        "pairs",
        help="minimal pairs: is the better sentence the more probable one?",
        description="Scores minimal pairs, as those of BLiMP and of Marvin and Linzen: how often the better sentence"
        " has the higher log-probability. Files are JSON lines, one item a line: sentence_good and sentence_bad, or"
        " sentences, best first. Several models are told side by side, and compared with the first.",
        epilog="example: syntaxlm evaluate pairs my-model --model another pairs.jsonl --punctuation drop",
    )
    add_model(parser)
    parser.add_argument("files", nargs="+", metavar="FILES", help="files or folders of minimal pairs; - standard input")
    parser.add_argument(
        "--model", action="append", default=[], type=Path, dest="others", metavar="DIR",
        help="another model, to compare with the first; may be given several times",
    )  # fmt: skip
    parser.add_argument(
        "--punctuation", choices=["keep", "split", "drop"], default="keep",
        help="what becomes of the marks at a word's ends before the model's normaliser: keep (default), split (each a"
        " word of its own), drop",
    )  # fmt: skip
    parser.add_argument(
        "--contractions", choices=["keep", "split"], default="keep",
        help="split: n't, 's, 'll and such become words of their own, as in treebank text; keep (default)",
    )  # fmt: skip
    parser.add_argument(
        "--per-pair", type=Path, metavar="FILE", help="write each pair and its log-probabilities there, as JSON lines"
    )
    add_json(parser)
    parser.set_defaults(run=_pairs)


def _pairs(options: argparse.Namespace) -> None:
    from syntaxlm.evaluation.pairs import evaluate_pairs, write_pairs
    from syntaxlm.storage import read_model
    from syntaxlm.text.treebank_style import TreebankStyle

    folders = [options.model, *options.others]
    models = dict(zip(_names(folders), map(read_model, folders), strict=True))
    report = evaluate_pairs(models, options.files, TreebankStyle(options.punctuation, options.contractions))
    if options.per_pair:
        write_pairs(report, options.per_pair)
    print_result(report, options.json)


def _names(folders: Sequence[Path]) -> list[str]:
    """Of models: their folders' last names where these differ, else their paths. Raises InputError for one twice."""
    from syntaxlm.errors import InputError

    twice = [str(folder) for folder, count in Counter(folder.resolve() for folder in folders).items() if count > 1]
    if twice:
        raise InputError(f"{twice[0]}: the same model twice; expected different ones to compare")
    names = [folder.resolve().name for folder in folders]
    return names if len(set(names)) == len(names) else list(map(str, folders))
