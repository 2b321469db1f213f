"""What waits for the writer of a partition, and its results."""

import asyncio
from collections.abc import Sequence
from itertools import count, repeat
from typing import NamedTuple, TypeVar

from quiver.model.errors import InvalidRequest, QuiverError
from quiver.model.limits import MIB
from quiver.model.message import NewMessage
from quiver.partition.id_keys import FrameIds
from quiver.partition.message_ids import IdChange
from quiver.partition.producers import ProducerState
from quiver.partition.traffic import Traffic
from quiver.partition.transactions import TransactionChange
from quiver.records.build import build_frame
from quiver.records.columns import MAX_TIMESTAMP_MS
from quiver.records.header import FrameHeader, StampedFrame
from quiver.records.single import NO_IDENTITY, is_single, single_frame

BATCH_BYTES = MIB
BATCH_MESSAGES = 10_000
_OVERHEAD_BYTES = 32

Frame = bytes | bytearray | memoryview
T = TypeVar("T")


class Duplicate(NamedTuple):
    """A message that was published before with the same id."""

    row: int
    """Its row in the frame."""
    offset: int
    """The offset of the first message with the id; -1 if that is no longer known."""
    delayed: bool = False
    """The first one is in the schedule log, and the offset is its id there."""


class Appended(NamedTuple):
    base_offset: int
    """The offset of the first message that is not a duplicate; the others follow it."""
    append_time_ms: int
    duplicate: bool = False
    """Nothing was stored: the frame or every message of it was a repeat."""
    delayed: bool = False
    """It waits in the schedule log; the offset is an id there."""
    duplicates: tuple[Duplicate, ...] = ()
    """Messages that were left out, in the order of the frame."""
    buffered: bool = False
    """It is in the broker's local buffer, and will be stored when the database is back."""


class PendingMarker(NamedTuple):
    producer_id: int
    epoch: int
    commit: bool
    future: "asyncio.Future[Appended]"


class PendingFrame(NamedTuple):
    frame: Frame
    header: FrameHeader
    future: "asyncio.Future[Appended]"
    ids: FrameIds | None = None
    """If they count."""
    is_checked: bool = True
    """Messages whose ids are known are left out. The broker's own moves are stored as they are."""
    alone: bool = False
    """Its caller waits for this replica only."""


class PendingRepeat(NamedTuple):
    """A single message that was published before."""

    future: "asyncio.Future[Appended]"


class MessageBatch:
    """Messages of one priority that wait for the partition's writer, and become one frame when it takes them."""

    __slots__ = ("alone", "futures", "has_ids", "limit_bytes", "messages", "priority", "sealed", "size")

    def __init__(self, priority: int, limit_bytes: int = BATCH_BYTES, *, alone: bool = False) -> None:
        self.priority = priority
        self.alone = alone
        """Their callers wait for this replica only."""
        self.limit_bytes = limit_bytes
        self.messages: list[NewMessage] = []
        self.futures: list[asyncio.Future[Appended]] = []
        self.has_ids = False
        self.size = 0
        self.sealed = False
        """The writer has taken them: nothing more may be added."""

    def has_room(self, size: int) -> bool:
        """Whether a message of this size may be added. The first always may: a large one gets a frame of its own."""
        if self.sealed or len(self.messages) >= BATCH_MESSAGES:
            return False
        return not self.messages or self.size + size + _OVERHEAD_BYTES <= self.limit_bytes

    def add(self, message: NewMessage, size: int, future: "asyncio.Future[Appended]") -> None:
        self.messages.append(message)
        self.futures.append(future)
        if message.id is not None:
            self.has_ids = True
        self.size += size + _OVERHEAD_BYTES

    def chosen(self, rows: Sequence[int]) -> "MessageBatch":
        """Some of the messages, as a batch of their own to which nothing may be added."""
        chosen = MessageBatch(self.priority, self.limit_bytes, alone=self.alone)
        chosen.messages = [self.messages[row] for row in rows]
        chosen.futures = [self.futures[row] for row in rows]
        chosen.has_ids, chosen.sealed = self.has_ids, True
        return chosen

    def halves(self) -> tuple["MessageBatch", "MessageBatch"]:
        middle = len(self.messages) // 2
        return self.chosen(range(middle)), self.chosen(range(middle, len(self.messages)))

    def build(self, now_ms: int) -> bytes | bytearray:
        """The frame."""
        messages = self.messages
        if len(messages) == 1 and (frame := _single(messages[0], self.priority, now_ms)) is not None:
            return frame
        times = _given([m.timestamp_ms for m in messages])
        return build_frame(
            [m.value for m in messages],
            keys=_given([m.key for m in messages]),
            timestamp_ms=now_ms,
            timestamps_ms=None if times is None else [now_ms if time is None else time for time in times],
            headers=_given([m.headers for m in messages]),
            deliver_at_ms=_given([m.deliver_at_ms for m in messages]),
            expires_at_ms=_given([m.expires_at_ms for m in messages]),
            ids=_given([m.id for m in messages]),
            priority=self.priority,
        )


def _single(message: NewMessage, priority: int, now_ms: int) -> bytes | None:
    """The frame of a small message that has at most a key and a time; None for others."""
    value, key, timestamp_ms = message.value, message.key, message.timestamp_ms
    is_plain = not message.headers and message.deliver_at_ms is None
    is_plain = is_plain and message.expires_at_ms is None and message.id is None
    if not is_plain or value is None or not is_single(value, key):
        return None
    return single_frame(
        value,
        key,
        timestamp_ms=now_ms if timestamp_ms is None else timestamp_ms,
        priority=priority,
        identity=NO_IDENTITY,
    )


def _given(items: list[T]) -> list[T] | None:
    """A column of a frame; None where no message has anything in it, which is most of them."""
    return None if items.count(None) == len(items) else items  # type: ignore[arg-type]


Pending = PendingFrame | PendingMarker | PendingRepeat | MessageBatch


class Assigned:
    """Frames that have their offsets, the results for their callers once they are written, and how to undo it all."""

    __slots__ = ("alone", "changes", "frames", "id_changes", "next_offset", "outcomes", "undo")

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        self.alone = False
        """Nobody waits for other replicas."""
        self.frames: list[StampedFrame] = []
        self.outcomes: list[tuple[Pending, Appended]] = []
        self.undo: dict[int, ProducerState | None] = {}
        self.changes: list[TransactionChange] = []
        self.id_changes: list[IdChange] = []

    def extend(self, more: "Assigned") -> None:
        """Adds what was assigned after it."""
        self.next_offset = more.next_offset
        self.frames += more.frames
        self.outcomes += more.outcomes
        for producer_id, before in more.undo.items():
            self.undo.setdefault(producer_id, before)  # the state before the first change is the one to go back to
        self.changes += more.changes
        self.id_changes += more.id_changes


def answer(pending: Pending, appended: Appended) -> None:
    if isinstance(pending, MessageBatch):
        rest = (False, False, (), appended.buffered)
        places = map(Appended, count(appended.base_offset), repeat(appended.append_time_ms), *map(repeat, rest))
        for future, place in zip(pending.futures, places, strict=False):
            if not future.done():
                future.set_result(place)
    elif not pending.future.done():
        pending.future.set_result(appended)


def refuse(pending: Pending, error: QuiverError, traffic: Traffic) -> None:
    futures = pending.futures if isinstance(pending, MessageBatch) else [pending.future]
    if not isinstance(pending, PendingMarker):
        traffic.note_refused(error.code, len(futures))
    for future in futures:
        if not future.done():
            future.set_exception(error)


def count_alone(batch: Sequence[Pending]) -> int:
    """Items whose callers do not wait for other replicas."""
    return sum([isinstance(each, PendingFrame | MessageBatch) and each.alone for each in batch])


def message_size(message: NewMessage) -> int:
    """The size that the message limit applies to."""
    return message_bytes(message.value, message.key, message.headers) + len(message.id or b"")


def message_bytes(value: bytes | None, key: bytes | None, headers: dict[str, bytes] | None) -> int:
    """Bytes of key, value and headers."""
    size = len(value or b"") + len(key or b"")
    if headers:
        size += sum(len(name.encode()) + len(content) for name, content in headers.items())
    return size


def check_times(message: NewMessage) -> None:
    """Refuses what does not fit into a frame, before the message shares one with others."""
    if message.timestamp_ms is message.deliver_at_ms is message.expires_at_ms is None:
        return
    for what, time_ms in (
        ("timestamp", message.timestamp_ms),
        ("deliver_at", message.deliver_at_ms),
        ("ttl", message.expires_at_ms),
    ):
        if time_ms is not None and not 0 <= time_ms <= MAX_TIMESTAMP_MS:
            raise InvalidRequest(problem=f"{what}: it is not within the years 1970 to 9999")
