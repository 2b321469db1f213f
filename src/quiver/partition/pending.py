"""What waits for the writer of a partition, and what becomes of it."""

import asyncio
from typing import NamedTuple

from quiver.model.errors import QuiverError
from quiver.partition.fusion import FusedMessages
from quiver.partition.state import ProducerState
from quiver.partition.transactions import Change
from quiver.records.header import FrameHeader, StampedFrame

Frame = bytes | bytearray | memoryview


class Appended(NamedTuple):
    base_offset: int
    append_time_ms: int
    duplicate: bool = False
    delayed: bool = False
    """It waits in the schedule log, and the offset is an id there."""


class PendingMarker(NamedTuple):
    producer_id: int
    epoch: int
    commit: bool
    future: "asyncio.Future[Appended]"


class PendingFrame(NamedTuple):
    frame: Frame
    header: FrameHeader
    future: "asyncio.Future[Appended]"


Pending = PendingFrame | PendingMarker | FusedMessages


class Placed:
    """Frames that have their offsets, what is to be answered once they are written, and how to undo it."""

    __slots__ = ("changes", "frames", "outcomes", "undo")

    def __init__(self) -> None:
        self.frames: list[StampedFrame] = []
        self.outcomes: list[tuple[Pending, Appended]] = []
        self.undo: dict[int, ProducerState | None] = {}
        self.changes: list[Change] = []


def answer(pending: Pending, appended: Appended) -> None:
    if isinstance(pending, FusedMessages):
        for index, future in enumerate(pending.futures):
            if not future.done():
                future.set_result(appended.base_offset + index)
    elif not pending.future.done():
        pending.future.set_result(appended)


def refuse(pending: Pending, error: QuiverError) -> None:
    futures = pending.futures if isinstance(pending, FusedMessages) else [pending.future]
    for future in futures:
        if not future.done():
            future.set_exception(error)
