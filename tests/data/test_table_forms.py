"""Tables as spreadsheets, R, pandas and programs for experiments write them: their rows, or a message with the line."""

from __future__ import annotations

import io
import warnings
import zipfile

import pytest

from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.core.reading import collected
from syntaxlm.data.table_form import Missing
from syntaxlm.data.tables import has_decimal_commas, open_table, read_table, refuse_table

R_CELLS = (
    '1{0}"a"{0}"The man said {1}no{1}"{0}NA{0}"left."{0}301.5\n'
    '1{0}"b"{0}"The men said {1}no{1}"{0}"who left"{0}"left."{0}322.25\n'
)
R_NAMES = ["item", "condition", "r1", "r2", "r3", "time"]
R_HEADER = '"item"{0}"condition"{0}"r1"{0}"r2"{0}"r3"{0}"time"\n'
R_ROWS = [
    ["1", "a", 'The man said "no"', "NA", "left.", "301.5"],
    ["1", "b", 'The men said "no"', "who left", "left.", "322.25"],
]
TWO = [["1", "a", "The man | was | old."], ["1", "b", "The men, who left, | were | old."]]
NAMES = ["item", "condition", "sentence"]
PLAIN = '1,a,The man | was | old.\n1,b,"The men, who left, | were | old."\n'


@pytest.fixture
def written(tmp_path):
    """Writes a table; returns its path."""

    def written(content: str | bytes, name: str = "table.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return written


def read(path):
    """Return the names and the filled rows of a table, and its report."""
    with collected() as reports:
        table = open_table(path)
        rows = [cells for _, cells in table.rows if cells]
    return list(table.names), rows, reports[-1]


@pytest.mark.parametrize(
    ("content", "names", "rows", "said"),
    [
        # R: doubled marks, \" (the default of write.table), row names, write.csv2.
        (
            R_HEADER.format(",") + R_CELLS.format(",", '""'),
            R_NAMES,
            R_ROWS,
            "text in quotation marks, 2 rows, 6 columns; 1 cell without a value in column r2: 'NA' (line 2)",
        ),
        (
            R_HEADER.format("\t") + R_CELLS.format("\t", '\\"'),
            R_NAMES,
            R_ROWS,
            '2 rows with \\" for quotation marks (lines 2, 3)',
        ),
        (
            R_HEADER.format(",") + R_CELLS.format(",", '\\"'),
            R_NAMES,
            R_ROWS,
            '2 rows with \\" for quotation marks (lines 2, 3)',
        ),
        (
            R_HEADER.format("\t")
            + "".join(f'"{n}"\t{line}\n' for n, line in enumerate(R_CELLS.format("\t", '\\"').splitlines(), 1)),
            ["", *R_NAMES],
            [["1", *R_ROWS[0]], ["2", *R_ROWS[1]]],
            "1 column without a name before the others: '1'",
        ),
        (
            '"";"s";"time"\n"1";"a; b";301,5\n"2";"c";NA\n',
            ["", "s", "time"],
            [["1", "a; b", "301,5"], ["2", "c", "NA"]],
            "separated by semicolons",
        ),
        (
            '"item","s"\n"1","\\"No,\\" he said"\n"2",""\n"3","a\\"\n',
            ["item", "s"],
            [["1", '"No," he said'], ["2", ""], ["3", "a\\"]],
            "3 rows",
        ),
        # A backslash is an ordinary character where marks are doubled.
        ('"item","s"\n"1","a\\""b"\n"2","c\\"\n', ["item", "s"], [["1", 'a\\"b'], ["2", "c\\"]], "2 rows, 2 columns"),
        # The separator.
        (
            'item;"condition, type";sentence\n1;a;The man\n',
            ["item", "condition, type", "sentence"],
            [["1", "a", "The man"]],
            "separated by semicolons",
        ),
        (
            "item;condition, type;sentence\n1;a;The man, who\n1;b;The men\n",
            ["item", "condition, type", "sentence"],
            [["1", "a", "The man, who"], ["1", "b", "The men"]],
            "semicolons",
        ),
        ('"item\tx",sentence\n1,a\n', ["item x", "sentence"], [["1", "a"]], "separated by commas"),
        ("item,sentence\n1,a\tb\n", ["item", "sentence"], [["1", "a\tb"]], "separated by commas"),
        ("sep=;\nitem;s\n1;a, b\n", ["item", "s"], [["1", "a, b"]], "separated by semicolons, 1 row"),
        ('"sep=,"\r\nitem,s\r\n1,a\r\n', ["item", "s"], [["1", "a"]], "separated by commas"),
        ("sep=\t\nitem\ts\n1\ta\n", ["item", "s"], [["1", "a"]], "separated by tabs"),
        # Spaces after separators, and in names.
        (
            "item, condition, sentence\n" + PLAIN.replace(",", ", ").replace("men,  who left,  ", "men, who left, "),
            NAMES,
            TWO,
            "spaces after them skipped",
        ),
        (
            'item,condition,sentence\n1,a, "The man, who"\n',
            NAMES,
            [["1", "a", "The man, who"]],
            "spaces after them skipped",
        ),
        (
            "\ufeffitem,\u00a0condition\u202f,\u200bsen\u00a0tence \n1,a,b\n",
            ["item", "condition", "sen tence"],
            [["1", "a", "b"]],
            "2 column names with spaces or invisible characters",
        ),
        # Empty columns and rows.
        ("item,condition,sentence,,\n" + PLAIN.replace("\n", ",,\n"), NAMES, TWO, "2 rows, 3 columns"),
        (
            "item,,condition,,sentence,\n1,,a,,b,\n1,,c,,d\n",
            NAMES,
            [["1", "a", "b"], ["1", "c", "d"]],
            "2 rows, 3 columns",
        ),
        (
            "item,condition,sentence\n" + PLAIN.replace("\n", ",,\n"),
            NAMES,
            TWO,
            "2 rows with empty cells after the last column (lines 2, 3)",
        ),
        ("item,condition,sentence\n" + PLAIN + ",,\n , ,\n,,,,,\n\n", NAMES, TWO, "4 empty rows (lines 4, 5, 6, 7)"),
        (",item,s\n0,1,a\n1,1,b\n", ["", "item", "s"], [["0", "1", "a"], ["1", "1", "b"]], "2 rows, 3 columns"),
        # Line ends.
        (("item,condition,sentence\n" + PLAIN).replace("\n", "\r"), NAMES, TWO, "2 rows, 3 columns"),
        (("item,condition,sentence\n" + PLAIN).replace("\n", "\r\n", 1), NAMES, TWO, "2 rows, 3 columns"),
        # Ordinary quotation marks between tabs.
        (
            'item\ts\n1\t"Yes, he said.\n2\t"Go!" he said, "now"\n3\t5" pipe\n',
            ["item", "s"],
            [["1", '"Yes, he said.'], ["2", '"Go!" he said, "now"'], ["3", '5" pipe']],
            "3 rows",
        ),
    ],
)
def test_a_table_of_another_program_has_its_rows(written, content, names, rows, said):
    path = written(content)
    found, cells, report = read(path)
    assert (found, cells) == (names, rows)
    assert said in str(report)
    assert report.counts == {"rows": len(rows), "columns": len(names)}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            '"item" "s"\n"1" 1 "a b"\n',
            "line 1: found names separated by spaces; expected tabs, commas or semicolons. In R",
        ),
        ("item|condition|s\n1|a|b\n", "line 1: found names separated by '|'"),
        (
            "1,a,The man\n2,b,The dog\n",
            "no column 's'; found 1, a, The man. '1' looks like a cell, not a name. Is the header",
        ),
        (
            "1,1,The man\n2,2,The dog\n",
            "more than one column is named '1'; expected unique names. '1' looks like a cell",
        ),
        ("item s\n1 a\n", "no column 's'; found item s. The names are not separated by tabs"),
        (
            "item,s\n1,The man, who left\n2,The dog, who slept\n",
            "line 2: found 3 cells; expected 2: item, s. A cell that",
        ),
        ("item,s\n1,a\nitem,s\n2,b\n", "line 3: found the header again"),
        ("item,s\n1,a\n\ufeffitem,s\n2,b\n", "line 3: found the header again"),
        ("item,s,,\n1,a,,\n" + "2,b,,\n" * 3000 + "3,c,x,\n", "line 3003: found 'x' in column 3, which has no name"),
        ("item,s,,\n1,a,b,c\n", "line 1: found no names for columns 3, 4"),
        ('item\ts\n1\t"She said \\"no\\""\n2\tA dog.\n', 'line 2: found quotation marks inside the cell "She said'),
        ('"item"\t"s"\n1\t"She said "no" twice"\n', "line 2: found quotation marks inside the cell"),
        ('item,s\n1,"a" b\n', "line 2: not a table of cells separated by ','"),
        ('item,s\n1,"a\nb"\n', "line 2: the line ends within a cell in quotation marks; expected the whole row"),
        ("item,s\r\n1,a\rb\r\n", "line 2: found a line break (CR) in a cell"),
        ('item,s\r\n"1",a\rb\r\n', "line 2: found a line break (CR) in a cell"),
        ('"item,s"\n', "no column 's'; found item,s"),
        ('"item,s"\n"1,a"\n', "line 1: found one cell in every line, 'item,s'; expected several. Whole lines are in"),
        (
            "# Results on Monday\n# 1. Time\n161,abc\n",
            "line 1: found the comment '# Results on Monday'; expected column",
        ),
        (
            's,Q2\n"Text","Item"\n"{""ImportId"":""Q1""}","{""ImportId"":""Q2""}"\na,1\n',
            "line 3: found the third header",
        ),
    ],
)
def test_a_table_that_cannot_be_read_is_refused_with_the_line_and_the_remedy(written, content, said):
    with pytest.raises(InputError) as raised:
        list(read_table(written(content), "s")[1])
    assert said in str(raised.value)


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_tables_in_other_encodings_are_refused_with_the_remedy(written, encoding):
    with pytest.raises(InputError, match=r"expected UTF-8 text\. (Convert .*)?Save the table as UTF-8"):
        open_table(written("item,s\n1,é\n".encode(encoding)))


def test_row_names_without_quotation_marks_are_read_with_a_warning(written):
    path = written("item\ts\n1\t7\ta\n2\t8\tb\n")
    with pytest.warns(InputWarning, match=r"one cell more than the header, and the first cells count the rows"):
        table = open_table(path)
    assert (table.names, [cells for _, cells in table.rows]) == (("", "item", "s"), [["1", "7", "a"], ["2", "8", "b"]])


def test_a_cell_in_quotation_marks_may_be_a_long_text(written):
    text = 'a ""word"", ' * 20_000
    assert read(written(f'item,text,n\n1,"{text}",NA\n'))[1] == [["1", text.replace('""', '"'), "NA"]]


def test_na_is_a_missing_value_only_without_quotation_marks(written):
    path = written('"item","s"\n1,"NA"\n2,NA\n')
    table = open_table(path)
    assert table.is_quoted
    assert [isinstance(cells[1], Missing) for _, cells in table.rows] == [False, True]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [row.text for row in read_table(path, "s")[1]] == ["NA", ""]


def test_na_in_a_table_without_quotation_marks_is_read_as_missing_with_a_warning(written):
    path = written('item\ts\n1\tNA\n2\t"NA"\n3\tNA\n4\ta\n')
    with pytest.warns(InputWarning, match=r"line 2: found NA in column s. It is read as an empty cell") as warned:
        assert [row.text for row in read_table(path, "s")[1]] == ["", "NA", "", "a"]
    assert len(warned) == 1


@pytest.mark.parametrize(
    ("cells", "separator", "expected"),
    [
        (["301,5", "299", "NA", ""], "\t", True),
        (["1,234", "12,5"], "\t", True),
        (["1,234", "2,345"], "\t", False),
        (["1,234", "2,345"], ";", True),
        (["301,5", "299.5"], ";", False),
        (["1.234,5"], ";", False),
        (["301.5"], ";", False),
    ],
)
def test_decimal_commas_are_told_from_separators_of_thousands(cells, separator, expected):
    assert has_decimal_commas(cells, separator) == expected


def archive(*names: str, content: str = "") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name in names:
            file.writestr(zipfile.ZipInfo(name), content)  # whose date is fixed
    return buffer.getvalue()


ODS = archive("mimetype", content="application/vnd.oasis.opendocument.spreadsheet")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "stimuli.xlsx",
            archive("[Content_Types].xml", "xl/workbook.xml"),
            "a workbook of Excel (.xlsx); expected a text file. To use it, save the sheet as CSV UTF-8",
        ),
        ("stimuli.csv", archive("[Content_Types].xml", "xl/workbook.xml"), "a workbook of Excel (.xlsx)"),
        ("stimuli.xlsx", archive("x"), "a workbook of Excel (.xlsx)"),
        (
            "text.docx",
            archive("[Content_Types].xml", "word/document.xml"),
            "a document of Word (.docx); expected a text file. To use it, save the document as plain text",
        ),
        ("stimuli.ods", ODS, "a sheet of LibreOffice (.ods)"),
        ("stimuli.numbers", archive("Index/Document.iwa"), "a document of Numbers or Pages"),
        ("old.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(99), "a file of Excel or Word before 2007"),
        (
            "data.rds",
            b"\x1f\x8b\x08\x00" + bytes(99),
            "R data (.rds, .RData); expected a text file. To use it, write a data frame in R",
        ),
        ("data.csv", b"RDX3\nX\n\x00\x00\x00\x03", "R data"),
        ("data.sav", b"$FL2@(#) SPSS", "data of SPSS (.sav)"),
        ("data.dta", b"<stata_dta><header>", "data of Stata (.dta)"),
        ("data.feather", b"ARROW1\x00\x00", "a Feather file"),
        ("data.parquet", b"PAR1\x15\x04", "a Parquet file"),
    ],
)
def test_files_of_other_programs_are_refused_by_name_with_the_remedy(written, name, content, said):
    with pytest.raises(InputError) as raised:
        open_table(written(content, name))
    assert said in str(raised.value)


@pytest.mark.parametrize(
    "content",
    [
        '"item" "s"\n"1" 1 "a b"\n',
        'item;"condition,type";s\n1;a;b\n',
        "sep=;\nitem;s\n1;a b, c\n",
        "item\ts\n1\t2\ta\n2\t2\tb\n",
    ],
)
def test_a_table_given_as_a_text_is_refused(written, content):
    with pytest.raises(InputError, match="found a table with the columns"):
        refuse_table(written(content, "text.txt"), "Choose {}")


def test_a_text_is_no_table(written):
    refuse_table(written('"No," he said, "I will not."\n"Yes, you will."\nThey left; she stayed.\n', "text.txt"), "")
