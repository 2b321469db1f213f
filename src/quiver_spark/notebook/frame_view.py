"""The first rows of a DataFrame as a table, for notebooks (HTML) and terminals (text)."""

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from quiver_spark.notebook.cell_text import cell_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROWS = 20
_WIDTH = 80


class FrameView:
    """A table that notebooks show by themselves; `print` shows it in a terminal."""

    def __init__(self, columns: Sequence[str], rows: Sequence[Sequence[str]], *, has_more: bool) -> None:
        self.columns = list(columns)
        self.rows = [list(row) for row in rows]
        self._note = f"the first {len(self.rows)} rows; there are more" if has_more else f"{len(self.rows)} rows"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join(f"<tr>{''.join(map(_html_cell, row))}</tr>" for row in self.rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><small>{self._note}</small>"

    def __repr__(self) -> str:
        lines = [self.columns, *self.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.columns))]
        shown = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
        shown.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join([line.rstrip() for line in shown] + [f"({self._note})"])


def _html_cell(text: str) -> str:
    return f'<td style="text-align:left">{escape(text)}</td>'


def display(frame: "DataFrame", rows: int = _ROWS, width: int = _WIDTH) -> FrameView:
    """The first rows of a DataFrame with keys, values and headers decoded; cells have at most `width` characters."""
    found = frame.limit(rows + 1).collect()
    cells = [[cell_text(value, width) for value in row] for row in found[:rows]]
    return FrameView(frame.columns, cells, has_more=len(found) > rows)
