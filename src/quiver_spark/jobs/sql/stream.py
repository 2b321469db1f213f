"""`sql --stream`: a query over topics as a stream, each row of the result exactly once in the topic it goes to."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from quiver.model.errors import InvalidRequest
from quiver.model.names import check_name
from quiver.system.clock import SystemClock
from quiver_spark.jobs.arguments import SessionOrFactory, commit_options, option_texts, started
from quiver_spark.jobs.progress import Summary
from quiver_spark.jobs.sql.job import write_once
from quiver_spark.jobs.sql.query_state import QueryState, local_checkpoint, new_state, read_state
from quiver_spark.jobs.sql.tables import Fields, as_tables, check_names, field_columns, fields_of, json_columns
from quiver_spark.jobs.sql.transforms import as_messages, with_fields
from quiver_spark.jobs.target_topic import make_topic
from quiver_spark.jobs.terminal import bar_lines
from quiver_spark.options.option_map import DEFAULT_BOOTSTRAP
from quiver_spark.runtime.failures import spark_failures
from quiver_spark.runtime.stopwatch import Stopwatch
from quiver_spark.source.options import ReadOptions, read_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_LOOK_SECONDS = 0.3
_MOST_BARS = 20


class StreamSettings(NamedTuple):
    """How a query runs."""

    checkpoint: str
    once: bool = False
    """Process what there is, and end."""
    every: str = "1 second"
    """How often a micro-batch begins."""
    updates: bool = False
    """An aggregation writes each row again whenever it changes."""
    watermark: str | None = None
    """A column and a delay, `at 10 seconds`: how late rows may come."""


def run_stream(
    spark: SessionOrFactory,
    query: str,
    source: Mapping[str, object],
    to: str,
    settings: StreamSettings,
    *,
    key: str | None = None,
    schema: str | None = None,
    to_bootstrap: str | None = None,
    transaction_timeout: str | None = None,
    dry_run: bool = False,
    show_progress: bool | None = None,
) -> Summary:
    """Runs a query over topics as a stream; it ends with Ctrl-C or SIGTERM, or by itself with `settings.once`.

    Started again with its checkpoint it continues where it was. `source` has the options of a streaming read.
    Otherwise as `run`.
    """
    texts = option_texts(source)
    options = read_options(texts, now_ms=SystemClock().now_ms(), streaming=True)
    check_names(list(options.topics))
    delay = _watermark(settings.watermark)
    target, writing = check_name(to), commit_options(transaction_timeout)
    state = None if dry_run else _state(settings, options, schema)
    fields = fields_of(options, schema) if state is None else state.schemas()
    bootstrap = to_bootstrap or texts.get("bootstrap") or DEFAULT_BOOTSTRAP
    spark, watch = started(spark), Stopwatch()
    sink = {"topic": target, "bootstrap": bootstrap, **writing}
    frames = {topic: _frame(spark, topic, texts, fields, delay) for topic in options.topics}
    with spark_failures("the query"), as_tables(spark, frames):
        result = spark.sql(query)
        rows = as_messages(result, key, field_columns(fields))
        if dry_run:
            columns = [f"{name} {kind}" for name, kind in result.dtypes]
            return Summary(job="sql", details={"to": target, "dry_run": True, "columns": columns})
        make_topic(target, bootstrap, _partitions(options))
        running = _start(rows, sink, settings, state)
        batches = _follow(running, show_progress)
    counts = [batch["numInputRows"] for batch in batches]
    details = {"to": target, "messages_read": sum(counts), "batches": len(batches), "checkpoint": settings.checkpoint}
    bars = [
        (f"batch {batch['batchId']}", count, f"{count:,} messages")
        for batch, count in zip(batches, counts, strict=True)
    ]
    return Summary(
        job="sql",
        rows=sum(max(0, batch["sink"]["numOutputRows"]) for batch in batches),
        seconds=watch.seconds(),
        details=details,
        lines=bar_lines("messages by micro-batch", bars[-_MOST_BARS:]),
    )


def _state(settings: StreamSettings, options: ReadOptions, schema: str | None) -> QueryState | None:
    """None where the checkpoint is not on this machine: then nothing is kept, and the schema must be given."""
    directory = local_checkpoint(settings.checkpoint)
    if directory is None:
        if schema is None or settings.updates:
            raise InvalidRequest(
                problem="a checkpoint that is no directory of this machine needs a schema, and takes no updates"
            )
        return None
    return read_state(directory) or new_state(directory, fields_of(options, schema))


def _frame(
    spark: "SparkSession", topic: str, texts: Mapping[str, str], fields: Fields, delay: tuple[str, str] | None
) -> "DataFrame":
    own = {name: text for name, text in texts.items() if name.lower() not in ("topic", "topics")}
    frame = spark.readStream.format("quiver").options(**own, topic=topic).load()
    frame = with_fields(frame, json_columns(fields[topic]))
    return frame if delay is None or delay[0] not in frame.columns else frame.withWatermark(*delay)


def _watermark(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    column, _, delay = text.strip().partition(" ")
    if not delay.strip():
        raise InvalidRequest(problem=f"the watermark {text!r} is not a column and a delay, such as 'at 10 seconds'")
    return column, delay.strip()


def _partitions(options: ReadOptions) -> int:
    from quiver_spark.source.catalogue import chosen_extents, open_catalogue

    catalogue = open_catalogue(options)
    try:
        return max(len(topic.latest) for topic in chosen_extents(catalogue, options))
    finally:
        catalogue.close()


def _start(
    rows: "DataFrame", sink: Mapping[str, str], settings: StreamSettings, state: QueryState | None
) -> "StreamingQuery":
    writer = rows.writeStream.option("checkpointLocation", settings.checkpoint)
    if settings.updates:
        assert state is not None
        writer = writer.outputMode("update").foreachBatch(_updates(sink, state.id))
    else:
        writer = writer.outputMode("append").format("quiver").options(**sink)
    trigger: Any = {"availableNow": True} if settings.once else {"processingTime": settings.every}
    return writer.trigger(**trigger).start()


def _updates(sink: Mapping[str, str], query_id: str) -> "Callable[[DataFrame, int], None]":
    """Writes the changed rows of a micro-batch in one transaction, under the number of the batch."""

    def write(rows: "DataFrame", number: int) -> None:
        write_once(rows, {**sink, "commitKey": f"sql/{query_id}/{number}"})

    return write


def _follow(query: "StreamingQuery", show_progress: bool | None) -> list[Any]:
    """The progress of all micro-batches with rows, when the query has ended or was asked to."""
    is_shown = sys.stderr.isatty() if show_progress is None else show_progress
    seen: dict[int, Any] = {}
    with _stop_signals() as stopping:
        is_over = False
        while not is_over:
            is_over = stopping.wait(_LOOK_SECONDS) or not query.isActive
            for batch in query.recentProgress:
                if batch["batchId"] not in seen and batch["numInputRows"]:
                    seen[batch["batchId"]] = batch
                    if is_shown:
                        sys.stderr.write(f"{batch_line(batch)}\n")
        if stopping.is_set():
            query.stop()
        query.awaitTermination()
    return [seen[number] for number in sorted(seen)]


def batch_line(batch: Mapping[str, Any]) -> str:
    """What a micro-batch did. Pure."""
    late = sum(each["numRowsDroppedByWatermark"] for each in batch["stateOperators"])
    line = f"{batch['timestamp']}  batch {batch['batchId']}: {batch['numInputRows']:,} messages read"
    written = batch["sink"]["numOutputRows"]
    line += f", {written:,} rows written" if written >= 0 else ""
    return f"{line}, {late:,} too late" if late else line


@contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """Set by Ctrl-C and SIGTERM, where this is the main thread."""
    stopping = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stopping
        return
    before = {number: signal.signal(number, lambda *_: stopping.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
