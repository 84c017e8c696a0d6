"""Options that several commands share, and how the models and texts that they name are read."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from syntaxlm.core.declarations import (
    LARGEST_COUNT,
    Argument,
    Bounds,
    Count,
    Form,
    InputFile,
    Masking,
    Name,
    Needs,
    Shown,
    With,
)
from syntaxlm.core.errors import InputError
from syntaxlm.parsing.options import Ties

if TYPE_CHECKING:
    from syntaxlm.data.corpora import GivenText
    from syntaxlm.data.frequencies import Frequencies
    from syntaxlm.data.stimuli import Stimuli
    from syntaxlm.drawing.plot import Plot
    from syntaxlm.storage.folder import ModelBundle
    from syntaxlm.trees.f1 import Protocol

WITH_PICTURE, WITH_TIMES = With(("picture",)), With(("times",))
WITH_JOB = With(("workers", "engine"))
PARSES = Needs("a model that parses, such as en")
ModelFolder = Annotated[Path, Argument("MODEL", help="Model folder that `train` wrote."), Needs("a model folder")]
AlsoModels = Annotated[Sequence[Path], Shown("MODEL", use="input", help="Use another model, too.")]
MaskingRule = Annotated[
    Masking,
    Shown(
        help="Mask these sub-tokens when a masked model predicts a sub-token.\n"
        "- `word-l2r` (default): the sub-token and the later sub-tokens of its word\n"
        "- `original`: only the sub-token"
    ),
]
DeviceName = Annotated[str, Form(r"auto|cpu|mps|cuda(:\d+)?", "cpu, cuda, cuda:N, mps or auto")]
Device = Annotated[
    DeviceName,
    Shown(
        "NAME",
        help="Run the model on this device: `cpu`, `cuda`, `cuda:N` (GPU number N), `mps`, or `auto` (a GPU if one is"
        " available). Default: `cpu`.",
    ),
]
TrainingDevice = Annotated[
    DeviceName,
    Shown(
        "NAME",
        help="Train on this device: `cpu`, `cuda`, `mps` or `auto`. Default: `run.accelerator` of the recipe.",
    ),
]

SentencesFile = Annotated[
    str, Argument("TEXT", help="UTF-8 file with one sentence per line, or `-` for standard input.")
]
Treebank = Annotated[str, Argument("TREEBANK", help="Bracket file, folder of bracket files, or quoted pattern.")]

MaxWords = Annotated[Count, Shown("N", help="Omit sentences of more than N words after preprocessing.")]
Preprocessing = Annotated[
    str,
    Shown(
        "RULE",
        use="input",
        help="Prepare gold trees by this rule, which selects the words that count.\n"
        "- `ptb-keep`, `ptb-keep-currency`, `ptb-drop`: by tags of the Penn Treebank\n"
        "- `ud`: by tags of Universal Dependencies\n"
        "- `letters`, `letters-only`: by the characters of the words\n"
        "- `zh-sinica`, `es-cess`, `pt-floresta`, `icepahc`, `ppche`, `keyaki`: as the treebank of this name requires\n"
        "- `none`: all words\n"
        "- a YAML file: by its settings `keep_tags`, `drop_tags`, `drop_words` and `punctuation`",
    ),
]
Brackets = Annotated[
    Literal["labelled", "unlabelled"],
    Shown(
        help="State whether brackets start with a label, as in `(NP the cat)`. Default: decided from the whole file."
    ),
]
Theme = Annotated[
    Literal["auto", "light", "dark"],
    Shown(help="Draw in this colour theme. `auto` follows the reader's system."),
]
Size = Annotated[int, Bounds(ge=0, le=LARGEST_COUNT), Shown("N")]
Share = Annotated[float, Bounds(ge=0, le=1), Shown("W")]
Weights = Annotated[Sequence[str], Shown("W,W,...")]


def has_labels(brackets: Brackets | None) -> bool | None:
    """Return whether brackets start with a label; None: it is decided from the file."""
    return None if brackets is None else brackets == "labelled"


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """A model, and where it runs.

    Attributes:
        model: Model folder that `train` wrote, name of a bundled model such as `en`, or repository `user/name` of the
            Hugging Face hub.
    """

    heading: ClassVar[str] = "Model"

    model: Annotated[Path, Argument("MODEL")]
    device: Device | None = None

    def load(self) -> ModelBundle:
        """Return the model."""
        return load_model(self.model, self.device)


@dataclass(frozen=True, kw_only=True)
class ComparedModels(ModelOptions):
    """A model, and others beside it."""

    heading: ClassVar[str] = "Model"

    also: AlsoModels = ()

    @property
    def folders(self) -> list[Path]:
        """The folders of all models."""
        return [self.model, *self.also]

    def check_ties(self, ties: Ties) -> None:
        """Raise InputError for `--ties` without `--also`: no trees are averaged."""
        if ties != "random" and not self.also:
            raise InputError(
                f"--ties {ties}: found one model, so no trees are averaged; add models with --also, or omit --ties"
            )

    def load_all(self) -> dict[str, ModelBundle]:
        """Return all models by their names. Raises InputError for a repeated model."""
        return load_models(self.folders, self.device)


@dataclass(frozen=True, kw_only=True)
class SeveralModels:
    """Models, and where they run."""

    heading: ClassVar[str] = "Model"

    models: Annotated[Sequence[Path], Argument("MODEL")]
    device: Device | None = None

    def load(self) -> dict[str, ModelBundle]:
        """Return all models by their names. Raises InputError for a repeated model."""
        return load_models(self.models, self.device)


@dataclass(frozen=True, kw_only=True)
class ProtocolOptions:
    """How trees are scored.

    Attributes:
        protocol: Compute F1 by the rules of this protocol: `wsj-test`, `prpn`, `wsj10`, `wsj40` or `evalb`.
        max_words: Score only sentences of at most N words after preprocessing. Default: the limit of the protocol.
    """

    heading: ClassVar[str] = "F1"

    protocol: Annotated[str, Shown("NAME")] = "wsj-test"
    max_words: MaxWords | None = None

    def find(self) -> Protocol:
        """Return the protocol."""
        from syntaxlm.evaluation.trees import protocol_named

        return protocol_named(self.protocol, self.max_words)


def load_model(name_or_folder: Path, device: str | None) -> ModelBundle:
    """Return the model that `syntaxlm.load` finds, on the device of `--device`, and name it on the pages of the run."""
    from syntaxlm.core.run_head import invocation
    from syntaxlm.storage.sources import read_named

    invocation().models.append(str(name_or_folder))
    return read_named(str(name_or_folder), device or "cpu")[0]


def load_models(folders: Sequence[Path], device: str | None) -> dict[str, ModelBundle]:
    """Return several models by distinct names. Raises InputError for a repeated model."""
    return {name: load_model(folder, device) for name, folder in by_distinct_names(folders).items()}


def by_distinct_names(folders: Sequence[Path]) -> dict[str, Path]:
    """Return folders by their names if these differ, else by their paths. Raises InputError for a repeated model."""
    for number, folder in enumerate(folders):
        if any(folder.resolve() == other.resolve() for other in folders[:number]):
            raise InputError(f"{folder}: the same model is given twice; expected different models")
    by_name = {folder.resolve().name: folder for folder in folders}
    return by_name if len(by_name) == len(folders) else {str(folder): folder for folder in folders}


def training_device(device: str | None) -> list[tuple[str, str]]:
    """Return the recipe setting that `--device` stands for. Raises InputError for cuda:N."""
    if device is None:
        return []
    if ":" in device:
        number = device.partition(":")[2]
        raise InputError(
            f"--device {device}: training uses all visible GPUs. To select one, use --device cuda and set the"
            f" environment variable CUDA_VISIBLE_DEVICES={number}"
        )
    return [("run.accelerator", device)]


@dataclass(frozen=True, kw_only=True)
class TextSource:
    """A text: files or a sentence.

    Attributes:
        text: UTF-8 text file with one sentence per line, or a sentence in quotes. An argument that contains white space
            and does not name a file is read as a sentence.
            - A file may be compressed (`.gz`, `.bz2`, `.xz`, `.zst`, `.zip`), in Parquet format, or at a web address.
            - Without an argument, or for `-`, standard input is read.
            - A job (`--workers`) reads one file or more.
        sentence: Read this sentence, even if a file has this name.
    """

    heading: ClassVar[str] = "Text"

    text: Annotated[tuple[str, ...], Argument("TEXT")] = ()
    sentence: Annotated[str, Shown("SENTENCE", ("--text",))] | None = None

    def read(self) -> str | GivenText:
        """Return a file, or sentences from the command line, one per line. Raises InputError for several."""
        from syntaxlm.core.systems import argument_text
        from syntaxlm.core.text_files import check_encodable
        from syntaxlm.data.corpora import GivenText

        if len(self.text) > 1:
            raise InputError(
                f"found {len(self.text)} texts; expected one. Several files are read by a job: add --workers N and -o"
                " FOLDER"
            )
        sentence = self.sentence
        if sentence is None:
            sentence = self.text[0] if self.text else "-"
            exists = sentence == "-" or (sentence.strip() != "" and os.path.exists(sentence))
            is_word = not any(map(str.isspace, sentence or " "))
            if is_word and not exists and not Path(sentence).suffix and "/" not in sentence and "\\" not in sentence:
                check_encodable(sentence, "the sentence")
                quoted = shlex.quote(sentence)
                raise InputError(f"{sentence}: no such file. For a sentence of one word, write: --text {quoted}")
            if exists or is_word:
                return sentence
        elif self.text:
            raise InputError(f"found both {self.text[0]} and --text; expected either a file or a sentence")
        if not sentence.strip():
            raise InputError("the sentence is empty; expected words, or the name of a file")
        sentence = argument_text(sentence)
        check_encodable(sentence, "the sentence")
        return GivenText(tuple(sentence.splitlines()))


@dataclass(frozen=True, kw_only=True)
class PictureOutput:
    """Where a picture is written.

    Attributes:
        picture: Draw a picture into this file, whose extension is `.svg`, `.pdf`, `.png` or `.html`. This requires the
            extra `plot`.
        theme: Draw the picture in this colour theme. `auto` follows the reader's system on a screen and is light on
            paper.
        picture_width: Set the width of the picture in millimetres, such as 85 for a column of a journal. The text keeps
            its size. Default: the width of the picture as drawn.
        picture_dpi: Set the resolution of a `.png` file in dots per inch.
    """

    heading: ClassVar[str] = "Picture"

    picture: Annotated[Path, Shown("FILE", use="output")] | None = None
    theme: Annotated[Theme, WITH_PICTURE] = "auto"
    picture_width: Annotated[int, Bounds(ge=20, le=2000), Shown("MM"), WITH_PICTURE] | None = None
    picture_dpi: Annotated[int, Bounds(ge=1, le=2400), Shown("N"), With(("picture",), ".png")] = 300

    def check(self) -> None:
        """Raise InputError for another extension and without matplotlib, before the slow part."""
        from syntaxlm.drawing.files import check_picture
        from syntaxlm.drawing.plots import require_matplotlib

        if self.picture is not None:
            check_picture(self.picture)
            require_matplotlib()

    def write(self, draw: Callable[[], Plot]) -> None:
        """Write the picture, if it is asked for."""
        if self.picture is not None:
            draw().save(self.picture, self.theme, self.picture_width, self.picture_dpi)


@dataclass(frozen=True, kw_only=True)
class RequiredFrequencies:
    """Where the frequencies of words are from.

    Attributes:
        frequencies: Take word frequencies from this source.
            - A list has a word and its count on each line, separated by a tab, comma, semicolon or space, with or
              without a header.
            - Any other text file is read, and its words are counted.
            - `en` stands for the counts of the training text of the bundled model `en`.
            - `wordfreq:en` stands for the package wordfreq, which requires the extra `frequencies`.
        frequency_column: Read the counts from this column of the list. Default: the only column of numbers that is not
            a rank, or a column with a usual name, such as `count`, `freq` or `FREQcount`.
    """

    heading: ClassVar[str] = "Word frequencies"

    frequencies: InputFile
    frequency_column: Annotated[Name, With(("frequencies",))] | None = None

    def read(self) -> Frequencies:
        """Return the frequencies. Raises InputError as `Frequencies.read` does."""
        from syntaxlm.data.frequencies import Frequencies

        return Frequencies.read(self.frequencies, self.frequency_column)


@dataclass(frozen=True, kw_only=True)
class OptionalFrequencies(RequiredFrequencies):
    """Where the frequencies of words are from, if they are asked for."""

    heading: ClassVar[str] = "Word frequencies"

    frequencies: InputFile | None = None  # type: ignore[assignment]  # not required

    def read_if_given(self) -> Frequencies | None:
        """Return the frequencies, if they are asked for. Raises InputError as `Frequencies.read` does."""
        return None if self.frequencies is None else self.read()


@dataclass(frozen=True, kw_only=True)
class DisplayedWordColumns:
    """Columns of a table of displayed words.

    Attributes:
        word_column: Read the displayed words from this column.
        group: Read the passage of each row, such as a story, from this column. The model's state and the values of
            previous words are carried only within a passage. Default: all rows are one passage.
        sentence_column: Start a new sentence where the value of this column changes. Default: punctuation marks show
            where sentences start.
        order: Sort the rows of each passage by the numbers in this column. Default: the rows are in the order of
            reading.
        spillover: Include the surprisal, length and frequency of the N previous words.
    """

    heading: ClassVar[str] = "Displayed words"

    word_column: Annotated[Name, With(("words",))] = "word"
    group: Annotated[Sequence[str], Shown("NAME")] = ()
    sentence_column: Name | None = None
    order: Name | None = None
    spillover: Annotated[Size, With(("words", "group", "sentence_column", "order", "frequencies"))] = 1


@dataclass(frozen=True, kw_only=True)
class StimulusColumns:
    """Columns of a table of stimuli.

    Attributes:
        column: Read the sentences from this column, in which `--separator` separates the regions. In a table without
            separators, each word is a region. Default: `sentence`.
        item: Read the item of each row from this column.
        condition: Read the level of a factor, such as the condition, from this column. Default: `condition`.
        regions: Read a region of the sentence from this column, instead of `--column`. Name the columns in the order of
            the regions.
        separator: Separate the regions in `--column` at this sign. Default: `|`.
        region_rows: Read the name of a region from this column of a table with one row per region, such as those of
            PCIbex, Ibex and Linger. `--column` then names the column with the text of the region.
        baseline: Compare the other conditions with this condition, such as `"sg / sg"`. Default: the first condition.
    """

    heading: ClassVar[str] = "Stimuli"

    column: Name | None = None
    item: Name = "item"
    condition: Annotated[Sequence[str], Shown("NAME")] = ()
    regions: Annotated[Sequence[str], Shown("NAME", ("--region",))] = ()
    separator: Annotated[str, Shown("SIGN")] | None = None
    region_rows: Name | None = None
    baseline: Annotated[str, Shown("CONDITION")] | None = None

    def read(self, table: str) -> Stimuli:
        """Return the stimuli of a table. Raises InputError as `Stimuli.read` does."""
        from syntaxlm.data.stimuli import CONDITION, Stimuli

        return Stimuli.read(table, **{**vars(self), "condition": self.condition or (CONDITION,)})


@dataclass(frozen=True, kw_only=True)
class TimesOptions:
    """Reading times, and how they belong to displayed words.

    Attributes:
        times: Read the reading times from this table, and average several times of a word. Default: the times are in a
            column of `--words`.
        time_column: Read the times from this column. The name of a reading measure (`first_fixation`, `first_pass`,
            `right_bounded`, `go_past`, `total` or `skip`) also finds its column in published corpora. Each measure has
            its own regressions, which are logistic for a column of 0 and 1. Default: `time`.
        key: Match the rows of the two tables by this column, which identifies a word. Default: all columns that both
            tables contain, except the word and the time.
        min_time: Leave out times below T, in the unit of the table. This does not apply to a column of 0 and 1.
        max_time: Leave out times above T, in the unit of the table. This does not apply to a column of 0 and 1.
        allow_unmatched: Accept a table of times even if more than 5% of its rows belong to no displayed word.
    """

    heading: ClassVar[str] = "Reading times"

    times: InputFile | None = None
    time_column: Annotated[Sequence[str], Shown("NAME")] = ("time",)
    key: Annotated[Sequence[str], Shown("NAME"), WITH_TIMES] = ()
    min_time: Annotated[float, Shown("T")] | None = None
    max_time: Annotated[float, Shown("T")] | None = None
    allow_unmatched: Annotated[bool, WITH_TIMES] = False


def weights_of(texts: Sequence[str] | None) -> list[float] | None:
    """Return the numbers of `--weights W,W,...`. Raises InputError."""
    if not texts:
        return None
    try:
        return [float(weight) for text in texts for weight in text.split(",")]
    except ValueError:
        found = ",".join(texts)
        raise InputError(f"--weights: found {found!r}; expected numbers separated by commas, such as 2,1,1") from None
