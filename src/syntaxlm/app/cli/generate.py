"""`generate`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Interval

from syntaxlm.app.cli.options import ModelOptions, Seed
from syntaxlm.app.cli.output import OutputFile, text_output
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import to_json
from syntaxlm.core.options import Count, Shown
from syntaxlm.core.tables import write_rows
from syntaxlm.text.options import TextOptions

if TYPE_CHECKING:
    from syntaxlm.generation.sentences import GeneratedSentence, SentenceWithTree
    from syntaxlm.generation.trees import GeneratedTree
    from syntaxlm.storage.folder import ModelBundle

GeneratedFormat = Annotated[Literal["text", "json", "conllu", "tsv", "csv", "parquet"], Shown(use="format")]


@dataclass(frozen=True, kw_only=True)
class SamplingOptions:
    """How words are drawn.

    temperature: sampling temperature: below 1 favours probable words, above 1 improbable ones; 0 always takes the most
        probable word; default 1
    top_k: draw only from the K most probable words
    keep_unknown: allow the unknown word to be drawn
    """

    temperature: Annotated[float, Interval(ge=0), Shown("T")] = 1.0
    top_k: Annotated[Count, Shown("K")] | None = None
    seed: Seed = 0
    keep_unknown: bool = False


def generate(
    model: ModelOptions,
    options: SamplingOptions,
    style: TextOptions,
    sentences: Count = 1,
    prompt: Annotated[str, Shown("WORDS")] | None = None,
    max_words: Count | None = None,
    trees: bool = False,
    format: GeneratedFormat = "text",
    output: OutputFile | None = None,
    max_depth: Count | None = None,
    redraw: bool = False,
) -> None:
    """Sample sentences from a model.

    Sample sentences from a model and print one per line, in words of the model's vocabulary. Models that predict the
    next word are sampled word by word. Compound PCFGs and DMVs, and all PCFGs with --trees, are sampled top-down.
    Dependency-tree models are sampled from the root of a tree and require tune stops. json: text, tokens, their
    surprisals in bits, and whether the model ended the sentence.

    sentences: number of sentences
    prompt: words that each sentence starts with, in quotes; only for sampling word by word
    max_words: maximum length of a sentence, without the prompt, in words (characters for a character-level model);
        default 100 (500). Longer sentences are cut or, when sampled top-down, redrawn
    trees: for PCFGs and DMVs: sample top-down and print each sentence's labelled tree; not with --prompt, --temperature
        or --top-k
    format: text: with --trees, brackets; json: JSON lines; conllu: the trees of dependency-tree models; tsv, csv,
        parquet: a table with one row per sentence
    output: the sentences
    max_depth: for dependency-tree models: cut a tree below words with N heads above them, including ROOT; default 30
    redraw: for dependency-tree models: redraw a tree instead of cutting it, up to a hundred times
    example: syntaxlm generate MODEL --sentences 5 --temperature 0.8 --seed 1
    """
    from syntaxlm.core.progress import progress_bar

    bundle = model.load()
    of_dependency_trees = {
        "--format conllu": format == "conllu",
        "--max-depth": max_depth is not None,
        "--redraw": redraw,
    }
    given = ", ".join(name for name, is_given in of_dependency_trees.items() if is_given)
    drawing = vars(options) | {"maximum_words": max_words}
    sampled: Iterator[Any]
    if trees:
        sampled = _constituent_trees(bundle, sentences, prompt, given, drawing)
    elif bundle.model.reads == "trees":
        sampled = _dependency_trees(bundle, model, sentences, prompt, max_depth, redraw, drawing)
    else:
        if given:
            raise InputError(
                f"{given}: found a {bundle.name} model, which samples text; expected a dependency-tree model"
            )
        sampled = _sentences(bundle, sentences, prompt, style, drawing)
    sampled = iter(progress_bar(sampled, "sampling", sentences))
    if format in ("tsv", "csv", "parquet"):
        first = next(sampled)
        rows = (row for sentence in chain([first], sampled) for row in sentence.rows())
        write_rows(rows, first.columns, output, format)
        return
    with text_output(output) as file:
        file.writelines(_formatted(sentence, format, trees) for sentence in sampled)


def _formatted(sampled: Any, format: str, with_tree: bool) -> str:
    if format == "json":
        return to_json(sampled.to_dict()) + "\n"
    if format == "conllu":
        from syntaxlm.trees.conllu import format_conllu

        return format_conllu(sampled.tree, sampled.comments())
    return f"{sampled.tree if with_tree else sampled.text}\n"


def _sentences(
    bundle: ModelBundle, count: int, prompt: str | None, style: TextOptions, drawing: dict[str, Any]
) -> Iterator[GeneratedSentence]:
    from syntaxlm.generation.sentences import generate

    return generate(bundle, count, prompt, **drawing, style=style)


def _constituent_trees(
    bundle: ModelBundle, count: int, prompt: str | None, given: str, drawing: dict[str, Any]
) -> Iterator[SentenceWithTree]:
    from syntaxlm.generation.sentences import refuse_word_settings, sample_with_trees

    reason = "--trees samples top-down, not word by word."
    refuse_word_settings(prompt, drawing.pop("temperature"), drawing.pop("top_k"), reason)
    if given:
        raise InputError(f"{given}: found --trees, which samples from a grammar; expected a dependency-tree model")
    return sample_with_trees(bundle, count, **drawing)


def _dependency_trees(
    bundle: ModelBundle,
    model: ModelOptions,
    count: int,
    prompt: str | None,
    max_depth: int | None,
    redraw: bool,
    drawing: dict[str, Any],
) -> Iterator[GeneratedTree]:
    from syntaxlm.generation.stops import read_stops
    from syntaxlm.generation.trees import generate_trees

    if prompt is not None:
        raise InputError("--prompt: not available for dependency-tree models, which start with the root word; omit it")
    stops = read_stops(model.model, bundle).to(bundle.model.device)
    return generate_trees(bundle, stops, count, maximum_depth=max_depth, redraw=redraw, **drawing)
