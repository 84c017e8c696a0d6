"""`data` and its subcommands."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from syntaxlm.cli.logic import add_data_logic
from syntaxlm.cli.options import add_clean_up, add_json, print_result
from syntaxlm.cli.sentences import add_data_sentences
from syntaxlm.errors import InputError
from syntaxlm.files import to_json


def add_data(commands: Any) -> None:
    data = commands.add_parser("data", help="make data")
    kinds = data.add_subparsers(title="what to make", required=True, metavar="KIND")
    toy = kinds.add_parser(
        "toy",
        help="the built-in corpus: English from a grammar, with its trees",
        description="Sample sentences from a small English grammar. Writes text, constituency and dependency trees, and"
        " the lowest perplexity that any model can have.",
    )
    toy.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder to write to")
    toy.add_argument("--sentences", type=int, default=20_000, metavar="N", help="training sentences (default 20,000)")
    toy.add_argument("--seed", type=int, default=0, metavar="S", help="default 0")
    add_json(toy)
    toy.set_defaults(run=_data_toy)
    text8 = kinds.add_parser(
        "text8",
        help="text8, split into its training and validation parts",
        description="Write DIR/train.txt, the first 99 million characters of text8, and DIR/valid.txt, the last"
        " million, one line each, as published figures split it. Training needs batches.carry_state true.",
    )
    text8.add_argument("file", metavar="FILE", type=Path, help="text8, unpacked: 100,000,000 bytes")
    text8.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder to write to")
    add_json(text8)
    text8.set_defaults(run=_data_text8)
    words = kinds.add_parser(
        "words",
        help="extract the words of a treebank as plain text",
        description="Write the words of a treebank after gold-tree preprocessing, one sentence per line: training text"
        " for a model that never sees the trees.",
    )
    _add_extraction(words, tagged=False)
    tags = kinds.add_parser(
        "tags",
        help="extract the words of a treebank with their tags",
        description="Write a treebank after gold-tree preprocessing as tagged text, word_TAG tokens, one sentence per"
        " line: training text for models of part-of-speech tags (text.normaliser.units: tags). TREEBANK may be tagged"
        " text itself, to remove its punctuation.",
        epilog="example: syntaxlm data tags masc.tagged.txt.gz -o train.tagged.txt --clean-up ptb-keep",
    )
    _add_extraction(tags, tagged=True)
    add_data_sentences(kinds)
    add_data_logic(kinds)


def _add_extraction(parser: argparse.ArgumentParser, tagged: bool) -> None:
    parser.add_argument(
        "treebank", metavar="TREEBANK",
        help="a file of trees or tagged text, a folder or a quoted pattern; - for standard input",
    )  # fmt: skip
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="text file to write")
    add_clean_up(parser, "ptb-keep")
    add_json(parser)
    parser.set_defaults(run=_data_extracted, tagged=tagged)


def _data_toy(options: argparse.Namespace) -> None:
    import dataclasses

    from syntaxlm.data.toy import write_corpus
    from syntaxlm.progress import status

    if options.sentences < 1 or options.seed < 0:
        raise InputError(f"--sentences {options.sentences} --seed {options.seed}: expected 1 or more, and 0 or more")
    with status("sampling, and finding exact sentence probabilities"):
        summary = write_corpus(options.output, options.sentences, options.seed)
    if options.json:
        print(to_json(dataclasses.asdict(summary)))
        return
    print(f"{options.output}: {summary.vocabulary} word forms")
    for name in ("train", "valid", "test"):
        split = getattr(summary, name)
        floor = f", perplexity floor {split.floor:.2f}" if split.floor else ""
        print(f"  {name:5} {split.sentences:,} sentences of {split.mean_length:.1f} words on average{floor}")


def _data_text8(options: argparse.Namespace) -> None:
    from syntaxlm.data.text8 import split_text8
    from syntaxlm.progress import status

    with status("reading and writing 100 million bytes"):
        summary = split_text8(options.file, options.output)
    print_result(summary, options.json)


def _data_extracted(options: argparse.Namespace) -> None:
    from syntaxlm.data.treebanks import read_treebank, write_tags, write_words
    from syntaxlm.files import refuse_overwriting
    from syntaxlm.progress import status

    refuse_overwriting(options.output, [options.treebank])
    with status("reading"):
        treebank = read_treebank(options.treebank, options.clean_up)
        written = write_tags(treebank, options.output) if options.tagged else write_words(treebank, options.output)
    if options.json:
        print(to_json(written.to_dict()))
        return
    print(f"{options.output}: {written}")
