"""`draw`, `report` and `grammar`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
from syntaxlm.core.declarations import Argument, Count, Needs, Only, ReportFormat, Shown, With
from syntaxlm.core.errors import InputError
from syntaxlm.core.progress import status
from syntaxlm.parsing.options import DecodingOptions, ParseOptions

if TYPE_CHECKING:
    from syntaxlm.storage.folder import ModelBundle
    from syntaxlm.trees.tree import Tree


_TEXT_OPTIONS = ("punctuation", "contractions", "pretokenised")
SYMBOLS = 10  # of a grammar, listed by default


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

    The picture shows the tree that a model assigns to the sentence, with syntactic distances as bars or span scores as
    a chart.

    - `--surprisal` adds the surprisal of each word as a bar, and `--maps` adds the model's gates and attention.
    - `--gold` draws a gold tree beside the model's tree.
    - `--beliefs` draws the probabilities that a PCFG assigns to constituents after each word, instead of a tree.
    - For a dependency model (dmv), arcs over the words show its dependency tree. For a file of dependency trees instead
      of a model, only arcs are drawn.

    The extension of the output file selects the format:

    - `.svg`, `.html`: a self-contained picture or page
    - `.pdf`, `.png`: a picture with the fonts of this machine; requires the extra draw (`pip install 'syntaxlm[draw]'`)
    - `.tex`: trees only, for the LaTeX packages forest and tikz-dependency

    Args:
        model: Model folder that `train` wrote, name of a bundled model such as `en`, or file of dependency trees
            (`.conllu`, `.conll`, `.conllx` or `.dp`).
        sentence: Sentence in quotes. Omit it with `--gold`.
        output: Write the picture to this file. Default: SVG on standard output, as for `-`.
        gold: Draw this gold tree, such as `(S (NP ...) ...)`, or a tree of this bracket file, whose words are the
            sentence.
        number: Draw the tree with this number in the file, counted from 1.
        maps: Draw maps of gates and attention, too.
        surprisal: Draw the surprisal of each word as a bar below it, in bits. This requires a SENTENCE as people write
            it, without `--gold` and `--pretokenised`.
        no_chart: Leave out the chart of span scores or probabilities.
        beliefs: Draw the probabilities of constituents after each word instead of the tree. This requires a PCFG such
            as `en-fast`, or a combination with a PCFG such as `en`.
        theme: Draw in this colour theme. `auto` follows the reader's system, and is light in a PDF or PNG.

    Examples:
        syntaxlm draw MODEL "the old cat sleeps" -o cat.svg
        syntaxlm draw en "The keys to the cabinet are on the table." --surprisal --no-chart -o keys.svg
    """
    from syntaxlm.drawing.sentence import Drawing
    from syntaxlm.parsing.analysis import analyse, maps_of, read_gold, with_surprisals

    # Wrong options are reported before the slow part.
    flags = {"--maps": maps, "--surprisal": surprisal, "--no-chart": no_chart, "--beliefs": beliefs}
    given: dict[str, object] = {
        "sentence": sentence,
        "--gold": gold,
        **_changed(options, ("decoder", "layer", "marks")),
    }
    given |= {name: flag or None for name, flag in flags.items()}
    if _is_dependency_file(model.model):
        given |= {**_changed(options, _TEXT_OPTIONS), "--brackets": brackets, "--device": model.device}
        _draw_dependencies(model.model, given, number, preprocessing, output, theme)
        return
    _check_sentence(sentence, gold, number, surprisal, options)
    _check_reading(gold, preprocessing, brackets, options)
    _check_output(output, given)

    gold_tree = None if gold is None else read_gold(gold, number, preprocessing, has_labels(brackets))
    bundle = model.load()
    text = sentence or "" if gold_tree is None else gold_tree
    if beliefs:
        _draw_beliefs(bundle, model.model.resolve().name, text, options, output, theme)
        return
    analysis = analyse(bundle, text, options)
    if surprisal and sentence is not None:
        analysis = with_surprisals(analysis, bundle, sentence, options)
    drawing = Drawing(analysis, gold_tree, maps_of(bundle, analysis.tokens) if maps else None, not no_chart)
    with output_path(output, ".svg") as path:
        drawing.write(path, theme)


def _is_dependency_file(path: Path) -> bool:
    """Return whether a file of dependency trees is drawn, instead of a sentence by a model."""
    from syntaxlm.core.text_files import content_suffix
    from syntaxlm.trees.conllu import DEPENDENCY_FORMATS

    return content_suffix(path) in DEPENDENCY_FORMATS and not path.is_dir()


def _changed(options: ParseOptions, names: Iterable[str]) -> dict[str, object]:
    """Return the options that do not have their defaults, by their names on the command line."""
    return {f"--{name}": value for name in names if (value := getattr(options, name)) != getattr(ParseOptions, name)}


def _refuse(options: Mapping[str, object], place: str, expected: str) -> None:
    """Raise InputError for options that were given, although they do not apply.

    Args:
        options: their values by name, None for those that were not given.
        place: what they do not apply to.
        expected: the end of the message.
    """
    if found := [name for name, value in options.items() if value is not None]:
        raise InputError(f"{place}: found {', '.join(found)}{expected}")


def _check_sentence(
    sentence: str | None, gold: str | None, number: int | None, surprisal: bool, options: ParseOptions
) -> None:
    """Raise InputError for options that do not name one sentence."""
    if (sentence is None) == (gold is None):
        raise InputError(
            "draw: expected either a SENTENCE, or --gold with a tree whose words are the sentence; found"
            f" {'both' if gold else 'neither'}"
        )
    if surprisal and (sentence is None or options.pretokenised):
        found = "--gold" if sentence is None else "--pretokenised"
        raise InputError(f"--surprisal: found {found}; expected a SENTENCE, which is read as by score")
    if gold is None and number is not None:
        raise InputError("--number: selects a tree of the file given by --gold, but --gold is missing")
    if sentence is not None and os.path.isfile(sentence):
        raise InputError(f"{sentence}: found a file; expected a sentence in quotes, or --gold with a file of trees")


def _check_reading(
    gold: str | None, preprocessing: Preprocessing, brackets: Brackets | None, options: ParseOptions
) -> None:
    """Raise InputError for options of gold trees with a sentence, and for those of a sentence with a gold tree."""
    if gold is None:
        of_gold = {"--preprocessing": None if preprocessing == "none" else preprocessing, "--brackets": brackets}
        _refuse(of_gold, "a SENTENCE", "; expected --gold, because only gold trees are read with it")
    else:
        of_text = _changed(options, (*_TEXT_OPTIONS, "marks"))
        _refuse(of_text, "--gold", "; expected a SENTENCE, because only the words of a tree are read, as they are")


def _check_output(output: Path | None, options: Mapping[str, object]) -> None:
    """Raise InputError for a format that cannot be written, and for options that a drawing of beliefs does not use."""
    from syntaxlm.drawing.files import check_format, check_picture

    if options["--beliefs"]:
        others = {name: value for name, value in options.items() if name not in ("sentence", "--beliefs")}
        _refuse(others, "--beliefs", "; expected only a SENTENCE, because no tree is chosen")
    if output is not None:
        (check_picture if options["--beliefs"] else check_format)(output)


def _draw_beliefs(
    bundle: ModelBundle, name: str, text: str | Tree, options: ParseOptions, output: Path | None, theme: Theme
) -> None:
    """Draw what a model believes about the tree of a sentence after each word. Raises InputError."""
    from syntaxlm.drawing.beliefs import beliefs_picture
    from syntaxlm.parsing.analysis import beliefs_of

    picture = beliefs_picture(beliefs_of(bundle, name, text, options))
    with output_path(output, ".svg") as path:
        picture.save(path, theme)


def _draw_dependencies(
    path: Path,
    given: Mapping[str, object],
    number: int | None,
    preprocessing: Preprocessing,
    output: Path | None,
    theme: Theme,
) -> None:
    """Draw the dependency trees of a file. Raises InputError, also for options that draw sentences."""
    from syntaxlm.drawing.dependencies import write_dependencies
    from syntaxlm.parsing.analysis import read_trees

    others = " with a file of dependency trees; expected only --number, --preprocessing and --theme"
    _refuse(given, str(path), others)
    _check_output(output, given)
    trees = read_trees(path, number, preprocessing)
    with output_path(output, ".svg") as written:
        write_dependencies(trees, written, theme)


def report(
    model: Annotated[ModelOptions, Needs("a model folder")],
    decoding: Annotated[DecodingOptions, Only(("decoder", "layer")), With(("treebank",))],
    output: Annotated[Path, Folder(files=("report.html",), signature='<meta name="generator" content="syntaxlm')],
    protocol: Annotated[ProtocolOptions, With(("treebank",))],
    treebank: Treebank | None = None,
    preprocessing: Annotated[Preprocessing, With(("treebank",))] = "ptb-keep",
    theme: Theme = "auto",
    format: SummaryFormat = "text",
) -> None:
    """Write a page about a model's settings, training, perplexity and trees.

    The page is `DIR/report.html`, which is self-contained.

    - From the model's folder, it shows settings, loss curves and perplexity.
    - From a treebank, it shows F1 of all decoders and baselines, F1 by length, recall by label, depth and branching,
      and the best and worst sentences beside their gold trees.
    - It lists what cannot be shown, and why. For a model that does not parse, it covers only the language model.

    Args:
        model: Model folder that `train` wrote, or name of a bundled model, such as `en`.
        output: Write `report.html` into this folder.

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
    symbols: Count = SYMBOLS,
    rule: Annotated[str, Shown("SYMBOLS", use="value")] | None = None,
    member: Count | None = None,
    output: OutputFile | None = None,
    format: Annotated[ReportFormat, Shown(use="format")] = "text",
) -> None:
    """List the most frequent symbols of a PCFG, with rules, words and examples.

    Nonterminals have their share of the constituents, their most probable rules and examples. Preterminals have their
    share of the words and their most probable words. Frequencies are counted in the parses of a text or, without a
    text, in sentences sampled from the grammar.

    Args:
        text: UTF-8 file with one sentence per line, or `-` for standard input, in whose parses symbols are counted.
            Default: 1,000 sampled sentences.
        symbols: List N nonterminals and N preterminals.
        rule: List the constituents of TEXT that this rule makes, in their contexts, such as `"NT-3 -> NT-4 T-7"`. `*`
            stands for any symbol.
        member: List the grammar with this number in a combination, counted from 1. Default: 1.
        output: Write the grammar to this file, or to standard output (`-`, the default).
        format: Write the grammar in this format. `html` is a self-contained page.

    Examples:
        syntaxlm grammar MODEL sentences.txt -o grammar.html
    """
    from syntaxlm.evaluation.grammar import list_concordance, list_grammar
    from syntaxlm.storage.combination import only_or_member

    if rule is not None and symbols != SYMBOLS:
        raise InputError("--symbols: found --rule, which lists constituents instead of symbols; omit one of them")
    bundle = only_or_member(model.load(), member)
    written = ReportOutput(output=output, format=format)
    if rule is None:
        written.write(list_grammar(bundle, text, symbols))
    elif text is None:
        raise InputError("--rule: found no TEXT; expected a file in whose parses the constituents are found")
    else:
        written.write(list_concordance(bundle, text, rule))
