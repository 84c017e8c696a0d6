"""Results for several texts, and for the words of one text: lists with data frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from syntaxlm.dataframes import dataframe
from syntaxlm.drawing.charts import bar_chart_svg
from syntaxlm.drawing.page import table_html
from syntaxlm.scoring.surprisal import WordSurprisal

T = TypeVar("T")
SHOWN = 100  # rows or pictures in a notebook


class Results(list[T]):
    """A list of results in the order of the input: parses, surprisals of sentences, or generated sentences."""

    def to_dict(self) -> list[Any]:
        """Each result as JSON values."""
        return [one.to_dict() for one in self]  # type: ignore[attr-defined]

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """The rows of `to_dataframe`: the rows of each result, or one row with its values."""
        for one in self:
            yield from one.rows() if hasattr(one, "rows") else [one.to_dict()]  # type: ignore[attr-defined]

    def to_dataframe(self) -> Any:
        """All results as one pandas.DataFrame or, without pandas, polars.DataFrame.

        There is one row per word for surprisals, per constituent for parses, and per result otherwise.
        Raises InputError if neither library is installed.
        """
        return dataframe(self.rows())

    def _repr_html_(self) -> str:
        """The results for notebooks, as pictures or a table."""
        if self and hasattr(self[0], "_repr_svg_") and not isinstance(self[0], Results):
            pictures = [one._repr_svg_() or "" for one in self[:SHOWN]]  # type: ignore[attr-defined]
            return "".join(f"<div>{picture}</div>" for picture in pictures) + _rest(len(self))
        rows = list(self.rows())
        return table_html([list(map(_cell, row.values())) for row in rows[:SHOWN]], list(rows[0]) if rows else []) + (
            _rest(len(rows))
        )


class SentenceSurprisal(Results[WordSurprisal]):
    """The words of one sentence with their surprisals in bits; the last is EOS if the model predicts it."""

    @property
    def bits(self) -> float:
        """The surprisal of the whole sentence, -log2 of its probability."""
        return sum(word.surprisal for word in self if word.surprisal is not None)

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """A row per word, with the fields of `WordSurprisal`."""
        return (word._asdict() for word in self)

    def to_dataframe(self) -> Any:
        """A row per word, with the fields of `WordSurprisal`. Raises InputError as `Results.to_dataframe` does."""
        return dataframe(self.rows(), WordSurprisal._fields)

    def _repr_svg_(self) -> str | None:
        """A bar per word, for notebooks."""
        if not self:
            return None
        bits = [float("nan") if word.surprisal is None else word.surprisal for word in self]
        return bar_chart_svg([word.word or word.token for word in self], {"surprisal": bits}, "", "bits")

    def _repr_html_(self) -> str:
        """The bars above a table, because notebooks prefer HTML to a picture."""
        return f"<div>{self._repr_svg_() or ''}</div>" + super()._repr_html_()


def _rest(count: int) -> str:
    return f"<p>... and {count - SHOWN:,} more</p>" if count > SHOWN else ""


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else str(value)
