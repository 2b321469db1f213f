"""`lineage`: from which topics to which messages went, by their headers, and the way of a single message."""

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quiver.model.errors import InvalidRequest
from quiver_spark.jobs.arguments import SessionOrFactory, batch_read_options, started
from quiver_spark.jobs.lineage.graph import Step, mermaid, tree_lines
from quiver_spark.jobs.lineage.transforms import COLUMNS, edges, steps
from quiver_spark.jobs.progress import Summary, progress_bar
from quiver_spark.jobs.ranges import Times
from quiver_spark.jobs.replay.source import TopicSource
from quiver_spark.jobs.terminal import bar_lines
from quiver_spark.runtime.failures import spark_failures
from quiver_spark.runtime.stopwatch import Stopwatch
from quiver_spark.source.options import ReadOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PLACE = re.compile(r"[^/\s]+/\d+/\d+")
_MOST_STEPS = 100
"""How far from a message its way is followed, up and down."""
_MOST_MESSAGES = 10_000


def run(
    spark: SessionOrFactory,
    source: ReadOptions | Mapping[str, object],
    *,
    message: str | None = None,
    out: str | Path | None = None,
    dry_run: bool = False,
    show_progress: bool | None = None,
) -> Summary:
    """Counts how many messages of the topics came from which topic, by the headers that say so.

    With `message` (topic/partition/offset) also all messages it came from and that came from it. `out` is a file
    for the drawing, in Mermaid's language. `dry_run` says how many offsets would be read.
    """
    options = batch_read_options(source)
    if message is not None and not _PLACE.fullmatch(message):
        raise InvalidRequest(problem=f"{message!r} is not topic/partition/offset, such as orders/0/17")
    origin = TopicSource(options, None, COLUMNS)
    ranges = origin.ranges()
    total = sum(each.stop - each.start for each in ranges)
    details: dict[str, Any] = {"topics": sorted({each.topic for each in ranges})}
    if dry_run:
        return Summary(job="lineage", rows=total, details={**details, "dry_run": True})
    spark, watch = started(spark), Stopwatch()
    bar = progress_bar("lineage", total, wanted=show_progress)
    with spark_failures("the lineage"), bar as shown, shown.watch(spark, total):
        found = steps(origin.frame(spark, ranges, Times())).persist()
        try:
            graph = [_edge(row.asDict()) for row in edges(found).collect()]
            way = [] if message is None else _followed(found, message)
        finally:
            found.unpersist()
    bars = [(f"{edge['source']} -> {edge['target']}", edge["messages"], _said(edge)) for edge in graph]
    lines = bar_lines("messages from topic to topic", bars)
    details["edges"] = graph
    if message is not None:
        details |= {"message": message, "steps": [step._asdict() for step in way]}
        lines += tree_lines(message, way)
    written = [] if out is None else [Path(out)]
    for file in written:
        file.write_text(mermaid(graph))
    return Summary(
        job="lineage", rows=total, files=len(written), seconds=watch.seconds(), details=details, lines=lines
    )


def _edge(row: Mapping[str, Any]) -> dict[str, Any]:
    p50, p99 = row["delays_ms"] or (None, None)
    times = {name: row[name].isoformat(timespec="milliseconds") for name in ("first", "last")}
    plain = {name: row[name] for name in ("source", "target", "by", "messages")}
    return {**plain, **times, "delay_p50_ms": p50, "delay_p99_ms": p99}


def _said(edge: Mapping[str, Any]) -> str:
    delay = "" if edge["delay_p50_ms"] is None else f", median delay {edge['delay_p50_ms']:,} ms"
    return f"{edge['messages']:,} ({edge['by']}{delay})"


def _followed(found: "DataFrame", message: str) -> list[Step]:
    """All steps that lead to a message, and those that lead on from it."""
    up = _search(found, [message], "place", "origin")
    down = _search(found, [message], "origin", "place")
    return list(dict.fromkeys((*reversed(up), *down)))


def _search(found: "DataFrame", begin: Iterable[str], known: str, wanted: str) -> list[Step]:
    """Step by step: rows whose `known` was reached lead to their `wanted`."""
    reached, latest, way = set(begin), list(begin), []
    for _ in range(_MOST_STEPS):
        rows = found.where(found[known].isin(latest)).select("origin", "place", "by").limit(_MOST_MESSAGES).collect()
        way += [Step(row["origin"], row["place"], row["by"]) for row in rows]
        latest = sorted({row[wanted] for row in rows} - reached)
        reached.update(latest)
        if not latest or len(reached) > _MOST_MESSAGES:
            break
    return way


def main(argv: list[str]) -> int:
    """The command line without `quiver pipeline lineage`; returns the exit status."""
    from quiver_spark.jobs.command_line import run_command

    return run_command("lineage", argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
