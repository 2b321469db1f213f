"""`sql`: a query over topics whose result goes into a topic, once or as a stream (stream.py).

A batch reads what the topics have when it begins, and writes in one transaction. Its key is made of the query and of
what was read, so that a run that is repeated writes nothing twice.
"""

import hashlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quiver.model.names import check_name
from quiver_spark.column_types import SPARK_SCHEMA
from quiver_spark.jobs.arguments import SessionOrFactory, batch_read_options, commit_options, started
from quiver_spark.jobs.progress import Summary, progress_bar
from quiver_spark.jobs.ranges import Range, Times
from quiver_spark.jobs.replay.source import TopicSource
from quiver_spark.jobs.run_record import RunRecord, RunRecords, default_directory
from quiver_spark.jobs.sql.tables import Fields, as_tables, check_names, field_columns, fields_of, json_columns
from quiver_spark.jobs.sql.transforms import as_messages, with_fields
from quiver_spark.jobs.target_topic import make_topic
from quiver_spark.jobs.terminal import table_lines
from quiver_spark.runtime.failures import spark_failures
from quiver_spark.runtime.stopwatch import Stopwatch
from quiver_spark.source.options import ReadOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PREVIEW = 10
"""Rows that a dry run shows."""


def run(
    spark: SessionOrFactory,
    query: str,
    source: ReadOptions | Mapping[str, object],
    to: str,
    *,
    key: str | None = None,
    schema: str | None = None,
    to_bootstrap: str | None = None,
    transaction_timeout: str | None = None,
    run_id: str | None = None,
    state: str | Path | None = None,
    dry_run: bool = False,
    show_progress: bool | None = None,
) -> Summary:
    """Writes the result of a query over the topics of `source` to the topic `to`, which is made if it is absent.

    In the query each topic is a table: the columns of the source, and one for each field of its JSON values, by
    `schema` (DDL) or inferred. Rows become messages as `transforms.as_messages` says; `key` names the column of the
    key. The same query over the same messages writes once. With a `run_id` the messages of the first run are kept in
    the directory `state`, and a repeated run is about those. `dry_run` shows the first rows and writes nothing.
    """
    options = batch_read_options(source)
    check_names(list(options.topics))
    target, writing = check_name(to), commit_options(transaction_timeout)
    origin = TopicSource(options, None)
    ranges, records = origin.ranges(), _records(run_id, state)
    if records is not None and run_id is not None and not dry_run:
        asked = {"query": query, "to": target, "topics": ",".join(options.topics), "key": str(key)}
        ranges = records.begin(run_id, RunRecord(asked, ranges, Times(), 0)).ranges
    fields = fields_of(options, schema)
    spark, watch = started(spark), Stopwatch()
    total = sum(each.stop - each.start for each in ranges)
    details: dict[str, Any] = {"to": target, "messages_read": total}
    bar = progress_bar("sql", total, wanted=show_progress)
    with spark_failures("the query"), as_tables(spark, _frames(spark, origin, ranges, fields)), bar as shown:
        rows = as_messages(spark.sql(query), key, field_columns(fields))
        if dry_run:
            return _preview(spark.sql(query), {**details, "dry_run": True}, watch)
        make_topic(target, to_bootstrap or options.bootstrap, _partitions(ranges))
        sink = {"topic": target, "bootstrap": to_bootstrap or options.bootstrap, **writing}
        commit_key = f"sql/{run_id or run_key(ranges, query, target, key)}"
        with shown.watch(spark, total):
            count = write_once(rows, {**sink, "commitKey": commit_key})
    return Summary(job="sql", rows=count, seconds=watch.seconds(), details=details)


def run_key(ranges: Sequence[Range], query: str, to: str, key: str | None) -> str:
    """The same for runs that write the same. Pure."""
    return hashlib.sha256(repr((sorted(ranges), query, to, key)).encode()).hexdigest()[:32]


def write_once(rows: "DataFrame", sink: Mapping[str, str]) -> int:
    """Writes rows under the key in the options of the sink; returns their number."""
    from pyspark.sql import Observation
    from pyspark.sql.functions import count, lit

    seen = Observation()
    written = rows.observe(seen, count(lit(1)).alias("rows"))
    written.write.format("quiver").options(**sink).mode("append").save()
    return int(seen.get["rows"])


def _frames(
    spark: "SparkSession", origin: TopicSource, ranges: Sequence[Range], fields: Fields
) -> dict[str, "DataFrame"]:
    frames = {}
    for topic in origin.options.topics:
        own = [each for each in ranges if each.topic == topic]
        frame = origin.frame(spark, own, Times()) if own else spark.createDataFrame([], SPARK_SCHEMA)
        frames[topic] = with_fields(frame, json_columns(fields[topic]))
    return frames


def _partitions(ranges: Sequence[Range]) -> int:
    """As many as the topic with the most has."""
    return max((each.partition + 1 for each in ranges), default=1)


def _records(run_id: str | None, state: str | Path | None) -> RunRecords | None:
    if run_id is None:
        return None
    return RunRecords(default_directory() if state is None else Path(state))


def _preview(result: "DataFrame", details: dict[str, Any], watch: Stopwatch) -> Summary:
    """The columns and first rows of a result."""
    rows = result.limit(PREVIEW).collect()
    details["columns"] = [f"{name} {kind}" for name, kind in result.dtypes]
    lines = table_lines(result.columns, [[_cell(value) for value in row] for row in rows])
    return Summary(job="sql", rows=result.count(), seconds=watch.seconds(), details=details, lines=lines)


def _cell(value: object) -> object:
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode(errors="replace")
    return value if value is None or isinstance(value, int | float) else str(value)


def main(argv: list[str]) -> int:
    """The command line without `quiver pipeline sql`; returns the exit status."""
    from quiver_spark.jobs.command_line import run_command

    return run_command("sql", argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
