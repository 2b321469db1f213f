"""Stored bytes that cannot be read, and what to do about it."""

from quiver.model.errors import CorruptData, UnsupportedVersion
from quiver.records.header import MAGIC, VERSION
from quiver_spark.source.slices import Slice


def check_version(where: str, start: bytes | memoryview) -> None:
    """UnsupportedVersion when bytes that are no frame to this version begin as one of a later version does."""
    if len(start) > 2 and bytes(start[:2]) == MAGIC and start[2] > VERSION:
        raise UnsupportedVersion(
            problem=f"{where} has frames of version {start[2]} and this quivermq reads version {VERSION}"
            " (pip install --upgrade 'quivermq[spark]' where Spark runs)"
        )


def corrupt(piece: Slice, problem: str, next_offset: int) -> CorruptData:
    return CorruptData(where=f"{piece.topic}-{piece.partition}", problem=problem, next_offset=next_offset)
