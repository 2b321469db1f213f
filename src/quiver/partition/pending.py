"""What waits for the writer of a partition, and what becomes of it."""

import asyncio
from itertools import count, repeat
from typing import NamedTuple

from quiver.model.errors import QuiverError
from quiver.partition.id_keys import FrameIds
from quiver.partition.message_batch import MessageBatch
from quiver.partition.message_ids import IdChange
from quiver.partition.outcome import Appended as Appended
from quiver.partition.outcome import Duplicate as Duplicate
from quiver.partition.producers import ProducerState
from quiver.partition.transactions import TransactionChange
from quiver.records.header import FrameHeader, StampedFrame

Frame = bytes | bytearray | memoryview


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
    """If they matter."""
    is_checked: bool = True
    """Messages whose ids are known are left out. The broker's own moves are stored as they are."""


class PendingRepeat(NamedTuple):
    """A single message that was published before."""

    future: "asyncio.Future[Appended]"


Pending = PendingFrame | PendingMarker | PendingRepeat | MessageBatch


class Assigned:
    """Frames that have their offsets, what is to be answered once they are written, and how to undo it."""

    __slots__ = ("changes", "frames", "id_changes", "next_offset", "outcomes", "undo")

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        self.frames: list[StampedFrame] = []
        self.outcomes: list[tuple[Pending, Appended]] = []
        self.undo: dict[int, ProducerState | None] = {}
        self.changes: list[TransactionChange] = []
        self.id_changes: list[IdChange] = []

    def extend(self, more: "Assigned") -> None:
        """Adds what was assigned after this."""
        self.next_offset = more.next_offset
        self.frames += more.frames
        self.outcomes += more.outcomes
        self.undo = more.undo | self.undo  # the state before the first change is the one to go back to
        self.changes += more.changes
        self.id_changes += more.id_changes


def answer(pending: Pending, appended: Appended) -> None:
    if isinstance(pending, MessageBatch):
        places = map(Appended, count(appended.base_offset), repeat(appended.append_time_ms))
        for future, place in zip(pending.futures, places, strict=False):
            if not future.done():
                future.set_result(place)
    elif not pending.future.done():
        pending.future.set_result(appended)


def refuse(pending: Pending, error: QuiverError) -> None:
    futures = pending.futures if isinstance(pending, MessageBatch) else [pending.future]
    for future in futures:
        if not future.done():
            future.set_exception(error)
