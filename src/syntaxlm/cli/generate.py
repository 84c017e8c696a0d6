"""`generate`."""

from __future__ import annotations

import argparse
import json
from typing import Any

from syntaxlm.cli.options import add_model


def add_generate(commands: Any) -> None:
    parser = commands.add_parser(
        "generate",
        help="sentences sampled from a model",
        description="Samples sentences from a model, word by word, and writes one a line, in the words of the model's"
        " vocabulary. json: text, tokens, their surprisals in bits, and whether the model ended the sentence.",
        epilog="example: syntaxlm generate MODEL_DIR --count 5 --temperature 0.8 --seed 1",
    )
    add_model(parser)
    parser.add_argument("--count", type=int, default=1, metavar="N", help="how many sentences; default 1")
    parser.add_argument("--prompt", metavar="TEXT", help="the words that each begins with, in quotes")
    parser.add_argument(
        "--temperature", type=float, default=1.0, metavar="T",
        help="under 1 keeps to likely words, above 1 strays from them; 0: always the likeliest; default 1"
    )  # fmt: skip
    parser.add_argument("--top-k", type=int, metavar="K", help="draw from the K likeliest words only")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="the same seed, the same sentences; default 0")
    parser.add_argument(
        "--maximum-words", type=int, metavar="M",
        help="cut a sentence after so many words behind the prompt (characters, of a model of characters); default 100"
        " (500)"
    )  # fmt: skip
    parser.add_argument("--keep-unknown", action="store_true", help="let the unknown word be drawn, too")
    parser.add_argument("--format", choices=["text", "json"], default="text", help="default: text; json: JSON lines")
    parser.set_defaults(run=_generate)


def _generate(options: argparse.Namespace) -> None:
    from syntaxlm.evaluation.generation import generate
    from syntaxlm.storage import read_model
    from syntaxlm.waiting import counted

    sentences = generate(
        read_model(options.model),
        options.count,
        options.prompt,
        temperature=options.temperature,
        top_k=options.top_k,
        seed=options.seed,
        maximum_words=options.maximum_words,
        keep_unknown=options.keep_unknown,
    )
    for sentence in counted(sentences, "sampling", options.count):
        print(json.dumps(sentence.as_dict(), ensure_ascii=False) if options.format == "json" else sentence.text)
