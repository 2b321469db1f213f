"""`profile`: which columns and JSON fields the messages of a topic have, of which types, how filled and how large."""

import sys
from collections.abc import Mapping
from typing import Any

from quiver.model.errors import InvalidRequest
from quiver_spark.jobs.arguments import SessionOrFactory, batch_read_options, started
from quiver_spark.jobs.profile.report import columns_of, message_record, profile_lines
from quiver_spark.jobs.profile.transforms import field_figures, message_figures
from quiver_spark.jobs.progress import Summary, progress_bar
from quiver_spark.jobs.ranges import Times
from quiver_spark.jobs.replay.source import TopicSource
from quiver_spark.runtime.failures import spark_failures
from quiver_spark.runtime.stopwatch import Stopwatch
from quiver_spark.source.options import ReadOptions

_SEED = 17


def run(
    spark: SessionOrFactory,
    source: ReadOptions | Mapping[str, object],
    *,
    sample: float | None = None,
    dry_run: bool = False,
    show_progress: bool | None = None,
) -> Summary:
    """Looks at the messages of one topic; with `sample`, a share between 0 and 1, at that share of them.

    `dry_run` says how many offsets would be read.
    """
    options = batch_read_options(source)
    if len(options.topics) != 1:
        raise InvalidRequest(problem="name one topic to profile")
    if sample is not None and not 0 < sample <= 1:
        raise InvalidRequest(problem=f"the sample {sample:g} is not a share above 0 and up to 1, such as 0.1")
    origin = TopicSource(options, None)
    ranges = origin.ranges()
    total = sum(each.stop - each.start for each in ranges)
    details: dict[str, Any] = {"topic": options.topics[0]}
    if dry_run:
        return Summary(job="profile", rows=total, details={**details, "dry_run": True})
    spark, watch = started(spark), Stopwatch()
    with spark_failures("the profile"), progress_bar("profile", 2 * total, wanted=show_progress) as bar:
        frame = origin.frame(spark, ranges, Times())
        frame = frame if sample is None else frame.sample(sample, _SEED)
        with bar.watch(spark, total):
            parts = {row["partition"]: row.asDict() for row in message_figures(frame).collect()}
        with bar.watch(spark, total):
            fields = [row.asDict() for row in field_figures(frame).collect()]
    whole = parts.pop(None, None)
    if whole is None:
        return Summary(job="profile", seconds=watch.seconds(), details={**details, "columns": []})
    columns, rows = columns_of(fields), whole["rows"]
    details |= {**message_record(whole), "columns": [column.record(rows) for column in columns]}
    partitions = {number: part["rows"] for number, part in parts.items()}
    details["partitions"] = [
        {"partition": n, "rows": p["rows"], **message_record(p)} for n, p in sorted(parts.items())
    ]
    lines = profile_lines(columns, rows, partitions)
    summary = Summary(job="profile", rows=rows, bytes=whole["bytes"], details=details, lines=lines)
    summary.seconds = watch.seconds()
    return summary


def main(argv: list[str]) -> int:
    """The command line without `quiver pipeline profile`; returns the exit status."""
    from quiver_spark.jobs.command_line import run_command

    return run_command("profile", argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
