"""Writes the rows of a batch again whose transactions were aborted before its commit.

A broker that is restarted aborts what is open, and the tasks that wrote the rows are over. But the rows are still in
the log, where a reader of uncommitted messages finds them by their producer. So the driver copies them into a
transaction of its own.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import quiver
from quiver.model.priority import Priority
from quiver_spark.source.columns import BatchBuilder, FrameRows
from quiver_spark.source.frames import opened, stored_frames
from quiver_spark.source.options import ReadOptions
from quiver_spark.source.slices import Slice

if TYPE_CHECKING:
    import pyarrow as pa

    from quiver.client import Transaction

_COLUMNS = ("key", "value", "headers", "timestamp")


class StoredRows(NamedTuple):
    """Where the rows of a task are, among those of others: the ends of the partitions before and after it."""

    topic: str
    topic_id: int
    starts: tuple[int, ...]
    stops: tuple[int, ...]

    def slices(self) -> Iterator[Slice]:
        for partition, stop in enumerate(self.stops):
            start = self.starts[partition] if partition < len(self.starts) else 0
            if start < stop:
                yield Slice(self.topic, partition, start, stop, self.topic_id)


class RowPlaces:
    """Notes where the rows of a task go, topic by topic."""

    def __init__(self, client: quiver.Client) -> None:
        self._client = client
        self._begun: dict[str, StoredRows] = {}

    def begin(self, topic: str) -> None:
        """Before the first row for a topic is sent."""
        if topic not in self._begun:
            found = self._client.topics.describe(topic)
            self._begun[topic] = StoredRows(topic, found.id, tuple(end for _, end in found.offsets), ())

    def end(self) -> tuple[StoredRows, ...]:
        """When all rows are stored."""
        return tuple(
            begun._replace(stops=tuple(end for _, end in self._client.topics.describe(topic).offsets))
            for topic, begun in self._begun.items()
        )


def copy_rows(
    places: tuple[StoredRows, ...], producer: tuple[int, int], options: ReadOptions, transaction: "Transaction"
) -> int:
    """Sends what a producer wrote under an epoch to the same partitions again; returns the number of rows."""
    count = 0
    for place in places:
        for slice_ in place.slices():
            for rows, priority in _rows_of(slice_, producer, options):
                transaction.send_arrow(place.topic, rows, priority=Priority(priority), partition=slice_.partition)
                count += rows.num_rows
    return count


def _rows_of(
    slice_: Slice, producer: tuple[int, int], options: ReadOptions
) -> "Iterator[tuple[pa.RecordBatch, int]]":
    builder = BatchBuilder(slice_, _COLUMNS)
    for stored in stored_frames(slice_, options):
        header = stored.header
        if (header.producer_id, header.producer_epoch) == producer and header.record_count:
            frame = opened(slice_, stored)
            yield builder.batch([FrameRows(header, frame, 0, header.record_count)]), header.priority
