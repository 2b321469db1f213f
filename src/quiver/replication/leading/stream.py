"""The calls to one follower of a unit: one at a time, with what all logs have for it."""

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from quiver.model.errors import QuiverError
from quiver.replication.epoch_ends import last_epoch, last_epoch_up_to
from quiver.replication.leader import Leader
from quiver.replication.leading.catch_up import CatchUp, Throttle
from quiver.replication.leading.led_log import LedLog
from quiver.replication.leading.recent_frames import Buffer
from quiver.replication.leading.snapshot_copy import SnapshotCopy
from quiver.replication.messages import (
    Align,
    Append,
    Compact,
    Greet,
    Links,
    LogPart,
    LogPosition,
    LogStart,
    Manifest,
    Message,
    Position,
)
from quiver.replication.settings import ReplicationSettings

logger = logging.getLogger(__name__)

_ALIGNED_AT_ONCE = 64
_PARTS = 256


class Followed(NamedTuple):
    """What the follower has of a log."""

    end_offset: int
    synced_offset: int
    start_offset: int
    """What it was told."""
    snapshot_offset: int
    compaction: int
    """The last order that it was given."""


class StreamPorts(NamedTuple):
    links: Links
    settings: ReplicationSettings
    catch_up: CatchUp


class FollowerStream:
    """`wake` says that a log may have something for it. `on_confirmed` is called for logs whose watermark moved."""

    def __init__(
        self,
        worker: int,
        node: int,
        leader: Leader,
        logs: dict[int, LedLog],
        ports: StreamPorts,
    ) -> None:
        self.worker, self.node = worker, node
        self._leader, self._logs = leader, logs
        self._links, self._settings, self._catch_up = ports
        self.on_confirmed: Callable[[LedLog], None] = _ignore
        self.on_deposed: Callable[[], None] = _nothing
        self.on_removed: Callable[[], None] = _nothing
        self.on_leaving: Callable[[], None] = _nothing
        self.incarnation = self.lost_at = 0
        self.caught_up_at = asyncio.get_running_loop().time()
        """When it was last seen to have everything."""
        self.replied_at = self.caught_up_at
        """When it last replied."""
        self._known: dict[int, Followed] = {}
        """By log; only those that are aligned."""
        self._unaligned: dict[int, None] = dict.fromkeys(logs)
        self._behind: dict[int, None] = {}
        self._removed: dict[int, str] = {}
        self._has_manifest = False
        self._changed = asyncio.Event()
        self._is_over = False
        self._copy = SnapshotCopy(self._call_of_epoch, self._slow_down, ports.settings.call_bytes)

    # what happens at the leader

    def wake(self, number: int) -> None:
        if number in self._known:
            self._behind[number] = None
        else:
            self._unaligned[number] = None
        self._changed.set()

    def remove(self, number: int, log_id: str) -> None:
        """The log is gone."""
        self._known.pop(number, None)
        self._unaligned.pop(number, None)
        self._behind.pop(number, None)
        self._removed[number] = log_id
        self._changed.set()

    def followed_to(self, number: int) -> int | None:
        """The follower has what is below; None while it is not known to be aligned."""
        known = self._known.get(number)
        return None if known is None else known.end_offset

    @property
    def has_removed_all(self) -> bool:
        """Whatever is gone here is gone there."""
        return self._has_manifest and not self._removed

    def end(self) -> None:
        """Ends after the call that is under way, if it is not cancelled."""
        self._is_over = True

    @property
    def has_everything_else(self) -> bool:
        """Apart from frames: it has all logs, and their snapshots."""
        return (
            not self._unaligned
            and not self._removed
            and all(self._known[number].snapshot_offset >= log.snapshot_offset for number, log in self._logs.items())
        )

    def lag_bytes(self) -> int:
        """About what it lacks, by the share of the offsets that it lacks."""
        return sum([self._lag(number) for number in (*self._behind, *self._unaligned) if number in self._logs])

    def _lag(self, number: int) -> int:
        log, known = self._logs[number].log, self._known.get(number)
        count = log.end_offset - log.start_offset
        missing = count if known is None else log.end_offset - max(known.end_offset, log.start_offset)
        return log.size_bytes * missing // count if count > 0 and missing > 0 else 0

    # the calls

    async def run(self) -> None:
        pause = self._settings.idle_seconds / 10
        while not self._is_over:
            try:
                await self._begin()
                while not self._is_over:
                    await self._round()
                    pause = self._settings.idle_seconds / 10
            except (QuiverError, OSError) as error:
                logger.debug("unit %d: node %d does not follow now: %s", self.worker, self.node, error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, self._settings.idle_seconds)

    async def _begin(self) -> None:
        self._known.clear()
        self._behind.clear()
        self._unaligned = dict.fromkeys(self._logs)
        position = await self._call(Greet(unit=self.worker, epoch=self._leader.epoch, to=0))
        if position.incarnation != self.incarnation:
            self._leader.forget(self.node)
        self.incarnation, self.lost_at = position.incarnation, position.lost_at
        names = tuple((log.number, log.log_id) for log in self._logs.values())
        await self._call_of_epoch(Manifest, logs=names)
        self._has_manifest = True
        self.on_removed()

    async def _round(self) -> None:
        if not self._behind and not self._removed and not self._unaligned:
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(self._next_idle_call()):
                    await self._changed.wait()
        await self._align()
        await self._send()
        await self._give_orders()

    def _next_idle_call(self) -> float:
        """The same time of the loop for all streams of this process, so that their calls can travel together."""
        interval = self._settings.idle_seconds
        return (asyncio.get_running_loop().time() // interval + 1) * interval

    async def _align(self) -> None:
        commons: dict[int, tuple[int, int] | None] = {}
        while self._unaligned:
            numbers = [number for number in self._unaligned if number in self._logs][:_ALIGNED_AT_ONCE]
            if not numbers:
                self._unaligned.clear()
                return
            starts = tuple(self._start_of(self._logs[number], commons.get(number)) for number in numbers)
            told = {start.number: start.complete_from for start in starts}
            position = await self._call_of_epoch(Align, logs=starts)
            for each in position.logs:
                log = self._logs.get(each.number)
                if log is None:
                    continue
                if not each.is_aligned:
                    commons[each.number] = await last_epoch_up_to(log.log, each.last_epoch)
                elif told[each.number] >= log.complete_from or each.end_offset >= log.complete_from:
                    self._take(log, each)  # otherwise a compaction has begun meanwhile

    def _start_of(self, log: LedLog, common: tuple[int, int] | None) -> LogStart:
        last = last_epoch(log.log)
        return LogStart(
            log.number,
            log.log_id,
            log.options,
            last.epoch,
            last.end_offset,
            log.complete_from,
            common,
            log.log.start_offset,
        )

    async def _send(self) -> None:
        parts: list[LogPart] = []
        payload: list[Buffer] = []
        now, is_all = asyncio.get_running_loop().time(), not self._unaligned
        throttle = self._throttle()
        room = size = (
            self._settings.call_bytes if throttle is None else throttle.call_bytes(self._settings.call_bytes)
        )
        written: dict[int, int] = {}
        for number in list(self._behind):
            log = self._logs.get(number)
            if log is None or room <= 0 or len(parts) == _PARTS:
                is_all = is_all and log is None
                continue
            written[number] = log.log.end_offset
            share = room if len(self._behind) == 1 else max(room // 4, 1)
            part, frames = await self._part(log, written[number], share)
            parts.append(part)
            payload += frames
            room -= part.frame_bytes
        removed = tuple(self._removed.items())
        position = await self._call_of_epoch(Append, payload, parts=tuple(parts), removed=removed)
        self._have_removed(removed)
        for each in position.logs:
            if (log := self._logs.get(each.number)) is not None:
                self._take(log, each, is_all_sent=each.end_offset >= written.get(each.number, 0))
                is_all = is_all and each.is_aligned and each.end_offset >= written.get(each.number, 0)
        if is_all and len(position.logs) == len(parts):
            self.caught_up_at = now
        await self._slow_down(size - room)

    async def _part(self, log: LedLog, written: int, max_bytes: int) -> tuple[LogPart, Sequence[Buffer]]:
        known = self._known[log.number]
        start, snapshot = log.log.start_offset, log.snapshot_offset
        frames, end = await log.frames(known.end_offset, written, max_bytes)
        # the first frames are synced always: a log that is there after a power cut is known to have had some
        is_synced = log.is_synced or log.sync_to > known.synced_offset or known.synced_offset <= 0
        size = sum([len(each) for each in frames])
        watermark = log.progress.watermark
        if log.number in self._known:
            self._known[log.number] = known._replace(start_offset=start)
        part = LogPart(log.number, known.end_offset, end, size, watermark, start, snapshot, is_synced)
        return part, frames

    def _take(self, log: LedLog, each: LogPosition, *, is_all_sent: bool = False) -> None:
        """What the follower has of a log now."""
        number = log.number
        if not each.is_aligned:
            self._known.pop(number, None)
            self._behind.pop(number, None)
            self._unaligned[number] = None
            return
        known = self._known.get(number)
        if known is None:
            known = Followed(0, 0, -1, -1, 0)
            self._unaligned.pop(number, None)
        known = self._known[number] = known._replace(
            end_offset=each.end_offset,
            synced_offset=each.synced_offset,
            snapshot_offset=max(known.snapshot_offset, each.snapshot_offset),
        )
        if self._needs(log, known):
            self._behind[number] = None
        elif is_all_sent or number in self._behind:
            self._behind.pop(number, None)
        if self._leader.confirm(self.node, number, each.end_offset, each.synced_offset):
            self.on_confirmed(log)

    def _needs(self, log: LedLog, known: Followed) -> bool:
        return (
            known.end_offset < log.log.end_offset
            or known.start_offset < log.log.start_offset
            or log.sync_to > known.synced_offset
            or known.snapshot_offset < log.snapshot_offset
            or (log.compaction is not None and log.compaction.number > known.compaction)
        )

    async def _give_orders(self) -> None:
        """Snapshots and compactions, of logs whose frames are there."""
        for number in list(self._behind):
            log, known = self._logs.get(number), self._known.get(number)
            if log is None or known is None or known.end_offset < log.snapshot_offset:
                continue
            if known.snapshot_offset < log.snapshot_offset:
                offset = await self._copy.send(log)
                known = self._known.get(number, known)._replace(snapshot_offset=offset)
            order = log.compaction
            if order is not None and order.number > known.compaction:
                await self._call_of_epoch(
                    Compact, number=number, compaction=order.compaction, snapshot_offset=order.snapshot_offset
                )
                known = known._replace(compaction=order.number)
            if number in self._known:
                self._known[number] = known
                if not self._needs(log, known):
                    self._behind.pop(number, None)

    def _have_removed(self, removed: Sequence[tuple[int, str]]) -> None:
        for number, _ in removed:
            self._removed.pop(number, None)
        if removed:
            self.on_removed()

    def _throttle(self) -> Throttle | None:
        """None for a member of the in-sync set: acks wait for it."""
        unit = self._leader.unit
        return None if self.node in unit.isr else self._catch_up.throttle(is_added=self.node in unit.adding)

    async def _slow_down(self, sent_bytes: float) -> None:
        while sent_bytes > 0 and (throttle := self._throttle()) is not None:
            sent_bytes = await throttle.wait(sent_bytes)

    async def _call_of_epoch(self, kind: type[Message], payload: Sequence[Buffer] = (), **fields: object) -> Position:
        message = kind(unit=self.worker, epoch=self._leader.epoch, to=self.incarnation, **fields)  # type: ignore[arg-type]
        return await self._call(message, payload)

    async def _call(self, message: Message, payload: Sequence[Buffer] = ()) -> Position:
        async with asyncio.timeout(self._settings.call_seconds):
            position = await self._links.call(self.node, message, payload)
        self.replied_at = asyncio.get_running_loop().time()
        if position.epoch > self._leader.epoch:
            self.on_deposed()
            raise QuiverError(f"node {self.node} knows epoch {position.epoch}")
        if position.is_leaving:  # nobody waits for it
            self.caught_up_at = -math.inf
            self.on_leaving()
            raise QuiverError(f"node {self.node} stops")
        if message.to and position.incarnation != message.to:
            raise QuiverError(f"node {self.node} was started again")
        return position


def _ignore(_: LedLog) -> None:
    """Nobody wants to know."""


def _nothing() -> None:
    """The same."""
