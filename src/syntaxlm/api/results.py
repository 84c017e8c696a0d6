"""Results for several texts, and for the words of one text: lists with data frames."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar

from syntaxlm.core.errors import InputError
from syntaxlm.drawing.plots import FAINT, Plot, draw_points, has_matplotlib, label_axes, new_plot
from syntaxlm.drawing.surprisal_plot import plot_surprisals
from syntaxlm.reports.page import table_html
from syntaxlm.reports.report import ROWS_PRINTED, HasRows
from syntaxlm.reports.tables import Columns, ReportTable, Row
from syntaxlm.scoring.marks import remark_on_marks
from syntaxlm.scoring.surprisal import SURPRISALS, WordSurprisal
from syntaxlm.scoring.word_scores import WordScore

if TYPE_CHECKING:
    from matplotlib.axes import Axes

T = TypeVar("T")
FEW = 3  # results that are shown of a longer list
_MOST_PICTURES = 10  # of a list that is shown whole in a notebook, where a picture takes some 6,000 bytes
NOTHING = Columns("no results", "result", {})


class Results(list[T], HasRows):
    """A list of results in the order of the input: parses, surprisals of sentences, or generated sentences.

    Args:
        columns: the columns of their rows.
    """

    def __init__(self, results: Iterable[T] = (), columns: Columns | None = None) -> None:
        """Keep results, with the columns of their rows.

        Args:
            columns: by default that of the first result.
        """
        super().__init__(results)
        if columns is None:
            columns = getattr(self[0], "columns", NOTHING) if self else NOTHING
        self.columns = columns

    def __getitem__(self, place: Any) -> Any:
        """Return one result, or the results of a slice, which can be printed and written like all."""
        chosen = super().__getitem__(place)
        if not isinstance(place, slice):
            return chosen
        part = copy(self)
        part[:] = chosen
        return part

    def to_dict(self) -> list[Any]:
        """Return each result as JSON values."""
        return [result.to_dict() for result in self]  # type: ignore[attr-defined]

    def rows(self) -> Iterator[Row]:
        """Yield the rows of all results: one per word, per constituent of a parse, or per generated sentence."""
        for result in self:
            yield from result.rows()  # type: ignore[attr-defined]

    def __str__(self) -> str:
        """Return one result per line; of a long list, the first three results."""
        few, more = self._few(ROWS_PRINTED)
        return "\n".join([*map(str, few), *more]) or "no results"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the results for notebooks, as pictures or a table; of a long list, the first three results."""
        if self and hasattr(self[0], "_repr_svg_") and not isinstance(self[0], Results):
            few, more = self._few(_MOST_PICTURES)
            pictures = [result._repr_svg_() or "" for result in few]  # type: ignore[attr-defined]
            content = "".join(f"<div>{picture}</div>" for picture in pictures)
        else:
            table, more = self._first_rows()
            content = table_html(table)
        return content + "".join(f"<p>{line}</p>" for line in more)

    def _few(self, most: int) -> tuple[Sequence[T], list[str]]:
        """Return all results or, of more than `most`, the first few and a line on the others."""
        if len(self) <= most:
            return self, []
        return self[:FEW], [f"... and {len(self) - FEW:,} more"]


def _sum(values: Iterable[float | None]) -> float:
    """Return the sum of the values that are not None; NaN if there are none."""
    present = [value for value in values if value is not None]
    return sum(present) if present else math.nan


class SentenceSurprisal(Results[WordSurprisal]):
    """The words of one sentence with their surprisals in bits; the last is EOS if the model predicts it.

    Examples:
        >>> print(nlp.surprisal("the cat sleeps"))
        word     token    surprisal
        the      the           3.47
        cat      cat          13.53
        sleeps   sleeps       18.59
                 </s>          4.75
    """

    not_printed = frozenset(
        ["sentence", "position", "begin", "end", "in_vocabulary", "surprisal_word", "surprisal_marks", "tokens"]
    )
    __str__ = __repr__ = HasRows.__str__

    def __init__(
        self,
        words: Iterable[WordSurprisal] = (),
        columns: Columns = SURPRISALS,
        others: Mapping[str, Any] | None = None,
    ) -> None:
        """Keep the words of a sentence, with the columns of their rows.

        Args:
            columns: the columns of the rows.
            others: further values of every row: the cells of a table beside the sentence.
        """
        super().__init__(words, columns)
        self.others = others or {}

    def rows(self) -> Iterator[Row]:
        """Yield a row per word."""
        return ({**word.row(), **self.others} for word in self)

    @property
    def bits(self) -> float:
        """The surprisal of the whole sentence, -log2 of its probability; NaN if the model reads nothing of it."""
        return _sum(word.surprisal for word in self)

    def plot(self, ax: Axes | None = None) -> Plot:
        """Return a bar per word, with unknown words marked; `.save("picture.svg")` writes it.

        A long sentence has several rows in a new figure.

        Args:
            ax: axes of matplotlib to draw on, instead of a new figure

        Raises:
            InputError: matplotlib is not installed.
        """
        return plot_surprisals([self], ax)

    def _repr_svg_(self) -> str | None:
        """Return a bar per word, for notebooks; None without matplotlib."""
        return self.plot().svg() if self and has_matplotlib() else None

    def _repr_html_(self) -> str:
        """Return the bars above a table, because notebooks prefer HTML to a picture."""
        return f"<div>{self._repr_svg_() or ''}</div>" + super()._repr_html_()


class SentenceWordScores(Results[WordScore]):
    """The words of one sentence with scores that are not surprisals given the words before, see `WordScore`."""

    not_printed = SentenceSurprisal.not_printed
    __str__ = __repr__ = HasRows.__str__

    def __init__(
        self, words: Iterable[WordScore] = (), columns: Columns = NOTHING, others: Mapping[str, Any] | None = None
    ) -> None:
        """Keep the words of a sentence. Parameters: see `SentenceSurprisal`."""
        super().__init__(words, columns)
        self.others = others or {}

    def rows(self) -> Iterator[Row]:
        """Yield a row per word."""
        return ({**word.row(), **self.others} for word in self)

    @property
    def bits(self) -> float:
        """The negative score of the whole sentence in bits, the sum over its words; NaN if the model reads none."""
        return _sum(word.bits for word in self)

    @property
    def score(self) -> float:
        """The score of the whole sentence in nats, such as its pseudo-log-likelihood."""
        return -self.bits * math.log(2)


class Surprisals(Results[SentenceSurprisal]):
    """The surprisals of several sentences."""

    not_printed = SentenceSurprisal.not_printed - {"sentence"}
    __str__ = __repr__ = HasRows.__str__

    def _first_rows(self) -> tuple[ReportTable, list[str]]:
        """Return the rows that are printed: of many sentences, those of the first three."""
        few, more = self._few(ROWS_PRINTED)
        if not more:
            return super()._first_rows()
        table, _ = Surprisals(few, self.columns)._first_rows()
        return table, [f"{more[0]} sentences"]

    def plot(
        self,
        against: Surprisals | None = None,
        names: tuple[str, str] = ("", ""),
        ax: Axes | Sequence[Axes] | None = None,
    ) -> Plot:
        """Return bars of each sentence, below each other on the same scale; or a scatter plot of two models.

        Args:
            against: the surprisals of the same sentences under another model; then each word that both read is a point
            names: of the two models
            ax: axes of matplotlib to draw on, one per sentence, or one for two models, instead of a new figure

        Raises:
            InputError: there are too many sentences for bars, other sentences in `against`, or no matplotlib.
        """
        if against is not None:
            return self._scatter_plot(against, names, ax)
        if not 0 < len(self) <= ROWS_PRINTED:
            raise InputError(f"found {len(self):,} sentences; expected 1 to {ROWS_PRINTED} in a picture")
        return plot_surprisals(self, ax)

    def _scatter_plot(self, against: Surprisals, names: tuple[str, str], ax: Axes | Sequence[Axes] | None) -> Plot:
        """Return a point for each word that two models read; on the diagonal, both give it the same surprisal."""
        # Models may differ in whether they predict the end of a sentence.
        first, second = ([word for sentence in side for word in sentence if word.word] for side in (self, against))
        if [word[:3] for word in first] != [word[:3] for word in second]:
            raise InputError("against: found other sentences; expected the same sentences under another model")
        points: dict[str, list[tuple[float, float]]] = {"known to both": [], "unknown to one": []}
        for word, other in zip(first, second, strict=True):
            if word.surprisal is not None and other.surprisal is not None:
                name = "known to both" if word.in_vocabulary and other.in_vocabulary else "unknown to one"
                points[name].append((word.surprisal, other.surprisal))

        plot = new_plot("Surprisal under two models", ax, size=(5.0, 5.2))
        panel = plot.axes[0]
        plot.add_legend(draw_points(panel, {name: drawn for name, drawn in points.items() if drawn}))
        panel.axline((0, 0), slope=1, color=FAINT, linestyle="--", linewidth=1)
        label_axes(panel, *(f"surprisal in bits{name and f', {name}'}" for name in names))
        marks = [sum(word.surprisal_marks or 0.0 for word in words) for words in (first, second)]
        shown = (names[0] or "one model", names[1] or "the other")
        plot.add_note(*remark_on_marks(dict(zip(shown, marks, strict=True))))
        return plot
