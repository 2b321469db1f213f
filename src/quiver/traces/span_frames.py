"""Rows of spans as frames of the topic of traces, by the hash of their trace. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from quiver.records.arrow_arrays import number_array
from quiver.records.build import seal
from quiver.records.columns import KEY, TIMESTAMP, VALUE, Arrays
from quiver.structures.murmur2 import partitions_for
from quiver.traces.span_rows import SpanRows, binary_rows

_MOST_ROWS = 10_000


class SpanFrame(NamedTuple):
    partition: int
    frame: bytearray
    span_count: int


def span_frames(rows: Sequence[SpanRows], partition_count: int) -> list[SpanFrame]:
    """The rows of a trace are in one partition, in the order given."""
    keys = binary_rows(np.concatenate([each.traces for each in rows]))
    values = pa.concat_arrays([each.values for each in rows])
    times = np.concatenate([each.end_ms for each in rows])
    numbers = partitions_for(keys, partition_count)
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(np.bincount(numbers, minlength=partition_count)).tolist()
    found: list[SpanFrame] = []
    start = 0
    for number, end in enumerate(ends):
        for first in range(start, end, _MOST_ROWS):
            chosen = order[first : min(end, first + _MOST_ROWS)]
            places = number_array(chosen)
            frame = _frame(keys.take(places), values.take(places), times[chosen])
            found.append(SpanFrame(number, frame, len(chosen)))
        start = end
    return found


def _frame(keys: pa.Array, values: pa.Array, times: np.ndarray[tuple[int], np.dtype[np.int64]]) -> bytearray:
    arrays: Arrays = {KEY.bit: keys, VALUE.bit: values}
    low, high = int(times.min()), int(times.max())
    if low != high:
        arrays[TIMESTAMP.bit] = number_array(times)
    return seal(arrays, low, high, compression="zstd")
