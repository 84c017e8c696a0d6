"""`parse`, and the jobs of `parse` and `score`."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from syntaxlm.cli.options import PARSES, WITH_JOB, ComparedModels, TextSource, by_distinct_names
from syntaxlm.cli.output import print_note
from syntaxlm.core.declarations import Count, Name, OutputFile, Shown, With
from syntaxlm.core.errors import InputError, escaped
from syntaxlm.core.files import text_output, to_json
from syntaxlm.core.progress import is_quiet
from syntaxlm.parsing.options import ParseOptions

if TYPE_CHECKING:
    from syntaxlm.data.corpora import GivenText
    from syntaxlm.jobs.work import Work
    from syntaxlm.parsing.result import Parse, ParseBatch

FAILED = 1  # exit code if shards failed

Format = Literal["brackets", "json", "latex", "svg", "tree", "conllu", "tsv", "csv", "parquet"]
ParseFormat = Annotated[Format, Shown(use="format")]


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """Very large jobs.

    Attributes:
        workers: Run a job: N workers parse or score shards of the text and write Parquet files into the folder `-o`.
            Run the same command again to continue an interrupted job. Default with `--engine`: one worker per processor
            core, or one on a GPU.
        engine: Start the workers of a job in this way.
            - `processes` (default): as processes on this machine
            - `ray`: with Ray, on this machine or a cluster; this requires the extra `ray`
        ray_address: Connect to the Ray cluster at this address. Default: Ray is started on this machine.
        lines_per_shard: Divide the text of a job into shards of N lines. Default: 20,000.
        bad_lines: Treat lines of a job that are not UTF-8, are too long, or are refused by the model in this way.
            - `stop` (default): list lines that are not UTF-8 or too long before the job starts, and do not write shards
              with lines that the model refuses
            - `skip`: leave such lines out and list them
        max_line_bytes: Treat lines of more than N bytes as too long in a job. Default: 65,536.
        id_column: Copy the ids of the sentences from this column of the Parquet files that are read to the rows that
            are written.
    """

    heading: ClassVar[str] = "Very large jobs"

    workers: Count | None = None
    engine: Literal["processes", "ray"] | None = None
    ray_address: Annotated[str, Shown("ADDRESS"), With(("engine",), "ray")] | None = None
    lines_per_shard: Annotated[Count, WITH_JOB] | None = None
    bad_lines: Annotated[Literal["stop", "skip"], WITH_JOB] | None = None
    max_line_bytes: Annotated[Count, WITH_JOB] | None = None
    id_column: Annotated[Name, WITH_JOB] | None = None

    @property
    def is_asked(self) -> bool:
        """Whether a job is asked for."""
        return self.workers is not None or self.engine is not None

    def run(
        self,
        work: Callable[[tuple[str, ...]], Work],
        models: Sequence[Path],
        text: TextSource,
        output: Path | None,
        format: str | None,
        column: str | None,
        device: str | None,
    ) -> int:
        """Run a job, print its report, and return the exit code. Raises InputError.

        Args:
            work: returns what the workers do with models, by their names.
        """
        from syntaxlm.jobs.job import Job, run_job
        from syntaxlm.jobs.workers import ProcessEngine, Ray
        from syntaxlm.storage.bundled import find_model

        if output is None:
            raise InputError("a job (--workers or --engine) writes to a folder; add -o FOLDER")
        if format not in (None, "parquet"):
            raise InputError(f"--format {format}: a job writes Parquet files; omit --format")
        if text.sentence is not None or not text.text:
            raise InputError("a job reads files; expected at least one file as TEXT, and no --text")
        if self.ray_address is not None and self.engine != "ray":
            raise InputError("--ray-address: applies only to --engine ray; add this engine, or omit the address")
        # Workers may have another working folder. A folder without a model does not hide a bundled model of its name.
        names = tuple(
            os.path.abspath(folder) if os.path.exists(folder) and find_model(folder) == folder else str(folder)
            for folder in by_distinct_names(models).values()
        )
        settings: dict[str, Any] = {"id_column": self.id_column, "lines_per_shard": self.lines_per_shard}
        settings |= {"longest": self.max_line_bytes, "bad_lines": self.bad_lines, "device": device}
        given = {name: value for name, value in settings.items() if value is not None}
        job = Job(work(names), tuple(text.text), output, column, **given)
        if self.engine == "ray":
            with_gpu = job.device.startswith("cuda")
            engine = partial(Ray, address=self.ray_address, workers=self.workers, with_gpu=with_gpu)
            report = run_job(job, self.workers, engine, "ray")
        else:
            report = run_job(job, self.workers, ProcessEngine)
        if not is_quiet():
            print(escaped(str(report)))
        if report.words is not None:
            print_note(report.words)
        return FAILED if report.failed else 0


def parse(
    models: Annotated[ComparedModels, PARSES],
    text: TextSource,
    options: ParseOptions,
    job: JobOptions,
    output: OutputFile | None = None,
    format: ParseFormat | None = None,
    show_unread: bool = False,
    column: Annotated[Name, WITH_JOB] | None = None,
) -> int:
    """Parse plain or tagged text.

    The text has one sentence per line, and the output has one tree per line. A line without words yields an empty line.

    - Word-level models read plain text, or the words of files named `.tagged` or `.tagged.txt`.
    - Tag models read tagged text (`word_TAG`).
    - With `--workers`, several processes parse very large texts into a folder of Parquet files. Such a run is a job.

    Formats:

    - `brackets`: trees such as `(X the (X old cat))`, with tags `(X (DT the) (NN cat))`
    - `tree`: trees drawn with box characters
    - `json`: words with their offsets in the line, tokens, known words, unread text and spans; for a single model also
      its distances, or the scores or probabilities of the spans
    - `tsv`, `csv`, `parquet`: one row per constituent of two words or more
    - `conllu`: the dependency trees of a dependency model (dmv)
    - `latex`: trees for the package forest
    - `svg`: a picture of one sentence

    Args:
        also: Parse with another model, too. The trees are the average of the trees of all models.
        output: Write the trees to this file, or to standard output (`-`, the default). A job writes into a folder of
            this name.
        format: Write the trees in this format. Default: `brackets`, or `tree` for a sentence on the command line.
        show_unread: In brackets and LaTeX, show punctuation that the model did not read, with the tag `UNREAD`.
        column: If a job reads Parquet files, read the sentences from this column. Default: `text`.

    Examples:
        syntaxlm parse MODEL "the old cat sleeps"
    """
    _check_options(models, options, format)
    if job.is_asked:
        from syntaxlm.jobs.work import ParseWork

        if show_unread:
            raise InputError("--show-unread: applies to brackets and LaTeX, but a job writes tables; omit it")
        work = partial(ParseWork, options=options)
        return job.run(work, models.folders, text, output, format, column, models.device)
    source = text.read()
    format = format or ("brackets" if isinstance(source, str) else "tree")
    if show_unread and format not in ("brackets", "latex"):
        raise InputError(f"--show-unread: found --format {format}; expected brackets or latex. Omit it, or change it")
    from syntaxlm.parsing.parse import parse_text

    bundles = list(models.load_all().values())
    gc.freeze()  # the garbage collector need not visit models and libraries again
    if format == "conllu":
        from syntaxlm.models.abilities import ParsesDependencies

        if models.also:
            raise InputError("--format conllu: averaged trees are constituency trees; omit either --format or --also")
        bundles[0].require(ParsesDependencies, "--format conllu")
    chunks = parse_text(bundles, source, options, list(map(str, models.folders)))
    _write_trees(chunks, source, output, format, show_unread)
    return 0


def _check_options(models: ComparedModels, options: ParseOptions, format: str | None) -> None:
    """Raise InputError for options that contradict each other."""
    if options.labels and models.also:
        raise InputError("--labels: averaged trees have no labels; omit either --labels or --also")
    models.check_ties(options.ties)
    if format in ("latex", "svg", "conllu") and options.several:
        raise InputError(
            f"--{options.several}: --format {format} writes one tree of a sentence; use brackets, tree, json or a table"
        )


def _write_trees(
    chunks: Iterator[ParseBatch],
    source: str | GivenText,
    output: Path | None,
    format: Format,
    with_unread: bool,
) -> None:
    """Write the trees of a text. Raises InputError for a picture of no sentence, or of several."""
    from syntaxlm.core.text_files import no_sentence
    from syntaxlm.parsing.result import CONSTITUENTS
    from syntaxlm.reports.writers import write_blocks

    if format in ("tsv", "csv", "parquet"):
        write_blocks((parses.constituents() for parses in chunks), CONSTITUENTS, output, format)
        return
    first = next(chunks, None)
    if first is None and format == "svg":
        raise no_sentence(source, "one sentence for a picture")
    with text_output(output) as file:
        for parses in () if first is None else chain([first], chunks):
            file.write(_formatted(parses, format, with_unread))


def _alternatives(parse: Parse, format: str, with_unread: bool) -> str:
    """Return several trees of a sentence, each after its confidence and probability, and an empty line."""
    from syntaxlm.drawing.terminal import draw_tree

    lines = []
    for tree, confidence, probability in parse.alternatives:
        head = f"confidence {confidence:.3f}"
        if probability is not None:
            head += f"\tprobability {probability:.3g}"
        shown = replace(parse, tree=tree).complete_tree if with_unread else tree
        lines.append(f"{head}\n{draw_tree(tree, parse.known)}\n" if format == "tree" else f"{head}\t{shown}\n")
    return "".join([*lines, "\n"])


def _formatted(parses: ParseBatch, format: str, with_unread: bool) -> str:
    if format == "svg":
        sentences = [parse for parse in parses if parse]
        if len(sentences) != 1 or parses.first > 1:
            raise InputError(
                f"--format svg: found {'more than one sentence' if sentences else 'no words'}; expected one sentence."
                " The command report draws several on one page"
            )
        return sentences[0]._repr_svg_() + "\n"
    if format == "conllu":
        from syntaxlm.trees.conllu import format_conllu

        dependencies = (parse.dependencies for parse in parses)
        return "".join(format_conllu(tree) for tree in dependencies if tree is not None)
    if format in ("brackets", "tree") and parses.alternatives:
        return "".join(_alternatives(parse, format, with_unread) for parse in parses)
    if format == "brackets":
        trees = parses.brackets(with_unread)
    elif format == "json":
        trees = [to_json(parse.to_dict() if parse else None) for parse in parses]
    elif format == "tree":
        from syntaxlm.drawing.terminal import draw_tree

        trees = [draw_tree(parse.tree, parse.known) if parse else "" for parse in parses]
    else:
        from syntaxlm.drawing.latex import format_latex

        trees = [format_latex(parse.complete_tree if with_unread else parse.tree) if parse else "" for parse in parses]
    return "".join(tree + "\n" for tree in trees)
