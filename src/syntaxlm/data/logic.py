"""Logical inference: classify pairs of propositional formulas by the relation (one of seven) that holds between them.

Bowman, Manning, Potts 2015, "Tree-structured composition in neural networks without tree-structured architectures",
section 3; Shen et al. 2019 (ON-LSTM), section 5.4. Formulas have six variables and the operators `and`, `or` and `not`.
The length of a pair is the number of operators, including `not`, in the formula with more operators. Formulas are
sampled like the published data: each pair uses four of the six variables, and `and` and `or` are nested at most three
levels deep. Formulas are written with the published brackets and spaces between all tokens: ( ( not a ) ( and b ) ).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import make_folder, write_text
from syntaxlm.core.progress import Work, working
from syntaxlm.core.settings import LARGEST_SEED, check_number
from syntaxlm.core.text_files import read_lines, source_name

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
COLUMNS = ("relation", "left", "right", "operators")

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

    text: the tokens, separated by spaces.
    truth: bit w is 1 if the formula is true under assignment w, one of 2^6. Under assignment w, variable i (a is 0) has
        the value of bit i of w.
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
        """Join this formula with another one. operator: "and" or "or"."""
        truth = self.truth & other.truth if operator == "and" else self.truth | other.truth
        return Formula(f"( {self.text} ( {operator} {other.text} ) )", truth, self.operators + other.operators + 1)

    @property
    def is_constant(self) -> bool:
        """Whether the formula is always true or always false."""
        return self.truth in (0, _ALWAYS)


@dataclass(frozen=True)
class FormulaPair:
    """Two formulas, as tokens separated by spaces, and their relation.

    operators: the number of operators in the formula with more operators.
    """

    relation: str
    left: str
    right: str
    operators: int

    @property
    def label(self) -> str:
        return self.relation


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


@cache
def _splits(level: int, operators: int) -> tuple[float, ...]:
    """Return cumulative weights for the number of operators in the left part of a joined formula.

    operators: the number of operators in both parts.
    """
    inner, _ = _shares(level)
    return tuple(accumulate(inner[left] * inner[operators - left] for left in range(operators + 1)))


def sample_formula(draw: random.Random, operators: int, variables: Sequence[str] = VARIABLES) -> Formula:
    """Sample a formula with the given number of operators, 0 to 12.

    The distribution is that of all sampled formulas, conditioned on this number.
    """
    return _sampled(draw, operators, variables, _LEVELS)


def _sampled(draw: random.Random, operators: int, variables: Sequence[str], level: int) -> Formula:
    both, plain = _shares(level)
    if operators and draw.random() * both[operators] >= (1 - _NEGATED) * plain[operators]:
        return _plain(draw, operators - 1, variables, level).negated()
    return _plain(draw, operators, variables, level)


def _plain(draw: random.Random, operators: int, variables: Sequence[str], level: int) -> Formula:
    """Sample a formula that is not negated: a variable if it has no operator, else two joined formulas."""
    if not operators:
        return Formula.variable(draw.choice(variables))
    (part,) = draw.choices(range(operators), cum_weights=_splits(level - 1, operators - 1))
    left = _sampled(draw, part, variables, level - 1)
    operator = draw.choice(("and", "or"))
    return left.joined(operator, _sampled(draw, operators - 1 - part, variables, level - 1))


class _Sampler:
    """Samples pairs without repetition. A pair and its mirror image count as the same pair."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.seen: set[tuple[str, str]] = set()

    def pairs(self, count: int, operators: range) -> list[FormulaPair]:
        """Sample `count` pairs with these numbers of operators, in the proportions of the published sampling."""
        weights, _ = _shares(_LEVELS)
        numbers = range(MOST_OPERATORS + 1)
        both = [(left, right) for left in numbers for right in numbers if max(left, right) in operators]
        shares = [weights[left] * weights[right] for left, right in both]
        found: list[FormulaPair] = []
        with working(Work("sampling pairs", count)) as work:
            while len(found) < count:
                for left, right in self.draw.choices(both, shares, k=count - len(found)):
                    pair = self._pair(left, right)
                    if pair is not None:
                        found.append(pair)
                        work.done += 1
        return found

    def _pair(self, *operators: int) -> FormulaPair | None:
        """Sample a pair. Returns None if a formula is constant or if the pair was sampled before in either order."""
        variables = self.draw.sample(VARIABLES, _VARIABLES_OF_A_PAIR)
        left, right = (sample_formula(self.draw, count, variables) for count in operators)
        key = min((left.text, right.text), (right.text, left.text))
        if left.is_constant or right.is_constant or key in self.seen:
            return None
        self.seen.add(key)
        return FormulaPair(relation(left.truth, right.truth), left.text, right.text, max(operators))


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

    pairs: the number of training pairs. They have up to 6 operators, in the proportions of the sampling. The validation
        file has 5 % of this number, sampled in the same way. The test file has 1 % of this number, but at most 1,000,
        for each number of operators from 1 to 12.
    No pair occurs in two files; a pair and its mirror image count as the same pair. Files are written atomically.
    Raises InputError if a number is out of range or the folder cannot be written.
    """
    check_number("pairs", pairs, 1, MOST_PAIRS)
    check_number("seed", seed, 0, LARGEST_SEED)
    folder = Path(folder)
    make_folder(folder)
    sampler = _Sampler(seed)
    each = min(1000, max(1, pairs // 100))
    # Test pairs are sampled first: there are few pairs with one operator, and training would use all of them.
    test = [pair for one in range(1, MOST_OPERATORS + 1) for pair in sampler.pairs(each, range(one, one + 1))]
    valid, train = (sampler.pairs(count, range(TRAINED_OPERATORS + 1)) for count in (max(1, pairs // 20), pairs))
    parts = {"train": train, "valid": valid, "test": test}
    for name, part in parts.items():
        write_pairs(part, folder / f"{name}.tsv")
    return LogicSummary(str(folder), **{name: _counts(part) for name, part in parts.items()})


def _counts(pairs: Iterable[FormulaPair]) -> dict[str, dict[str, int]]:
    relations, operators = Counter[str](), Counter[int]()
    for pair in pairs:
        relations[pair.relation] += 1
        operators[pair.operators] += 1
    return {
        "relations": {sign: relations[sign] for sign in RELATIONS},
        "operators": {str(number): operators[number] for number in sorted(operators)},
    }


def write_pairs(pairs: Iterable[FormulaPair], path: str | Path) -> None:
    """Write a tab-separated table with a header and one pair per line."""
    rows = ["\t".join(COLUMNS), *(f"{one.relation}\t{one.left}\t{one.right}\t{one.operators}" for one in pairs)]
    write_text("\n".join(rows) + "\n", path)


def read_formula_pairs(path: str | Path) -> list[FormulaPair]:
    """Read the pairs of a tab-separated file with the columns relation, left and right. Other columns are ignored.

    The first line may be the header that `write_pairs` writes; published files have no header. The number of operators
    is counted. Raises InputError if a line is not a pair, naming the file and the line, and if the file has no pair.
    """
    source = source_name(path)
    pairs = [
        _pair_of(line, f"{source}, line {number}")
        for number, line in read_lines(path)
        if line.strip() and not (number == 1 and line.split("\t")[:3] == list(COLUMNS[:3]))
    ]
    if not pairs:
        raise InputError(
            f"{source}: found no pair; expected lines of relation, left and right formula, separated by tabs"
        )
    return pairs


def _pair_of(line: str, place: str) -> FormulaPair:
    cells = line.split("\t")
    if len(cells) < 3:
        raise InputError(f"{place}: found {len(cells)} cells; expected relation, left and right, separated by tabs")
    sign, left, right = cells[:3]
    if sign not in RELATIONS:
        raise InputError(f"{place}: found the relation {sign!r}; expected one of {' '.join(RELATIONS)}")
    return FormulaPair(sign, left, right, max(_operators_of(left, place), _operators_of(right, place)))


def _operators_of(formula: str, place: str) -> int:
    tokens = formula.split()
    strangers = [token for token in tokens if token not in TOKENS]
    if strangers or not tokens:
        found = f"{strangers[0]!r} in {formula!r}" if strangers else "an empty formula"
        raise InputError(f"{place}: found {found}; expected tokens of {' '.join(TOKENS)}, spaces between")
    return sum(token in OPERATORS for token in tokens)
