"""What is known of a log without asking the database: its offsets, epochs and segments. Pure: no I/O."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from quiver.log.compaction.progress import Progress
from quiver.log.epoch_history import EpochHistory, EpochStart
from quiver.log.segment.index import PRIORITIES
from quiver.log.segment_appender import AppendPlan, SegmentLimits, split_runs
from quiver.model.names import StartEpoch
from quiver.records.header import HEADER_BYTES, FrameHeader, StampedFrame, read_stamped_header


class SegmentTotals:
    """A run of frames that retention removes and compaction rewrites as a whole."""

    __slots__ = ("base_offset", "counts", "first_time_ms", "last_time_ms", "size_bytes")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.size_bytes = 0
        self.first_time_ms = self.last_time_ms = 0
        self.counts = [0] * PRIORITIES

    def copy(self) -> "SegmentTotals":
        other = SegmentTotals(self.base_offset)
        other.size_bytes, other.counts = self.size_bytes, list(self.counts)
        other.first_time_ms, other.last_time_ms = self.first_time_ms, self.last_time_ms
        return other

    def add(self, size_bytes: int, time_ms: int, priority: int, message_count: int) -> None:
        if not self.size_bytes:
            self.first_time_ms = time_ms
        self.size_bytes += size_bytes
        self.last_time_ms = time_ms
        self.counts[priority] += message_count

    def add_frame(self, header: FrameHeader) -> None:
        self.add(header.frame_bytes, header.append_time_ms, header.priority, header.message_count)

    def row(self) -> tuple[int, int, int, int, list[int]]:
        return self.base_offset, self.size_bytes, self.first_time_ms, self.last_time_ms, self.counts

    @classmethod
    def from_row(cls, row: Any) -> "SegmentTotals":
        found = cls(row["base_offset"])
        found.size_bytes, found.counts = row["size_bytes"], list(row["counts"])
        found.first_time_ms, found.last_time_ms = row["first_time_ms"], row["last_time_ms"]
        return found


class PlannedAppend:
    """Frames that were checked against a state, and what the state is after them."""

    __slots__ = (
        "active",
        "base",
        "closed",
        "epochs",
        "frames",
        "is_buffered",
        "old_end",
        "plan",
        "reserved_offset",
        "stored",
        "sync",
    )

    def __init__(self, state: "PostgresLogState", frames: Sequence[StampedFrame]) -> None:
        self.base = state
        limits = state.limits
        self.frames = frames
        self.stored = [b"".join((frame.header_bytes, frame.body)) for frame in frames]
        self.old_end = state.frames_end
        self.plan = plan = AppendPlan(
            frames,
            end_offset=state.end_offset,
            frames_end=state.frames_end,
            epoch=state.last_epoch,
            append_time_ms=state.last_append_time_ms,
        )
        self.epochs = state.epochs
        if plan.epoch_starts:
            self.epochs = state.epochs.begun(plan.epoch_starts, start_offset=state.start_offset)
        self.closed: Sequence[SegmentTotals] = ()
        self.active: SegmentTotals | None = None
        active = state.active
        is_empty = not active.size_bytes
        is_old = not is_empty and plan.append_time_ms - active.first_time_ms >= limits.roll_after_ms
        room = 0 if is_old else limits.segment_bytes - active.size_bytes
        if plan.size_bytes > room:
            self._split(active.copy(), split_runs(frames, room, limits.segment_bytes, is_empty=is_empty))
        self.reserved_offset = state.reserved_offset
        self.sync = True
        self.is_buffered = False
        """It is in the local buffer, not in the database."""

    def _split(self, active: SegmentTotals, runs: Sequence[Sequence[StampedFrame]]) -> None:
        closed = []
        for number, run in enumerate(runs):
            if number:
                closed.append(active)
                active = SegmentTotals(run[0].header.base_offset)
            for frame in run:
                active.add_frame(frame.header)
        self.closed, self.active = closed, active

    @property
    def active_offset(self) -> int:
        """Where the active segment begins after it."""
        return (self.base.active if self.active is None else self.active).base_offset

    def new_active(self) -> SegmentTotals:
        """The active segment after it. Called once, when the frames are stored: most appends fit into the segment
        of the state, which is changed then."""
        if self.active is not None:
            return self.active
        active = self.base.active
        for frame in self.frames:
            active.add_frame(frame.header)
        return active

    @property
    def has_changes(self) -> bool:
        """Whether more than frames is stored."""
        base = self.base
        return bool(self.closed) or self.epochs is not base.epochs or self.reserved_offset != base.reserved_offset

    @property
    def size_bytes(self) -> int:
        return self.plan.size_bytes


class BufferedFrom(NamedTuple):
    frames_end: int
    """In the database."""
    end_offset: int
    """Of what readers see."""


class PostgresLogState:
    """Belongs to one log. `load` fills it from the database; appends that were stored are applied to it."""

    def __init__(self, log_id: str, owner: StartEpoch, limits: SegmentLimits) -> None:
        self.log_id = log_id
        self.limits = limits
        self.owner = owner
        """The start that opened it: a log never goes back to an earlier one."""
        self.id = self.owner_epoch = 0
        self.failure: str | None = None
        self.is_stale = False
        """A change ended without a response: the database is asked before the next one."""
        self.unsynced: list[bytes] = []
        """Frames that are committed, and that a crash of the database may still take."""
        self.buffered_from: BufferedFrom | None = None
        """While frames are in the local buffer: where the log ended before them."""

    def load(self, row: Any, closed: Sequence[SegmentTotals], active: SegmentTotals) -> None:
        self.id, self.owner_epoch = row["id"], row["owner_epoch"]
        self.start_offset: int = row["start_offset"]
        self.frames_end: int = row["end_offset"]
        self.reserved_offset: int = row["reserved_offset"]
        self.end_offset = max(self.frames_end, self.reserved_offset)
        self.last_epoch: int = row["last_epoch"]
        self.last_append_time_ms: int = row["last_append_time_ms"]
        self.epochs = decoded_epochs(row["epochs"])
        self.progress = msgspec.msgpack.decode(row["compaction"], type=Progress) if row["compaction"] else Progress()
        self.closed = list(closed)
        self.active = active
        self.count()

    def count(self) -> None:
        self.size_bytes = sum(segment.size_bytes for segment in self.segments)

    @property
    def segments(self) -> list[SegmentTotals]:
        """The oldest first; the last one is appended to."""
        return [*self.closed, self.active]

    @property
    def bounds(self) -> list[int]:
        """Where each segment ends."""
        return [*(segment.base_offset for segment in self.segments[1:]), self.end_offset]

    def segment_index(self, offset: int) -> int:
        return max(0, bisect_right(self.segments, offset, key=lambda segment: segment.base_offset) - 1)

    def apply(self, append: PlannedAppend) -> None:
        """The frames are stored."""
        plan, base = append.plan, append.base
        if base is not self:  # planned on what the database has, after it lost something
            self.closed, self.size_bytes = base.closed, base.size_bytes
        if append.closed:
            self.closed += append.closed
        self.active = append.new_active()
        self.size_bytes += plan.size_bytes
        self.epochs = append.epochs
        self.reserved_offset = append.reserved_offset
        self.last_epoch, self.last_append_time_ms = plan.epoch, plan.append_time_ms
        self.end_offset = self.frames_end = plan.end_offset

    def apply_buffered(self, append: PlannedAppend) -> None:
        """The frames are in the local buffer: offsets continue after them, and nobody reads them yet."""
        if self.buffered_from is None:
            self.buffered_from = BufferedFrom(append.base.frames_end, self.end_offset)
        self.apply(append)

    def adopt(self, stored: "PostgresLogState") -> None:
        """Everything that was buffered is in the database, which is as `stored` says."""
        self.start_offset, self.progress = stored.start_offset, stored.progress
        self.closed, self.active, self.epochs = stored.closed, stored.active, stored.epochs
        self.reserved_offset = stored.reserved_offset
        self.count()
        self.is_stale = False
        self.buffered_from = None

    def close_active(self) -> None:
        self.closed.append(self.active)
        self.active = SegmentTotals(self.end_offset)

    def unsynced_from(self, offset: int) -> list[StampedFrame]:
        found = [stamped(frame) for frame in self.unsynced]
        return [frame for frame in found if frame.header.base_offset >= offset]


def stamped(frame: bytes) -> StampedFrame:
    return StampedFrame(read_stamped_header(frame), frame[:HEADER_BYTES], memoryview(frame)[HEADER_BYTES:])


def encoded_epochs(epochs: EpochHistory) -> bytes:
    return msgspec.msgpack.encode(epochs.starts)


def decoded_epochs(data: bytes) -> EpochHistory:
    return EpochHistory(msgspec.msgpack.decode(data, type=list[EpochStart]) if data else ())
