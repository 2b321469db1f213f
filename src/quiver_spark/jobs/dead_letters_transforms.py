"""Dead letters as typed columns, which of them are meant, and what they add up to. Pure."""

from collections.abc import Iterator, Mapping
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quiver.model.dead_letter import HEADER_NAMES, HEADER_PREFIX, SUFFIX
from quiver.structures.interval_set import IntervalSet

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Place = tuple[str, int]
"""A dead-letter topic and a partition of it."""
Removed = Mapping[Place, IntervalSet]
"""Offsets that are no letters any more."""

PLACE = ("letter_topic", "letter_partition", "letter_offset")
RUN_COLUMNS = "letter_topic string, letter_partition int, start bigint, stop bigint"
_RUN_SCHEMA = pa.schema(
    {"letter_topic": pa.string(), "letter_partition": pa.int32(), "start": pa.int64(), "stop": pa.int64()}
)
_GRAIN = ("topic", "group", "reason", "error", "attempts", "time", *PLACE[:2])
TABLES = {"topics": ("topic", "group", "reason"), "attempts": ("attempts",), "times": ("time",)}
"""By which columns letters are counted."""
ERRORS = ("topic", "error")


class Selection(NamedTuple):
    """Which letters are meant: those that fit everything given. Nothing given: all."""

    where: str | None = None
    """SQL over the columns of `letters`."""
    groups: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    """Patterns of LIKE, of which one must fit."""

    def of(self, frame: "DataFrame") -> "DataFrame":
        from pyspark.sql.functions import col

        if self.groups:
            frame = frame.where(col("group").isin(*self.groups))
        if self.reasons:
            frame = frame.where(col("reason").isin(*self.reasons))
        if self.errors:
            frame = frame.where(reduce(lambda one, other: one | other, map(col("error").like, self.errors)))
        return frame.where(self.where) if self.where else frame


def letters(frame: "DataFrame") -> "DataFrame":
    """Rows of dead-letter topics as letters. What a letter does not say, or not in a form that can be read, is null.

    `frame` needs topic, partition, offset, append_time and headers; its other columns are kept where it has them.
    `letter_topic`, `letter_partition` and `letter_offset` say where a letter is, `topic`, `partition` and `offset` where
    its message was. A letter that does not name its topic belongs to the one that its dead-letter topic is named after.
    """
    from pyspark.sql.functions import coalesce, col, concat_ws, lit, map_filter, regexp_replace

    own = map_filter("headers", lambda name, _: ~name.isin(*sorted(HEADER_NAMES)))
    named_after = regexp_replace("topic", lit(SUFFIX.replace(".", r"\.") + "$"), lit(""))
    kept = [name for name in ("timestamp", "key", "value", "priority") if name in frame.columns]
    return frame.select(
        col("topic").alias("letter_topic"),
        col("partition").alias("letter_partition"),
        col("offset").alias("letter_offset"),
        concat_ws(":", "partition", "offset").alias("id"),
        coalesce(_text("topic"), named_after).alias("topic"),
        _number("partition", "int").alias("partition"),
        _number("offset", "bigint").alias("offset"),
        _text("group").alias("group"),
        _text("reason").alias("reason"),
        _text("error").alias("error"),
        _number("attempts", "int").alias("attempts"),
        _text("appended_at").try_cast("timestamp").alias("appended_at"),
        _text("first_delivered").try_cast("timestamp").alias("first_delivered"),
        col("append_time").alias("died_at"),
        own.alias("headers"),
        *kept,
    )


def _text(field: str) -> "Column":
    from pyspark.sql.functions import col, make_valid_utf8

    return make_valid_utf8(col("headers").getItem(HEADER_PREFIX + field).cast("string"))


def _number(field: str, kind: str) -> "Column":
    from pyspark.sql.functions import when

    number = _text(field).try_cast(kind)
    return when(number >= 0, number)


def without_removed(frame: "DataFrame", removed: Removed) -> "DataFrame":
    """Rows of dead-letter topics (topic, partition, offset) without those that were sent back or purged."""
    from pyspark.sql.functions import arrow_udf

    if not any(removed.values()):
        return frame
    places = {place: np.frombuffer(gone.pack(), np.int64).reshape(2, -1) for place, gone in removed.items()}

    @arrow_udf("boolean")  # type: ignore[untyped-decorator]
    def is_there(topics: pa.Array, partitions: pa.Array, offsets: pa.Array) -> pa.Array:
        return pa.array(~are_within(places, topics, partitions.to_numpy(), offsets.to_numpy()))

    return frame.where(is_there("topic", "partition", "offset"))


def are_within(
    places: Mapping[Place, "np.typing.NDArray[np.int64]"],
    topics: pa.Array,
    partitions: "np.typing.NDArray[np.int32]",
    offsets: "np.typing.NDArray[np.int64]",
) -> "np.typing.NDArray[np.bool_]":
    """For each row, whether its offset is in one of the runs (starts, stops) of its place."""
    within = np.zeros(len(offsets), np.bool_)
    for topic in pc.unique(topics).to_pylist():
        of_topic = pc.equal(topics, topic).to_numpy(zero_copy_only=False)
        for partition in np.unique(partitions[of_topic]).tolist():
            if (topic, partition) in places:
                starts, stops = places[topic, partition]
                rows = of_topic & (partitions == partition)
                at = stops.searchsorted(offsets[rows], side="right")
                within[rows] = (at < len(starts)) & (starts[np.minimum(at, len(starts) - 1)] <= offsets[rows])
    return within


def offset_runs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """From rows of letters (columns PLACE), in any order, to runs of neighbours (RUN_COLUMNS)."""
    for batch in batches:
        if batch.num_rows == 0:
            continue
        rows = batch.sort_by([(name, "ascending") for name in PLACE])
        topics, partitions = rows.column(0).dictionary_encode().indices.to_numpy(), rows.column(1).to_numpy()
        offsets = rows.column(2).to_numpy()
        breaks = (np.diff(topics) != 0) | (np.diff(partitions) != 0) | (np.diff(offsets) != 1)
        first = np.concatenate(([0], np.flatnonzero(breaks) + 1))
        last = np.concatenate((first[1:], [len(offsets)])) - 1
        starts = rows.take(pa.array(first))
        columns = [*starts.columns, pa.array(offsets[last] + 1)]
        yield pa.RecordBatch.from_arrays(columns, schema=_RUN_SCHEMA)


def counted(frame: "DataFrame", bucket: str) -> "DataFrame":
    """Letters counted as finely as a report ever asks; `time` is the bucket (hour, day) in which they died.

    The first and the last offset are those of one partition, in which offsets are in the order of death.
    """
    from pyspark.sql.functions import count, date_trunc, lit
    from pyspark.sql.functions import max as greatest
    from pyspark.sql.functions import min as least

    return (
        frame.withColumn("time", date_trunc(bucket, "died_at"))
        .groupBy(*_GRAIN)
        .agg(
            count(lit(1)).alias("letters"),
            least("died_at").alias("first"),
            greatest("died_at").alias("last"),
            least("letter_offset").alias("first_offset"),
            greatest("letter_offset").alias("last_offset"),
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
    """The errors that most letters have, topic by topic; null is none."""
    from pyspark.sql.functions import col

    added = fine.groupBy(*ERRORS).agg(*_added())
    return added.orderBy(col("letters").desc(), *ERRORS).limit(top)


def _added() -> list["Column"]:
    from pyspark.sql.functions import concat_ws, struct
    from pyspark.sql.functions import max as greatest
    from pyspark.sql.functions import min as least
    from pyspark.sql.functions import sum as total

    def place(time: str, offset: str) -> "Column":
        return struct(time, *PLACE[:2], offset, concat_ws(":", "letter_partition", offset).alias("id"))

    return [
        total("letters").alias("letters"),
        least(place("first", "first_offset")).alias("oldest"),
        greatest(place("last", "last_offset")).alias("newest"),
    ]
