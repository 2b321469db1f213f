"""Stored bytes that cannot be read."""

from quiver.model.errors import CorruptData
from quiver_spark.source.slices import Slice


def corrupt(piece: Slice, problem: str, next_offset: int) -> CorruptData:
    return CorruptData(where=f"{piece.topic}-{piece.partition}", problem=problem, next_offset=next_offset)
