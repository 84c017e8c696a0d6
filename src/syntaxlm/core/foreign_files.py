"""Files of other programs: recognised by their start, to say how they become text or brackets."""

from __future__ import annotations

import re
from pathlib import Path

ARCHIVE = b"PK\x03\x04"  # of a zip archive

_AS_CSV = "save the sheet as CSV UTF-8 (File, Save As, or Export)"
_AS_TEXT = "save the document as plain text in UTF-8"
_FROM_R = "write a data frame in R with write.csv(data, row.names = FALSE)"
_FROM_PANDAS = "write it with pandas: data.to_csv(index=False)"
_FROM_STATISTICS = "export the data as CSV in UTF-8"

_FORMATS = [  # first bytes, name, remedy
    (
        rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a file of Excel or Word before 2007 (.xls, .doc)",
        "save it as CSV UTF-8, or as plain text",
    ),
    (rb"(?:RDX|RDA|RDB)[123]\n|[XA]\n\x00\x00\x00[\x02\x03]|A\n[23]\n", "R data (.rds, .RData)", _FROM_R),
    (rb"\$FL[23]@", "data of SPSS (.sav)", _FROM_STATISTICS),
    (rb"<stata_d|[\x6e-\x73][\x01\x02]\x01\x00", "data of Stata (.dta)", _FROM_STATISTICS),
    (rb"FEA1|ARROW1", "a Feather file", _FROM_PANDAS),
    (rb"PAR1", "a Parquet file", _FROM_PANDAS),
    (rb"\x80[\x02-\x05][\x95\x8a\x63\x7d\x5d\x28]", "a pickle of Python", _FROM_PANDAS),
    (rb"SQLite format 3\x00", "an SQLite database", _FROM_STATISTICS),
    (rb"\x89HDF\r\n", "an HDF5 file", _FROM_PANDAS),
    (rb"(?:\xef\xbb\xbf)?%PDF-", "a PDF document", _AS_TEXT),
    (rb"%!PS", "a PostScript document", _AS_TEXT),
    (rb"\{\\rtf\d", "an RTF document", _AS_TEXT),
]  # fmt: skip
_ARCHIVED = [  # in the names and first file of a zip archive
    (rb"xl/|application/vnd\.openxmlformats-officedocument\.spreadsheetml", "a workbook of Excel (.xlsx)", _AS_CSV),
    (rb"word/", "a document of Word (.docx)", _AS_TEXT),
    (rb"ppt/", "slides of PowerPoint (.pptx)", _AS_TEXT),
    (rb"application/vnd\.oasis\.opendocument\.spreadsheet", "a sheet of LibreOffice (.ods)", _AS_CSV),
    (rb"application/vnd\.oasis\.opendocument", "a document of LibreOffice (.odt)", _AS_TEXT),
    (rb"application/epub\+zip", "an e-book (.epub)", _AS_TEXT),
    (rb"Index/|\.iwa", "a document of Numbers or Pages", "export it as CSV, or as plain text"),
]
_BY_SUFFIX = {  # archives whose first bytes do not show what they are
    ".xlsx": _ARCHIVED[0], ".xlsm": _ARCHIVED[0], ".docx": _ARCHIVED[1], ".pptx": _ARCHIVED[2], ".ods": _ARCHIVED[3],
    ".odt": _ARCHIVED[4], ".epub": _ARCHIVED[5], ".numbers": _ARCHIVED[6], ".pages": _ARCHIVED[6],
}  # fmt: skip
_R_SUFFIXES = (".rds", ".rdata", ".rda")
_COMPRESSED = re.compile(rb"\x1f\x8b|\xfd7zXZ\x00|BZh")


def foreign_format(start: bytes, path: str | Path) -> tuple[str, str] | None:
    """Return what a file is and how it becomes text, if another program wrote it; None for text and other files.

    Args:
        start: its first bytes, with the names of the first files if it is an archive.
        path: its name, which says what a compressed file or an archive is if its first bytes do not.
    """
    suffix = Path(path).suffix.lower()
    if start.startswith(ARCHIVE):
        for pattern, name, remedy in _ARCHIVED:
            if re.search(pattern, start):
                return name, remedy
        return _BY_SUFFIX[suffix][1:] if suffix in _BY_SUFFIX else None
    if suffix in _R_SUFFIXES and _COMPRESSED.match(start):
        return "R data (.rds, .RData)", _FROM_R
    return next(((name, remedy) for pattern, name, remedy in _FORMATS if re.match(pattern, start)), None)


_EXPORT = re.compile(r"(?:%%.*\n|\s)*#(?:(?:FORMAT|BOS)\s+\d|BOT\s+[A-Z]+\b)")
_XML = re.compile(r"\s*<(?:\?xml|!DOCTYPE|corpus|subcorpus|s)\b", re.IGNORECASE)
_TIGER = re.compile(r"<(?:corpus|annotation|s|graph|terminals)\b.*<(?:annotation|graph|terminals|t)\b", re.DOTALL)
_START_CHARACTERS = 20_000


def foreign_treebank(start: str, source: str) -> tuple[str, str] | None:
    """Return the format of a treebank that cannot be read, and how it is converted; None for other texts.

    Args:
        start: of its text.
        source: its name, for the command.
    """
    start = start[:_START_CHARACTERS]
    if _EXPORT.match(start):
        name, option = "the NEGRA export format", "export"
    elif _XML.match(start) and _TIGER.search(start):
        name, option = "Tiger XML", "tiger"
    else:
        return None
    return name, (
        "Convert it to bracketed trees, for example with: discodop treetransforms"
        f" {source} FILE.mrg --inputfmt={option} --outputfmt=bracket --splitdisc"
    )
