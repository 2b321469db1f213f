"""A node leads a log: it sends frames to followers, moves the watermark, and keeps the in-sync set."""

import asyncio
import heapq
import logging
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import NamedTuple

from quiver.model.errors import NotEnoughReplicas, NotLeader, OffsetOutOfRange, QuiverError
from quiver.model.limits import MIB
from quiver.records.header import HEADER_BYTES, StampedFrame, read_stamped_header
from quiver.replication.epoch_ends import last_epoch
from quiver.replication.leader import Leader
from quiver.replication.messages import Align, Append, Links, Position
from quiver.replication.unit import Unit
from quiver.storage.port import Log, LogOptions

logger = logging.getLogger(__name__)

CALL_BYTES = MIB
"""Frames of one call to a follower. The next call has what was written meanwhile."""


class ReplicationSettings(NamedTuple):
    call_seconds: float = 2.0
    idle_seconds: float = 0.5
    """A follower gets a call at least this often."""
    lag_seconds: float = 1.5
    """A member of the in-sync set that has not had everything for so long leaves it."""
    checks_epochs: bool = True
    """Frames must have the epoch of their unit. False for tests whose frames have others."""


WriteUnit = Callable[[Unit, int], Awaitable[tuple[Unit, int]]]
"""Writes a unit over a revision, and returns what there is after that, whoever wrote it, with its revision. Raises
QuiverError when the outcome is not known."""


class Leading:
    """One epoch of one log. `close` ends it, also by itself when another leader is known."""

    def __init__(
        self, leader: Leader, log_id: str, log: Log, links: Links, write: WriteUnit, settings: ReplicationSettings
    ) -> None:
        self.leader, self.log_id, self.log = leader, log_id, log
        self._links, self._write, self._settings = links, write, settings
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = count()
        self._changed = asyncio.Event()
        self._turn = asyncio.Lock()
        """Of writes to the log: none is under way when `close` returns."""
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._caught_up: dict[int, float] = {}
        """When a follower was last seen to have everything."""
        self.is_closed = False
        self.on_watermark: Callable[[], None] | None = None
        """Called when the watermark may have risen."""

    def start(self, options: LogOptions) -> None:
        now = asyncio.get_running_loop().time()
        self.leader.confirm(self.leader.node, self.log.end_offset)
        self._caught_up = dict.fromkeys(self.leader.unit.replicas, now)
        begin = asyncio.get_running_loop().create_task
        self._tasks = {
            node: begin(self._send_to(node, options))
            for node in self.leader.unit.replicas
            if node != self.leader.node
        }
        self._tasks[self.leader.node] = begin(self._keep_set())
        self._advance()

    async def close(self) -> None:
        self.end()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        async with self._turn:
            pass

    def end(self) -> None:
        """Whoever waits gets NotLeader: what it wrote may be committed by the next leader or not."""
        self.is_closed = True
        for task in self._tasks.values():
            if task is not asyncio.current_task():
                task.cancel()
        while self._waiting:
            _, _, future = heapq.heappop(self._waiting)
            if not future.done():
                future.set_exception(self.not_leader())

    def not_leader(self) -> NotLeader:
        return NotLeader(what=self.log_id)

    def adopt(self, unit: Unit, revision: int) -> None:
        """Coordination has a unit."""
        if self.leader.adopt(unit, revision):
            self._advance()
        else:
            self.end()

    async def append(self, frames: Sequence[StampedFrame]) -> None:
        """Returns when the frames are committed."""
        unit = self.leader.unit
        if len(unit.isr) < unit.min_isr:
            raise NotEnoughReplicas(what=self.log_id, count=len(unit.isr), wanted=unit.min_isr)
        if self._settings.checks_epochs and any(each.header.leader_epoch != self.leader.epoch for each in frames):
            raise self.not_leader()
        async with self._turn:
            if self.is_closed:
                raise self.not_leader()
            await self.log.append(frames, sync=False)
        end = frames[-1].header.next_offset
        self._wake()
        await self.log.sync()
        if self.is_closed:
            raise self.not_leader()
        if self.leader.confirm(self.leader.node, end):
            self._advance()
        await self.committed(end)

    async def committed(self, offset: int) -> None:
        """Returns when everything below an offset is committed."""
        if self.leader.watermark >= offset:
            return
        if self.is_closed:
            raise self.not_leader()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (offset, next(self._numbers), future))
        await future

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _advance(self) -> None:
        self._wake()
        while self._waiting and self._waiting[0][0] <= self.leader.watermark:
            _, _, future = heapq.heappop(self._waiting)
            if not future.done():
                future.set_result(None)
        if self.on_watermark is not None:
            self.on_watermark()

    # followers

    async def _send_to(self, node: int, options: LogOptions) -> None:
        pause = self._settings.idle_seconds / 10
        while not self.is_closed:
            try:
                position = await self._align(node, options)
                while position.is_aligned:
                    position = await self._send(node, position.end_offset)
                    pause = self._settings.idle_seconds / 10
            except (QuiverError, OSError) as error:
                logger.debug("%s: node %d does not follow now: %s", self.log_id, node, error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, self._settings.idle_seconds)

    async def _align(self, node: int, options: LogOptions) -> Position:
        common: tuple[int, int] | None = None
        while True:
            position = await self._call(node, Align(self.log_id, self.leader.epoch, options, common))
            if position.is_aligned:
                return position
            common = await last_epoch(self.log, position.last_epoch)

    async def _send(self, node: int, base: int) -> Position:
        """What follows an offset; without anything new, after a while, only the watermark."""
        changed, written = self._changed, self.log.end_offset
        confirmed = self.leader.confirmed(node)
        if base >= written and confirmed is not None and confirmed >= base:
            try:
                async with asyncio.timeout(self._settings.idle_seconds):
                    await changed.wait()
            except TimeoutError:
                pass
            written = self.log.end_offset
        now = asyncio.get_running_loop().time()
        frames = await self._frames(base, written)
        message = Append(self.log_id, self.leader.epoch, base, self.leader.watermark, frames)
        position = await self._call(node, message)
        if position.is_aligned:
            if position.end_offset >= written:
                self._caught_up[node] = now
            if self.leader.confirm(node, position.end_offset):
                self._advance()
        return position

    async def _call(self, node: int, message: Align | Append) -> Position:
        async with asyncio.timeout(self._settings.call_seconds):
            position = await self._links.call(node, message)
        if position.epoch > self.leader.epoch:
            self.end()
            raise self.not_leader()
        return position

    async def _frames(self, offset: int, end_offset: int) -> bytes:
        """Whole frames from an offset on."""
        if offset >= end_offset:
            return b""
        try:
            found = await self.log.read(
                max(offset, self.log.start_offset), max_bytes=CALL_BYTES, end_offset=end_offset
            )
        except OffsetOutOfRange:  # the front was dropped meanwhile
            return b""
        if found is None:
            return b""
        try:
            data = bytes(await found.read())
        finally:
            found.release()
        return data[: _whole(data)]

    # the in-sync set

    async def _keep_set(self) -> None:
        while not self.is_closed:
            await asyncio.sleep(self._settings.idle_seconds / 2)
            proposed = self.leader.propose(self._wanted_set())
            if proposed is not None:
                try:
                    self.adopt(*await self._write(proposed, self.leader.revision))
                except (QuiverError, OSError) as error:
                    logger.info("the in-sync set of %s could not be written yet: %s", self.log_id, error)

    def _wanted_set(self) -> tuple[int, ...]:
        now = asyncio.get_running_loop().time()
        kept = [
            node
            for node in self.leader.unit.isr
            if node == self.leader.node or now - self._caught_up.get(node, 0.0) <= self._settings.lag_seconds
        ]
        joined = [
            node
            for node in self.leader.joiners()
            if now - self._caught_up.get(node, 0.0) <= self._settings.lag_seconds
        ]
        return (*kept, *joined)


def _whole(data: bytes) -> int:
    """How many bytes of it are whole frames."""
    position = 0
    while position + HEADER_BYTES <= len(data):
        end = position + read_stamped_header(data, position).frame_bytes
        if end > len(data):
            break
        position = end
    return position
