"""What becomes of messages that were appended."""

from typing import NamedTuple


class Duplicate(NamedTuple):
    """A message that was published before under the same id."""

    row: int
    """Its place in the frame."""
    offset: int
    """Of the first message with the id; -1 where that is not known any more."""
    delayed: bool = False
    """The first one is in the schedule log, and the offset is its id there."""


class Appended(NamedTuple):
    base_offset: int
    """Of the first message that is not among the duplicates; the others of those follow it."""
    append_time_ms: int
    duplicate: bool = False
    """Nothing was stored: the frame came before, or every message of it."""
    delayed: bool = False
    """It waits in the schedule log, and the offset is an id there."""
    duplicates: tuple[Duplicate, ...] = ()
    """Messages that were left out, in the order of the frame."""
