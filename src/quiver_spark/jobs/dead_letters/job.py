"""`dead-letters`: reports on dead letters, and redrives of selected ones.

Spark reads the dead letters. The broker itself redrives them: a dead letter is removed from its topic when the
decision is on disk, so a repeated run redrives nothing twice.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quiver.model.errors import InvalidRequest
from quiver.model.names import check_name
from quiver_spark.broker_client import broker_client
from quiver_spark.jobs.arguments import SessionOrFactory, batch_read_options, option_texts, started
from quiver_spark.jobs.dead_letters.redrive import Redriven, Redriver, batch_size, cut_at, select_dead_letters
from quiver_spark.jobs.dead_letters.report import report_tables, write_report
from quiver_spark.jobs.dead_letters.source import DeadLetterRanges, dead_letter_frame, find_ranges, find_removed
from quiver_spark.jobs.dead_letters.transforms import COUNTED, ID_COLUMNS, Selection, counted, tables, top_errors
from quiver_spark.jobs.progress import Summary, progress_bar
from quiver_spark.jobs.ranges import Range, Times
from quiver_spark.jobs.run_record import RunRecord, RunRecords, default_directory
from quiver_spark.runtime.failures import spark_failures
from quiver_spark.runtime.stopwatch import Stopwatch
from quiver_spark.source.options import ReadOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BUCKETS = ("hour", "day")
REASONS = ("max_attempts", "rejected", "expired")
_ALL_TOPICS = ".*"


def report(
    spark: SessionOrFactory,
    source: ReadOptions | Mapping[str, object],
    *,
    where: str | None = None,
    groups: Sequence[str] = (),
    reasons: Sequence[str] = (),
    errors: Sequence[str] = (),
    bucket: str = "hour",
    top: int = 10,
    out: str | Path | None = None,
    show_progress: bool | None = None,
) -> Summary:
    """Counts the dead letters of the topics that the source options name; of all topics when they name none.

    `rows` does not count dead letters that were redriven or purged. `details` has the tables `topics`,
    `errors` (the `top` most frequent), `attempts` and `times` (by `bucket`). `where` is SQL over the columns of a
    dead letter, `errors` are patterns of LIKE. With `out` the report is also written into that directory.
    """
    if bucket not in BUCKETS:
        raise InvalidRequest(problem=f"{bucket!r} is not a bucket; there are {' and '.join(BUCKETS)}")
    options, watch = _options(source), Stopwatch()
    chosen = _selection(where, groups, reasons, errors)
    found = find_ranges(options)
    shown = report_tables([], [])
    if found.offsets:
        spark, watch = started(spark), Stopwatch()
        frame = _letters(spark, options, found, chosen, COUNTED)
        with (
            spark_failures("the report"),
            progress_bar("dead letters", found.offsets, wanted=show_progress) as bar,
            bar.watch(spark, found.offsets),
        ):
            fine = counted(frame, bucket).persist()
            try:
                rows = tables(fine).toArrow().to_pylist()
                shown = report_tables(rows, top_errors(fine, top).toArrow().to_pylist())
            finally:
                fine.unpersist()
    return _reported(shown, found, watch, out)


def _reported(shown: dict[str, Any], found: DeadLetterRanges, watch: Stopwatch, out: str | Path | None) -> Summary:
    topics = shown["topics"]
    details: dict[str, Any] = {
        "first": min((each["first"] for each in topics), default=None),
        "last": max((each["last"] for each in topics), default=None),
        "messages_read": found.offsets,
        **shown,
    }
    dead_letters = sum(each["messages"] for each in topics)
    summary = Summary(job="dead-letters report", rows=dead_letters, seconds=watch.seconds(), details=details)
    if out is not None:
        paths = write_report(Path(out), summary.record(), shown)
        summary.files, summary.bytes = len(paths), sum(path.stat().st_size for path in paths)
    return summary


def redrive(
    spark: SessionOrFactory,
    source: ReadOptions | Mapping[str, object],
    *,
    where: str | None = None,
    groups: Sequence[str] = (),
    reasons: Sequence[str] = (),
    errors: Sequence[str] = (),
    into: str | None = None,
    rate: int | None = None,
    limit: int | None = None,
    run_id: str | None = None,
    state: str | Path | None = None,
    dry_run: bool = False,
    show_progress: bool | None = None,
) -> Summary:
    """Redrives the selected dead letters to where they came from, or to the topic `into`; each once.

    The selection is fixed when a run begins: with `limit` the oldest. With a `run_id` that is kept in the
    directory `state`, and a run under the same id sends back what is left of it. `rate` is the maximum per second.
    `rows` are those that the broker took; `gone` in the details those that somebody else had taken meanwhile.
    """
    _check_redrive(source, rate, limit, run_id, state)
    options, watch = _options(source), Stopwatch()
    chosen = _selection(where, groups, reasons, errors)
    target = None if into is None else check_name(into)
    if target is not None:
        broker_client(options.bootstrap, options.timeout_seconds).topics.describe(target)
    plan = None
    found = find_ranges(options)
    if run_id is not None and not dry_run:
        plan = _Plan(run_id, state, {**_asked(source, chosen), "into": str(into), "limit": str(limit)}, found)
        found, limit = found.only(plan.record.ranges), None if plan.record.done else limit
    done = Redriven()
    if found.offsets:
        spark, watch = started(spark), Stopwatch()
        redriver = Redriver(options, target, rate, batch_size(found.bytes_each, rate), dry_run)
        with (
            spark_failures("the redrive"),
            progress_bar("read", found.offsets, wanted=show_progress) as bar,
            bar.watch(spark, found.offsets),
        ):
            selected = select_dead_letters(
                _letters(spark, options, found, chosen, ("died_at", *ID_COLUMNS)), found.ranges, limit
            )
        if plan is not None and limit is not None:
            plan.keep(cut_at(found.ranges, selected))
        with progress_bar("redrive", sum(map(len, selected.values())), "dead letters", wanted=show_progress) as bar:
            done = redriver.send_back(selected, bar)
    details = {"dry_run": dry_run, "topics": done.topics, "ids": done.ids, "gone": done.gone}
    details |= {"into": into, "run_id": run_id}
    return Summary(job="dead-letters redrive", rows=done.dead_letters, seconds=watch.seconds(), details=details)


class _Plan:
    """Of a run with an id: the ranges that it goes by, every time it is run."""

    def __init__(self, run_id: str, state: str | Path | None, asked: dict[str, str], found: DeadLetterRanges) -> None:
        self._id, self._records = run_id, RunRecords(Path(state) if state else default_directory())
        self.record = self._records.begin(run_id, RunRecord(asked, found.ranges, Times(), 0))

    def keep(self, ranges: list[Range]) -> None:
        """A limit has chosen among the dead letters: there are no others in these ranges."""
        self.record.ranges, self.record.done = ranges, 1
        self._records.keep(self._id, self.record)


def _letters(
    spark: "SparkSession", options: ReadOptions, found: DeadLetterRanges, chosen: Selection, columns: Iterable[str]
) -> "DataFrame":
    removed = find_removed(options, found)
    with spark_failures("the selection"):
        return chosen.of(dead_letter_frame(spark, options, found.ranges, removed, {*columns, *chosen.columns()}))


def _selection(where: str | None, groups: Sequence[str], reasons: Sequence[str], errors: Sequence[str]) -> Selection:
    for reason in reasons:
        if reason not in REASONS:
            raise InvalidRequest(problem=f"{reason!r} is not a reason; there are {', '.join(REASONS)}")
    return Selection(where, tuple(check_name(group, "group") for group in groups), tuple(reasons), tuple(errors))


def _options(source: ReadOptions | Mapping[str, object]) -> ReadOptions:
    if isinstance(source, ReadOptions) or _names_topics(source):
        return batch_read_options(source)
    return batch_read_options({**source, "topicPattern": _ALL_TOPICS})


def _names_topics(source: ReadOptions | Mapping[str, object]) -> bool:
    if isinstance(source, ReadOptions):
        return bool(source.topics or source.pattern)
    return any(value for name, value in source.items() if name.lower() in ("topic", "topics", "topicpattern"))


def _check_redrive(
    source: ReadOptions | Mapping[str, object],
    rate: int | None,
    limit: int | None,
    run_id: str | None,
    state: str | Path | None,
) -> None:
    if not _names_topics(source):
        raise InvalidRequest(problem="name the topics whose dead letters are redriven, or a pattern ('.*' is all)")
    if batch_read_options(source).path is not None:
        raise InvalidRequest(problem="dead letters are redriven by their broker: name it, not a data directory")
    for name, value in {"rate": rate, "limit": limit}.items():
        if value is not None and value < 1:
            raise InvalidRequest(problem=f"{name} is 1 or more; leave it out for none")
    if state is not None and run_id is None:
        raise InvalidRequest(problem="state is kept of runs with an id: give a run id too")


def _asked(source: ReadOptions | Mapping[str, object], chosen: Selection) -> dict[str, str]:
    """What makes two runs the same. A time ago such as -1h is compared as it was written."""
    given: dict[str, Any] = source._asdict() if isinstance(source, ReadOptions) else option_texts(source)
    return {name: str(value) for name, value in {**given, **chosen._asdict()}.items()}


def main(argv: list[str]) -> int:
    """The command line without `quiver pipeline dead-letters`; returns the exit status."""
    from quiver_spark.jobs.command_line import run_command

    return run_command("dead_letters", argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
