"""Tables and pairs with random changes: they are read, with every line counted in the report, or refused."""

from __future__ import annotations

import json
import random
from contextlib import suppress

import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import split_lines
from syntaxlm.core.reading import collected
from syntaxlm.data.pairs import read_pairs
from syntaxlm.data.table_form import declared_separator
from syntaxlm.data.tables import open_table

R_HEADER = '"item"{0}"condition"{0}"r1"{0}"time"\n'
R_ROWS = '1{0}"a"{0}"The man said \\"no\\""{0}NA\n1{0}"b"{0}"Two, men; left"{0}3.5\n'
SEEDS = [
    'item\tcondition\tsentence\n1\ta\t"Yes, he said.\n1\tb\tThe men | were | old.\n',
    'item, condition, sentence\n1, a, "The man, who left, | was | old."\n1, b, NA\n',
    'sep=;\nitem;"condition, type";sentence;;\n1;a;The man;;\n;;;;\n',
    R_HEADER.format("\t") + R_ROWS.format("\t"),
    R_HEADER.format(",") + R_ROWS.format(","),
    R_HEADER.format(";") + "".join(f'"{n}";{line}\n' for n, line in enumerate(R_ROWS.format(";").splitlines(), 1)),
]
PIECES = [
    '"',
    '""',
    "\\",
    '\\"',
    "\t",
    ",",
    ";",
    ";;",
    "NA",
    '"NA"',
    " ",
    "\n",
    "\r",
    "\r\n",
    "\ufeff",
    "\0",
    "é",
    "#",
    "sep=,\n",
    "\u00a0",
]
PAIRS = [
    json.dumps({"sentence_good": "a b", "sentence_bad": "a c", "UID": 5, "field": None}) + "\n",
    json.dumps([{"better": "a", "worse": "b"}, {"sentences": ["a", "b", "c"]}], indent=1),
]
CHANGES = 150  # of each seed


def mutated(text: str, generator: random.Random) -> str:
    """Return a text with one to three pieces removed, doubled or replaced."""
    for _ in range(generator.randint(1, 3)):
        first = generator.randrange(len(text) + 1)
        end = min(len(text), first + generator.randint(0, 4))
        text = text[:first] + generator.choice(["", text[first:end] * 2, *PIECES]) + text[end:]
    return text


@pytest.mark.filterwarnings("ignore::syntaxlm.InputWarning")
@pytest.mark.parametrize("seed", range(len(SEEDS)))
def test_every_line_of_a_changed_table_is_a_row_or_is_counted_or_the_table_is_refused(seed, tmp_path):
    generator, path = random.Random(seed), tmp_path / "table.csv"
    for _ in range(CHANGES):
        content = mutated(SEEDS[seed], generator)
        path.write_bytes(content.encode())
        with suppress(InputError), collected() as reports:
            table = open_table(path)
            rows = list(table.rows)
            assert all(len(cells) in (0, len(table.names)) for _, cells in rows)
            *_, report = reports
            empty = sum(remark.count for remark in report.remarks if remark.what == "empty rows")
            first, *others = split_lines(content.removeprefix("\ufeff"))
            expected = len(others) - (declared_separator(first) is not None)
            assert report.counts["rows"] + empty == len(rows) == expected, content


@pytest.mark.parametrize("seed", range(len(PAIRS)))
def test_changed_pairs_are_read_or_refused(seed, tmp_path):
    generator, path = random.Random(seed), tmp_path / "pairs.json"
    for _ in range(CHANGES):
        path.write_bytes(mutated(PAIRS[seed], generator).encode())
        with suppress(InputError):
            assert all(pair.better and pair.worse for pair in read_pairs([path]))
