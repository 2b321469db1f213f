"""`replay`: messages of a lake or a topic into a topic again, with key, timestamp, headers and priority.

What is replayed is fixed when a run begins. It goes out in batches, each in a transaction with a key that is made of
the run's id and the batch's number, so a run that is repeated under its id writes nothing twice.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from quiver.model.errors import InvalidRequest
from quiver.model.names import check_name
from quiver.system.randomness import SystemRandomness
from quiver_spark.broker_client import broker_client
from quiver_spark.jobs.arguments import SessionOrFactory, batch_read_options, commit_options, option_texts, started
from quiver_spark.jobs.progress import Summary, progress_bar
from quiver_spark.jobs.ranges import Range, Times
from quiver_spark.jobs.replay.plan import batch_rows, batches
from quiver_spark.jobs.replay.source import LakeSource, ReplaySource, TopicSource
from quiver_spark.jobs.replay.transforms import messages, ordered
from quiver_spark.jobs.run_record import RunRecord, RunRecords, default_directory
from quiver_spark.lake.opening import open_lake
from quiver_spark.lake.storage.place import lake_place
from quiver_spark.lineage import with_lineage
from quiver_spark.options.option_map import DEFAULT_BOOTSTRAP
from quiver_spark.runtime.failures import spark_failures
from quiver_spark.runtime.stopwatch import Stopwatch
from quiver_spark.source.options import ReadOptions
from quiver_spark.source.slices import Slice

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RUN_BYTES = 8


class Replay(NamedTuple):
    """What is replayed, and how."""

    source: ReplaySource
    to: Mapping[str, str]
    """Options of the sink."""
    where: str | None
    in_order: bool
    keep_partitions: bool
    lineage: bool
    run_id: str

    def rows(self, spark: "SparkSession", batch: Sequence[Range], times: Times) -> "DataFrame":
        frame = self.source.frame(spark, batch, times)
        return frame.where(self.where) if self.where else frame

    def write(self, spark: "SparkSession", batch: Sequence[Range], times: Times, number: int) -> int:
        """Writes a batch in one transaction, or nothing if its key was committed before. Returns its row count."""
        from pyspark.sql import Observation
        from pyspark.sql.functions import count, lit

        seen = Observation()
        frame = self.rows(spark, batch, times)
        frame = with_lineage(frame) if self.lineage else frame
        frame = ordered(frame) if self.in_order else frame
        written = messages(frame, with_partition=self.keep_partitions).observe(seen, count(lit(1)).alias("rows"))
        key = f"replay/{self.run_id}/{number}"
        written.write.format("quiver").options(**self.to, commitKey=key).mode("append").save()
        return int(seen.get["rows"])


def run(
    spark: SessionOrFactory,
    source: ReadOptions | Mapping[str, object],
    to: str,
    *,
    lake: str | Path | None = None,
    topic_id: int | None = None,
    to_bootstrap: str | None = None,
    transaction_timeout: str | None = None,
    partitions: Sequence[int] | None = None,
    where: str | None = None,
    rate: int | None = None,
    in_order: bool = True,
    keep_partitions: bool = False,
    lineage: bool = False,
    run_id: str | None = None,
    state: str | Path | None = None,
    dry_run: bool = False,
    show_progress: bool | None = None,
) -> Summary:
    """Writes what the source options name (topic, start, end) into the topic `to`; with `lake`, from there.

    A lake may have several topics that had the same name one after the other: all of them are replayed, the oldest
    first, or the one with `topic_id`.

    `where` is SQL over the columns of the source, `rate` the maximum of rows per second, `transaction_timeout` how
    long a batch may take. With `lineage` each message says in the header `quiver-lineage` where it was. With a
    `run_id`, the plan is kept in the directory `state` (in the lake, if there is one), and a run with the same id
    resumes it.
    """
    options = batch_read_options(source)
    origin = _origin(options, lake, partitions, topic_id)
    sink = {"topic": check_name(to), "bootstrap": to_bootstrap or (options.bootstrap or DEFAULT_BOOTSTRAP)}
    if keep_partitions:
        sink["usePartitionColumn"] = "true"
    own_id = run_id or SystemRandomness().token(_RUN_BYTES).hex()
    writing = {**sink, **commit_options(transaction_timeout)}
    job = Replay(origin, writing, where, in_order, keep_partitions, lineage, own_id)
    records = _records(run_id, state, lake)
    asked = _asked(source, sink, lake, partitions, where)
    if topic_id is not None:
        asked["topic_id"] = str(topic_id)
    record = RunRecord(asked, origin.ranges(), origin.times(), batch_rows(rate))
    _check_there(sink, options.timeout_seconds)
    if records is not None and not dry_run:
        record = records.begin(own_id, record)
    spark, watch = started(spark), Stopwatch()
    with spark_failures("the replay"):
        if dry_run:
            return _counted(spark, job, record.ranges, watch)
        rows = _write_all(spark, job, record, records, rate, show_progress)
    return Summary(job="replay", rows=rows, seconds=watch.seconds(), details={"to": to, "run_id": own_id})


def _origin(
    options: ReadOptions, lake: str | Path | None, partitions: Sequence[int] | None, topic_id: int | None
) -> ReplaySource:
    if lake is not None:
        return LakeSource(open_lake(lake), options, partitions, topic_id)
    if topic_id is not None:
        raise InvalidRequest(problem="a topic id chooses among the topics of a lake: name the lake too")
    return TopicSource(options, partitions)


def _write_all(
    spark: "SparkSession",
    job: Replay,
    record: RunRecord,
    records: RunRecords | None,
    rate: int | None,
    show_progress: bool | None,
) -> int:
    watch, rows = Stopwatch(), 0
    with progress_bar("replay", sum(each.stop - each.start for each in record.ranges), wanted=show_progress) as bar:
        for number, batch in enumerate(batches(record.ranges, record.batch_rows)):
            if number < record.done:
                continue
            with bar.watch(spark, sum(each.stop - each.start for each in batch)):
                rows += job.write(spark, batch, record.times, number)
            record.done = number + 1
            if records is not None:
                records.keep(job.run_id, record)
            if rate is not None:
                time.sleep(max(0.0, rows / rate - watch.seconds()))
    return rows


def _check_there(sink: Mapping[str, str], timeout_seconds: float) -> None:
    """Raises TopicNotFound if there is no topic to write to."""
    broker_client(sink["bootstrap"], timeout_seconds).topics.describe(sink["topic"])


def _counted(spark: "SparkSession", job: Replay, ranges: Sequence[Range], watch: Stopwatch) -> Summary:
    whole = batches(ranges, sum(each.stop - each.start for each in ranges))
    rows = sum(job.rows(spark, batch, job.source.times()).count() for batch in whole)
    names = [_shown(each) for each in ranges if each.stop > each.start]
    details = {"to": job.to["topic"], "dry_run": True, "ranges": names}
    return Summary(job="replay", rows=rows, seconds=watch.seconds(), details=details)


def _shown(each: Range) -> str:
    return f"{Slice(*each)} (topic id {each.topic_id})" if each.topic_id else str(Slice(*each))


def _records(run_id: str | None, state: str | Path | None, lake: str | Path | None) -> RunRecords | None:
    if run_id is None:
        if state is not None:
            raise InvalidRequest(problem="state is kept of runs with an id: give a run id too")
        return None
    if state is not None:
        return RunRecords(Path(state))
    if lake is None:
        return RunRecords(default_directory())
    place = lake_place(lake)
    return RunRecords(place._replace(uri=f"{place.uri}/_quiver/runs"))


def _asked(
    source: ReadOptions | Mapping[str, object],
    sink: Mapping[str, str],
    lake: str | Path | None,
    partitions: Sequence[int] | None,
    where: str | None,
) -> dict[str, str]:
    """What makes two runs the same. A time ago such as -1h is compared as it was written."""
    given: dict[str, Any] = source._asdict() if isinstance(source, ReadOptions) else option_texts(source)
    own = {
        "lake": lake,
        "partitions": partitions,
        "where": where,
        **{f"to {name}": each for name, each in sink.items()},
    }
    return {name: str(value) for name, value in {**given, **own}.items()}


def main(argv: list[str]) -> int:
    """The command line without `quiver pipeline replay`; returns the exit status."""
    from quiver_spark.jobs.command_line import run_command

    return run_command("replay", argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
