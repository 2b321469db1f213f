"""Stored frames that are looked at as one: a call of the expression costs as much for a frame of one message as for
one of hundreds."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

import numpy as np
import pyarrow as pa

from quiver.model.limits import MIB
from quiver.model.priority import NAMES
from quiver.records.arrow_arrays import number_array
from quiver.records.columns import HEADERS, KEY, TIMESTAMP, VALUE, Column
from quiver.records.expiry import Past, past_rows
from quiver.records.read import OpenFrame
from quiver.search.language.expression import Columns

_BATCH_ROWS = 2_048
_BATCH_BYTES = MIB


class FrameBatch:
    """Frames of one priority, with the same columns. Their rows are numbered through."""

    def __init__(self, frames: list[OpenFrame]) -> None:
        self._frames = frames
        self._ends = list(accumulate(map(len, frames)))
        self.offsets: Sequence[int] = (
            frames[0].offsets() if len(frames) == 1 else [offset for frame in frames for offset in frame.offsets()]
        )

    def __len__(self) -> int:
        return self._ends[-1]

    def place(self, row: int) -> tuple[OpenFrame, int]:
        """The frame of a row, and the row's number in it."""
        number = bisect_right(self._ends, row)
        return self._frames[number], row - (self._ends[number - 1] if number else 0)

    def past(self, now_ms: int, ttl_ms: int | None) -> Past | None:
        """By row, whether it is expired; None: no message is."""
        found = [past_rows(frame, now_ms, ttl_ms) for frame in self._frames]
        if all(past is None for past in found):
            return None
        return np.concatenate(
            [
                np.zeros(len(frame), bool) if past is None else past
                for frame, past in zip(self._frames, found, strict=True)
            ]
        )

    def columns(self, partition: int) -> Columns:
        return Columns(
            value=self._column(VALUE),
            key=self._column(KEY),
            headers=self._column(HEADERS),
            timestamps=self._timestamps(),
            offsets=self.offsets,
            partition=partition,
            priority=NAMES[self._frames[0].header.priority],
        )

    def _column(self, column: Column) -> pa.Array | None:
        found = [frame.column(column) for frame in self._frames]
        return found[0] if len(found) == 1 or found[0] is None else pa.concat_arrays(found)

    def _timestamps(self) -> pa.Array | int:
        times = self._column(TIMESTAMP)
        if times is not None:
            return times
        shared = [frame.header.min_timestamp_ms for frame in self._frames]
        return shared[0] if len(shared) == 1 else number_array(np.repeat(shared, list(map(len, self._frames))))


def batches(frames: Iterable[OpenFrame]) -> Iterator[FrameBatch]:
    """All frames, in their order."""
    waiting: list[OpenFrame] = []
    rows = size = 0
    for frame in frames:
        header = frame.header
        if waiting and (
            rows + len(frame) > _BATCH_ROWS
            or size + header.uncompressed_length > _BATCH_BYTES
            or (header.priority, header.columns) != (waiting[0].header.priority, waiting[0].header.columns)
        ):
            yield FrameBatch(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(frame)
        rows += len(frame)
        size += header.uncompressed_length
    if waiting:
        yield FrameBatch(waiting)
