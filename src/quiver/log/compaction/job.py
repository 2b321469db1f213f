"""The job of a compaction pass, and its reports. Both cross a process boundary."""

from typing import NamedTuple

import msgspec

from quiver.model.limits import MIB

MAX_KEYS = 8_000_000
EVERYTHING = 2**63 - 1


class AbortedRange(NamedTuple):
    """Transactional frames of a producer from the first offset up to the marker were aborted."""

    producer_id: int
    first_offset: int
    marker_offset: int


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """Which messages of some segments stay.

    Nothing at or above the end of the segments is looked at, so no transaction may be open in them.
    """

    clean_to: int = 0
    """Below this offset each key occurs once."""
    tombstones_below: int = 0
    """Tombstones below this offset have been kept long enough."""
    aborted: tuple[AbortedRange, ...] = ()
    max_keys: int = MAX_KEYS
    """A pass ends with the segment in which it has seen more keys; the next pass does the rest."""


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """How large the new segments may be."""

    segment_bytes: int = 64 * MIB
    max_span_ms: int | None = None
    """Segments that were written longer apart than this are not joined, so that retention by time still works."""
    frame_bytes: int = 16 * MIB


class SegmentFile(msgspec.Struct, frozen=True):
    base_offset: int
    size: int
    is_sound: bool = True
    """A damaged one is left as it is."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    directory: str
    segments: list[SegmentFile]
    scope: Scope
    shape: Shape
    seed: bytes
    dry_run: bool = False


class Surveyed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What a pass is going to do; nothing has changed yet."""

    segment_count: int
    """The segments that it works on, of those in the job."""
    records_before: int
    records_after: int
    tombstones: int
    """Tombstones that stay for now."""
    damaged: tuple[int, ...]
    """Base offsets of segments that are left as they are."""


class Rewritten(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A new segment is on disk, in the directory for it, and may take the place of old ones."""

    replaced: tuple[int, ...]
    """Base offsets of neighbours. The new segment has the first."""
    size: int
    crc: int
    """CRC32C of the whole file."""


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    problem: str
    error_number: int = 0


Report = Surveyed | Rewritten | Failed
