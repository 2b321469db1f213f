"""`latency`: how long messages wait for their delivery and their acknowledgement, from the journals of deliveries.

Workers read the journal of a partition and the frame headers of its messages, and return histograms; Spark adds
them up. The report is a table of figures, a chart and a page.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from quiver.model.errors import GroupNotFound, InvalidRequest
from quiver.model.names import TopicPartition
from quiver.reader.data_directory import DELIVERY_JOURNAL, DataDirectory
from quiver.reader.delivery_history import Acknowledged, DeliveryHistory
from quiver_spark.jobs.arguments import SessionOrFactory, batch_read_options, started
from quiver_spark.jobs.latency.figures import HistogramRow, Report, report
from quiver_spark.jobs.latency.files import write_report
from quiver_spark.jobs.latency.samples import INTERVALS, ROW_COLUMNS, Samples, StoredTimes, Window
from quiver_spark.jobs.progress import Summary, progress_bar
from quiver_spark.runtime.cluster import cores
from quiver_spark.runtime.failures import spark_failures
from quiver_spark.runtime.stopwatch import Stopwatch
from quiver_spark.source.catalogue import bounded, chosen_topics, open_catalogue
from quiver_spark.source.frames import read_slice, stored_frames
from quiver_spark.source.options import ReadOptions
from quiver_spark.source.slices import Slice, pack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class PartitionInput(NamedTuple):
    """What a task reads of one partition."""

    journal: Slice
    messages: Slice
    commits: tuple[Acknowledged, ...] = ()
    """Of stream groups."""


class LatencyTask(NamedTuple):
    """What the workers need; sent to them as it is."""

    journal: ReadOptions
    messages: ReadOptions
    window: Window
    groups: frozenset[int] | None
    """Only those; None: all."""

    def read(self, part: PartitionInput) -> Iterator[pa.RecordBatch]:
        """The histograms of one partition."""
        samples = Samples(self.window, lambda start, end: self._stored(part.messages, start, end))
        history = DeliveryHistory(self.groups)
        for batch in read_slice(part.journal, self.journal, ("append_time", "value")):
            times = batch.column(0).cast(pa.int64()).to_pylist()
            for time_us, record in zip(times, batch.column(1).to_pylist(), strict=True):
                if time_us // 1000 >= self.window.end_ms:
                    break
                samples.add_all(history.apply_record(time_us // 1000, record))
        samples.add_all(history.finish())
        samples.add_all(part.commits)
        yield from samples.rows(part.journal.topic)

    def _stored(self, messages: Slice, start: int, end: int) -> StoredTimes:
        """The frames with these offsets, as far as they are still there; their headers are all that is read."""
        start, stop = max(start, messages.start), min(end, messages.stop)
        slice_ = messages._replace(start=start, stop=max(start, stop))
        return StoredTimes.of(stored.header for stored in stored_frames(slice_, self.messages, lambda header: False))


def run(
    spark: SessionOrFactory,
    source: ReadOptions | Mapping[str, object],
    out: str | Path,
    *,
    groups: Sequence[str] = (),
    by: str = "hour",
    dry_run: bool = False,
    show_progress: bool | None = None,
) -> Summary:
    """Writes a report of topics into the directory `out`: latency.png, latency.html, latency.csv, latency.json.

    `source` has the options of a batch read: topics, `path`, and as `start` and `end` times between which something
    happened. `groups` are all of them unless some are named. `by` is minute, hour or day. `dry_run` says how many
    records would be read. Raises InvalidRequest if there were no deliveries and commits.
    """
    options = batch_read_options(source)
    if options.path is None:
        raise InvalidRequest(problem="name the broker's data directory: deliveries are read from its files (path)")
    if by not in INTERVALS:
        raise InvalidRequest(problem=f"a report is by {', '.join(INTERVALS)}, not by {by!r}")
    window = window_of(options)._replace(interval_ms=INTERVALS[by])
    names = DataDirectory(options.path).group_names()
    ids = _ids(groups, names)
    inputs = _shares(options, ids)
    task = LatencyTask(_journal_options(options), _message_options(options), window, ids)
    total = sum(part.journal.offsets + len(part.commits) for part in inputs)
    if not total:
        raise InvalidRequest(problem=_nothing(options, groups, total))
    if dry_run:
        return Summary(job="latency", rows=total, details={"dry_run": True, "partitions": len(inputs)})
    spark, watch = started(spark), Stopwatch()
    with progress_bar("latency", total, "records", wanted=show_progress) as bar, bar.watch(spark, total):
        rows = _histograms(spark, inputs, task.read)
    figures = report(rows, names, window.interval_ms)
    if not figures.totals:
        raise InvalidRequest(problem=_nothing(options, groups, total))
    written = write_report(figures, Path(out))
    return Summary(
        job="latency",
        rows=total,
        files=len(written),
        bytes=sum(file.stat().st_size for file in written),
        seconds=watch.seconds(),
        details=_details(figures, written),
    )


def window_of(options: ReadOptions) -> Window:
    """When something must have happened to be counted. Pure."""
    ends = [(options.start, 0, "start")]
    if options.end is not None:
        ends.append((options.end, Window().end_ms, "end"))
    found = []
    for places, default, name in ends:
        position = places.everywhere
        is_open = position.kind == ("earliest" if name == "start" else "latest")
        if places.exceptions or not (is_open or position.kind == "time"):
            raise InvalidRequest(problem=f"option {name!r} of a latency report is a time, or a time ago such as -1d")
        found.append(default if is_open else position.value)
    return Window(*found)


def _journal_options(options: ReadOptions) -> ReadOptions:
    """A journal may lose its front while it is read: that is history."""
    return options._replace(internal=DELIVERY_JOURNAL, committed=False, fail_on_data_loss=False)


def _message_options(options: ReadOptions) -> ReadOptions:
    return options._replace(committed=False, fail_on_data_loss=False)


def _shares(options: ReadOptions, groups: frozenset[int] | None) -> list[PartitionInput]:
    """Partitions with deliveries or commits. Those are looked at before the messages, so that they name none that
    are not seen."""
    assert options.path is not None
    commits = DataDirectory(options.path).stream_commits(groups)
    journals, messages = open_catalogue(_journal_options(options)), open_catalogue(_message_options(options))
    inputs = []
    try:
        for name in chosen_topics(messages, options):
            journal, topic = journals.extent(name), messages.extent(name)
            for number, (start, stop) in enumerate(zip(journal.earliest, journal.latest, strict=True)):
                committed = tuple(commits.get(TopicPartition(topic.id, number), ()))
                if start < stop or committed:
                    slice_ = bounded(Slice(name, number, start, stop, journal.id), journal, fails=False)
                    stored = Slice(name, number, topic.earliest[number], topic.latest[number], topic.id)
                    inputs.append(PartitionInput(journals.completed(slice_), messages.completed(stored), committed))
    finally:
        journals.close()
        messages.close()
    return inputs


def _histograms(
    spark: "SparkSession",
    inputs: Sequence[PartitionInput],
    read: Callable[[PartitionInput], Iterator[pa.RecordBatch]],
) -> list[HistogramRow]:
    """Every bucket that has something, of all partitions together."""
    if not inputs:
        return []
    from pyspark.sql.functions import col, max, sum

    by_journal = {part.journal: part for part in inputs}
    tasks = pack(by_journal, cores=cores(spark))

    def answers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for journal in tasks[number]:
                    yield from read(by_journal[journal])

    with spark_failures("the latency report"):
        parts = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(answers, ROW_COLUMNS)
        whole = parts.groupBy("topic", "group_id", "interval", "measure", "bucket")
        rows = whole.agg(sum(col("count")).alias("count"), max("highest").alias("highest")).collect()
    return [HistogramRow(**row.asDict()) for row in rows]


def _ids(groups: Sequence[str], names: Mapping[int, str]) -> frozenset[int] | None:
    if not groups:
        return None
    ids = {name: id for id, name in names.items()}
    for name in groups:
        if name not in ids:
            there = ", ".join(sorted(ids)) or "none"
            raise GroupNotFound(f"there is no group {name!r}; there are {there}", group=name)
    return frozenset(ids[name] for name in groups)


def _nothing(options: ReadOptions, groups: Sequence[str], records: int) -> str:
    what = options.pattern or ", ".join(options.topics)
    if not records:
        return f"nothing was ever delivered of {what} to a queue group, nor committed by a stream group"
    which = f" to {', '.join(groups)}" if groups else ""
    return f"nothing was delivered of {what}{which} in that time, as far as the history reaches back"


def _details(figures: Report, written: Sequence[Path]) -> dict[str, object]:
    counters = {
        name: sum(cell.counters[name] for cell in figures.totals)
        for name in ("attempts", "redeliveries", "acks", "dead_letters", "publish_unknown")
    }
    return {
        "topics": figures.topics,
        "groups": figures.groups,
        **counters,
        "totals": [cell.record() for cell in figures.totals],
        "written": [str(file) for file in written],
    }


def main(argv: list[str]) -> int:
    """The command line without `quiver pipeline latency`; returns the exit status."""
    from quiver_spark.jobs.command_line import run_command

    return run_command("latency", argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
