"""Declarations: dataclasses from which recipes, commands, the API, the page and jobs take names, defaults and limits.

    @dataclass(frozen=True, kw_only=True)
    class DecodingOptions(Options):
        '''How trees are decoded.

        Attributes:
            layer: Use the distances of this layer, counted from 1.
        '''

        heading: ClassVar[str] = "Trees"

        layer: Layers | None = None

A field has a type with limits, a default, and a sentence in the docstring, which is the help of the command line, the
description in the page's schema and the meaning in the reference. `heading` is the title of the options in the help.
Settings of recipes are declared in the same way (`core/settings.py`), and so are the parameters of a command, with
`Args:` (docs/explanation/command-line.md).
This module imports neither torch, pydantic nor annotated_types, so `--help` is quick.
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import cache
from numbers import Number
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar

from syntaxlm.core.errors import LONGEST_NAME, InputError, closest_match, shortened
from syntaxlm.core.files import named_path

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")
TRANSFORMERS = "hf:"  # before the name of a model of the library transformers
ReportFormat = Literal["text", "json", "tsv", "csv", "markdown", "latex", "html", "parquet"]
ItemTable = Literal["regions", "means", "contrasts"]  # of stimuli
Coding = Literal["treatment", "successive"]  # of factors with more than two levels, see `syntaxlm.statistics.contrasts`
Masking = Literal["word-l2r", "original"]  # of masked models, see `syntaxlm.models.transformer.MaskedTransformer`
LARGEST_COUNT, LARGEST_SEED = 2**31 - 1, 2**32 - 1


@dataclass(frozen=True)
class Shown:
    """How an option is written on the command line, where its name and type do not say it.

    Attributes:
        metavar: name of the value in help.
        flags: instead of the field's name with two hyphens.
        use: what the value is, for checks before the command starts and for completion. "input", "output": a file that
            is read or written. "format": the format of the output file, which its extension also chooses. "overrides":
            settings of a recipe, given by their dotted names.
        suffixes: extensions of the output file that keep the usual format, in addition to .txt.
        help: the help of options that no docstring describes.
    """

    metavar: str | None = None
    flags: tuple[str, ...] = ()
    use: Literal["value", "input", "output", "format", "overrides"] = "value"
    suffixes: tuple[str, ...] = ()
    is_positional: bool = False
    help: str = ""


@dataclass(frozen=True)
class Argument(Shown):
    """A positional argument, by default a file that is read."""

    use: Literal["value", "input"] = "input"
    is_positional: bool = True


@dataclass(frozen=True)
class Form:
    """The form of a text: a regular expression, and how messages describe it."""

    pattern: str
    expected: str


@dataclass(frozen=True)
class Bounds:
    """Limits of a number, or of the number of entries: `gt` and `lt` are not allowed themselves, the others are.

    pydantic understands them, too.
    """

    gt: float | None = None
    ge: float | None = None
    lt: float | None = None
    le: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    __is_annotated_types_grouped_metadata__: ClassVar[Literal[True]] = True

    def __iter__(self) -> Iterator[Any]:
        """Yield the limits as pydantic knows them."""
        from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen

        kinds = {"gt": Gt, "ge": Ge, "lt": Lt, "le": Le, "min_length": MinLen, "max_length": MaxLen}
        return (kinds[name](value) for name, value in self.given.items())

    @property
    def given(self) -> dict[str, Any]:
        """The limits that there are, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class Only:
    """The options of a dataclass that a command takes; the others have their defaults."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class With:
    """The options of which one must be given, because the marked option has no effect without them.

    Attributes:
        names: the names of the options.
        suffix: how the value of one of them must end, such as ".png"; "" for any value.
    """

    names: tuple[str, ...]
    suffix: str = ""

    def check(self, option: Option, options: Mapping[str, Option], values: Mapping[str, Any]) -> None:
        """Raise InputError if the option was given without the others.

        Args:
            option: the marked option.
            options: all options of the command, by name.
            values: their values, by name.
        """
        needed = [options[name] for name in self.names if name in options]
        given = [values[other.name] for other in needed if values[other.name] != other.default]
        if any(str(value).lower().endswith(self.suffix) for value in given):
            return
        first = needed[0]
        value = self.suffix if first.choices else first.value_name + self.suffix
        example = value if first.shown.is_positional else f"{first.names[-1]} {value}"
        shown = example if self.suffix else " or ".join(other.names[-1] for other in needed)
        raise InputError(f"{option.names[-1]}: applies only with {shown}; add {example}, or omit it")


@dataclass(frozen=True)
class Needs:
    """What a command needs of its models, such as "a model that parses", where a model of the library transformers does
    not have it: these only score text.
    """

    what: str

    def check(self, names: Iterable[object], use: str) -> None:
        """Raise InputError for a model of transformers, which is not loaded.

        Args:
            names: the names of models.
            use: the command.
        """
        for name in filter(lambda name: name.startswith(TRANSFORMERS), map(str, names)):
            raise InputError(
                f"{name}: a model of the library transformers only scores text, but {use} needs {self.what}."
                f" {TRANSFORMERS}NAME works in score, items, and evaluate perplexity, pairs, suites, completion and"
                " reading-times"
            )


# Common limits. Upper limits are far above useful values: they reject a mistyped number before memory is allocated.
Count = Annotated[int, Bounds(ge=1, le=LARGEST_COUNT), Shown("N")]
Layers = Annotated[int, Bounds(ge=1, le=100), Shown("L")]
Seed = Annotated[int, Bounds(ge=0, le=LARGEST_SEED), Shown("S", help="Draw with this random seed.")]
Size = Annotated[int, Bounds(ge=1, le=65_536)]  # one dimension of a tensor
Fraction = Annotated[float, Bounds(ge=0, lt=1)]  # dropout rates, decay rates
# Numbers outside these limits overflow in the computations, or vanish.
Positive = Annotated[float, Bounds(ge=1e-30, le=1e9)]
NonNegative = Annotated[float, Bounds(ge=0, le=1e9)]
Finite = Annotated[float, Bounds(ge=-1e9, le=1e9)]

Name = Annotated[str, Shown("NAME")]
Prose = Annotated[str, Shown("STRING")]
InputFile = Annotated[str, Shown("FILE", use="input")]
OutputFile = Annotated[Path, Shown("FILE", ("-o", "--output"), "output")]


@dataclass(frozen=True)
class Option:
    """An option: its plain type, default, choices, limits and help.

    Attributes:
        type: of a value; of one value, if there are several (`is_list`).
        hint: the type with its limits or choices.
        default: `dataclasses.MISSING` if required.
        count: number of values that are given together.
        text: of a docstring.
        heading: title of the group of options in the help.
        marks: all annotations of the type.
    """

    name: str
    type: type
    hint: Any
    default: Any
    choices: tuple[str, ...]
    shown: Shown
    is_list: bool
    count: int
    text: str
    marks: tuple[Any, ...]
    heading: str = ""

    @property
    def help(self) -> str:
        """The text, with what the type says about it and the default."""
        text, default = self.text or self.shown.help, self.default
        if type(default) in (int, float, str) and "default" not in text.lower():
            shown = f"`{default}`" if isinstance(default, str) else format(default, ",")
            text += f"{_end_of(text)}Default: {shown}."
        return text

    def with_sentence(self, sentence: str) -> Option:
        """Return the option with a further sentence in its help."""
        text = self.help
        return replace(self, text=text + _end_of(text) + sentence)

    @property
    def names(self) -> tuple[str, ...]:
        """The names on the command line: ("-o", "--output"); those of a positional argument are its metavar."""
        if self.shown.is_positional:
            return (str(self.shown.metavar),)
        return self.shown.flags or ("--" + self.name.replace("_", "-"),)

    @property
    def value_name(self) -> str:
        """The name of the value in help; "" for a switch."""
        if self.type is bool:
            return ""
        return self.shown.metavar or "{" + ",".join(self.choices) + "}"

    def mark(self, kind: Any) -> Any:
        """Return the annotation of a type, such as `Bounds`."""
        return next((mark for mark in self.marks if isinstance(mark, kind)), None)

    def read(self, text: str) -> Any:
        """Return the value that a text stands for. Raises InputError for other forms, and above or below the limits."""
        if self.type is Path:
            return named_path(text)
        form = self.mark(Form) or _NUMBERS.get(self.type)
        value = self.type(text) if form is None or re.fullmatch(form.pattern, text) else None
        if value is None or (self.type in _NUMBERS and not self.accepts(value)):
            expected = expected_number(self.hint, value) if self.type in _NUMBERS else self.expected
            raise InputError(f"found {shortened(text, LONGEST_NAME)!r}; expected {expected}")
        return value

    def accepts(self, value: Any) -> bool:
        """Return whether a value has the type, and is within the limits or among the choices."""
        from pydantic import ValidationError

        if isinstance(value, Number) and not isinstance(value, bool | int | float):
            if not hasattr(value, "item"):  # not of NumPy, such as a Decimal, which pydantic would accept as a float
                return False
            value = value.item()
        try:
            validator_of(self.hint).validate_python(value)
        except ValidationError:
            return False
        return True

    @property
    def expected(self) -> str:
        """What is accepted, for messages."""
        if self.choices:
            *first, last = self.choices
            return f"{', '.join(first)} or {last}"
        form = self.mark(Form)
        return form.expected if form else expected_number(self.hint) if self.type in _NUMBERS else self.type.__name__


_NUMBERS: Mapping[type, Form] = {
    int: Form(r"(?a)[-+]?\d{1,1000}", "an integer"),  # Python converts at most 4,300 digits
    float: Form(r"(?ai)[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", "a number"),
}


@cache
def validator_of(hint: Any) -> TypeAdapter[Any]:
    """Return pydantic's validator of a type, which converts no types, such as "yes" to true."""
    from pydantic import ConfigDict, TypeAdapter

    return TypeAdapter(hint, config=ConfigDict(strict=True, allow_inf_nan=False))


@dataclass(frozen=True)
class Options:
    """Base class of dataclasses of options that are also created in Python. Raises InputError for a wrong value.

    A single text is accepted for a list of texts.
    """

    def __post_init__(self) -> None:
        for name, option in options_of(typing.cast(typing.Hashable, type(self))).items():
            value = getattr(self, name)
            if value is option.default:
                continue
            if option.is_list and isinstance(value, Iterable):  # an iterator could be read only once
                value = (value,) if isinstance(value, str) else tuple(value)
                object.__setattr__(self, name, value)
            values = value if option.is_list and isinstance(value, tuple) else [value]
            if wrong := [entry for entry in values if not option.accepts(entry)]:
                expected = f"a list of: {option.expected}" if option.is_list else option.expected
                similar = closest_match(wrong[0], option.choices) if option.choices else ""
                raise InputError(
                    f"{name}: found {wrong[0]!r}; expected {expected}" + (f". {similar}" if similar else "")
                )


@cache
def options_of(declared: Any) -> Mapping[str, Option]:
    """Return the options of a dataclass, or of the parameters of a function, by name, with the help of its docstring.

    Fields whose type is a dataclass are replaced by its options. The outer docstring may override their help. The class
    variable `heading` of a dataclass is the title of its options in the help.
    """
    texts = help_texts(declared)
    options: dict[str, Option] = {}
    for name, hint, default, inner in _declarations(declared):
        if inner is None:
            option = _option(name, hint, default, texts.get(name, ""))
            options[name] = replace(option, heading=_heading(declared, name))
            continue
        marks = typing.get_args(hint)[1:]
        only = [mark.names for mark in marks if isinstance(mark, Only)]
        needs = [mark for mark in marks if isinstance(mark, Needs | With)]
        for key, option in options_of(inner).items():
            if all(key in names for names in only):
                options[key] = replace(option, text=texts.get(key, option.text), marks=(*option.marks, *needs))
    return options


def options_from(declared: Callable[..., T], values: Mapping[str, Any]) -> T:
    """Call a dataclass or a function with the values of its options, by name."""
    arguments = {}
    for name, _, _, inner in _declarations(declared):
        if inner is not None:
            arguments[name] = options_from(inner, values)
        elif name in values:
            arguments[name] = values[name]
    return declared(**arguments)


class Docstring(NamedTuple):
    """A docstring in the style of Google: a line, paragraphs or lists, and sections such as `Args:` by their titles."""

    summary: str
    description: str
    sections: Mapping[str, str]


def docstring_of(documented: Any) -> Docstring:
    """Return the parts of a docstring, which are empty if Python removed docstrings (-OO)."""
    text = inspect.cleandoc(documented.__doc__ or "")
    prose, *parts = re.split(r"^(Args|Attributes|Examples|Returns|Raises|Yields):\n", text, flags=re.MULTILINE)
    summary, _, description = prose.strip().partition("\n\n")
    paragraphs = "\n\n".join(map(_unwrapped, re.split(r"\n{2,}", description)))
    return Docstring(_unwrapped(summary), paragraphs, dict(zip(parts[::2], parts[1::2], strict=True)))


def _unwrapped(paragraph: str) -> str:
    """Return a paragraph as one line, or a list of items that begin with "- " as one line per item."""
    return "\n".join(re.sub(r"\s+", " ", item).strip() for item in re.split(r"\n *(?=- )", paragraph))


def _end_of(text: str) -> str:
    """Return what separates a text from a further sentence: a line end after a list."""
    return "\n" if "\n- " in text else " "


def help_texts(documented: Any) -> dict[str, str]:
    """Return the sentences of `Attributes:` of a class and its base classes, or of `Args:` of a function, by name."""
    bases = reversed(documented.__mro__) if isinstance(documented, type) else [documented]
    sections = [docstring_of(base).sections for base in bases]
    texts = [section.get("Attributes") or section.get("Args", "") for section in sections]
    lines = [line for text in texts for line in re.findall(r"^ {4}(\w+): (.+(?:\n {5,}.+)*)", text, re.MULTILINE)]
    return {name: _unwrapped(line) for name, line in lines}


def _heading(declared: Any, name: str) -> str:
    """Return the `heading` of the class that declares a field; "" if it has none, and for parameters of functions."""
    bases = declared.__mro__ if isinstance(declared, type) else ()
    owner = next((base for base in bases if name in inspect.get_annotations(base)), None)
    return str(vars(owner).get("heading", "")) if owner else ""


@cache
def _declarations(declared: Any) -> list[tuple[str, Any, Any, Any]]:
    """Return name, type and default of each field or parameter, and the dataclass of options that the type is."""
    if isinstance(declared, type):
        defaults = {
            field.name: field.default if field.default_factory is MISSING else field.default_factory()
            for field in fields(declared)
        }
    else:
        parameters = inspect.signature(declared).parameters.values()
        defaults = {each.name: MISSING if each.default is each.empty else each.default for each in parameters}
    hints = typing.get_type_hints(declared, include_extras=True)
    plain = {
        name: typing.get_args(hint)[0] if typing.get_origin(hint) is Annotated else hint for name, hint in hints.items()
    }
    return [
        (name, hints[name], default, plain[name] if is_dataclass(plain[name]) else None)
        for name, default in defaults.items()
    ]


def _option(name: str, hint: Any, default: Any, text: str) -> Option:
    marks: list[Any] = []
    choices: tuple[str, ...] = ()
    is_list = False
    count = 1
    while origin := typing.get_origin(hint):
        parts = [part for part in typing.get_args(hint) if part is not type(None)]
        if origin is Literal:
            hint, choices = str, tuple(parts)
            break
        if origin is tuple and Ellipsis not in parts:
            count = len(parts)
        elif origin in (list, tuple, Sequence):
            is_list = True
        elif origin is Annotated:
            marks += reversed(parts[1:])  # the outermost one first
        hint = parts[0]
    shown = next((mark for mark in marks if isinstance(mark, Shown)), Shown())
    limits = next((mark for mark in marks if isinstance(mark, Bounds)), Bounds())
    value_hint = Literal[choices] if choices else Annotated[hint, limits]
    return Option(name, hint, value_hint, default, choices, shown, is_list, count, text, tuple(marks))


def members_of(hint: Any) -> list[Any]:
    """Return a type, or the members of a union, without their limits."""
    if typing.get_origin(hint) is typing.Annotated:
        return members_of(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return [member for argument in typing.get_args(hint) for member in members_of(argument)]
    return [hint]


def limits_of(hint: Any) -> dict[str, Any]:
    """Return the limits of a setting, {"ge": 1, "le": 65536}; in a union, later members overwrite."""
    limits: dict[str, Any] = {}
    for part in typing.get_args(hint):
        if isinstance(part, Bounds):
            limits |= part.given
        elif typing.get_origin(hint) in (typing.Union, types.UnionType, typing.Annotated):
            limits |= limits_of(part)
    return limits


def expected_number(hint: Any, found: Any = None) -> str:
    """Describe the numbers of a type, for messages: "an integer from 1 to 100", "a number from 0 to under 1".

    Args:
        hint: the type with its limits.
        found: the wrong value. LARGEST_COUNT is far above useful values, so it is mentioned only if `found` exceeds
            it.
    """
    if int not in members_of(hint):
        return range_of(hint) or "a number"
    limits = limits_of(hint)
    if not limits:
        return "an integer"
    if limits.get("le", LARGEST_COUNT) != LARGEST_COUNT:
        return f"an integer from {range_of(hint)}"
    is_large = isinstance(found, int) and found > LARGEST_COUNT
    return f"at most {LARGEST_COUNT:,}" if is_large else f"an integer, {limits['ge']:,} or more"


def range_of(hint: Any) -> str:
    """Describe the range of a number: "1 to 65,536", "a number from 0 to under 1"; "" without limits."""
    limits = {name: value for name, value in limits_of(hint).items() if name in ("gt", "ge", "lt", "le")}
    if not limits:
        return ""
    if int in members_of(hint):
        return f"{limits['ge']:,} to {limits['le']:,}" if "le" in limits else f"{limits['ge']:,} or more"
    if limits == limits_of(Positive):
        return "a positive number"
    if set(limits) == {"ge"}:
        return f"a number, {limits['ge']:g} or more"
    lower = f"from {limits['ge']:g}" if "ge" in limits else f"above {limits['gt']:g} and"
    upper = f"to {limits['le']:g}" if "le" in limits else f"under {limits['lt']:g}"
    between = " to" if "ge" in limits and "lt" in limits else " up" if "gt" in limits and "le" in limits else ""
    return f"a number {lower}{between} {upper}"
