"""Labelled pairs for pair classifiers: sentences of inference data, adjacent sentences of a text, and logical formulas.

**Sentence pairs** are lines of two sentences and a label, separated by tabs.

**Next-sentence prediction**: the labels follow from the order of a text. Devlin et al. 2019 (BERT), section 3.1: half
of the pairs are a sentence and the next one, half a sentence and a random other one.

**Logical inference**: classify pairs of propositional formulas by the relation (one of seven) that holds between them.
Bowman, Manning, Potts 2015, "Tree-structured composition in neural networks without tree-structured architectures",
section 3; Shen et al. 2019 (ON-LSTM), section 5.4. Formulas have six variables and the operators `and`, `or` and `not`.
The length of a pair is the number of operators, including `not`, in the formula with more operators. Formulas are
sampled like the published data: each pair uses four of the six variables, and `and` and `or` are nested at most three
levels deep. Formulas are written with the published brackets and spaces between all tokens: ( ( not a ) ( and b ) ).
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import compress
from pathlib import Path
from typing import Any

from syntaxlm.core.errors import InputError, amount, warn_caller
from syntaxlm.core.files import write_text, written_together
from syntaxlm.core.progress import working
from syntaxlm.core.reading import ReadingReport, Remarks, announce
from syntaxlm.core.settings import LARGEST_SEED, check_number
from syntaxlm.core.text_files import read_lines, source_name
from syntaxlm.core.work import Progress
from syntaxlm.data import corpora
from syntaxlm.text.normaliser import Normaliser

PAIR_COLUMNS = ("sentence1", "sentence2", "label")
_HEADER_NAMES = frozenset((*PAIR_COLUMNS, "gold_label"))  # one of them is no sentence, but the name of a column
_DOUBLED_MARKS = re.compile(r'"[^"]*(?:""[^"]*)+"')  # a cell that a program put in quotation marks because it has some
_QUOTED = re.compile(r'"[^"]*"')
_WITHOUT_QUOTES = (
    "Remove the quotation marks around cells. In R, write the table with"
    ' write.table(data, file, sep = "\\t", quote = FALSE, row.names = FALSE)'
)
_UNDECIDED = "-"  # the label of SNLI and MultiNLI for pairs about which annotators disagree
_FEWEST_PAIRS = 10  # whose labels show that the column of labels is another one
FORMULA_COLUMNS = ("relation", "left", "right", "operators")


@dataclass(frozen=True)
class LabelledPair:
    """Two sentences as written, or two formulas as tokens separated by spaces, and the label of the pair.

    Attributes:
        label: the label of formulas, their relation.
        operators: the operators of formulas, those in the formula with more of them.
    """

    left: str
    right: str
    label: str
    operators: int = 0


def read_labelled_pairs(
    path: str | Path, normaliser: Normaliser, labels: Sequence[str] | None = None
) -> list[LabelledPair]:
    """Read the pairs of a tab-separated file. Lines without text are skipped, and so are cells without a column.

    If the cells of the first line with text include sentence1, sentence2 and label, they are a header, and other
    columns are ignored. Without a header, the first three columns are sentence1, sentence2 and label. A cell in
    quotation marks with doubled marks inside, as pandas writes sentences with quotation marks, is read without them.

    Args:
        normaliser: the normaliser of the sentences, each of which must have a token.
        labels: the labels that are allowed; None: any.

    Raises:
        InputError: if a line is not a pair, naming the file and the line, if only some of these names are in the first
            line, if a tab in a sentence moves the label, for quotation marks around a label or all sentences, and if
            the file has no pair.
    """
    places = list(range(len(PAIR_COLUMNS)))
    pairs: list[LabelledPair] = []
    width = 0  # number of cells in the first line
    certain: set[str] = set()  # the labels of lines with at most as many cells
    wider: list[tuple[str, str, list[str]]] = []  # place, label and cells of the other lines
    for row, (place, cells) in enumerate(_rows(path)):
        width = width or len(cells)
        if row == 0 and set(PAIR_COLUMNS) <= set(cells):
            places = [cells.index(name) for name in PAIR_COLUMNS]
            repeated = [name for name in PAIR_COLUMNS if cells.count(name) > 1]
            if repeated:
                raise InputError(f"{place}: found several columns {repeated[0]!r}; expected one")
            continue
        if row == 0 and not _HEADER_NAMES.isdisjoint(cell.strip('"').casefold() for cell in cells):
            advice = f". {_WITHOUT_QUOTES}" if any(map(_QUOTED.fullmatch, cells)) else ""
            raise InputError(
                f"{place}: found the header {', '.join(cells)}; expected the columns {', '.join(PAIR_COLUMNS)} in it"
                f"{advice}"
            )
        if set(PAIR_COLUMNS) <= set(cells):
            raise InputError(
                f"{place}: found a header; expected it in the first line only. Are these two tables in one file? Delete"
                " the line if the other lines belong together"
            )
        if len(cells) <= max(places):
            raise InputError(
                f"{place}: found {len(cells)} cells; expected at least {max(places) + 1}, with"
                f" {', '.join(PAIR_COLUMNS)}, separated by tabs"
            )
        left, right, label = (cells[column] for column in places)
        for name, sentence in zip(PAIR_COLUMNS, (left, right), strict=False):
            if not normaliser.tokens(sentence):
                raise InputError(
                    f"{place}: found {sentence!r} in {name}, which has no words after normalisation; expected a"
                    " sentence with words"
                )
        _check_label(label, labels, place)
        if any(cells[width:]):
            wider.append((place, label, cells))
        else:
            certain.add(label)
        pairs.append(LabelledPair(left, right, label))
    if len(pairs) > 1 and all(_QUOTED.fullmatch(sentence) for pair in pairs for sentence in (pair.left, pair.right)):
        raise InputError(
            f"{source_name(path)}: found quotation marks around every sentence; expected sentences without them."
            f" {_WITHOUT_QUOTES}"
        )
    read = _announced(pairs, path, PAIR_COLUMNS, _wider_lines(wider, certain, width))
    _warn_of_labels(read, source_name(path))
    return read


def _check_label(label: str, labels: Sequence[str] | None, place: str) -> None:
    """Raise InputError for a label that is empty, in quotation marks or not allowed.

    Args:
        labels: the labels that are allowed; None: any.
        place: the file and line.
    """
    if not label:
        raise InputError(f"{place}: found an empty label; expected a label for each pair")
    if _QUOTED.fullmatch(label):
        raise InputError(
            f"{place}: found the label {label}; expected a label without quotation marks. {_WITHOUT_QUOTES}"
        )
    if labels is not None and label not in labels:
        raise InputError(
            f"{place}: found the label {label!r}; expected a label of the training file: {', '.join(labels)}"
        )


def _warn_of_labels(pairs: Sequence[LabelledPair], source: str) -> None:
    """Warn of labels that are probably none."""
    counts = Counter(pair.label for pair in pairs)
    if counts[_UNDECIDED]:
        warn_caller(
            f"{source}: found the label {_UNDECIDED!r} in {amount(counts[_UNDECIDED], 'pair')}, which SNLI and MultiNLI"
            " have where annotators disagree. It is read as a label. Leave these pairs out"
        )
    if len(pairs) >= _FEWEST_PAIRS and 2 * len(counts) > len(pairs):
        warn_caller(
            f"{source}: found {len(counts):,} different labels of {len(pairs):,} pairs, such as {pairs[0].label!r};"
            " expected a few labels. Is the label in the third column, or is the header missing:"
            f" {', '.join(PAIR_COLUMNS)}?"
        )


def _wider_lines(wider: Sequence[tuple[str, str, list[str]]], certain: Collection[str], width: int) -> Remarks:
    """Return a remark on lines with additional cells.

    Args:
        wider: the place, label and cells of these lines.
        certain: the labels of the other lines.
        width: number of cells of the first line.

    Raises:
        InputError: for a line whose last cell is a label, although the cell in the column of labels is none: a tab in a
            sentence moves the cells after it.
    """
    remarks = Remarks()
    for place, label, cells in wider:
        if label not in certain and cells[-1] in certain:
            raise InputError(
                f"{place}: found {len(cells)} cells, with the label {label!r}; expected {width}, as in the first line."
                " Does a sentence contain a tab? Replace it with a space"
            )
        remarks.add("lines with cells beyond those of the first line, which are left out", example=place)
    return remarks


def _rows(path: str | Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the place for messages and the tab-separated cells of the lines of a file that are not blank."""
    source = source_name(path)
    for number, line in read_lines(path):
        if line.strip():
            cells = [cell.strip() for cell in line.split("\t")]
            if '""' in line:
                cells = [cell[1:-1].replace('""', '"') if _DOUBLED_MARKS.fullmatch(cell) else cell for cell in cells]
            yield f"{source}, line {number}", cells


def _announced(
    pairs: list[LabelledPair], path: str | Path, columns: Sequence[str], remarks: Remarks | None = None
) -> list[LabelledPair]:
    """Return pairs and announce their number. Raises InputError if there is none."""
    source = source_name(path)
    if not pairs:
        raise InputError(f"{source}: found no pair; expected lines of {', '.join(columns)}, separated by tabs")
    counts = {"pairs": len(pairs), "labels": len({pair.label for pair in pairs})}
    first = tuple(f"{pair.label}: {pair.left} | {pair.right}" for pair in pairs[:2])
    odd = remarks.all() if remarks else ()
    announce(ReadingReport(source, "labelled pairs of sentences, separated by tabs", counts, "", odd, first))
    return pairs


def _write_rows(path: str | Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a tab-separated table with a header, atomically."""
    write_text("".join("\t".join(map(str, row)) + "\n" for row in (columns, *rows)), path)


# ---- next-sentence prediction

NEXT, OTHER = "next", "other"
SHARES = {"train": 0.9, "valid": 0.05, "test": 0.05}  # of the text, in this order


@dataclass(frozen=True)
class NextSentenceSummary:
    """The result of `write_next_sentence_pairs`: the number of pairs in each file."""

    folder: str
    train: int
    valid: int
    test: int

    def to_dict(self) -> dict[str, Any]:
        return {"schema_version": 1, **asdict(self)}

    def __str__(self) -> str:
        return f"{self.folder}: {self.train:,} training, {self.valid:,} validation and {self.test:,} test pairs"


def write_next_sentence_pairs(
    text: str | Path, folder: str | Path, maximum_words: int = 40, seed: int = 0
) -> NextSentenceSummary:
    """Write train.tsv, valid.tsv and test.tsv with the columns sentence1, sentence2 and label.

    The files come from parts of the text that do not overlap.

    Args:
        text: one sentence per line. An empty line separates texts: the sentences around it are no pair.
        maximum_words: pairs with a longer sentence are omitted, counted at white space.

    Raises:
        InputError: if a part has no pair.
    """
    check_number("maximum_words", maximum_words, 1)
    check_number("seed", seed, 0, LARGEST_SEED)
    lines = [" ".join(line.split()) for _, line in corpora.untagged_lines(text, corpora.read_lines(text))]
    fits = [0 < len(line.split()) <= maximum_words for line in lines]
    draw, end = random.Random(seed), 0
    parts: dict[str, list[tuple[str, str, str]]] = {}
    for name, share in SHARES.items():
        begin = end
        end = len(lines) if name == "test" else begin + round(share * len(lines))
        sentences = list(compress(lines[begin:end], fits[begin:end]))
        parts[name] = []
        for place in range(begin, end - 1):
            if fits[place] and fits[place + 1]:
                left = lines[place]
                right = lines[place + 1]
                other = draw.choice(sentences)
                is_next = draw.random() < 0.5 or other in (left, right)
                parts[name].append((left, right, NEXT) if is_next else (left, other, OTHER))
        if not parts[name]:
            raise InputError(
                f"{source_name(text)}: found no pair of adjacent sentences of up to {maximum_words} words for"
                f" {name}.tsv in {len(lines)} lines; expected a longer text"
            )
    with written_together(Path(folder)) as temporary:
        for name, pairs in parts.items():
            _write_rows(temporary / f"{name}.tsv", PAIR_COLUMNS, pairs)
    return NextSentenceSummary(str(folder), **{name: len(pairs) for name, pairs in parts.items()})


# ---- logical inference

VARIABLES, OPERATORS = tuple("abcdef"), ("and", "or", "not")
TOKENS = ("(", ")", *VARIABLES, *OPERATORS)  # in the order of their ids
RELATIONS = {
    "<": "entailment",
    ">": "reverse entailment",
    "=": "equivalence",
    "|": "alternation",
    "^": "negation",
    "v": "cover",
    "#": "independence",
}
MOST_OPERATORS, TRAINED_OPERATORS = 12, 6

_ASSIGNMENTS = 2 ** len(VARIABLES)
_ALWAYS = 2**_ASSIGNMENTS - 1  # true under every assignment
_TRUTHS = {
    name: sum(1 << world for world in range(_ASSIGNMENTS) if world >> place & 1) for place, name in enumerate(VARIABLES)
}
_LEVELS = 3  # maximum nesting depth of `and` and `or`
_VARIABLES_OF_A_PAIR = 4
_NEGATED, _BINARY = 1 / 3, 4 / 9  # share of negated formulas; share of joined formulas among the others


@dataclass(frozen=True)
class Formula:
    """A propositional formula.

    Attributes:
        text: the tokens, separated by spaces.
        truth: bit w is 1 if the formula is true under assignment w, one of 2^6. Under assignment w, variable i (a is 0)
            has the value of bit i of w.
        operators: the number of operators.
    """

    text: str
    truth: int
    operators: int = 0

    @classmethod
    def variable(cls, name: str) -> Formula:
        return cls(name, _TRUTHS[name])

    def negated(self) -> Formula:
        return Formula(f"( not {self.text} )", _ALWAYS & ~self.truth, self.operators + 1)

    def joined(self, operator: str, other: Formula) -> Formula:
        """Join this formula with another one.

        Args:
            operator: "and" or "or".
        """
        truth = self.truth & other.truth if operator == "and" else self.truth | other.truth
        return Formula(f"( {self.text} ( {operator} {other.text} ) )", truth, self.operators + other.operators + 1)

    @property
    def is_constant(self) -> bool:
        """Whether the formula is always true or always false."""
        return self.truth in (0, _ALWAYS)


def relation(left: int, right: int) -> str:
    """Return the relation between two truth values (`Formula.truth`) that are not constant.

    Source: Bowman et al. 2015, Table 1.
    """
    if left == right:
        return "="
    if not left & ~right:
        return "<"
    if not right & ~left:
        return ">"
    apart, covering = not left & right, left | right == _ALWAYS
    if apart:
        return "^" if covering else "|"
    return "v" if covering else "#"


@cache
def _shares(level: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the probability of each number of operators in a formula with at most `level` levels.

    The first tuple is for all sampled formulas, the second for formulas that are not negated.
    """
    plain = [1.0] + [0.0] * MOST_OPERATORS
    if level:
        inner, _ = _shares(level - 1)
        plain[0] = 1 - _BINARY
        for count in range(1, MOST_OPERATORS + 1):
            plain[count] = _BINARY * sum(inner[part] * inner[count - 1 - part] for part in range(count))
    both = [(1 - _NEGATED) * plain[0]]
    both += [(1 - _NEGATED) * plain[count] + _NEGATED * plain[count - 1] for count in range(1, MOST_OPERATORS + 1)]
    return tuple(both), tuple(plain)


def sample_formula(
    draw: random.Random, operators: int, variables: Sequence[str] = VARIABLES, level: int = _LEVELS
) -> Formula:
    """Sample a formula with the given number of operators, 0 to 12, and at most `level` levels of `and` and `or`.

    The distribution is that of all sampled formulas, conditioned on this number.
    """
    both, plain = _shares(level)
    is_negated = operators > 0 and draw.random() * both[operators] >= (1 - _NEGATED) * plain[operators]
    rest = operators - is_negated
    if rest:
        inner, _ = _shares(level - 1)
        weights = [inner[part] * inner[rest - 1 - part] for part in range(rest)]
        (part,) = draw.choices(range(rest), weights)
        left = sample_formula(draw, part, variables, level - 1)
        operator = draw.choice(("and", "or"))
        formula = left.joined(operator, sample_formula(draw, rest - 1 - part, variables, level - 1))
    else:
        formula = Formula.variable(draw.choice(variables))
    return formula.negated() if is_negated else formula


class _FormulaSampler:
    """Sampler of pairs without repetition. A pair and its mirror image count as the same pair."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.seen: set[tuple[str, str]] = set()

    def pairs(self, count: int, operators: range) -> list[LabelledPair]:
        """Sample `count` pairs with these numbers of operators, in the proportions of the published sampling.

        Pairs with a constant formula, and those that were sampled before in either order, are left out.
        """
        weights, _ = _shares(_LEVELS)
        numbers = range(MOST_OPERATORS + 1)
        both = [(left, right) for left in numbers for right in numbers if max(left, right) in operators]
        shares = [weights[left] * weights[right] for left, right in both]
        pairs: list[LabelledPair] = []
        with working(Progress("sampling pairs", count)) as work:
            while len(pairs) < count:
                for counts in self.draw.choices(both, shares, k=count - len(pairs)):
                    variables = self.draw.sample(VARIABLES, _VARIABLES_OF_A_PAIR)
                    left, right = (sample_formula(self.draw, number, variables) for number in counts)
                    key = min((left.text, right.text), (right.text, left.text))
                    if left.is_constant or right.is_constant or key in self.seen:
                        continue
                    self.seen.add(key)
                    label = relation(left.truth, right.truth)
                    pairs.append(LabelledPair(left.text, right.text, label, max(counts)))
                    work.done += 1
        return pairs


@dataclass(frozen=True)
class LogicSummary:
    """The result of `write_logic`: the number of pairs in each file by relation and by number of operators."""

    folder: str
    train: dict[str, dict[str, int]]
    valid: dict[str, dict[str, int]]
    test: dict[str, dict[str, int]]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        lines = [f"{self.folder}: number of pairs, and percentage of pairs with each relation"]
        lines.append(f"{'':<7}{'':>9}" + "".join(f"{sign:>7}" for sign in RELATIONS))
        for name in ("train", "valid", "test"):
            counts = getattr(self, name)["relations"]
            total = sum(counts.values())
            shares = "".join(f"{100 * counts[sign] / total:>7.1f}" for sign in RELATIONS)
            lines.append(f"  {name:<5}{total:>9,}{shares}")
        return "\n".join(lines)


MOST_PAIRS = 5_000_000  # limit of `write_logic`, which keeps all pairs in memory


def write_logic(folder: str | Path, pairs: int = 100_000, seed: int = 0) -> LogicSummary:
    """Write train.tsv, valid.tsv and test.tsv with the columns relation, left, right and operators.

    No pair occurs in two files; a pair and its mirror image count as the same pair. The files appear together.

    Args:
        pairs: the number of training pairs. They have up to 6 operators, in the proportions of the sampling. The
            validation file has 5 % of this number, sampled in the same way. The test file has 1 % of this number, but
            at most 1,000, for each number of operators from 1 to 12.

    Raises:
        InputError: if a number is out of range or the folder cannot be written.
    """
    check_number("pairs", pairs, 1, MOST_PAIRS)
    check_number("seed", seed, 0, LARGEST_SEED)
    folder = Path(folder)
    counts: dict[str, dict[str, dict[str, int]]] = {}
    with written_together(folder) as temporary:
        parts = _formula_pairs(_FormulaSampler(seed), pairs)
        for name, part in parts.items():
            write_formula_pairs(part, temporary / f"{name}.tsv")
    for name, part in parts.items():
        relations = Counter(pair.label for pair in part)
        operators = Counter(pair.operators for pair in part)
        counts[name] = {
            "relations": {sign: relations[sign] for sign in RELATIONS},
            "operators": {str(number): operators[number] for number in sorted(operators)},
        }
    return LogicSummary(str(folder), **counts)


def _formula_pairs(sampler: _FormulaSampler, pairs: int) -> dict[str, list[LabelledPair]]:
    """Return the pairs of each file of `write_logic`."""
    each = min(1000, max(1, pairs // 100))
    # Test pairs are sampled first: there are few pairs with one operator, and training would use all of them.
    test = [pair for count in range(1, MOST_OPERATORS + 1) for pair in sampler.pairs(each, range(count, count + 1))]
    valid, train = (sampler.pairs(count, range(TRAINED_OPERATORS + 1)) for count in (max(1, pairs // 20), pairs))
    return {"train": train, "valid": valid, "test": test}


def write_formula_pairs(pairs: Iterable[LabelledPair], path: str | Path) -> None:
    """Write a tab-separated table with a header and one pair per line."""
    _write_rows(path, FORMULA_COLUMNS, ((pair.label, pair.left, pair.right, pair.operators) for pair in pairs))


def read_formula_pairs(path: str | Path) -> list[LabelledPair]:
    """Read the pairs of a tab-separated file with the columns relation, left and right. Other columns are ignored.

    The first line may be the header that `write_formula_pairs` writes; published files have no header. The number of
    operators is counted.

    Raises:
        InputError: if a line is not a pair, naming the file and the line, and if the file has no pair.
    """
    columns = FORMULA_COLUMNS[:3]
    pairs = []
    for row, (place, cells) in enumerate(_rows(path)):
        if row == 0 and cells[:3] == list(columns):
            continue
        if len(cells) < 3:
            raise InputError(f"{place}: found {len(cells)} cells; expected {', '.join(columns)}, separated by tabs")
        sign, left, right = cells[:3]
        if sign not in RELATIONS:
            raise InputError(f"{place}: found the relation {sign!r}; expected one of {' '.join(RELATIONS)}")
        pairs.append(LabelledPair(left, right, sign, max(_operators_of(left, place), _operators_of(right, place))))
    return _announced(pairs, path, columns)


def _operators_of(formula: str, place: str) -> int:
    """Return the number of operators of a formula. Raises InputError if it has other tokens, or none."""
    tokens = formula.split()
    unknown = [token for token in tokens if token not in TOKENS]
    if unknown or not tokens:
        problem = f"{unknown[0]!r} in {formula!r}" if unknown else "an empty formula"
        raise InputError(f"{place}: found {problem}; expected tokens of {' '.join(TOKENS)}, spaces between")
    return sum(token in OPERATORS for token in tokens)
