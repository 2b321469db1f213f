"""A node leads a unit: its logs are sent to followers, their watermarks move, the in-sync set is kept."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

from quiver.model.errors import NotEnoughReplicas, NotLeader, QuiverError
from quiver.records.header import StampedFrame
from quiver.replication.leader import Leader
from quiver.replication.leading.catch_up import CatchUp, Throttle
from quiver.replication.leading.led_log import LedLog
from quiver.replication.leading.stream import FollowerStream, StreamPorts
from quiver.replication.messages import Links
from quiver.replication.settings import ReplicationSettings
from quiver.replication.unit import Unit, start_epoch
from quiver.storage.port import Log, LogOptions

logger = logging.getLogger(__name__)

WriteUnit = Callable[[Unit, int], Awaitable[tuple[Unit, int]]]
"""Writes a unit over a revision, and returns what there is after that, whoever wrote it, with its revision. Raises
QuiverError when the outcome is not known."""


class Ports(NamedTuple):
    links: Links
    write: WriteUnit
    settings: ReplicationSettings
    catch_up: Throttle
    """Of the node: what it sends to replicas that do not have everything."""


class Leading:
    """One epoch of one unit. `close` ends it; it ends by itself when another leader is known."""

    def __init__(self, worker: int, leader: Leader, ports: Ports) -> None:
        self.worker, self.leader = worker, leader
        self._write, self._settings = ports.write, ports.settings
        catch_up = CatchUp(ports.catch_up, lambda: self.leader.unit.throttle_bytes_per_sec)
        self._stream_ports = StreamPorts(ports.links, ports.settings, catch_up)
        self.start_epoch = start_epoch(worker, leader.epoch)
        self.logs: dict[int, LedLog] = {}
        self.by_id: dict[str, LedLog] = {}
        self.streams: dict[int, FollowerStream] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._last_number = 0
        self._wants_volatile = False
        self._alone_since: float | None = None
        self._set_due = asyncio.Event()
        self._unit_changed = asyncio.Event()
        self.is_closed = False
        self.deposed = asyncio.Event()

    def start(self) -> None:
        self._tasks[self.leader.node] = asyncio.get_running_loop().create_task(self._keep_set())
        self._start_streams()

    async def close(self) -> None:
        self.end()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        for log in self.logs.values():
            await log.settle()

    def end(self) -> None:
        self.is_closed = True
        for task in self._tasks.values():
            if task is not asyncio.current_task():
                task.cancel()
        for log in self.logs.values():
            log.end()
        for stream in self.streams.values():
            stream.end()
        self._note_unit()
        self.deposed.set()

    def _note_unit(self) -> None:
        self._unit_changed.set()
        self._unit_changed = asyncio.Event()

    def not_leader(self) -> NotLeader:
        return NotLeader(what=f"worker {self.worker}")

    def check(self) -> None:
        if self.is_closed:
            raise self.not_leader()

    def adopt(self, unit: Unit, revision: int) -> None:
        """Coordination has a unit."""
        if self.is_closed:
            return
        if not self.leader.adopt(unit, revision):
            self.end()
            return
        for log in self.logs.values():
            log.advance()
        self._start_streams()
        self._note_unit()

    # logs

    def add_log(self, log_id: str, log: Log, options: LogOptions, *, is_new: bool) -> LedLog:
        """`is_new`: nobody else has it, or what they have of it does not count."""
        self._last_number += 1
        led = LedLog(self._last_number, log_id, log, options)
        end = log.end_offset
        led.progress = self.leader.add_log(led.number, election_end=0 if is_new else end, end_offset=end)
        self.logs[led.number] = self.by_id[log_id] = led
        self.tell(led)
        return led

    def refusing_count(self) -> int:
        """How many logs take no messages, because too few replicas are in sync."""
        unit = self.leader.unit
        if len(unit.isr) == len(unit.replicas):
            return 0
        return sum([len(unit.isr) < log.progress.needed for log in self.logs.values()])

    async def remove_logs(self, logs: Iterable[LedLog], remove_files: Callable[[], Awaitable[None]]) -> None:
        """Returns when the in-sync set has removed them too: whoever leads next has them no longer."""
        for log in list(logs):
            log.is_removed = True
            self.leader.remove_log(log.number)
            del self.logs[log.number], self.by_id[log.log_id]
            log.end()
            for stream in self.streams.values():
                stream.remove(log.number, log.log_id)
        await remove_files()
        while not self._have_all_removed():
            self.check()
            await self._unit_changed.wait()
        self.check()

    def _have_all_removed(self) -> bool:
        """Those who are about to join as well: they may lead next."""
        members = [stream for node, stream in self.streams.items() if node in self.leader.members]
        return self.leader.unit.has_enough and all(stream.has_removed_all for stream in members)

    def configure(self, log: LedLog, options: LogOptions) -> None:
        log.configure(options)
        if self.leader.configure(log.number, options.min_replicas):
            self._on_confirmed(log)

    def followed_to(self, log: LedLog) -> int:
        """All replicas that follow the log now have what is below."""
        ends = [stream.followed_to(log.number) for stream in self.streams.values()]
        return min([end for end in ends if end is not None], default=log.log.end_offset)

    def tell(self, log: LedLog) -> None:
        """Followers have to be told something of a log."""
        for stream in self.streams.values():
            stream.wake(log.number)

    async def append(self, log: LedLog, frames: Sequence[StampedFrame], *, alone: bool = False) -> None:
        """Returns when the frames are committed; or `alone`: when this node has them as their durability says."""
        self._check_append(log, frames)
        end = frames[-1].header.next_offset
        with log.appending():
            async with log.turn:
                self._check_log(log)
                await log.log.append(frames, sync=False)
            log.wrote(frames)
            self.tell(log)
            is_synced = log.is_synced or not log.progress.synced.get(self.leader.node)
            if is_synced:
                await log.log.sync()
        self._check_log(log)
        self._confirm_own(log, end, end if is_synced else 0)
        if not alone:
            await self.committed(log, end)

    def _check_append(self, log: LedLog, frames: Sequence[StampedFrame]) -> None:
        self._check_log(log)
        in_sync, needed = len(self.leader.unit.isr), log.progress.needed
        if in_sync < needed:
            raise NotEnoughReplicas(what=log.log_id, count=in_sync, wanted=needed)
        if self._settings.checks_epochs and any(each.header.leader_epoch != self.start_epoch for each in frames):
            raise self.not_leader()

    def _check_log(self, log: LedLog) -> None:
        if self.is_closed or log.is_removed:
            raise NotLeader(what=log.log_id)

    def _confirm_own(self, log: LedLog, end: int, synced: int) -> None:
        if self.leader.confirm(self.leader.node, log.number, end, synced):
            self._on_confirmed(log)

    def _on_confirmed(self, log: LedLog) -> None:
        log.advance()
        streams = self.streams.values()
        if streams:
            log.recent.forget_below(min([log.progress.ends.get(stream.node, 0) for stream in streams]))

    def skipped(self, log: LedLog) -> None:
        """The local log goes on at a higher offset."""
        end = log.log.end_offset
        self.tell(log)
        self._confirm_own(log, end, end)

    async def committed(self, log: LedLog, offset: int) -> None:
        """Returns when everything of a log below an offset is committed."""
        if log.progress.watermark < offset:
            self._check_log(log)
            await log.committing.add(offset)

    async def synced(self, log: LedLog) -> None:
        """Returns when everything that was written is committed and synced by the in-sync set."""
        self._check_log(log)
        end = log.log.last_frame.end_offset
        if log.is_synced:
            await self.committed(log, end)
            return
        if log.progress.synced_watermark >= end:
            return
        log.sync_to = max(log.sync_to, end)
        self.tell(log)
        await log.log.sync()
        self._check_log(log)
        self._confirm_own(log, 0, end)
        if log.progress.synced_watermark < end:
            await log.syncing.add(end)

    async def opened(self) -> None:
        """Returns when everything that there was at the election is committed."""
        for log in list(self.logs.values()):
            await self.committed(log, log.progress.election_end)

    async def make_volatile(self) -> None:
        """Returns when coordination knows that members may lose what they confirm."""
        while not self.leader.unit.is_volatile:
            self.check()
            self._wants_volatile = True
            self._set_due.set()
            await self._unit_changed.wait()

    # followers and the in-sync set

    def _start_streams(self) -> None:
        """To all replicas, as the unit names them now."""
        replicas = [node for node in self.leader.unit.replicas if node != self.leader.node]
        for node in [node for node in self.streams if node not in replicas]:
            self.streams.pop(node).end()
            self._tasks.pop(node).cancel()
        for node in [node for node in replicas if node not in self.streams]:
            stream = FollowerStream(self.worker, node, self.leader, self.logs, self._stream_ports)
            stream.on_confirmed, stream.on_deposed = self._on_confirmed, self.end
            stream.on_removed, stream.on_leaving = self._note_unit, self._set_due.set
            self.streams[node] = stream
            self._tasks[node] = asyncio.get_running_loop().create_task(stream.run())

    async def _keep_set(self) -> None:
        loop, settings = asyncio.get_running_loop(), self._settings
        while True:
            due = loop.time() + settings.idle_seconds / 2
            try:
                async with asyncio.timeout_at(due):
                    await self._set_due.wait()
            except TimeoutError:
                pass
            if loop.time() - due > settings.lag_seconds / 2:  # this process was paused, and says nothing of others
                await asyncio.sleep(settings.idle_seconds)
                continue
            self._set_due.clear()
            try:
                await self._write_set()
            except (QuiverError, OSError) as error:
                logger.info("the in-sync set of worker %d could not be written yet: %s", self.worker, error)
                await asyncio.sleep(settings.idle_seconds / 2)

    async def _write_set(self) -> None:
        now, unit = asyncio.get_running_loop().time(), self.leader.unit
        good = {
            node: stream.incarnation
            for node, stream in self.streams.items()
            if now - stream.caught_up_at <= self._settings.lag_seconds
        }
        lost = self._lost()
        kept = [node for node in unit.isr if node in good and node not in lost]
        joined = [node for node in self.leader.joiners() if node in good and self.streams[node].has_everything_else]
        wanted = self.leader.propose(
            [*kept, *joined],
            joined=good,
            lost=lost,
            is_volatile=self._wants_volatile,
            is_alone=self._is_alone(now),
        )
        if wanted is not None:
            self.adopt(*await self._write(wanted, self.leader.revision))

    def _is_alone(self, now: float) -> bool:
        """Too few others have replied for some time, whether they have everything or not."""
        replied = [
            stream for stream in self.streams.values() if now - stream.replied_at <= self._settings.lag_seconds
        ]
        if 1 + len(replied) >= self.leader.unit.min_isr:
            self._alone_since = None
            return False
        if self._alone_since is None:
            self._alone_since = now
        return now - self._alone_since >= self._settings.alone_seconds

    def _lost(self) -> set[int]:
        """Members that have stopped uncleanly since they had everything."""
        unit = self.leader.unit
        if not unit.is_volatile:
            return set()
        members = [node for node in (*unit.isr, *unit.elr) if node in self.streams]
        return {node for node in members if self.streams[node].lost_at > unit.joined.get(node, 0)}
