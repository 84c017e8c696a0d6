"""`models`, `recipes`, `ngram`, `average`, `combine` and `rerank`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from syntaxlm.cli.command import Folder
from syntaxlm.cli.options import (
    Brackets,
    ModelFolder,
    ModelOptions,
    ProtocolOptions,
    Share,
    Weights,
    has_labels,
    weights_of,
)
from syntaxlm.cli.output import (
    ROW_FORMATS,
    OutputFile,
    PrintedFormat,
    ReportOutput,
    SummaryFormat,
    formatted,
    output_path,
    print_summary,
)
from syntaxlm.core.declarations import Argument, Name, Needs, Only, Prose, Shown, With
from syntaxlm.core.errors import InputError, escaped, shortened
from syntaxlm.core.files import read_text, text_output, to_json
from syntaxlm.core.progress import status
from syntaxlm.core.run_head import run_head
from syntaxlm.parsing.options import DecodingOptions

if TYPE_CHECKING:
    from syntaxlm.models.ngram import NGramModel
    from syntaxlm.storage.model_index import Result

InputPath = Annotated[Path, Shown("FILE", use="input")]
NewModel = Annotated[Path, Folder(may_hold="nothing")]
Repository = Annotated[str, Argument("NAME", use="value")]
Revision = Annotated[str, Shown("R")]
_LONGEST_LINE = 1000  # characters of a line of a model card


def list_models(output: ReportOutput, folder: Annotated[Path, Argument("FOLDER")] | None = None) -> None:
    """List the model folders below a folder.

    Each model is listed with model type, abilities, number of parameters, size of the weights on disk, licence and
    training text. Weights are not read.

    Args:
        folder: Folder to search. Default: the current folder, with the bundled models first.

    Examples:
        syntaxlm models list runs --json
    """
    from syntaxlm.api.listings import list_models

    output.write(list_models(folder), with_head=False)


def describe_model(
    model: ModelFolder,
    output: OutputFile | None = None,
    format: Annotated[Literal["text", "json"], Shown(use="format", help="Print the results in this format.")] = "text",
) -> None:
    """Describe a model.

    - The description contains the model's type, abilities, size, training text, settings and normaliser, and the
      perplexities that training stored.
    - From a model card in the folder, it takes licence, language, description, results and training data.
    - For a bundled model, it starts with what an experimenter needs to know, which is its text and vocabulary, how it
      reads numbers, capitals and punctuation, and whether it has learned agreement and garden paths, beside GPT-2.

    Args:
        model: Model folder that `train` wrote, or name of a bundled model such as `en`.
        output: Write the description to this file, or to standard output (`-`, the default).

    Examples:
        syntaxlm models info runs/toy
    """
    from syntaxlm.api.listings import describe

    with text_output(output) as file:
        facts = describe(model, full=True)
        text = to_json({"schema_version": 1, **facts}) if format == "json" else escaped("\n".join(_lines(facts)))
        file.write(text + "\n")


def download(name: Repository, revision: Revision | None = None, output: NewModel | None = None) -> None:
    """Download a model of the Hugging Face hub.

    Commands then find the model by its name without a network or, with `--output`, as a model folder. Only safetensors,
    JSON and the model card are downloaded.

    Args:
        name: Repository `user/name` of the hub.
        revision: Download this branch, tag or commit. Default: the main branch.
        output: Write a model folder of this name.

    Examples:
        syntaxlm models download USER/NAME -o my-model
    """
    from syntaxlm.storage.hub import check_repository_name, download, fetch

    check_repository_name(name)
    if output is None:
        fetch(name, revision)
        print(f"{name}: downloaded; commands find it by this name")
    else:
        download(name, output, revision)
        print(escaped(f"{name}: downloaded to {output}"))


def push(
    folder: Annotated[Path, Argument("FOLDER")],
    name: Repository,
    licence: Name | None = None,
    language: Annotated[Sequence[str], Shown("NAME")] = (),
    data: Prose | None = None,
    description: Prose | None = None,
    private: bool | None = None,
    revision: Revision | None = None,
    message: Prose | None = None,
) -> None:
    """Upload a model folder to the Hugging Face hub.

    The model has a model card. If nothing is stated about the model, a card in the folder (`README.md`) is uploaded, in
    which only `nlp = syntaxlm.load(...)` is changed to the name of the repository. Otherwise, a card is generated. Log
    in first with `hf auth login`, or set `HF_TOKEN`.

    Args:
        folder: Model folder that `train` wrote.
        name: Repository `user/name`, which is created if necessary.
        licence: State the licence of the model, such as `mit`, `cc-by-4.0` or `other`.
        language: State the language of the model, such as `en`.
        data: Describe the training data and their terms on the card.
        description: Describe on the card what the model is for.
        private: Make a new repository private, or public with `--no-private`. Default: as in your account.
        revision: Upload to this branch. Default: the main branch.
        message: Use this commit message.

    Examples:
        syntaxlm models push runs/toy USER/NAME --licence mit --language en
    """
    from syntaxlm.api.model import load

    address = load(folder).push_to_hub(
        name, licence=licence, language=list(language) or None, data=data, description=description, private=private,
        revision=revision, message=message,
    )  # fmt: skip
    print(address)


def export(model: ModelFolder, output: NewModel) -> None:
    """Write a model for the library transformers.

    An LSTM or a Transformer is written as a model folder of the library, with the same probabilities. Of a combination,
    such as `en`, the language model is written. The folder contains its own code, so
    `AutoModelForCausalLM.from_pretrained` and `AutoTokenizer.from_pretrained` need `trust_remote_code=True`.

    Args:
        model: Model folder that `train` wrote, or name of a bundled model such as `en`.
        output: Write into this folder, which is new or empty.

    Examples:
        syntaxlm models export en -o en-transformers
    """
    from syntaxlm.api.model import load

    load(model).to_transformers(output)
    print(escaped(f"{output}: written for AutoModelForCausalLM and AutoTokenizer, with trust_remote_code=True"))


def _lines(values: dict[str, Any], indent: str = "") -> list[str]:
    from syntaxlm.api.listings import shown_size
    from syntaxlm.reports.tables import format_value
    from syntaxlm.storage.model_index import Result

    lines = []
    for key, value in values.items():
        name = indent + key.replace("_", " ")
        if isinstance(value, dict):
            lines += [f"{name}:", *_lines(value, indent + "  ")]
        elif key in ("for_psycholinguists", "data") and value:  # Markdown of the model card
            lines += [f"{name}:", *(f"  {shortened(line, _LONGEST_LINE)}".rstrip() for line in value.split("\n"))]
        elif key == "results" and value:
            lines += [f"{name}:", *_result_lines([Result.model_validate(result) for result in value])]
        elif isinstance(value, list | tuple) and value and isinstance(value[0], dict):
            for number, entry in enumerate(value, 1):
                lines += [f"{name} {number}:", *_lines(entry, indent + "  ")]
        elif key == "bytes":
            lines.append(f"{indent}size: {shown_size(value)}")
        elif value not in (None, [], ()):
            entries = value if isinstance(value, list | tuple) else [value]
            shown = (format_value(entry, ".6g" if isinstance(entry, float) else "") for entry in entries)
            lines.append(f"{name}: {', '.join(shown)}")
    return lines


def _result_lines(results: Sequence[Result]) -> Iterator[str]:
    """Yield the results of a card as tables, one for each protocol and headings."""
    from syntaxlm.reports.tables import RIGHT, ReportTable

    for (protocol, headings), group in groupby(results, lambda result: (result.protocol, list(result.row()))):
        if protocol:
            yield f"  {protocol}:"
        formats = {name: "" if name == "data" else RIGHT for name in headings}
        table = ReportTable(formats, [list(result.row().values()) for result in group])
        yield from (f"  {line}" for line in table.text().split("\n"))
        yield ""


def list_recipes(output: ReportOutput) -> None:
    """List the bundled recipes.

    Recipes are listed by what they are for, with name and purpose. Use the name with `train`, `compare` and `focus`.

    Examples:
        syntaxlm recipes list --json
    """
    from syntaxlm.api.listings import list_recipes

    output.write(list_recipes(), with_head=False)


def show_recipe(recipe: Annotated[str, Argument("RECIPE")], output: OutputFile | None = None) -> None:
    """Print a recipe.

    The recipe is printed as YAML, as a starting point for your own recipe.

    Args:
        recipe: Name of a bundled recipe, or recipe file.
        output: Write the recipe to this file, or to standard output (`-`, the default).

    Examples:
        syntaxlm recipes show prpn-toy -o mine.yaml
    """
    from syntaxlm.training.recipe_files import find_recipe

    text = read_text(find_recipe(recipe))
    with text_output(output) as file:
        file.write(text)


def to_arpa(model: ModelFolder, output: OutputFile | None = None, format: SummaryFormat = "text") -> None:
    """Write an n-gram model as an ARPA file.

    KenLM, SRILM, IRSTLM and other programs read this text format. `ngram from-arpa --like MODEL` restores exactly
    the same model.

    Args:
        output: Write the ARPA file to this file, or to standard output (`-`, the default).

    Examples:
        syntaxlm ngram to-arpa MODEL -o model.arpa
    """
    from syntaxlm.storage.arpa import write_arpa
    from syntaxlm.storage.folder import read_model

    with status("writing"), output_path(output) as path:
        summary = write_arpa(read_model(model), path)
    print_summary(summary, format, output)


def from_arpa(
    file: Annotated[Path, Argument("FILE")],
    output: Annotated[Path, Folder(may_hold="run")],
    like: Annotated[Path, Shown("MODEL", use="input"), Needs("a model folder")] | None = None,
    format: SummaryFormat = "text",
) -> None:
    """Make a model folder from an ARPA file.

    The ARPA file may come from any program, and every command can then use the model. Text is read unchanged, or with
    the normaliser of another model (`--like`).

    Args:
        file: ARPA file, which may be compressed (`.gz`, `.bz2`, `.xz`, `.zst` or `.zip`), or `-` for standard input.
        output: Write the model into this new folder.
        like: Use the normaliser of this model, which prepared the text of the ARPA file.

    Examples:
        syntaxlm ngram from-arpa model.arpa -o runs/kenlm
    """
    from syntaxlm.storage.arpa import NGramSummary, read_arpa
    from syntaxlm.storage.folder import read_model, write_model
    from syntaxlm.training.run import refuse_run

    refuse_run(output)
    with status("reading"):
        if like is None:
            bundle = read_arpa(file)
        else:
            settings = read_model(like).settings
            # An ARPA file does not say whether ends of sentences are predicted. A model of another type may differ.
            predict_eos = settings.predict_eos or settings.model.name != "ngram"
            bundle = read_arpa(file, settings.normaliser, predict_eos)
        write_model(output, bundle)
    print(formatted(NGramSummary.of(cast("NGramModel", bundle.model), output), format))


def average(
    predictions: Annotated[Sequence[Path], Argument("PREDICTED")],
    decoding: Annotated[DecodingOptions, Only(("ties",))],
    protocol: ProtocolOptions,
    output: OutputFile | None = None,
    weights: Weights = (),
    brackets: Brackets | None = None,
    format: Annotated[PrintedFormat, Shown(help="Print the agreement in this format.")] = "text",
) -> None:
    """Average the trees of several parsers.

    The parsers are models, seeds or layers. For each sentence, the command writes the binary tree that shares the most
    spans with the trees of all parsers. It also prints the agreement of the parsers.

    Args:
        predictions: Two or more bracket files with the same sentences in the same order.
        output: Write the averaged trees, one per line, to this file, or to standard output (`-`, the default).
        weights: Weight the spans of the files by these numbers, such as `2,1,1`. Default: equal weights.

    Examples:
        syntaxlm average seed-1.mrg seed-2.mrg seed-3.mrg -o average.mrg
    """
    from syntaxlm.comparison.averages import average_files

    with status("averaging"):
        result = average_files(predictions, protocol.find(), weights_of(weights), decoding.ties, has_labels(brackets))
    with text_output(output) as file:
        file.writelines(line + "\n" for line in result.brackets())
    print_summary(result, format, output, is_evaluation=True)


def combine(
    parsers: Annotated[Sequence[Path], Argument("MODEL"), Needs("neural PCFGs or span parsers")],
    output: NewModel,
    scorer: Annotated[Path, Shown("MODEL", use="input"), Needs("an lstm, on-lstm, prpn or palm")] | None = None,
    precision: Literal["float32", "bfloat16"] = "float32",
    format: SummaryFormat = "text",
) -> None:
    """Make one model of several parsers, with or without a language model.

    The result is a model folder. It parses with the average of the parsers' span probabilities, and takes probabilities
    of words from the language model, if there is one. All models must have the same normaliser, but the language model
    may read punctuation that the parsers drop.

    Args:
        parsers: Model folders of neural PCFGs or span parsers.
        scorer: Take probabilities of words from this lstm, on-lstm, prpn or palm. Default: the result only parses.
        output: Write the model into this folder, which is new or empty.
        precision: Store the weights as numbers of this type. Models are always computed in float32.
            - `float32` (default): as trained
            - `bfloat16`: in half the space

    Examples:
        syntaxlm combine pcfg-1 pcfg-2 --scorer lstm -o combined
    """
    import torch

    from syntaxlm.storage.combination import combine
    from syntaxlm.storage.folder import read_model, write_model

    with status("combining"):
        bundle = combine([read_model(folder) for folder in parsers], read_model(scorer) if scorer else None)
        write_model(output, bundle, getattr(torch, precision))
    parameters = bundle.model.parameter_count
    if format == "json":
        print(to_json({"schema_version": 1, "folder": str(output), "parsers": len(parsers), "parameters": parameters}))
    else:
        found = f"{len(parsers)} parser{'s' if len(parsers) > 1 else ''}"
        others = " and a language model" if scorer else ""
        print(escaped(f"{output}: {found}{others}, {parameters:,} parameters"))


def rerank(
    model: Annotated[ModelOptions, Needs("a dependency-tree model")],
    candidates: Annotated[Path, Argument("CANDIDATES")],
    gold: InputPath | None = None,
    weight: Share | None = None,
    tune: Annotated[tuple[Path, Path], Shown("CANDIDATES GOLD", use="input")] | None = None,
    score: Annotated[Name, With(("weight", "tune", "gold"))] = "score",
    output: Annotated[Path, Shown("FILE", ("-o", "--output"), "output")] | None = None,
    format: Annotated[PrintedFormat, Shown(help="Print the results in this format.")] = "text",
) -> None:
    """Select among a parser's candidate trees with a dependency-tree model.

    For each sentence, the command writes the tree with the highest log P(S | T), which is the log-probability of the
    words given the tree, or with the highest weighted sum of this and the parser's score.

    - The candidates of a sentence follow each other, with the parser's best first. They have the same `sent_id` or,
      without one, the same words.
    - With `--gold`, the attachment scores of the selected trees (UAS and LAS) are printed beside those of the first
      candidates.

    Args:
        candidates: CoNLL-U file with k trees per sentence, which may be compressed, or `-` for standard input.
        gold: Score the selected trees against these gold trees, one per sentence.
        weight: Give the model this weight, from 0 to 1, and the parser's score the weight 1 - W. Default: 1, the model
            alone.
        tune: Choose the weight with the highest UAS without punctuation on these trees, which are not scored.
        score: Read the parser's score from the comment of this name, as in `# NAME = -12.3`. Higher scores are better.
            Default: `score`.
        output: Write the selected trees to this file, or to standard output (`-`). Default: standard output, or no
            trees with `--gold`.

    Examples:
        syntaxlm rerank MODEL k-best.conllu --gold test.conllu --tune dev-best.conllu dev.conllu
    """
    from syntaxlm.evaluation.reranking import evaluate_reranking

    if format != "text" and output is None and gold is None:
        raise InputError(
            f"--format {format}: is the format of the scores, but the trees are written to standard output;"
            " add -o FILE for the trees, or --gold"
        )
    if format in ROW_FORMATS and gold is None:
        raise InputError(f"--format {format}: the table has attachment scores; add --gold, or use text or json")
    with text_output(output) as file:
        write = None if output is None and gold is not None else file.write
        report = evaluate_reranking(model.load(), candidates, gold, weight, tune, score, write)
    if output is not None or gold is not None:
        print(replace(report.report(), run=run_head()).formatted(format))
