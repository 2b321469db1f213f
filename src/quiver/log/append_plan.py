"""An append before it happens: what every log refuses, and which segments frames go to."""

from collections.abc import Sequence
from typing import NamedTuple

from quiver.log.epoch_history import EpochStart
from quiver.model.errors import InvalidRequest, OffsetOutOfRange, StaleEpoch
from quiver.records.header import HEADER_BYTES, StampedFrame


class SegmentLimits(NamedTuple):
    """When a segment is full: at a size, or when its first frame is so old."""

    segment_bytes: int
    roll_after_ms: int


class AppendPlan:
    """The checked facts about a run of frames: how large they are and where the log stands after them."""

    __slots__ = ("append_time_ms", "end_offset", "epoch", "epoch_starts", "size_bytes")

    def __init__(
        self, frames: Sequence[StampedFrame], *, end_offset: int, frames_end: int, epoch: int, append_time_ms: int
    ) -> None:
        size = 0
        starts: tuple[EpochStart, ...] = ()
        for header, _, body in frames:
            if header.base_offset < end_offset:
                raise InvalidRequest(problem=f"offset {header.base_offset} is below the end of the log, {end_offset}")
            if header.leader_epoch != epoch:
                if header.leader_epoch < epoch:
                    raise StaleEpoch(epoch=header.leader_epoch, current=epoch)
                epoch = header.leader_epoch
                starts = (*starts, EpochStart(epoch, frames_end))
            if header.append_time_ms < append_time_ms:
                raise InvalidRequest(problem=f"append time {header.append_time_ms} is before {append_time_ms}")
            if len(body) != header.length:
                raise InvalidRequest(problem=f"a body of {len(body)} bytes, its header says {header.length}")
            end_offset = frames_end = header.base_offset + header.last_offset_delta + 1
            append_time_ms = header.append_time_ms
            size += header.length
        self.size_bytes = size + HEADER_BYTES * len(frames)
        self.end_offset = end_offset
        self.epoch = epoch
        self.epoch_starts = starts
        """Epochs that the log has no frame of yet."""
        self.append_time_ms = append_time_ms


def split_runs(
    frames: Sequence[StampedFrame], room: int, segment_bytes: int, *, is_empty: bool
) -> list[list[StampedFrame]]:
    """Frames by segments: the first run fits into `room` (it may be empty), each other makes a new segment.

    A frame larger than a segment gets one to itself, or goes into the active one when that `is_empty`.
    """
    runs: list[list[StampedFrame]] = [[]]
    for frame in frames:
        size = frame.header.frame_bytes
        starts_segment = is_empty if len(runs) == 1 and not runs[0] else not runs[-1]
        if size > room and not starts_segment:
            runs.append([])
            room = segment_bytes
        runs[-1].append(frame)
        room -= size
    return runs


def out_of_range(log_id: str, offset: int, earliest: int, latest: int) -> OffsetOutOfRange:
    topic, _, partition = log_id.rpartition("/")
    return OffsetOutOfRange(
        offset=offset, topic=topic or "log", partition=partition, earliest=earliest, latest=latest
    )
