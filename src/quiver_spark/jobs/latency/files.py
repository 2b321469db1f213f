"""The files of a report."""

import csv
import io
import json
from pathlib import Path

from quiver_spark.jobs.latency.chart import chart_png
from quiver_spark.jobs.latency.figures import Report
from quiver_spark.jobs.latency.page import report_page


def write_report(report: Report, out: Path) -> list[Path]:
    """Writes all of them into a directory, which is created if necessary; those of an earlier report are replaced."""
    out.mkdir(parents=True, exist_ok=True)
    contents = {
        "latency.html": report_page(report).encode(),
        "latency.png": chart_png(report),
        "latency.csv": _csv(report).encode(),
        "latency.json": _json(report).encode(),
    }
    for name, content in contents.items():
        fresh = out / f"{name}.new"
        fresh.write_bytes(content)
        fresh.replace(out / name)
    return [out / name for name in contents]


def _csv(report: Report) -> str:
    """A line per interval."""
    text = io.StringIO()
    records = [cell.record(report.interval) for cell in report.intervals]
    writer = csv.DictWriter(text, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def _json(report: Report) -> str:
    """Intervals, and totals that their percentiles cannot be added up to."""
    cells = {"totals": report.totals, f"{report.interval}s": report.intervals}
    return (
        json.dumps(
            {name: [cell.record(report.interval) for cell in found] for name, found in cells.items()}, indent=1
        )
        + "\n"
    )
