"""Results for several texts, and for the words of one text: lists with data frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from syntaxlm.core.tables import Columns, HasRows, Row
from syntaxlm.drawing.charts import bar_chart
from syntaxlm.drawing.files import table_html
from syntaxlm.scoring.surprisal import SURPRISALS, WordSurprisal

T = TypeVar("T")
SHOWN = 100  # rows or pictures in a notebook


NOTHING = Columns("no results", "result", {})


class Results(list[T], HasRows):
    """A list of results in the order of the input: parses, surprisals of sentences, or generated sentences.

    columns: the columns of their rows.
    """

    def __init__(self, results: Iterable[T] = (), columns: Columns | None = None) -> None:
        """columns: by default that of the first result."""
        super().__init__(results)
        if columns is None:
            columns = getattr(self[0], "columns", NOTHING) if self else NOTHING
        self.columns = columns

    def to_dict(self) -> list[Any]:
        """Return each result as JSON values."""
        return [one.to_dict() for one in self]  # type: ignore[attr-defined]

    def rows(self) -> Iterator[Row]:
        """Yield the rows of all results: one per word, per constituent of a parse, or per generated sentence."""
        for one in self:
            yield from one.rows()  # type: ignore[attr-defined]

    def _repr_html_(self) -> str:
        """Return the results for notebooks, as pictures or a table."""
        if self and hasattr(self[0], "_repr_svg_") and not isinstance(self[0], Results):
            pictures = [one._repr_svg_() or "" for one in self[:SHOWN]]  # type: ignore[attr-defined]
            return "".join(f"<div>{picture}</div>" for picture in pictures) + _rest(len(self))
        rows = list(self.rows())
        return table_html([list(map(_cell, row.values())) for row in rows[:SHOWN]], list(rows[0]) if rows else []) + (
            _rest(len(rows))
        )


class SentenceSurprisal(Results[WordSurprisal]):
    """The words of one sentence with their surprisals in bits; the last is EOS if the model predicts it."""

    def __init__(self, words: Iterable[WordSurprisal] = ()) -> None:
        super().__init__(words, SURPRISALS)

    @property
    def bits(self) -> float:
        """The surprisal of the whole sentence, -log2 of its probability."""
        return sum(word.surprisal for word in self if word.surprisal is not None)

    def _repr_svg_(self) -> str | None:
        """Return a bar per word, for notebooks."""
        if not self:
            return None
        bits = [float("nan") if word.surprisal is None else word.surprisal for word in self]
        return bar_chart([word.word or word.token for word in self], {"surprisal": bits}, "", "bits").svg()

    def _repr_html_(self) -> str:
        """Return the bars above a table, because notebooks prefer HTML to a picture."""
        return f"<div>{self._repr_svg_() or ''}</div>" + super()._repr_html_()


def _rest(count: int) -> str:
    return f"<p>... and {count - SHOWN:,} more</p>" if count > SHOWN else ""


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else str(value)
