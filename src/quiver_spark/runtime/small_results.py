"""Tasks with small results: each runs in a Spark task, and its result comes back as bytes."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec
import pyarrow as pa

from quiver_spark.runtime.failures import spark_failures
from quiver_spark.runtime.worker_modules import settle_modules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Task = TypeVar("Task")
Answer = TypeVar("Answer")
_SCHEMA = pa.schema([("number", pa.int64()), ("answer", pa.binary())])


def on_workers(
    spark: "SparkSession",
    tasks: Sequence[Task],
    do: Callable[[Task], Answer],
    kind: type[Answer],
    what: str,
    *,
    at_most: int | None = None,
) -> list[Answer]:
    """The results of `do` for the tasks, in their order. With `at_most`, small tasks share that many Spark tasks."""
    if not tasks:
        return []
    count = min(len(tasks), at_most or len(tasks))

    def answers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for first in batch.column(0).to_pylist():
                for number in range(first, len(tasks), count):
                    answer = msgspec.msgpack.encode(do(tasks[number]))
                    yield pa.RecordBatch.from_pydict({"number": [number], "answer": [answer]}, schema=_SCHEMA)
        settle_modules()

    with spark_failures(what):
        numbers = spark.range(0, count, 1, count)
        rows = numbers.mapInArrow(answers, "number bigint, answer binary").collect()
    decoder = msgspec.msgpack.Decoder(kind)
    return [decoder.decode(bytes(row.answer)) for row in sorted(rows, key=lambda row: row.number)]
