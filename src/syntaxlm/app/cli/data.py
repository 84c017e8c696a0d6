"""`data` and its subcommands."""

from __future__ import annotations

import argparse
from typing import Any

from syntaxlm.app.cli.classifiers import add_data_logic, add_data_next_sentence
from syntaxlm.app.cli.options import (
    add_json,
    add_max_words,
    add_output,
    add_preprocessing,
    add_seed,
    output_path,
    print_figures,
    print_summary,
)
from syntaxlm.app.cli.parser import Parser
from syntaxlm.app.cli.sentences import add_data_sentences
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import to_json


def add_data(commands: Any) -> None:
    data = commands.add_parser(
        "data",
        help="prepare text and treebanks",
        description="Prepare text and treebanks for training.",
        epilog="example: syntaxlm data sentences novels/*.txt -o train.txt",
    )
    kinds = data.add_subparsers(title="commands", metavar="COMMAND")
    toy = kinds.add_parser(
        "toy",
        help="sample the built-in corpus of English sentences and trees from a grammar",
        description="Sample sentences from a small English grammar. Writes text, constituency trees, dependency trees,"
        " and the perplexity floor, the lowest perplexity that a model can have.",
        epilog="example: syntaxlm data toy -o toy --sentences 2000",
    )
    toy.add_output_folder(
        "-o", "--output", use="folder", required=True, marker="floor.json",
        files=[f"{part}.{suffix}" for part in ("train", "valid", "test") for suffix in ("txt", "mrg", "conllu")],
        help="output folder: new, empty, or written by this command before",
    )  # fmt: skip
    toy.add_argument(
        "--sentences", type=int, default=20_000, metavar="N", help="number of training sentences; default 20,000"
    )
    add_seed(toy)
    add_json(toy)
    toy.set_defaults(run=_data_toy)
    text8 = kinds.add_parser(
        "text8",
        help="split text8 into training and validation text",
        description="Write DIR/train.txt, the first 99 million characters of text8, and DIR/valid.txt, the last"
        " million, each as one line. This is the split of published figures. Training requires batches.context carry.",
        epilog="example: syntaxlm data text8 text8 -o data/text8",
    )
    text8.add_input("file", metavar="FILE", help="unpacked text8, 100,000,000 bytes; - for standard input")
    text8.add_output_folder(
        "-o", "--output", use="new files", files=["train.txt", "valid.txt"], required=True, help="output folder"
    )
    add_json(text8)
    text8.set_defaults(run=_data_text8)
    words = kinds.add_parser(
        "words",
        help="extract the words of a treebank as plain text",
        description="Write the words of a treebank after gold-tree preprocessing, one sentence per line, as training"
        " text for a model that does not read the trees.",
        epilog="example: syntaxlm data words treebank.mrg -o train.txt",
    )
    _add_extraction(words, tagged=False)
    tags = kinds.add_parser(
        "tags",
        help="extract the words of a treebank with their tags",
        description="Write a treebank after gold-tree preprocessing as tagged text (word_TAG tokens), one sentence per"
        " line, as training text for models of part-of-speech tags (text.normaliser.units: tags). TREEBANK may also be"
        " tagged text, to remove its punctuation.",
        epilog="example: syntaxlm data tags masc.tagged.txt.gz -o train.tagged.txt --preprocessing ptb-keep",
    )
    _add_extraction(tags, tagged=True)
    add_data_sentences(kinds)
    add_data_logic(kinds)
    add_data_next_sentence(kinds)


def _add_extraction(parser: Parser, tagged: bool) -> None:
    parser.add_input(
        "treebank", metavar="TREEBANK",
        help="file of trees or tagged text, folder or quoted pattern; - for standard input",
    )  # fmt: skip
    add_output(parser, "the text")
    add_preprocessing(parser, "ptb-keep")
    add_max_words(parser)
    add_json(parser)
    parser.set_defaults(run=_data_extracted, tagged=tagged)


def _data_toy(options: argparse.Namespace) -> None:
    import dataclasses

    from syntaxlm.core.progress import status
    from syntaxlm.data.toy import write_corpus

    if options.sentences < 1 or options.seed < 0:
        raise InputError(
            f"found --sentences {options.sentences} --seed {options.seed}; expected 1 or more sentences, and a seed of"
            " 0 or more"
        )
    with status("sampling, and computing exact sentence probabilities"):
        summary = write_corpus(options.output, options.sentences, options.seed)
    if options.format == "json":
        print(to_json(dataclasses.asdict(summary)))
        return
    print(f"{options.output}: {summary.vocabulary} word forms")
    for name in ("train", "valid", "test"):
        split = getattr(summary, name)
        floor = f", perplexity floor {split.floor:.2f}" if split.floor else ""
        print(f"  {name:5} {split.sentences:,} sentences of {split.mean_length:.1f} words on average{floor}")


def _data_text8(options: argparse.Namespace) -> None:
    from syntaxlm.core.progress import status
    from syntaxlm.data.text8 import split_text8

    with status("reading and writing 100 million bytes"):
        summary = split_text8(options.file, options.output)
    print_figures(summary, options)


def _data_extracted(options: argparse.Namespace) -> None:
    from syntaxlm.core.progress import status
    from syntaxlm.data.treebanks import read_treebank, write_tags, write_words

    with status("reading"), output_path(options.output) as path:
        treebank = read_treebank(options.treebank, options.preprocessing)
        written = (write_tags if options.tagged else write_words)(treebank, path, options.max_words)
    print_summary(written, options, f"{options.output or 'standard output'}: ")
