"""`generate`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Annotated, Any, Literal

from syntaxlm.cli.options import ModelOptions
from syntaxlm.cli.output import OutputFile
from syntaxlm.core.declarations import Count, Needs, Shown, With
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import text_output, to_json
from syntaxlm.core.progress import progress_bar
from syntaxlm.generation.options import TreeSamplingOptions
from syntaxlm.text.options import TextOptions

GeneratedFormat = Annotated[
    Literal["text", "json", "conllu", "tsv", "csv", "parquet"], Shown(use="format", suffixes=(".mrg",))
]


def generate(
    model: Annotated[ModelOptions, Needs("a model that samples sentences, such as en")],
    options: TreeSamplingOptions,
    style: Annotated[TextOptions, With(("prompt",))],
    sentences: Count = 1,
    prompt: Annotated[str, Shown("WORDS")] | None = None,
    trees: bool = False,
    format: GeneratedFormat = "text",
    output: OutputFile | None = None,
) -> None:
    """Sample sentences from a model.

    The sentences are printed one per line, in words of the model's vocabulary.

    - Models that predict the next word are sampled word by word.
    - Compound PCFGs and DMVs, and all PCFGs with `--trees`, are sampled top-down.
    - Dependency-tree models are sampled from the root of a tree. They require the classifiers of `tune stops`.

    Args:
        sentences: Sample N sentences.
        prompt: Start each sentence with these words, in quotes. This requires sampling word by word.
        trees: Sample a PCFG or DMV top-down, and print each sentence's labelled tree. This excludes `--prompt`,
            `--temperature` and `--top-k`.
        format: Write the sentences in this format.
            - `text` (default): one sentence per line, or its tree in brackets with `--trees`
            - `json`: JSON lines with text, tokens, their surprisals in bits, and whether the model ended the sentence
            - `conllu`: the trees of dependency-tree models
            - `tsv`, `csv`, `parquet`: a table with one row per sentence
        output: Write the sentences to this file, or to standard output (`-`, the default).

    Examples:
        syntaxlm generate MODEL --sentences 5 --temperature 0.8 --seed 1
    """
    sampled = iter(
        progress_bar(_sampled(model, options, style, sentences, prompt, trees, format), "sentences", sentences)
    )
    if format in ("tsv", "csv", "parquet"):
        from syntaxlm.reports.writers import write_rows

        first = next(sampled)
        rows = (row for sentence in chain([first], sampled) for row in sentence.rows())
        write_rows(rows, first.columns, output, format)
        return
    with text_output(output) as file:
        for sentence in sampled:
            if format == "json":
                file.write(to_json(sentence.to_dict()) + "\n")
            elif format == "conllu":
                from syntaxlm.trees.conllu import format_conllu

                file.write(format_conllu(sentence.tree, sentence.comments()))
            else:
                file.write(f"{sentence.tree if trees else sentence.text}\n")


def _sampled(
    model: ModelOptions,
    options: TreeSamplingOptions,
    style: TextOptions,
    sentences: int,
    prompt: str | None,
    trees: bool,
    format: GeneratedFormat,
) -> Iterable[Any]:
    """Return sentences sampled in the way of the model. Raises InputError for options of another way."""
    bundle = model.load()
    of_dependency_trees = {
        "--format conllu": format == "conllu",
        "--max-depth": options.max_depth is not None,
        "--redraw": options.redraw,
    }
    given = ", ".join(name for name, is_given in of_dependency_trees.items() if is_given)
    if trees:
        from syntaxlm.generation.sentences import refuse_word_options, sample_with_trees

        refuse_word_options(prompt, options, "--trees samples top-down, not word by word.")
        if given:
            raise InputError(f"{given}: found --trees, which samples from a grammar; expected a dependency-tree model")
        return sample_with_trees(bundle, sentences, options)
    if bundle.model.reads == "trees":
        from syntaxlm.generation.stops import read_stops
        from syntaxlm.generation.trees import generate_trees

        if prompt is not None:
            raise InputError(
                "--prompt: not available for dependency-tree models, which start with the root word; omit it"
            )
        return generate_trees(bundle, read_stops(bundle.files or model.model, bundle), sentences, options)
    if given:
        raise InputError(f"{given}: found a {bundle.name} model, which samples text; expected a dependency-tree model")
    from syntaxlm.generation.sentences import generate as generate_sentences

    return generate_sentences(bundle, sentences, prompt, options, style)
