"""Writes the tables of docs/metrics.md from the series of the broker; with --check it only compares."""

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from quiver.metrics.series import AREAS
from quiver.telemetry.exposition import Series

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"
_TABLES = re.compile(r"(<!-- series: made by scripts/metrics_page.py -->\n).*(<!-- end of series -->)", re.DOTALL)


def tables() -> Iterator[str]:
    for area, all_series in AREAS.items():
        yield f"\n### {area}\n\n| series | type | labels | meaning | when it is high |\n|---|---|---|---|---|\n"
        yield from map(_row, all_series)


def _row(series: Series) -> str:
    labels = ", ".join(series.labels)
    return f"| `{series.name}` | {series.kind} | {labels} | {series.meaning} | {series.advice} |\n"


def page(text: str) -> str:
    """The page with its tables as they should be."""
    return _TABLES.sub(lambda found: f"{found[1]}{''.join(tables())}\n{found[2]}", text)


def main() -> int:
    before = PAGE.read_text()
    after = page(before)
    if before == after:
        return 0
    if "--check" in sys.argv:
        print(textwrap.fill("docs/metrics.md does not have the series of the broker; run make format"))
        return 1
    PAGE.write_text(after)
    return 0


if __name__ == "__main__":
    sys.exit(main())
