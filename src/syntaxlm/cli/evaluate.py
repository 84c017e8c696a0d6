"""`evaluate` and its commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from syntaxlm.cli.options import (
    PARSES,
    WITH_PICTURE,
    Brackets,
    ComparedModels,
    Device,
    DisplayedWordColumns,
    MaskingRule,
    ModelOptions,
    Preprocessing,
    ProtocolOptions,
    RequiredFrequencies,
    SentencesFile,
    SeveralModels,
    Share,
    Size,
    Theme,
    TimesOptions,
    Treebank,
    Weights,
    has_labels,
    weights_of,
)
from syntaxlm.cli.output import DetailedOutput, ReportOutput
from syntaxlm.core.declarations import Argument, Count, InputFile, Name, Needs, Only, Shown, With
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import check_writable, same_file
from syntaxlm.core.progress import status
from syntaxlm.evaluation.options import RegressionSettings
from syntaxlm.parsing.options import DecodingOptions
from syntaxlm.scoring.options import PerplexityOptions
from syntaxlm.text.options import TextOptions

if TYPE_CHECKING:
    from syntaxlm.evaluation.reading_measures import ReadingMeasuresReport
    from syntaxlm.evaluation.reading_times_report import ReadingTimesReport

Classifier = Annotated[
    Path, Argument("MODEL", help="Folder of a classifier that `train` wrote."), Needs("a classifier of pairs")
]
Pairs = Annotated[str, Argument("PAIRS")]


def perplexity(
    model: ModelOptions,
    text: SentencesFile,
    options: PerplexityOptions,
    output: ReportOutput,
    cache_weight: Share | None = None,
    cache_theta: Annotated[float, Shown("F")] | None = None,
    cache_size: Count | None = None,
) -> None:
    """Measure the perplexity of a text.

    The command prints perplexity, bits per token and bits per character. The text has one sentence per line.

    - By default, words are the strings between spaces, for text that is tokenised like the training text. To read
      ordinary text as `score` does, add `--punctuation auto --contractions auto`.
    - For a dependency-tree model, TEXT is a file of dependency trees, and perplexity is the perplexity of the words
      given their trees.
    - With a neural cache, the results with and without it are printed. The cache makes words more probable that
      recently followed a similar state. `tune cache` finds its weights.

    Args:
        cache_weight: Use a neural cache with this share of the probability, from 0 to less than 1.
        cache_theta: Set how strongly the cache prefers words that followed a similar state, where 0 means no
            preference.
        cache_size: Keep N words in the cache. Default: 2,000.

    Examples:
        syntaxlm evaluate perplexity MODEL test.txt
    """
    from syntaxlm.evaluation.perplexity import evaluate_text
    from syntaxlm.scoring.cache import CACHE_SIZE, CacheSettings

    cache: CacheSettings | None = None
    if cache_weight is not None and cache_theta is not None:
        cache = CacheSettings(cache_weight, cache_theta, CACHE_SIZE if cache_size is None else cache_size)
        Needs("a model with hidden states").check([model.model], "a neural cache")
    elif not cache_weight is cache_theta is cache_size is None:
        missing = "--cache-weight" if cache_weight is None else "--cache-theta"
        raise InputError(
            f"{missing} is missing: a cache requires both --cache-weight and --cache-theta. syntaxlm tune cache finds"
            " them on validation text"
        )
    with status("reading"):
        score = evaluate_text(model.load(), text, options, cache)
    output.write(score)


def parse(
    models: Annotated[ComparedModels, PARSES],
    treebank: Treebank,
    decoding: DecodingOptions,
    output: DetailedOutput,
    protocol: ProtocolOptions,
    preprocessing: Preprocessing = "ptb-keep",
    random_weights: Size | None = None,
    brackets: Brackets | None = None,
) -> None:
    """Score a model's trees against a treebank.

    The command parses the words of the treebank, scores the trees against the gold trees, and prints F1 with baselines
    and upper bounds. If a model of dependency trees (dmv, structformer) is scored on dependency trees, it prints
    directed and undirected attachment instead.

    Args:
        also: Parse with another model, too. The trees are the average of the trees of all models.
        details: Write the trees and scores of each sentence to this file, as JSON lines.
        random_weights: Score N untrained models with the same settings and vocabulary by every decoder, too, which
            shows the effect of the architecture alone. Default: 3 for a single model of distances, otherwise 0.

    Examples:
        syntaxlm evaluate parse MODEL treebank.mrg --preprocessing ud
    """
    from syntaxlm.data.treebanks import read_treebank
    from syntaxlm.evaluation.attachment import evaluate_attachment, has_dependencies
    from syntaxlm.evaluation.trees import evaluate_parsing
    from syntaxlm.models.abilities import ParsesDependencies
    from syntaxlm.reports.report import HasReport
    from syntaxlm.trees.preprocessing import find_preprocessing

    models.check_ties(decoding.ties)
    scoring = protocol.find()
    with status("parsing and scoring"):
        (bundle, *others) = models.load_all().values()
        rule = find_preprocessing(preprocessing)
        gold = read_treebank(treebank, rule, labelled=has_labels(brackets))
        report: HasReport
        if not (has_dependencies(gold) and isinstance(bundle.model, ParsesDependencies)):
            report = evaluate_parsing(
                bundle, gold, scoring, **vars(decoding), preprocessing=rule, also=others, random_weights=random_weights
            )
        else:
            options = {"--also": models.also, "--decoder": decoding.decoder, "--layer": decoding.layer}
            options["--random-weights"] = random_weights is not None
            options["--marks"] = decoding.marks not in ("auto", "none")
            if extra := ", ".join(name for name, value in options.items() if value):
                raise InputError(f"{extra}: found dependency trees in {gold.source}; expected constituency trees")
            report = evaluate_attachment(bundle, gold, scoring, preprocessing=rule)
    output.write(report)


def trees(
    predicted: Annotated[Path, Argument("PREDICTED")],
    gold: Annotated[Path, Argument("GOLD")],
    output: DetailedOutput,
    protocol: ProtocolOptions,
    preprocessing: Preprocessing = "none",
    brackets: Brackets | None = None,
    failed: Literal["skip", "zero"] = "skip",
) -> None:
    """Score a bracket file against another.

    The predicted trees may come from any parser, and no model is needed.

    Args:
        predicted: Bracket file with or without labels, or `-` for standard input.
        gold: Bracket file, folder or quoted pattern, with the same sentences in the same order.
        failed: Treat sentences whose prediction is a failed parse, such as `(ROOT)`, `(())` or a blank line, in this
            way.
            - `skip` (default): leave them out
            - `zero`: score them as trees without brackets
        details: Write the trees and scores of each sentence to this file, as JSON lines.

    Examples:
        syntaxlm evaluate trees predicted.mrg gold.mrg
    """
    from syntaxlm.evaluation.trees import evaluate_trees

    with status("scoring"):
        report = evaluate_trees(predicted, gold, protocol.find(), preprocessing, has_labels(brackets), failed)
    output.write(report)


def agreement(
    text: Annotated[str, Argument("TEXT")],
    models: Annotated[SeveralModels, PARSES],
    decoding: Annotated[DecodingOptions, Only(("decoder",))],
    output: ReportOutput,
    protocol: ProtocolOptions,
    sentences: Count | None = None,
) -> None:
    """Measure the agreement of several models' trees, without gold trees.

    The command parses a text with several models, such as the seeds of one recipe. It prints the F1 of each pair of
    models, the model that agrees least with the others, and models whose trees are nearly all right or left branching.

    Args:
        text: UTF-8 file with one sentence per line.
        models: Two or more model folders.
        sentences: Parse the first N sentences of the text. Default: 1,000.

    Examples:
        syntaxlm evaluate agreement text.txt runs/seed-1 runs/seed-2 runs/seed-3
    """
    from syntaxlm.evaluation.agreement import SENTENCES, measure_agreement

    scoring, names = protocol.find(), list(map(str, models.models))
    with status("parsing"):
        bundles = list(models.load().values())
        report = measure_agreement(bundles, text, names, scoring, decoding, sentences or SENTENCES)
    output.write(report)


def boundaries(
    model: Annotated[ModelOptions, Needs("a character-level model of distances")],
    text: Annotated[str, Argument("TEXT")],
    output: ReportOutput,
    tune: InputFile | None = None,
) -> None:
    """Measure word-boundary F1 of a character-level model.

    The command predicts a word boundary where the distance between two characters is large, and compares these
    boundaries with the white space of the text. It prints precision, recall and F1, with baselines. The threshold is
    chosen on text that is not scored, which is the first tenth or another text.

    Args:
        text: UTF-8 file with white space between words.
        tune: Choose the threshold on this text instead, and score all of TEXT.

    Examples:
        syntaxlm evaluate boundaries MODEL test.txt --tune valid.txt
    """
    from syntaxlm.evaluation.boundaries import evaluate_boundaries

    with status("reading"):
        report = evaluate_boundaries(model.load(), text, tune)
    output.write(report)


def pairs(
    models: ComparedModels,
    files: Annotated[Sequence[str], Argument("FILES")],
    style: TextOptions,
    output: DetailedOutput,
    masking: MaskingRule | None = None,
) -> None:
    """Measure accuracy on minimal pairs.

    Accuracy is how often the better sentence of a pair has the higher log-probability, for example on the pairs of
    BLiMP or of Marvin and Linzen.

    - Files are JSON lines or tables (`.tsv`, `.csv`) with one item per line. An item has `sentence_good` and
      `sentence_bad`, `better` and `worse` or, in JSON, `sentences` with the best first.
    - Files of BLiMP, MultiBLiMP, EWoK and the BabyLM supplement are read as they are.
    - Accuracy is printed by group and case, beside the share of pairs with an unknown differing word.
    - Several models appear in adjacent columns and are compared with the first.
    - Masked models of transformers compare pseudo-log-likelihoods, and sequence-to-sequence models compare
      log-probabilities of the decoder. The output names these scores.

    Args:
        files: Files or folders of minimal pairs, or `-` for JSON lines on standard input.
        also: Score another model, too, and compare it with the first.
        details: Write each pair and its log-probabilities to this file, as JSON lines.

    Examples:
        syntaxlm evaluate pairs MODEL pairs.jsonl --also ANOTHER --punctuation drop
    """
    from syntaxlm.evaluation.pairs import evaluate_pairs

    output.write(evaluate_pairs(models.load_all(), files, masking=masking, **vars(style)))


def suites(
    models: ComparedModels,
    files: Annotated[Sequence[str], Argument("FILES")],
    style: TextOptions,
    output: DetailedOutput,
    prediction: Annotated[Sequence[str], Shown("FORMULA")] = (),
    condition: Annotated[Sequence[str], Shown("NAME")] = (),
    regions: Annotated[Sequence[str], Shown("NAME", ("--region",))] = (),
) -> None:
    """Measure how often predictions about surprisals hold, on test suites.

    The suites have the format of SyntaxGym. An item contains a sentence for each condition, and sentences are divided
    into regions. A prediction compares the surprisals of regions. For example, `(7;%match%) < (7;%mismatch%)` predicts
    that region 7 is less surprising in the condition `match` than in `mismatch`. `*` stands for all regions.

    - Accuracy is printed by circuit (a group of suites), suite and prediction. It is printed for all items, and for the
      items whose words the model knows.
    - Several models appear in adjacent columns and are compared with the first model.

    Args:
        files: JSON suites, folders of suites, or tables (`.csv`, `.tsv`) with the columns `item` and `condition` and
            one column per region.
        also: Score another model, too, and compare it with the first.
        prediction: Test this prediction about the items of the tables.
        condition: Read the condition from this column of the tables. Formulas join several columns, as in `(4;%sg /
            pl%)`. Default: `condition`.
        regions: Read a region from this column of the tables. Name the columns in the order of the regions. Default:
            all other columns.
        details: Write each item, the surprisals of its regions and which predictions hold to this file, as JSON lines.

    Examples:
        syntaxlm evaluate suites MODEL number_orc.json --also ANOTHER
    """
    from syntaxlm.evaluation.suites import evaluate_suites

    report = evaluate_suites(
        models.load_all(), files, predictions=prediction, condition=condition, regions=regions, **vars(style)
    )
    output.write(report)


def completion(
    models: ComparedModels,
    questions: Annotated[str, Argument("QUESTIONS")],
    answers: Annotated[str, Argument("ANSWERS")],
    style: TextOptions,
    output: DetailedOutput,
    weights: Weights = (),
    parses: Annotated[Path, Shown("FILE", use="input")] | None = None,
    per_token: bool = False,
) -> None:
    """Measure accuracy on sentence-completion questions.

    An example is the challenge of Microsoft Research. Each candidate for a gap is written as a whole sentence, and the
    model chooses the sentence with the highest log-probability.

    - Several models appear in adjacent columns and are interpolated with the first.
    - Dependency-tree models read parsed candidates and compute P(S | T), the probability of the words given their tree.

    Args:
        questions: UTF-8 file with one candidate per line, in which the candidates of a question follow each other,
            `.conllu` file of parsed candidates, or `-` for standard input.
        answers: File with the correct candidate of each question, or its label, one per line.
        also: Score another model, too. The log-probabilities of all models are interpolated with weights that are
            chosen on the first half of the questions.
        weights: Give the `--also` models these weights, each from 0 to 1, in their order. The first model has the
            remaining weight. Default: weights chosen on the first half of the questions.
        parses: Read the trees of the candidates from this `.conllu` file, one per candidate in the same order.
            Dependency-tree models need it if QUESTIONS is plain text.
        per_token: Compare mean log-probabilities per token instead of sums, for candidates of different lengths.
        details: Write each question, its candidates' log-probabilities and the choice to this file, as JSON lines.

    Examples:
        syntaxlm evaluate completion MODEL questions.txt answers.txt --also ANOTHER
    """
    from syntaxlm.evaluation.completion import evaluate_completion

    report = evaluate_completion(
        models.load_all(), questions, answers, per_token=per_token, parses=parses, shares=weights_of(weights),
        **vars(style),
    )  # fmt: skip
    output.write(report)


@dataclass(frozen=True, kw_only=True)
class ReadingTimesOutput:
    """Further files of an evaluation of reading times.

    Attributes:
        details: Write a table with one row per displayed word, its time, predictors and surprisals, to this file. It is
            tab-separated, unless the extension is `.csv` or `.jsonl`.
        export: Write a table for mixed models to this file, with one row per subject and analysed word and with scaled
            predictors. A script that fits the models in R with lme4 is written beside it, `rows.R` for `rows.csv`. An
            earlier script is kept if it names the same measure, and otherwise renamed to `rows.R.old`. With several
            `--time-column`, each reading measure is written to a separate file (`rows-go_past.csv`).
        subject: Read the subjects for `--export` from this column of the table of times. Default: `subject` or
            `participant`.
        picture: Draw mean reading time by surprisal for each model into this `.svg`, `.pdf`, `.png` or `.html` file.
            The `.html` page also contains the results. This requires the extra `plot`.
        theme: Draw the picture in this colour theme. `auto` follows the reader's system.
    """

    heading: ClassVar[str] = "Further files"

    details: Annotated[Path, Shown("FILE", use="output")] | None = None
    export: Annotated[Path, Shown("FILE", use="output")] | None = None
    subject: Annotated[Name, With(("export",))] | None = None
    picture: Annotated[Path, Shown("FILE", use="output")] | None = None
    theme: Annotated[Theme, WITH_PICTURE] = "auto"

    def check(self, measures: Sequence[str]) -> None:
        """Raise InputError for files that cannot be written, before the slow part.

        Args:
            measures: the names of the reading measures.
        """
        from syntaxlm.drawing.files import check_picture
        from syntaxlm.drawing.plots import require_matplotlib
        from syntaxlm.evaluation.reading_times_export import exported_files

        if self.picture is not None:
            check_picture(self.picture)
            require_matplotlib()
        named = measures if len(measures) > 1 else ()
        for path in () if self.export is None else exported_files(self.export, named):
            check_writable(path)
            if any(other is not None and same_file(path, other) for other in (self.details, self.picture)):
                raise InputError(f"{path}: is written by --export, too; expected a separate file for each output")

    def write(self, report: ReadingTimesReport | ReadingMeasuresReport) -> None:
        """Write the files that are asked for, first the table of --export, which may be refused."""
        from syntaxlm.reports.writers import RowFormat, write_rows

        if self.export is not None:
            report.export(self.export, self.subject)
        if self.details is not None:
            formats: dict[str, RowFormat] = {".csv": "csv", ".json": "json", ".jsonl": "json"}
            table = report.word_table()
            write_rows(table.rows(), table.columns, self.details, formats.get(self.details.suffix.lower(), "tsv"))
        if self.picture is not None:
            report.write_picture(self.picture, self.theme)


def reading_times(
    models: SeveralModels,
    words: InputFile,
    frequencies: RequiredFrequencies,
    columns: DisplayedWordColumns,
    settings: RegressionSettings,
    style: TextOptions,
    output: ReportOutput,
    times: TimesOptions,
    written: ReadingTimesOutput,
    context: Literal["reset", "carry", "both"] | None = None,
) -> None:
    """Measure how well surprisal predicts reading times.

    The command fits regressions to the reading times of words, which are the same words for all models. The baseline
    regression contains length and log frequency of the word and of the previous words, and the position of the word. A
    second regression for each model also contains the model's surprisals.

    - It prints the gain in log-likelihood per word on held-out data, with confidence intervals, and the coefficients of
      surprisal.
    - Tables have a header line and cells separated by tabs, commas or semicolons.
    - The command requires the extra `stats` (`pip install 'syntaxlm[stats]'`).

    Args:
        models: Model folders that `train` wrote, or names of bundled models such as `en`.
        words: Read this table with one displayed word per row, in the order in which readers saw them.
        context: Read sentences in this way. Default: as in training with `--group`, otherwise `reset`.
            - `reset`: each sentence by itself
            - `carry`: the text as one stream whose state is carried from sentence to sentence
            - `both`: in both ways, for models that can carry their state

    Examples:
        syntaxlm evaluate reading-times MODEL --words words.tsv --times times.tsv --frequencies train.txt
    """
    from syntaxlm.data.reading_measures import measure_names
    from syntaxlm.evaluation.reading_times import check_models, evaluate_reading_times
    from syntaxlm.statistics.regression import require_statsmodels

    require_statsmodels()  # before the slow part
    written.check(measure_names(times.time_column))
    columns_of_times = times.time_column[0] if len(times.time_column) == 1 else times.time_column
    bundles = models.load()
    check_models(bundles, settings)
    report = evaluate_reading_times(
        bundles, words, times.times, frequencies=frequencies.read(), time_column=columns_of_times,
        word_column=columns.word_column, sentence=columns.sentence_column, group=columns.group, order=columns.order,
        key=times.key or None, context=context, minimum=times.min_time, maximum=times.max_time,
        allow_unmatched=times.allow_unmatched, settings=settings, **vars(style),
    )  # fmt: skip
    written.write(report)
    output.write(report)


def significance(
    first: Annotated[Sequence[str], Argument("FILE")],
    against: Annotated[Sequence[str], Shown("FILE", use="input")],
    output: ReportOutput,
) -> None:
    """Test whether one model is better than another, over seeds and items.

    The command reads the files that `--details` of `evaluate parse`, `trees`, `pairs` and `completion` writes, one per
    seed. It prints the difference of the means over seeds, its 95% interval and a p-value. They come from a bootstrap
    that resamples seeds and items (sentences, pairs or questions).

    Args:
        first: Files of details of the first model, one per seed.
        against: Compare with these files of details of the second model, for the same items, or with `right-branching`
            alone, for right-branching trees.

    Examples:
        syntaxlm evaluate significance a-1.jsonl a-2.jsonl --against b-1.jsonl b-2.jsonl
    """
    from syntaxlm.evaluation.significance import compare_details

    output.write(compare_details(first, against))


def logic(model: Classifier, pairs: Pairs, output: ReportOutput, device: Device | None = None) -> None:
    """Measure the accuracy of logical inference by number of operators.

    A classifier predicts the relation between the two formulas of every pair of a file. The accuracy is printed beside
    the accuracy of always choosing the most frequent relation.

    Args:
        pairs: File of pairs in the format of `data logic`, or `-` for standard input.

    Examples:
        syntaxlm evaluate logic MODEL logic/test.tsv
    """
    from syntaxlm.evaluation.pair_classification import evaluate_inference
    from syntaxlm.storage.folder import find_device, read_classifier

    with status("reading pairs"):
        report = evaluate_inference(read_classifier(model), pairs, find_device(device or "cpu"))
    output.write(report)


def classifier(model: Classifier, pairs: Pairs, output: ReportOutput, device: Device | None = None) -> None:
    """Measure the accuracy of a classifier of sentence pairs.

    The classifier predicts the label of every pair of a file. Accuracy is printed in all and for each label, beside the
    accuracy of always choosing the most frequent label. For formulas, `evaluate logic` also prints accuracy by number
    of operators.

    Args:
        pairs: File of pairs in the format of the training files, or `-` for standard input.

    Examples:
        syntaxlm evaluate classifier MODEL pairs.tsv
    """
    from syntaxlm.evaluation.pair_classification import evaluate_classifier
    from syntaxlm.storage.folder import find_device, read_classifier

    with status("reading pairs"):
        report = evaluate_classifier(read_classifier(model), pairs, find_device(device or "cpu"))
    output.write(report)
