"""`evaluate` and its commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from syntaxlm.cli.options import (
    PARSES,
    WITH_PICTURE,
    Brackets,
    ComparedModels,
    Device,
    DisplayedWordColumns,
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
from syntaxlm.core.declarations import Argument, Count, InputFile, Masking, Name, Needs, Only, Shown, With
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
    Path, Argument("MODEL", help="folder of a classifier, written by train"), Needs("a classifier of pairs")
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

    Print perplexity, bits per token and bits per character of a text, one sentence per line.

    - By default, the text must be tokenised like the training text. To read ordinary text, as score does, add
      --punctuation auto --contractions auto.
    - For a dependency-tree model, TEXT is a file of dependency trees. The perplexity measures the words given their
      trees.
    - A neural cache makes words more probable that recently followed a similar state. tune cache finds its weights.
      Results are printed with and without the cache.

    Args:
        cache_weight: use a neural cache with this share of the probability, 0 to 1
        cache_theta: strength of the cache's preference for words that followed a similar state; 0: no preference
        cache_size: number of words in the cache; default 2000

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

    Parse the words of a treebank, score the trees against the gold trees, and print F1 with baselines and upper bounds.
    For a model of dependency trees (dmv, structformer), TREEBANK may contain dependency trees. The command then prints
    directed and undirected attachment.

    Args:
        also: another model; may be repeated. The trees of all models are averaged
        details: write each sentence's trees and scores to this file, as JSON lines
        random_weights: also score N untrained models with the same settings and vocabulary, with every decoder, to show
            the effect of the architecture alone; default: 3 for a single model of distances, otherwise 0

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

    Score predicted trees, from any parser, against gold trees. No model is needed.

    Args:
        predicted: bracket file, with or without labels; - for standard input
        gold: bracket file, folder or quoted pattern, with the same sentences in the same order
        failed: failed parses among the predictions, such as (ROOT), (()) or a blank line: skip (default) leaves these
            sentences out, and zero scores them as trees without brackets
        details: write each sentence's trees and scores to this file, as JSON lines

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

    Parse a text with several models, such as the seeds of one recipe, and compare their trees. Print the F1 of each
    pair of models, the model that agrees least with the others, and models whose trees are nearly all right or left
    branching. No gold trees are needed.

    Args:
        text: UTF-8 file, one sentence per line
        models: two or more model folders
        sentences: parse the first N sentences of the text; default: 1000

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

    Predict word boundaries where the distance between two characters is large, and score them against the white space
    of the text. Print precision, recall and F1, with baselines. The threshold is chosen on the first tenth of the text,
    which is not scored, or on another text.

    Args:
        text: UTF-8 file with white space between words
        tune: choose the thresholds on this text instead, and score all of TEXT

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
    masking: Masking | None = None,
) -> None:
    """Measure accuracy on minimal pairs.

    Measure how often the better sentence of minimal pairs, such as those of BLiMP and of Marvin and Linzen, has the
    higher log-probability.

    - FILES are JSON lines or tables (.tsv, .csv) with one item per line. An item contains sentence_good and
      sentence_bad, better and worse, or, in JSON, sentences (best first).
    - Files of BLiMP, MultiBLiMP, EWoK and the BabyLM supplement are read unchanged.
    - Accuracy is printed by group and case, with the share of pairs whose differing words are unknown.
    - Several models appear in adjacent columns and are compared with the first model.
    - Masked models of transformers compare pseudo-log-likelihoods, and sequence-to-sequence models
      log-probabilities of the decoder. The output names them.

    Args:
        masking: sub-tokens that masked models mask with the one that they predict: the later ones of its word
            (word-l2r, the default), or none (original)
        files: files or folders of minimal pairs; - for JSON lines on standard input
        also: another model, which is compared with the first model; may be repeated
        details: write each pair and its log-probabilities to this file, as JSON lines

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

    Evaluate test suites in the format of SyntaxGym. An item contains a sentence for each condition, divided into
    regions. The predictions of a suite compare the surprisals of regions, for example (7;%match%) < (7;%mismatch%) for
    region 7 in the conditions match and mismatch. An item is correct if all predictions hold.

    - Accuracy is printed by circuit, suite and prediction, also for items whose words are known.
    - Several models appear in adjacent columns and are compared with the first model.

    Args:
        files: JSON suites, folders of JSON suites, or tables (.csv, .tsv) with the columns item and condition and one
            column per region
        also: another model, which is compared with the first model; may be repeated
        prediction: prediction about the items of the tables; may be repeated
        condition: column of a table with the condition; may be repeated, as in items, and formulas then join the
            levels, as in (4;%sg / pl%); default: condition
        regions: column of a table with a region, in order; default: all other columns
        details: write each item, the surprisals of its regions and which predictions hold to this file, as JSON lines

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

    Answer sentence-completion questions, such as the questions of the Microsoft Research challenge. Each candidate for
    a gap is a whole sentence, and the candidate with the highest log-probability is chosen.

    - Further models appear in adjacent columns and are interpolated with the first model.
    - Dependency-tree models read parsed candidates and compute P(S | T), the probability of the words given their tree.

    Args:
        questions: UTF-8 file with one candidate per line, in which the candidates of a question follow each other; or a
            .conllu file of parsed candidates; - for standard input
        answers: file with the correct candidate of each question, or its label, one per line
        also: another model; may be repeated. The log-probabilities of all models are interpolated, with weights chosen
            on the first half of the questions
        weights: weight of each --also model, 0 to 1, in their order; the first model receives the remaining weight;
            default: chosen on the first half
        parses: for dependency-tree models if QUESTIONS is plain text: .conllu file with one tree per candidate, in the
            same order
        per_token: compare mean log-probabilities per token, for candidates of different lengths; default: sums
        details: write each question, its candidates' log-probabilities and the choice to this file, as JSON lines

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
        details: write a table with one row per displayed word, with its time, predictors and surprisals; the extension
            selects the format: .csv, .jsonl, otherwise tab-separated
        export: write a table for mixed models, with one row per subject and analysed word and scaled predictors, and a
            script for R that fits them with lme4 (FILE.R); with several --time-column, a file per measure
            (FILE-go_past.csv)
        subject: for --export: column of the subjects in the table of times; default: subject or participant
        picture: draw mean reading time by surprisal for each model, as .svg, .pdf, .png, or as .html with the results
            (requires the extra plot)
        theme: for --picture: colour theme; auto (default) follows the reader's system
    """

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

    Measure how well the surprisals of one or more models predict reading times, on the same words. A baseline
    regression predicts times from word length, log frequency, position and the previous words, and a second regression
    adds the surprisal of the model. Print the held-out gain in log-likelihood per word with confidence intervals, and
    the coefficients of surprisal.

    This command requires the extra stats: pip install 'syntaxlm[stats]'. Tables have a header line and cells separated
    by tabs, commas or semicolons.

    Args:
        models: model folder, written by train
        words: table with one displayed word per row, in the order in which readers saw them
        context: read each sentence by itself (reset), or the text as one stream whose state is carried from sentence to
            sentence (carry), or measure each model that can carry its state both ways (both); default: as in training
            with --group, otherwise reset

    Examples:
        syntaxlm evaluate reading-times MODEL --words words.tsv --times times.tsv --frequencies train.txt
    """
    from syntaxlm.data.reading_measures import measure_names
    from syntaxlm.evaluation.reading_times import evaluate_reading_times
    from syntaxlm.statistics.regression import require_statsmodels

    require_statsmodels()  # before the slow part
    written.check(measure_names(times.time_column))
    columns_of_times = times.time_column[0] if len(times.time_column) == 1 else times.time_column
    report = evaluate_reading_times(
        models.load(), words, times.times, frequencies=frequencies.read(), time_column=columns_of_times,
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

    Test whether the scores of two models differ, each with one or more seeds. Read the files that --details of evaluate
    parse, trees, pairs and completion writes, one file per seed. Print the difference of the means over seeds, with a
    95% interval and a p-value from a bootstrap that resamples seeds and items (sentences, pairs, questions).

    Args:
        first: files of details of the first model, one per seed
        against: files of details of the second model, with the same items; or right-branching, for right-branching
            trees

    Examples:
        syntaxlm evaluate significance a-1.jsonl a-2.jsonl --against b-1.jsonl b-2.jsonl
    """
    from syntaxlm.evaluation.significance import compare_details

    output.write(compare_details(first, against))


def logic(model: Classifier, pairs: Pairs, output: ReportOutput, device: Device | None = None) -> None:
    """Measure the accuracy of logical inference by number of operators.

    Predict the relation between the two formulas of every pair of a file with a classifier. Print the accuracy by
    number of operators, and for comparison the accuracy of always predicting the most frequent relation.

    Args:
        pairs: file of pairs, in the format of data logic; - for standard input

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

    Predict the label of every pair of a file with a classifier. Print the accuracy, in all and for each label, and for
    comparison the accuracy of always predicting the most frequent label. For formulas, evaluate logic also prints
    accuracy by number of operators.

    Args:
        pairs: file of pairs, in the format of the training files; - for standard input

    Examples:
        syntaxlm evaluate classifier MODEL pairs.tsv
    """
    from syntaxlm.evaluation.pair_classification import evaluate_classifier
    from syntaxlm.storage.folder import find_device, read_classifier

    with status("reading pairs"):
        report = evaluate_classifier(read_classifier(model), pairs, find_device(device or "cpu"))
    output.write(report)
