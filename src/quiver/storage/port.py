"""The storage port: what an engine must do. Topics are logs, and so is everything else the broker remembers.

Frames go in and frames come out; the partition above gives them their offsets. One writer at a time appends to a
log; reads may run beside it. Engines pass the contract suite in tests/contract.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from quiver.log.compaction.job import AbortedRange as AbortedRange
from quiver.log.files.sync_times import SyncTimes
from quiver.model.errors import QuiverError
from quiver.model.limits import MIB
from quiver.model.names import StartEpoch
from quiver.model.topic import Durability
from quiver.records.header import StampedFrame


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    durability: Durability = "fsync"
    segment_bytes: int = 64 * MIB
    roll_after_ms: int = 86_400_000
    buffers_publishes: bool = False
    """Frames that are in no transaction may wait in the engine's local buffer, if it has one, during an outage."""
    syncs_what_counts: bool = False
    """The owner calls `sync` for what must not be lost, and does without the rest after a restart."""
    min_replicas: int = 0
    """In sync, for an append to be taken, if there are replicas; 0: what holds for all logs."""


class Compaction(msgspec.Struct, frozen=True, kw_only=True):
    """What a pass of compaction may take away."""

    end_offset: int
    """Nothing at or above is touched: no transaction may be open below."""
    now_ms: int
    tombstone_retention_ms: int
    aborted: tuple[AbortedRange, ...] = ()
    """Those that have data or their marker below the end; their data goes, their markers stay."""
    max_span_ms: int | None = None
    """Segments whose messages were appended longer apart than this are not joined."""
    dry_run: bool = False
    """Changes nothing, and counts what a pass would do if the active segment were closed."""


class Compacted(NamedTuple):
    """What a pass did, or would do."""

    records_before: int
    records_after: int
    dirty_bytes: int
    total_bytes: int
    """Of the part that the pass looked at, before it."""
    aborted_below: int
    """No data of aborted transactions is left below."""

    @property
    def dirty_ratio(self) -> float:
        return self.dirty_bytes / self.total_bytes if self.total_bytes else 0.0


class Dirt(NamedTuple):
    """Why a log may be due for compaction."""

    dirty_bytes: int
    """In closed segments that no pass has seen."""
    total_bytes: int
    """In all closed segments."""
    has_old_tombstones: bool

    @property
    def ratio(self) -> float:
        return self.dirty_bytes / self.total_bytes if self.total_bytes else 0.0


class LastFrame(NamedTuple):
    """Where the frames of a log end; its `end_offset` may be above."""

    epoch: int
    """Of the last one; -1 when there is none, or when that is not known any more."""
    end_offset: int


class Snapshot(NamedTuple):
    offset: int
    """The snapshot holds the effect of everything below this offset."""
    data: bytes


class BufferNumbers(NamedTuple):
    """Of the local buffer for publishes."""

    message_count: int
    size_bytes: int
    buffered_total: int
    """Messages that were buffered since the start."""
    is_in_use: bool
    """The database is away, and publishes are taken all the same."""


class FrameSlice(Protocol):
    """A run of stored bytes that begins at a frame and holds at least that frame whole.

    The last frame may be cut off by the byte limit; readers drop it. `release` must be called once.
    """

    length: int
    end_offset: int
    """After the last whole frame, as far as that is known without a search: for counting."""
    is_in_file: bool

    @property
    def file(self) -> tuple[int, int] | None:
        """Descriptor and position for `sendfile`, valid until release; None when the bytes are not in a file."""
        ...

    async def read(self) -> bytes | memoryview: ...

    def read_at_once(self) -> bytes | memoryview | None:
        """The same for a slice that is small; None for others, whose reading may take long."""
        ...

    async def read_headers(self, max_bytes: int) -> bytes:
        """The headers of its whole frames, one after the other: at least one, and no more than fit in `max_bytes`."""
        ...

    def release(self) -> None: ...


class Log(Protocol):
    """One append-only log of frames."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int:
        """The offset the next frame gets at the least; never goes down, except by truncate."""
        ...

    @property
    def last_frame(self) -> LastFrame: ...

    @property
    def readable_offset(self) -> int:
        """Readers see what is below: the synced part with durability `fsync`, everything written otherwise."""
        ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def last_append_time_ms(self) -> int:
        """Append time of the last frame, 0 when there is none; the next frame's is not smaller."""
        ...

    @property
    def failure(self) -> str | None:
        """Why the log takes no more appends (a failed sync is final), or None."""
        ...

    @property
    def outage(self) -> QuiverError | None:
        """Why nothing can be appended for now; it passes without anybody's doing. None for an engine on files."""
        ...

    @property
    def has_buffer(self) -> bool:
        """Whether frames that are in no transaction are taken during an outage; they can be read after it."""
        ...

    @property
    def is_buffering(self) -> bool:
        """Whether frames from `readable_offset` on are in a local buffer."""
        ...

    def notify_readable(self, raised: Callable[[], None]) -> None:
        """`raised` is called when `readable_offset` was raised by something else than an append."""
        ...

    async def append(self, frames: Sequence[StampedFrame], *, sync: bool = True, alone: bool = False) -> None:
        """Appends all frames or none, and returns when they are as durable as the options say, or without `sync`
        when they are written: then they are synced within a second, or with the next append. Those that are appended
        `alone` do not wait for other replicas, where there are any.

        Offsets must rise and begin at end_offset or above (a jump leaves a hole). Raises StaleEpoch for an epoch
        below one seen before, DiskFull, StorageUnavailable, or PartitionOffline after a failed write or sync.
        """
        ...

    def append_at_once(self, frames: Sequence[StampedFrame], *, sync: bool = True) -> bool:
        """Appends as `append` does if that needs no waiting; False, with nothing changed, if it does.

        Only while no `append` is under way.
        """
        ...

    def begin_append(self, frames: Sequence[StampedFrame], on_end: Callable[[Exception | None], None]) -> bool:
        """Begins what `append` does; False, with nothing changed, where it takes more than a small write and a sync.

        Calls `on_end` on the loop, in a later turn: with None when the frames are on disk and readable, or with the
        error. Only while no `append` is under way, and none begins before that.
        """
        ...

    async def sync(self) -> None:
        """Returns when everything appended so far is on disk."""
        ...

    async def read(self, offset: int, *, max_bytes: int, end_offset: int | None = None) -> FrameSlice | None:
        """From the frame that holds `offset`, or the first one after it; None when there is none yet.

        Never reads at or beyond end_offset (default: readable_offset), which must be a frame boundary. Raises
        OffsetOutOfRange below start_offset or above end_offset, CorruptData where the stored bytes are damaged, and
        Overloaded where they cannot be read now.
        """
        ...

    async def offset_for_time(self, time_ms: int) -> int:
        """The first offset appended at or after a time; end_offset when there is none."""
        ...

    async def end_offset_of_epoch(self, epoch: int) -> int:
        """The offset after the last frame whose leader epoch is at most this one, also when that frame is gone since.

        It comes from a history that the log keeps (`quiver.log.epoch_history`). Of epochs that are older than the
        history nothing is certain: then it is start_offset.
        """
        ...

    async def find_priority(self, offset: int, priorities: int) -> int | None:
        """Where the first frame begins that ends after `offset` and has one of the priorities (bits: 1 << priority).

        None when there is none below readable_offset. Found by the index: the cost does not depend on how much lies
        between. Damaged frames are skipped.
        """
        ...

    async def count_by_priority(self, offset: int) -> list[int]:
        """Messages from `offset` to readable_offset, by priority, as the frame headers count them."""
        ...

    async def truncate(self, offset: int) -> None:
        """Removes frames at and above an offset (which must be a frame boundary). At the end of a log that has no
        frames, it forgets when the last one was appended."""
        ...

    async def skip_to(self, offset: int) -> None:
        """The next frame is at this offset or above, also after a restart."""
        ...

    async def drop_front(self, offset: int) -> int:
        """Removes whole segments below an offset; returns the new start offset."""
        ...

    async def roll(self) -> None:
        """Closes the active segment, so that drop_front can remove it."""
        ...

    def removed_count(self, offset: int) -> int:
        """How many messages there were from an offset up to the start, before the front was dropped.

        Holes that were in it are not counted, as far as they are known: since the log was opened.
        """
        ...

    async def retention_offset(self, *, now_ms: int, retention_ms: int | None, retention_bytes: int | None) -> int:
        """Rolls an old active segment; returns the offset below which everything is too old or too much.

        For `drop_front`, once everything that only the removed frames tell is saved elsewhere.
        """
        ...

    @property
    def clean_to(self) -> int:
        """Below this offset a pass of compaction has left each key once, and nothing of aborted transactions."""
        ...

    def dirt(self, compaction: Compaction) -> Dirt:
        """What compaction would find, as far as it is known without reading."""
        ...

    async def compact(self, compaction: Compaction) -> Compacted:
        """Of each key only the last message stays, in closed segments; offsets and order do not change.

        Messages without a key stay. Reads and appends go on meanwhile; one pass at a time. The newest snapshot must
        hold what the frames below `end_offset` say, since some of them go. Raises DiskFull, PartitionOffline.
        """
        ...

    async def save_snapshot(self, offset: int, data: bytes, *, sync: bool = False) -> None:
        """Keeps a snapshot taken at a synced offset. The last three are kept. With `sync` it is on disk, twice if it
        is the only one that is good: nothing below it is needed any more.

        It also is a recovery checkpoint: opening the log checks the bytes from the newest good snapshot on.
        """
        ...

    async def load_snapshot(self) -> Snapshot | None:
        """The newest snapshot that is whole and not above end_offset."""
        ...

    @property
    def snapshot_problems(self) -> Sequence[str]:
        """What is wrong with snapshots that are there and cannot be used, as far as they were looked at."""
        ...

    def refuse_snapshot(self, offset: int, problem: str) -> None:
        """The owner cannot read a snapshot: `load_snapshot` finds the one before from now on."""
        ...

    def configure(self, options: LogOptions) -> None:
        """Applies changed options from the next append on."""
        ...

    async def close(self) -> None:
        """Syncs and closes. A log closed this way opens without any check."""
        ...


class Storage(Protocol):
    """An engine. Log ids are relative paths of plain words, such as `topics/17/0` and `internal/coordination`."""

    @property
    def sync_times(self) -> SyncTimes | None:
        """How long syncs take; None for an engine without a disk."""
        ...

    @property
    def problem(self) -> str | None:
        """Why the engine refuses writes now (disk full, a failed log), or None: for readiness."""
        ...

    @property
    def warnings(self) -> dict[str, str]:
        """By log: what was found damaged in it, though it takes reads and writes."""
        ...

    @property
    def buffer_numbers(self) -> BufferNumbers | None:
        """Of the local buffer for publishes, if there is one."""
        ...

    async def open_log(self, log_id: str, options: LogOptions) -> Log:
        """Opens or creates a log, and recovers it if necessary."""
        ...

    async def delete_logs(self, directory: str) -> None:
        """Closes and removes every log below a directory of log ids, such as `topics/17`, with their files; or the
        log that has this id.

        What is open must have nothing under way. It may be cancelled, and called again for what is left.
        """
        ...

    async def discard_logs(self, directory: str) -> None:
        """Closes every log below a directory, or the log with this id, if it is open here, and writes nothing to it
        any more: another process removes the files."""
        ...

    async def list_logs(self, prefix: str = "") -> list[str]: ...

    async def next_start_epoch(self) -> StartEpoch:
        """A number higher than any this storage gave before, durable before it returns: one per start."""
        ...

    async def close(self) -> None:
        """Closes every log."""
        ...
