"""`draw`, `report` and `grammar`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from syntaxlm.cli.command import Folder
from syntaxlm.cli.options import (
    PARSES,
    Brackets,
    ModelOptions,
    Preprocessing,
    ProtocolOptions,
    Theme,
    Treebank,
    has_labels,
)
from syntaxlm.cli.output import OutputFile, ReportOutput, SummaryFormat, formatted, output_path
from syntaxlm.core.declarations import Argument, Count, Needs, Only, Shown
from syntaxlm.core.errors import InputError
from syntaxlm.core.progress import status
from syntaxlm.parsing.options import DecodingOptions, ParseOptions


def draw(
    model: Annotated[ModelOptions, PARSES],
    options: Annotated[
        ParseOptions, Only(("decoder", "layer", "marks", "punctuation", "contractions", "pretokenised"))
    ],
    sentence: Annotated[str, Argument("SENTENCE", use="value")] | None = None,
    output: Annotated[Path, Shown("FILE", ("-o", "--output"), "output")] | None = None,
    gold: Annotated[str, Shown("TREE", use="input")] | None = None,
    number: Count | None = None,
    preprocessing: Preprocessing = "none",
    brackets: Brackets | None = None,
    maps: bool = False,
    surprisal: bool = False,
    no_chart: bool = False,
    beliefs: bool = False,
    theme: Theme = "auto",
) -> None:
    """Draw a sentence's tree, surprisals, distances, gates and attention.

    Draw the tree that a model assigns to a sentence, with syntactic distances as bars or span scores as a chart,
    optionally with the surprisal of each word as a bar, beside a gold tree, or with maps of the model's gates and
    attention. Models of dependency trees (dmv) also give arcs over the words. For a file of dependency trees instead of
    a model, draw these as arcs over the words. With --beliefs, draw what a PCFG believes about the tree after each word
    instead. The extension of FILE selects the format: .svg, .html (a self-contained page), .pdf or .png (require the
    extra draw: pip install 'syntaxlm[draw]'; use the fonts of this machine), or .tex (trees only, for the LaTeX
    packages forest and tikz-dependency).

    Args:
        model: model folder written by train, or a file of dependency trees (.conllu, .conll, .conllx or .dp)
        sentence: the sentence, in quotes; omit it with --gold
        output: file to write: .svg, .html, .pdf, .png or .tex; default, or -: SVG on standard output
        gold: gold tree, (S (NP ...) ...), or bracket file; its words are the sentence
        number: number of the tree in the file, from 1
        maps: also draw maps of gates and attention
        surprisal: draw the surprisal of each word as a bar below it, in bits
        no_chart: leave out the chart of span scores or probabilities
        beliefs: draw the probabilities of constituents after each word instead of the tree (PCFGs, such as en-fast, and
            combinations with one, such as en)
        theme: colour theme; auto (default) follows the reader's system and is light in a PDF or PNG

    Examples:
        syntaxlm draw MODEL "the old cat sleeps" -o cat.svg
        syntaxlm draw en "The keys to the cabinet are on the table." --surprisal --no-chart -o keys.svg
    """
    from syntaxlm.core.text_files import content_suffix
    from syntaxlm.drawing.beliefs import beliefs_picture
    from syntaxlm.drawing.dependencies import write_dependencies
    from syntaxlm.drawing.files import check_format
    from syntaxlm.drawing.sentence import Drawing
    from syntaxlm.parsing.analysis import analyse, beliefs_of, maps_of, read_gold, read_trees, with_surprisals
    from syntaxlm.trees.conllu import DEPENDENCY_FORMATS

    draws_dependencies = content_suffix(model.model) in DEPENDENCY_FORMATS and not model.model.is_dir()
    if draws_dependencies:
        values = {"sentence": sentence, "--gold": gold, "--decoder": options.decoder, "--layer": options.layer}
        given = [name for name, value in values.items() if value is not None]
        given += ["--maps"] * maps + ["--surprisal"] * surprisal + ["--no-chart"] * no_chart
        given += ["--beliefs"] * beliefs
        if given:
            raise InputError(
                f"{model.model}: found {', '.join(given)} with a file of dependency trees; expected only --number,"
                " --preprocessing and --theme"
            )
    elif (sentence is None) == (gold is None):
        raise InputError(
            "draw: expected either a SENTENCE, or --gold with a tree whose words are the sentence; found"
            f" {'both' if gold else 'neither'}"
        )
    elif surprisal and (sentence is None or options.pretokenised):
        found = "--gold" if sentence is None else "--pretokenised"
        raise InputError(f"--surprisal: found {found}; expected a SENTENCE, which is read as by score")
    elif gold is None and number is not None:
        raise InputError("--number: selects a tree of the file given by --gold, but --gold is missing")
    elif sentence is not None and Path(sentence).is_file():
        raise InputError(f"{sentence}: found a file; expected a sentence in quotes, or --gold with a file of trees")
    if beliefs:
        _check_beliefs(
            output,
            {
                "--gold": gold,
                "--decoder": options.decoder,
                "--layer": options.layer,
                "--maps": maps,
                "--surprisal": surprisal,
                "--no-chart": no_chart,
            },
        )
    elif output is not None:
        check_format(output)  # before the slow part
    if draws_dependencies:
        trees = read_trees(model.model, number, preprocessing)
        with output_path(output, ".svg") as path:
            write_dependencies(trees, path, theme)
        return
    gold_tree = None if gold is None else read_gold(gold, number, preprocessing, has_labels(brackets))
    bundle = model.load()
    text = sentence if gold_tree is None else gold_tree
    assert text is not None
    if beliefs:
        picture = beliefs_picture(beliefs_of(bundle, model.model.name, text, options))
        with output_path(output, ".svg") as path:
            picture.save(path, theme)
        return
    analysis = analyse(bundle, text, options)
    if surprisal and sentence is not None:
        analysis = with_surprisals(analysis, bundle, sentence, options)
    pictures = maps_of(bundle, analysis.tokens) if maps else None
    with output_path(output, ".svg") as path:
        Drawing(analysis, gold_tree, pictures, not no_chart).write(path, theme)


def _check_beliefs(output: Path | None, others: Mapping[str, object]) -> None:
    """Raise InputError for options that a drawing of beliefs does not use, and for a file of LaTeX."""
    from syntaxlm.drawing.files import check_picture

    if given := [name for name, value in others.items() if value]:
        raise InputError(f"--beliefs: found {', '.join(given)}; expected only a SENTENCE, because no tree is chosen")
    if output is not None:
        check_picture(output)


def report(
    model: Annotated[ModelOptions, Needs("a model folder")],
    decoding: Annotated[DecodingOptions, Only(("decoder", "layer"))],
    output: Annotated[Path, Folder(files=("report.html",), signature='<meta name="generator" content="syntaxlm')],
    protocol: ProtocolOptions,
    treebank: Treebank | None = None,
    preprocessing: Preprocessing = "ptb-keep",
    theme: Theme = "auto",
    format: SummaryFormat = "text",
) -> None:
    """Write a page about a model's settings, training, perplexity and trees.

    Write DIR/report.html, a self-contained page. It shows settings, loss curves and perplexity from the model's folder
    and, measured on a treebank, F1 of all decoders and baselines, F1 by length, recall by label, depth and branching,
    and the best and worst sentences beside their gold trees. The page lists what cannot be shown and why. For a model
    that does not parse, it covers only the language model.

    Args:
        model: model folder, written by train, or a bundled model, such as en
        output: folder for report.html

    Examples:
        syntaxlm report MODEL treebank.mrg -o my-report
    """
    from syntaxlm.api.model_report import write_report

    scoring, device = protocol.find(), model.device or "cpu"
    with status("measuring and drawing"):
        written = write_report(model.model, output, treebank, scoring, decoding, preprocessing, theme, device)
    print(formatted(written, format))


def grammar(
    model: Annotated[ModelOptions, Needs("a PCFG, such as en")],
    text: Annotated[str, Argument("TEXT")] | None = None,
    symbols: Count = 10,
    rule: Annotated[str, Shown("SYMBOLS", use="value")] | None = None,
    member: Count | None = None,
    output: OutputFile | None = None,
    format: Annotated[Literal["text", "json", "html", "tsv", "csv", "parquet"], Shown(use="format")] = "text",
) -> None:
    """List the most frequent symbols of a PCFG, with rules, words and examples.

    List the grammar that a PCFG has learned: the most frequent nonterminals with their share of the constituents, their
    most probable rules and examples, and the most frequent preterminals with their share of the words and their most
    probable words. Frequencies are counted in the parses of a text or, without one, in sentences sampled from the
    grammar.

    Args:
        text: count symbols in the parses of this file, one sentence per line; - for standard input; default: 1,000
            sampled sentences
        symbols: number of nonterminals and of preterminals to list
        rule: list constituents of the TEXT that this rule makes, in their contexts, such as "NT-3 -> NT-4 T-7"; *
            stands for any symbol
        member: which grammar of a combination to list, from 1; default 1
        output: write the grammar to this file (written atomically); default, or -: standard output
        format: output format. html: a self-contained page

    Examples:
        syntaxlm grammar MODEL sentences.txt -o grammar.html
    """
    from syntaxlm.evaluation.grammar import list_concordance, list_grammar
    from syntaxlm.storage.combination import only_or_member

    bundle = only_or_member(model.load(), member)
    written = ReportOutput(output=output, format=format)
    if rule is None:
        written.write(list_grammar(bundle, text, symbols))
    elif text is None:
        raise InputError("--rule: expected a TEXT, in which to find constituents")
    else:
        written.write(list_concordance(bundle, text, rule))
