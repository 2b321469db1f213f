"""Finds the end of a log that a broker may be writing: after the last complete frame.

The search begins at a checkpoint that the broker recorded, and continues like recovery.
"""

from typing import NamedTuple

from quiver.log.recovery.reserved_file import LogState
from quiver.log.segment.frame_scan import FrameFile, Standing
from quiver.log.segment.index import DamagedIndex
from quiver.log.segment.segment import Segment
from quiver.log.segment_view import Tail
from quiver.model.limits import MIB
from quiver.reader.frame_version import PREFIX_BYTES, check_version
from quiver.records.header import ALIGNMENT, HEADER_BYTES

_WINDOW_BYTES = MIB


class Checkpoint(NamedTuple):
    """A place in the last segment up to which everything is known to be good."""

    position: int
    standing: Standing


def find_end(name: str, segments: tuple[Segment, ...], state: LogState, snapshot_offset: int) -> Tail:
    """Sets the size of the last segment to the bytes that are complete.

    Raises UnsupportedVersion if what follows was written by a later version.
    """
    if not segments:
        end = max(state.end_offset, state.reserved_offset if state.is_clean else 0, snapshot_offset)
        return Tail(end, None, 0)
    last = segments[-1]
    with last.frames(window_bytes=_WINDOW_BYTES) as frames:
        position, standing = _after_last_frame(name, frames, _checkpoint(last, state, snapshot_offset))
    last.size = position
    time_ms = standing.append_time_ms or _last_time(segments)
    return Tail(standing.next_offset, last, position, time_ms)


def _checkpoint(last: Segment, state: LogState, snapshot_offset: int) -> Checkpoint:
    found = Checkpoint(0, Standing(last.base_offset))
    if state.segment_base == last.base_offset and state.segment_size <= last.size:
        end_offset = max(state.end_offset, last.base_offset)
        found = Checkpoint(state.segment_size, Standing(end_offset, state.last_epoch, state.last_append_time_ms))
    try:
        entry = last.index.last_where(lambda entry: entry.offset < snapshot_offset)
    except DamagedIndex:
        return found
    if entry is not None and entry.position > found.position:
        with last.frames() as frames:
            header = frames.header_at(entry.position)
        if header is not None and header.base_offset == entry.offset:
            return Checkpoint(entry.position, Standing(entry.offset))
    return found


def _after_last_frame(name: str, frames: FrameFile, checkpoint: Checkpoint) -> Checkpoint:
    """Damage with good frames after it is not the end."""
    position, standing = checkpoint
    while position < frames.end:
        header = frames.header_at(position)
        if header is None or not standing.allows(header) or not frames.has_good_body(position, header):
            check_frame_version(name, frames, position)
            following = frames.next_good(position + (header.frame_bytes if header else ALIGNMENT), standing)
            if following is None or frames.has_zero_page(position, following[0]):
                break
            position, header = following
        standing = standing.after(header)
        position += header.frame_bytes
    return Checkpoint(position, standing)


def check_frame_version(name: str, frames: FrameFile, position: int) -> None:
    """Raises UnsupportedVersion if the unreadable bytes at a position are a frame of a later version."""
    if position + HEADER_BYTES <= frames.end:
        check_version(name, frames.bytes_at(position, PREFIX_BYTES))


def _last_time(segments: tuple[Segment, ...]) -> int:
    for segment in reversed(segments):
        if segment.size:
            return segment.times()[1]
    return 0
