"""The columns of a frame's body, and the Arrow schema and layout for each set of them."""

from functools import cache
from typing import NamedTuple

import numpy.ma  # noqa: F401 - pyarrow imports it with the first nested list, in the middle of a request otherwise
import pyarrow as pa

from quiver.records.header import (
    COLUMN_DELIVER_AT,
    COLUMN_EXPIRES_AT,
    COLUMN_HEADERS,
    COLUMN_ID,
    COLUMN_KEY,
    COLUMN_OFFSET_DELTA,
    COLUMN_TIMESTAMP,
)

MAX_TIMESTAMP_MS = 253_402_300_799_999  # the last millisecond of the year 9999
HEADERS_TYPE = pa.map_(pa.string(), pa.binary())
Arrays = dict[int, pa.Array]
"""The columns of a body by their header bit (0 is `value`)."""


class Column(NamedTuple):
    """`nodes` and `buffers` are how Arrow's columnar format lays the column out, nested arrays included."""

    bit: int
    field: pa.Field
    nodes: int = 1
    buffers: int = 3
    required_nodes: tuple[int, ...] = ()
    """The nodes that never have nulls, counted from the column's first."""


VALUE = Column(0, pa.field("value", pa.binary()))
KEY = Column(COLUMN_KEY, pa.field("key", pa.binary()))
TIMESTAMP = Column(
    COLUMN_TIMESTAMP, pa.field("timestamp", pa.int64(), nullable=False), buffers=2, required_nodes=(0,)
)
HEADERS = Column(COLUMN_HEADERS, pa.field("headers", HEADERS_TYPE), nodes=4, buffers=9, required_nodes=(1, 2, 3))
DELIVER_AT = Column(COLUMN_DELIVER_AT, pa.field("deliver_at", pa.int64()), buffers=2)
EXPIRES_AT = Column(COLUMN_EXPIRES_AT, pa.field("expires_at", pa.int64()), buffers=2)
ID = Column(COLUMN_ID, pa.field("id", pa.binary()))
OFFSET_DELTA = Column(
    COLUMN_OFFSET_DELTA, pa.field("offset_delta", pa.int32(), nullable=False), buffers=2, required_nodes=(0,)
)

_BODY_ORDER = (KEY, VALUE, TIMESTAMP, HEADERS, DELIVER_AT, EXPIRES_AT, ID, OFFSET_DELTA)
COLUMNS = {column.bit: column for column in _BODY_ORDER}


class Layout(NamedTuple):
    """The layout of a body with a given set of columns."""

    columns: tuple[Column, ...]
    schema: pa.Schema
    node_count: int
    buffer_count: int
    required_nodes: tuple[int, ...]

    def place(self, column: Column) -> int:
        return self.columns.index(column)

    def node_of(self, column: Column) -> int:
        """The first array of a column among all, the nested ones too."""
        return sum(each.nodes for each in self.columns[: self.place(column)])

    def buffer_of(self, column: Column) -> int:
        """The first buffer of a column among all."""
        return sum(each.buffers for each in self.columns[: self.place(column)])


@cache
def layout_for(bits: int) -> Layout:
    """The layout of a body whose header has these column bits. They must be known ones, so there are at most 128."""
    columns = tuple(column for column in _BODY_ORDER if column is VALUE or column.bit & bits)
    required: list[int] = []
    node_count = 0
    for column in columns:
        required += [node_count + node for node in column.required_nodes]
        node_count += column.nodes
    return Layout(
        columns,
        pa.schema([column.field for column in columns]),
        node_count,
        sum(column.buffers for column in columns),
        tuple(required),
    )
