"""What a report of dead letters says: as one record, as text for people, and as files. Pure but for the files."""

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from quiver.model.times import format_time, parse_time_ms
from quiver_spark.jobs.dead_letters.transforms import ERRORS, TABLES

Row = Mapping[str, Any]
TITLES = {"topics": "by topic, group and reason", "errors": "by error", "attempts": "by attempts", "times": "by time"}
_COLUMNS = {**TABLES, "errors": ERRORS}
_WITH_EXAMPLES = ("topics", "errors")
_WIDEST = 60
_NONE = "-"


def report_tables(rows: Iterable[Row], errors: Iterable[Row]) -> dict[str, list[dict[str, Any]]]:
    """From rows as Spark gives them to tables in the order in which they are shown."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in TITLES}
    for row in rows:
        found[row["table"]].append(_entry(row["table"], row))
    found["errors"] = [_entry("errors", row) for row in errors]
    found["topics"].sort(key=lambda entry: (-entry["messages"], *(entry[name] or "" for name in TABLES["topics"])))
    found["attempts"].sort(key=lambda entry: -1 if entry["attempts"] is None else entry["attempts"])
    found["times"].sort(key=lambda entry: entry["time"])
    return found


def _entry(table: str, row: Row) -> dict[str, Any]:
    oldest, newest = row["oldest"], row["newest"]
    entry = {name: _plain(row[name]) for name in _COLUMNS[table]}
    entry |= {"messages": row["messages"], "first": _plain(oldest["first"]), "last": _plain(newest["last"])}
    if table in _WITH_EXAMPLES:
        entry["examples"] = list(dict.fromkeys((oldest["id"], newest["id"])))
    return entry


def _plain(value: Any) -> Any:
    return format_time(parse_time_ms(value)) if isinstance(value, datetime) else value


def report_text(tables: Mapping[str, Sequence[Row]]) -> str:
    """The tables for people; long errors are cut."""
    return "\n\n".join("\n".join([TITLES[name], *_lines(rows)]) for name, rows in tables.items() if rows)


def _lines(rows: Sequence[Row]) -> list[str]:
    titles = list(rows[0])
    cells = [titles, *([_cell(row[title]) for title in titles] for row in rows)]
    widths = [max(len(line[place]) for line in cells) for place in range(len(titles))]
    is_number = [isinstance(rows[0][title], int) for title in titles]
    return [
        "  " + "  ".join(
            text.rjust(width) if number else text.ljust(width)
            for text, width, number in zip(line, widths, is_number, strict=True)
        ).rstrip()
        for line in cells
    ]  # fmt: skip


def _cell(value: Any) -> str:
    if value is None:
        return _NONE
    if isinstance(value, int):
        return f"{value:,}"
    text = " ".join((", ".join(value) if isinstance(value, list) else str(value)).split())
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


def _field(value: Any) -> Any:
    return " ".join(value) if isinstance(value, list) else value


def write_report(directory: Path, record: Mapping[str, Any], tables: Mapping[str, Sequence[Row]]) -> list[Path]:
    """`report.json` with everything, and each table as CSV; files of an earlier report are replaced."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = [directory / "report.json", *(directory / f"{name}.csv" for name in tables)]
    paths[0].write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    for path, (name, rows) in zip(paths[1:], tables.items(), strict=True):
        titles = [*_COLUMNS[name], "messages", "first", "last", *(["examples"] if name in _WITH_EXAMPLES else [])]
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(titles)
            writer.writerows([_field(row[title]) for title in titles] for row in rows)
    return paths
