"""Stored bytes that fail their checksum. They stay where they are; reads of them get an error, other reads work."""

from typing import NamedTuple

from quiver.model.errors import CorruptData


class Damage(NamedTuple):
    """A damaged range of one segment."""

    where: str
    """The segment file."""
    segment_base: int
    position: int
    end_position: int
    first_offset: int
    """Offsets from here up to next_offset cannot be read."""
    next_offset: int
    problem: str

    def error(self) -> CorruptData:
        return CorruptData(
            where=f"{self.where} at byte {self.position}", problem=self.problem, next_offset=self.next_offset
        )
