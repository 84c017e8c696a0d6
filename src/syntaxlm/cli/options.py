"""Options that several commands share, and how a result is printed."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syntaxlm.files import to_json
from syntaxlm.old_settings import present_decoder

if TYPE_CHECKING:
    from syntaxlm.model_io import ModelBundle
    from syntaxlm.models.batches import TextMode
    from syntaxlm.text.treebank_style import TreebankStyle
    from syntaxlm.trees import TieBreaking


def add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL_DIR", type=Path, help="a model folder, as train writes it")


def add_also(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--also", action="append", default=[], type=Path, metavar="MODEL_DIR",
        help="another model, may be repeated: the trees are then the average of all models' trees"
    )  # fmt: skip
    add_ties(parser)


def add_ties(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ties", choices=["random", "first"],
        help="which of equally good splits an average takes: random (default), any of them with the same probability,"
        " the same in every run; first, which leans to the right",
    )  # fmt: skip


def ties_of(options: argparse.Namespace) -> TieBreaking:
    """The value of `--ties`. Raises InputError if it is given without `--also`, where no trees are averaged."""
    from syntaxlm.errors import InputError

    if options.ties is None:
        return "random"
    if not options.also:
        raise InputError(
            f"--ties {options.ties}: found one model, so no trees are averaged; add models with --also, or leave out"
            " --ties"
        )
    ties: TieBreaking = options.ties
    return ties


def add_context(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--context", choices=["reset", "carry"],
        help="reset: read each sentence by itself; carry: read the text as one stream; default: as trained"
    )  # fmt: skip
    parser.add_argument("--mode", choices=["sentences", "open-sentences", "stream"], help=argparse.SUPPRESS)


def text_mode(options: argparse.Namespace, bundle: ModelBundle) -> TextMode | None:
    """How to read a text, by `--context` or its old spelling `--mode`; None: as the model was trained."""
    from syntaxlm.models.batches import TextMode
    from syntaxlm.old_settings import mode_settings

    if options.mode is not None:
        return TextMode(**mode_settings(options.mode))
    if options.context is None:
        return None
    return TextMode(options.context == "carry", bundle.mode.predict_eos)


def add_scoring(parser: argparse.ArgumentParser, clean_up: str) -> None:
    add_protocol(parser)
    add_clean_up(parser, clean_up)
    parser.add_argument(
        "--per-sentence",
        type=Path,
        metavar="FILE",
        help="write each sentence's trees and scores to this file, as JSON lines",
    )


def add_protocol(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--protocol", default="wsj-test", metavar="P", help="wsj-test (default), prpn, wsj10, wsj40 or evalb"
    )
    parser.add_argument("--max-words", type=int, metavar="N", help="leave longer sentences out (after preprocessing)")


def add_clean_up(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument(
        "--clean-up", default=default, metavar="RULE",
        help="gold-tree preprocessing, which selects words: ptb-keep, ptb-keep-currency, ptb-drop (Penn tags), ud (UD"
        " tags), letters, letters-only (by the word), zh-sinica, es-cess, pt-floresta (treebanks), none; or a YAML file"
        f" with keep_tags, drop_tags, drop_words, punctuation: unicode; default {default}",
    )  # fmt: skip


def add_decoding(parser: argparse.ArgumentParser) -> None:
    """`--decoder` and `--layer`."""
    add_decoder(parser)
    parser.add_argument(
        "--layer", type=int, metavar="L",
        help="layer whose distances are used, from 1; default: that of the published trees, 2 for an on-lstm with"
        " several layers, otherwise 1; models without distances have no layers",
    )  # fmt: skip


def add_decoder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--decoder", type=present_decoder,
        choices=["biased", "unbiased", "greedy-right", "greedy-sum", "cky", "mbr", "viterbi"],
        help="decoding algorithm. Distances: biased (default), the rule of the published figures, which leans to the"
        " right; unbiased. Span scores: greedy-right (default), which splits where the right part scores highest, as"
        " published; greedy-sum, where both parts together score highest; cky, the tree with the greatest total score."
        " Span probabilities: mbr (default), the tree with the greatest sum of span probabilities; viterbi, the single"
        " most probable tree (slow)."
        " With several models it applies to those that support it; the others use their default",
    )  # fmt: skip


def add_treebank_style(parser: argparse.ArgumentParser) -> None:
    """Options for English text as people write it."""
    parser.add_argument(
        "--punctuation", choices=["auto", "keep", "split", "drop"], default="auto",
        help="punctuation marks at the ends of words, before the model's normaliser: auto (default), as the model's"
        " vocabulary requires; keep; split, each mark becomes a word; drop",
    )  # fmt: skip
    parser.add_argument(
        "--contractions", choices=["auto", "keep", "split"], default="auto",
        help="n't, 's, 'll and the like: auto (default), as the model's vocabulary requires; keep; split, they become"
        " separate words, as in treebanks",
    )  # fmt: skip


def treebank_style(options: argparse.Namespace) -> TreebankStyle:
    """The options of `add_treebank_style`."""
    from syntaxlm.text.treebank_style import TreebankStyle

    return TreebankStyle(options.punctuation, options.contractions)


def refuse_repeated(folders: Sequence[Path]) -> None:
    """Raises InputError where two folders are the same model."""
    from syntaxlm.errors import InputError

    twice = [str(folder) for folder, count in Counter(folder.resolve() for folder in folders).items() if count > 1]
    if twice:
        raise InputError(f"{twice[0]}: the same model twice; expected different models")


def model_names(folders: Sequence[Path]) -> list[str]:
    """The names of the models' folders if these differ, else their paths. Raises InputError for a repeated model."""
    refuse_repeated(folders)
    names = [folder.resolve().name for folder in folders]
    return names if len(set(names)) == len(names) else list(map(str, folders))


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print figures as JSON")


def print_result(result: Any, as_json: bool) -> None:
    print(to_json(result.to_dict()) if as_json else result)
