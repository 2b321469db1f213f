"""`diff`: messages that two topics, or a topic and a lake, do not have in common."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from quiver.model.errors import InvalidRequest
from quiver_spark.jobs.arguments import SessionOrFactory, batch_read_options, started
from quiver_spark.jobs.diff.transforms import BY, COMPARED, DEFAULT_COMPARED, OUTCOMES, counted, differences, matched
from quiver_spark.jobs.progress import Summary, progress_bar
from quiver_spark.jobs.ranges import Range
from quiver_spark.jobs.replay.source import LakeSource, ReplaySource, TopicSource
from quiver_spark.jobs.terminal import bar_lines, table_lines
from quiver_spark.lake.opening import open_lake
from quiver_spark.runtime.failures import spark_failures
from quiver_spark.runtime.stopwatch import Stopwatch
from quiver_spark.source.options import ReadOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHOWN = 20
_TITLES = {
    "same": "the same",
    "different": "different",
    "only_left": "only in the first",
    "only_right": "only in the second",
}


class _Side(NamedTuple):
    name: str
    source: ReplaySource
    ranges: list[Range]

    @property
    def offsets(self) -> int:
        return sum(each.stop - each.start for each in self.ranges)

    def frame(self, spark: "SparkSession") -> "DataFrame":
        return self.source.frame(spark, self.ranges, self.source.times())


def run(
    spark: SessionOrFactory,
    left: ReadOptions | Mapping[str, object],
    right: ReadOptions | Mapping[str, object] | None = None,
    *,
    lake: str | Path | None = None,
    by: str = "content",
    columns: Sequence[str] = DEFAULT_COMPARED,
    shown: int = SHOWN,
    dry_run: bool = False,
    show_progress: bool | None = None,
) -> Summary:
    """Compares the topic of `left` with that of `right`; with `lake`, with that topic (or the same) in the lake.

    `by` says which messages are compared with each other: those with the same content, offset or key; the last
    message of a key counts. `columns` are what must be equal. The summary has the counts, and the first `shown`
    differences. `dry_run` says how many offsets would be read.
    """
    _check(by, columns)
    one, other = _sides(left, right, lake)
    total = one.offsets + other.offsets
    details: dict[str, Any] = {"left": one.name, "right": other.name, "by": by, "columns": list(columns)}
    if dry_run:
        return Summary(job="diff", rows=total, details={**details, "dry_run": True})
    spark, watch = started(spark), Stopwatch()
    bar = progress_bar("diff", total, wanted=show_progress)
    with spark_failures("the comparison"), bar as progress, progress.watch(spark, total):
        rows = matched(one.frame(spark), other.frame(spark), by, columns).persist()
        try:
            counts = counted(rows).collect()[0].asDict()
            found = [row.asDict(recursive=True) for row in differences(rows, shown).collect()]
        finally:
            rows.unpersist()
    details |= counts
    details["is_same"] = not any(counts[name] for name in OUTCOMES if name != "same")
    details["differences"] = [_record(row) for row in found]
    lines = _lines(counts, details["differences"])
    return Summary(job="diff", rows=total, seconds=watch.seconds(), details=details, lines=lines)


def _check(by: str, columns: Sequence[str]) -> None:
    if by not in BY:
        raise InvalidRequest(problem=f"messages are compared by {', '.join(BY)}, not by {by!r}")
    unknown = [name for name in columns if name not in COMPARED]
    if unknown or not columns:
        raise InvalidRequest(problem=f"the columns to compare are some of {', '.join(COMPARED)}")


def _sides(
    left: ReadOptions | Mapping[str, object],
    right: ReadOptions | Mapping[str, object] | None,
    lake: str | Path | None,
) -> tuple[_Side, _Side]:
    if right is None and lake is None:
        raise InvalidRequest(problem="name two topics, or a topic and a lake")
    one, other = batch_read_options(left), batch_read_options(left if right is None else right)
    if len(one.topics) != 1 or len(other.topics) != 1:
        raise InvalidRequest(problem="name one topic on each side")
    return _side(TopicSource(one, None), one.topics[0], ""), (
        _side(TopicSource(other, None), other.topics[0], "")
        if lake is None
        else _side(LakeSource(open_lake(lake), other, None), other.topics[0], " in the lake")
    )


def _side(source: ReplaySource, topic: str, where: str) -> _Side:
    return _Side(f"{topic}{where}", source, source.ranges())


def _record(row: Mapping[str, Any]) -> dict[str, Any]:
    """One difference: what it is, and where the message is on each side."""
    outcome = next(name for name in OUTCOMES[1:] if row[name])
    return {
        "outcome": outcome,
        "messages": row[outcome],
        "left": _place(row["left_at"]),
        "right": _place(row["right_at"]),
    }


def _place(place: Mapping[str, Any] | None) -> str | None:
    return None if place is None else f"{place['topic']}/{place['partition']}/{place['offset']}"


def _lines(counts: Mapping[str, int], found: Sequence[Mapping[str, Any]]) -> list[str]:
    bars = [(_TITLES[name], counts[name], f"{counts[name]:,}") for name in OUTCOMES]
    rows = [(_TITLES[each["outcome"]], each["messages"], each["left"] or "-", each["right"] or "-") for each in found]
    heads = ("difference", "messages", "first topic/partition/offset", "second topic/partition/offset")
    return [*bar_lines("messages", bars), *table_lines(heads, rows)]


def main(argv: list[str]) -> int:
    """The command line without `quiver pipeline diff`; returns the exit status."""
    from quiver_spark.jobs.command_line import run_command

    return run_command("diff", argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
