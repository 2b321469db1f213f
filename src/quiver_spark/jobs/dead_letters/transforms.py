"""Dead letters as typed columns, selections of them, and their counts. Pure."""

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from quiver.structures.interval_set import IntervalSet
from quiver_spark.jobs.dead_letters.columns import (
    DEAD_LETTER_COLUMNS,
    DEAD_LETTER_TYPES,
    columns_in,
    dead_letter_batch,
    message_columns,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ID_COLUMNS = ("dlq_topic", "dlq_partition", "dlq_offset")
RUN_COLUMNS = "dlq_topic string, dlq_partition int, start bigint, stop bigint"
_RUN_SCHEMA = pa.schema(
    {"dlq_topic": pa.string(), "dlq_partition": pa.int32(), "start": pa.int64(), "stop": pa.int64()}
)
COUNTED = ("topic", "group", "reason", "error", "attempts", "died_at", *ID_COLUMNS)
"""What a report looks at."""
_GRAIN = ("topic", "group", "reason", "error", "attempts", "time", *ID_COLUMNS[:2])
TABLES = {"topics": ("topic", "group", "reason"), "attempts": ("attempts",), "times": ("time",)}
"""By which columns dead letters are counted."""
ERRORS = ("topic", "error")


class Selection(NamedTuple):
    """A selection of dead letters: those that match every given condition; all when none is given."""

    where: str | None = None
    """SQL over the columns of DEAD_LETTER_TYPES."""
    groups: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    """Patterns of LIKE, of which one must fit."""

    def columns(self) -> set[str]:
        """What it looks at."""
        looked_at = {"group": self.groups, "reason": self.reasons, "error": self.errors}
        return columns_in(self.where) | {name for name, given in looked_at.items() if given}

    def of(self, frame: "DataFrame") -> "DataFrame":
        from pyspark.sql.functions import col

        if self.groups:
            frame = frame.where(col("group").isin(*self.groups))
        if self.reasons:
            frame = frame.where(col("reason").isin(*self.reasons))
        if self.errors:
            frame = frame.where(reduce(lambda one, other: one | other, map(col("error").like, self.errors)))
        return frame.where(self.where) if self.where else frame


def dead_letters(frame: "DataFrame", columns: Sequence[str] = DEAD_LETTER_COLUMNS) -> "DataFrame":
    """Rows of dead-letter topics, with the columns of the source, as dead letters (see DEAD_LETTER_TYPES)."""

    def typed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (dead_letter_batch(batch, columns) for batch in batches)

    return frame.select(*message_columns(columns)).mapInArrow(typed, dead_letter_schema(columns))


def dead_letter_schema(columns: Sequence[str]) -> str:
    """As Spark writes it."""
    return ", ".join(f"`{name}` {DEAD_LETTER_TYPES[name]}" for name in columns)


def without_removed(messages: pa.RecordBatch, removed: IntervalSet) -> pa.RecordBatch:
    """Messages of one partition of a dead-letter topic without those that were redriven or purged."""
    if not removed:
        return messages
    starts, stops = np.frombuffer(removed.pack(), np.int64).reshape(2, -1)
    offsets = messages.column("offset").to_numpy()
    at = stops.searchsorted(offsets, side="right")
    is_gone = (at < len(starts)) & (starts[np.minimum(at, len(starts) - 1)] <= offsets)
    return messages.filter(pa.array(~is_gone)) if is_gone.any() else messages


def offset_runs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """From rows of dead letters (columns ID_COLUMNS), in any order, to runs of consecutive offsets (RUN_COLUMNS)."""
    for batch in batches:
        if batch.num_rows == 0:
            continue
        rows = batch.sort_by([(name, "ascending") for name in ID_COLUMNS])
        topics, partitions = rows.column(0).dictionary_encode().indices.to_numpy(), rows.column(1).to_numpy()
        offsets = rows.column(2).to_numpy()
        breaks = (np.diff(topics) != 0) | (np.diff(partitions) != 0) | (np.diff(offsets) != 1)
        first = np.concatenate(([0], np.flatnonzero(breaks) + 1))
        last = np.concatenate((first[1:], [len(offsets)])) - 1
        starts = rows.take(pa.array(first))
        columns = [*starts.columns, pa.array(offsets[last] + 1)]
        yield pa.RecordBatch.from_arrays(columns, schema=_RUN_SCHEMA)


def counted(frame: "DataFrame", bucket: str) -> "DataFrame":
    """Dead letters counted as finely as any report needs; `time` is the bucket (hour, day) of `died_at`.

    The first and the last offset are of one partition, where offsets are in the order of `died_at`.
    """
    from pyspark.sql.functions import count, date_trunc, lit
    from pyspark.sql.functions import max as greatest
    from pyspark.sql.functions import min as least

    return (
        frame.withColumn("time", date_trunc(bucket, "died_at"))
        .groupBy(*_GRAIN)
        .agg(
            count(lit(1)).alias("messages"),
            least("died_at").alias("first"),
            greatest("died_at").alias("last"),
            least("dlq_offset").alias("first_offset"),
            greatest("dlq_offset").alias("last_offset"),
        )
    )


def tables(fine: "DataFrame") -> "DataFrame":
    """What `counted` gave, added up by the columns of each of TABLES; `table` says which one a row is of."""
    from pyspark.sql.functions import col, grouping, lit, when

    columns = [name for names in TABLES.values() for name in names]
    added = fine.groupingSets(list(TABLES.values()), *columns).agg(
        *_added(), *(grouping(names[0]).alias(f"not_{table}") for table, names in TABLES.items())
    )
    table = reduce(
        lambda chain, name: chain.when(col(f"not_{name}") == 0, lit(name)), TABLES, when(lit(False), lit(""))
    )
    return added.withColumn("table", table).drop(*(f"not_{name}" for name in TABLES))


def top_errors(fine: "DataFrame", top: int) -> "DataFrame":
    """The most frequent errors, topic by topic; null is none."""
    from pyspark.sql.functions import col

    added = fine.groupBy(*ERRORS).agg(*_added())
    return added.orderBy(col("messages").desc(), *ERRORS).limit(top)


def _added() -> list["Column"]:
    from pyspark.sql.functions import concat_ws, struct
    from pyspark.sql.functions import max as greatest
    from pyspark.sql.functions import min as least
    from pyspark.sql.functions import sum as total

    def place(time: str, offset: str) -> "Column":
        return struct(time, *ID_COLUMNS[:2], offset, concat_ws(":", "dlq_partition", offset).alias("id"))

    return [
        total("messages").alias("messages"),
        least(place("first", "first_offset")).alias("oldest"),
        greatest(place("last", "last_offset")).alias("newest"),
    ]
