"""A column of headers in which some messages have one header, their `traceparent`, and the others none.

What Arrow needs for it is at hand: the names are always the same, and the contents follow one another. So it is
written into a frame without an array per level of nesting.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quiver.model.trace.traceparent import TRACEPARENT
from quiver.records.arrow_arrays import repeated_text
from quiver.records.columns import HEADERS_TYPE

PARENT_BYTES = 55
"""Of a `traceparent`."""
HEADER_SIZE = PARENT_BYTES + len(TRACEPARENT)
"""What the header adds to the size of a message."""
_NAME = TRACEPARENT.encode()
KEPT = 1024
"""For so many messages the parts that are always the same are kept."""
NAMES = memoryview(_NAME * KEPT)
_STEPS = np.arange(KEPT + 1, dtype=np.int32)
NAME_ENDS = (_STEPS * np.int32(len(_NAME))).data.cast("B")
PARENT_ENDS = (_STEPS * np.int32(PARENT_BYTES)).data.cast("B")


_LEFT_OUT: tuple[tuple[Any, ...], int] = ((), 0)


class TraceHeaders:
    __slots__ = ("_ends", "_parents", "traced_count")

    null_count = 0

    def __init__(self, ends: npt.NDArray[np.int32], parents: memoryview) -> None:
        """`ends` counts the headers before each message, and after the last; `parents` are their contents."""
        self._ends = ends
        self._parents = parents
        self.traced_count = len(parents) // PARENT_BYTES

    def __len__(self) -> int:
        return len(self._ends) - 1

    def buffers(self) -> list[tuple[tuple[Any, ...], int]]:
        """Pieces and size of each: of the maps, of the pairs, of the names, of the contents, as Arrow orders them."""
        count = self.traced_count
        names, name_ends, parent_ends = NAMES, NAME_ENDS, PARENT_ENDS
        if count > KEPT:
            steps = np.arange(count + 1, dtype=np.int32)
            names = memoryview(_NAME * count)
            name_ends = (steps * np.int32(len(_NAME))).data.cast("B")
            parent_ends = (steps * np.int32(PARENT_BYTES)).data.cast("B")
        size, names_size = 4 * (count + 1), count * len(_NAME)
        return [
            _LEFT_OUT,
            ((self._ends.data,), self._ends.nbytes),
            _LEFT_OUT,
            _LEFT_OUT,
            ((name_ends[:size],), size),
            ((names[:names_size],), names_size),
            _LEFT_OUT,
            ((parent_ends[:size],), size),
            ((self._parents,), count * PARENT_BYTES),
        ]

    def to_array(self) -> pa.MapArray:
        """The same as Arrow has it."""
        count = self.traced_count
        ends = pa.py_buffer(np.arange(count + 1, dtype=np.int32) * np.int32(PARENT_BYTES))
        contents = pa.Array.from_buffers(pa.binary(), count, [None, ends, pa.py_buffer(self._parents)])
        return pa.Array.from_buffers(
            HEADERS_TYPE, len(self), [None, pa.py_buffer(self._ends)], 0, children=[trace_pairs(contents)]
        )


def trace_pairs(contents: pa.Array) -> pa.StructArray:
    """The pairs of a map with the header alone."""
    return pa.StructArray.from_arrays(
        [repeated_text(TRACEPARENT, len(contents)), contents],
        fields=[HEADERS_TYPE.key_field, HEADERS_TYPE.item_field],
    )
