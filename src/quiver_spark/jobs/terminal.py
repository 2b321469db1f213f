"""Tables and bar charts as lines of text. Pure."""

from collections.abc import Sequence

BAR_WIDTH = 40
_EIGHTHS = " ▏▎▍▌▋▊▉"
_FULL = "█"


def table_lines(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Columns as wide as their longest text, numbers to the right; an empty line at the end."""
    if not rows:
        return []
    texts = [[_text(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(heads, *texts, strict=True)]
    are_numbers = [all(_is_number(cell) for cell in column) for column in zip(*rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = zip(cells, widths, are_numbers, strict=True)
        return "  ".join(text.rjust(n) if is_number else text.ljust(n) for text, n, is_number in padded).rstrip()

    return [line(list(heads)), *map(line, texts), ""]


def bar_lines(title: str, bars: Sequence[tuple[str, float, str]], most: float | None = None) -> list[str]:
    """A title and a bar for each label, value and text; a bar of `most`, or the longest one, has the whole width."""
    if not bars:
        return []
    whole = most or max(value for _, value, _ in bars) or 1
    width = max(len(label) for label, _, _ in bars)
    lines = [f"{label:{width}}  {_bar(value / whole):{BAR_WIDTH}}  {text}" for label, value, text in bars]
    return [title, *lines, ""]


def _bar(share: float) -> str:
    eighths = round(min(1.0, max(0.0, share)) * BAR_WIDTH * 8)
    if share > 0 and not eighths:
        eighths = 1
    full, rest = divmod(eighths, 8)
    return _FULL * full + (_EIGHTHS[rest] if rest else "")


def _is_number(cell: object) -> bool:
    return cell is None or (isinstance(cell, int | float) and not isinstance(cell, bool))


def _text(cell: object) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:,.2f}"
    return f"{cell:,}" if _is_number(cell) else str(cell)
