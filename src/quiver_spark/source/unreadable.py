"""Stored bytes that cannot be read."""

from quiver.model.errors import CorruptData
from quiver_spark.source.slices import Slice


def corrupt(slice_: Slice, problem: str, next_offset: int) -> CorruptData:
    return CorruptData(where=f"{slice_.topic}-{slice_.partition}", problem=problem, next_offset=next_offset)
