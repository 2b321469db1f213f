"""`compact`: the last value of each key of a topic, into another topic or into a lake of its own.

Spark sorts and spills, so a topic may have more keys than any process has memory for.
"""

import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from quiver.model.errors import InvalidRequest
from quiver.model.names import check_name
from quiver.system.randomness import SystemRandomness
from quiver_spark.jobs.arguments import SessionOrFactory, batch_read_options, commit_options, started
from quiver_spark.jobs.compact.transforms import last_by_key
from quiver_spark.jobs.file_tasks import FILE_COLUMNS, answer_batch
from quiver_spark.jobs.progress import Summary, progress_bar
from quiver_spark.jobs.ranges import Range, Times
from quiver_spark.jobs.replay.source import TopicSource
from quiver_spark.jobs.replay.transforms import messages, ordered
from quiver_spark.jobs.target_topic import make_topic
from quiver_spark.lake.files import LakeFile
from quiver_spark.lake.opening import open_lake
from quiver_spark.lake.parquet_file import FileForm
from quiver_spark.lake.schema import FRAME_SCHEMA, with_topic_id
from quiver_spark.lake.slice_files import SliceFiles
from quiver_spark.lake.storage.place import LakePlace
from quiver_spark.lake.storage.store import open_store
from quiver_spark.lake.table import Lake
from quiver_spark.runtime.failures import spark_failures
from quiver_spark.runtime.stopwatch import Stopwatch
from quiver_spark.source.options import ReadOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ATTEMPT_BYTES = 6


def run(
    spark: SessionOrFactory,
    source: ReadOptions | Mapping[str, object],
    *,
    to: str | None = None,
    lake: str | Path | None = None,
    to_bootstrap: str | None = None,
    transaction_timeout: str | None = None,
    keep_tombstones: bool = False,
    run_id: str | None = None,
    show_progress: bool | None = None,
) -> Summary:
    """Writes the last message of each key of one topic to a topic or into a lake.

    A topic `to` that does not exist is created, with the partitions of the source. The same messages are written
    once: a run over the same offsets does nothing, unless it has another `run_id`. What a lake had of the topic is
    replaced.
    """
    options = batch_read_options(source)
    if (to is None) == (lake is None):
        raise InvalidRequest(problem="say where the last values go: to a topic or into a lake, one of them")
    if len(options.topics) != 1:
        raise InvalidRequest(problem="name one topic to compact")
    target, writing = None if to is None else check_name(to), commit_options(transaction_timeout)
    origin = TopicSource(options, None)
    ranges = origin.ranges()
    table = None if lake is None else open_lake(lake, create=True)
    if table is not None:
        table.check_last_values(options.topics[0])
    spark, watch = started(spark), Stopwatch()
    total = sum(each.stop - each.start for each in ranges)
    bar = progress_bar("compact", total, wanted=show_progress)
    with spark_failures("the compaction"), bar as shown, shown.watch(spark, total):
        rows = last_by_key(origin.frame(spark, ranges, Times()), keep_tombstones=keep_tombstones)
        if target is not None:
            sink = {"topic": target, "bootstrap": to_bootstrap or options.bootstrap, **writing}
            done = _into_topic(rows, sink, run_id or run_key(ranges, target, keep_tombstones), len(ranges))
        else:
            assert table is not None
            done = _into_lake(rows, table, options.topics[0], ranges)
    done.seconds = watch.seconds()
    done.details = {"messages_read": total, **done.details}
    return done


def run_key(ranges: Sequence[Range], to: str, keep_tombstones: bool) -> str:
    """The same for runs that write the same. Pure."""
    text = repr((sorted(ranges), to, keep_tombstones))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _into_topic(rows: "DataFrame", sink: Mapping[str, str], key: str, partitions: int) -> Summary:
    from pyspark.sql import Observation
    from pyspark.sql.functions import count, lit

    make_topic(sink["topic"], sink["bootstrap"], partitions)
    seen = Observation()
    written = messages(ordered(rows)).observe(seen, count(lit(1)).alias("rows"))
    written.write.format("quiver").options(**sink, commitKey=f"compact/{key}").mode("append").save()
    return Summary(job="compact", rows=int(seen.get["rows"]), details={"to": sink["topic"], "run_id": key})


def _into_lake(rows: "DataFrame", lake: Lake, topic: str, ranges: Sequence[Range]) -> Summary:
    """Files by the workers, then one commit that puts them in the place of what the lake had of the topic."""
    lake.add_topic_ids()
    topic_id = ranges[0].topic_id if ranges else None
    spans = {each.partition: (each.start, each.stop) for each in ranges}
    common = LakeFile(topic, "", 0, 0, 0, "", topic_id=topic_id, layout=lake.layout)
    task = LastValues(lake.place, FileForm(lake.file_schema()), common, spans)
    answers = ordered(rows).mapInArrow(task.write, FILE_COLUMNS).collect()
    files = [LakeFile(**row.asDict()) for row in answers]
    count = sum(file.rows for file in files)
    lake.put_last_values(topic, files, {"job": "compact", "rows": count})
    size = sum(file.size_bytes for file in files)
    return Summary(job="compact", rows=count, files=len(files), bytes=size, details={"version": lake.version})


class LastValues(NamedTuple):
    """What the workers need; sent to them as it is."""

    place: LakePlace
    form: FileForm
    common: LakeFile
    """What all files have in common."""
    ranges: dict[int, tuple[int, int]]

    def write(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Writes rows that come by partition and offset; returns the files."""
        attempt = SystemRandomness().token(_ATTEMPT_BYTES).hex()
        runs = (each for batch in batches for each in by_partition(batch))
        for partition, group in groupby(runs, key=lambda each: each[0]):
            start, stop = self.ranges[partition]
            common = self.common._replace(partition=partition, start=start, stop=stop, attempt=attempt)
            with SliceFiles(open_store(self.place), common, self.form) as files:
                for _, rows in group:
                    files.add(with_topic_id(_stored(rows), self.common.topic_id))
                yield answer_batch(files.finish())


def by_partition(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Runs of rows of one partition. Pure."""
    numbers = batch.column("partition").to_numpy()
    begin = 0
    while begin < len(numbers):
        end = begin + int(numbers[begin:].searchsorted(numbers[begin], side="right"))
        yield int(numbers[begin]), batch.slice(begin, end - begin)
        begin = end


def _stored(rows: pa.RecordBatch) -> pa.RecordBatch:
    arrays: list[Any] = [rows.column(field.name).cast(field.type) for field in FRAME_SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=FRAME_SCHEMA)


def main(argv: list[str]) -> int:
    """The command line without `quiver pipeline compact`; returns the exit status."""
    from quiver_spark.jobs.command_line import run_command

    return run_command("compact", argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
