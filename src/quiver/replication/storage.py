"""The engine `replicated`: logs of a local engine, each with a leader and followers on other nodes."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import NamedTuple

from quiver.coordination.port import ABSENT, Change, Coordination, Expected, Put
from quiver.log.files.sync_times import SyncTimes
from quiver.model.errors import NotLeader
from quiver.model.names import StartEpoch
from quiver.replication.leader import Leader
from quiver.replication.leading import Leading, ReplicationSettings
from quiver.replication.log import ReplicatedLog
from quiver.replication.messages import Align, Links, Message, Position
from quiver.replication.replica import Replica
from quiver.replication.unit import Unit, decode_unit
from quiver.storage.port import LogOptions, Storage
from quiver.telemetry.supervised_task import SupervisedTask

PREFIX = "unit/"


class Member(NamedTuple):
    """This process."""

    node: int
    incarnation: int


class ReplicatedStorage:
    """`open` comes first. `handle` gets what other nodes ask. The local engine stays the caller's.

    A log is led from `open_log` until another epoch is known; it is followed whenever a leader asks.
    """

    def __init__(
        self,
        member: Member,
        local: Storage,
        coordination: Coordination,
        links: Links,
        settings: ReplicationSettings | None = None,
        new_unit: Callable[[str], Unit] | None = None,
    ) -> None:
        """`new_unit` says who has the replicas of a log that coordination does not know."""
        self.member = member
        self._local, self._coordination, self._links = local, coordination, links
        self._settings, self._new_unit = settings or ReplicationSettings(), new_unit
        self.units: dict[str, tuple[Unit, int]] = {}
        """By log, with the revision."""
        self._leading: dict[str, Leading] = {}
        self._logs: dict[str, ReplicatedLog] = {}
        """Of what it leads, or has led."""
        self._replicas: dict[str, Replica] = {}
        self._opening: dict[str, asyncio.Lock] = {}
        self._known = asyncio.Event()
        self._changed = asyncio.Event()
        self.task = SupervisedTask("the view of units", self._follow)

    async def open(self) -> None:
        self.task.start()
        await self._known.wait()

    @property
    def sync_times(self) -> SyncTimes | None:
        return self._local.sync_times

    @property
    def problem(self) -> str | None:
        return self._local.problem

    @property
    def warnings(self) -> dict[str, str]:
        return self._local.warnings

    @property
    def buffer_numbers(self) -> None:
        return None

    async def open_log(self, log_id: str, options: LogOptions) -> ReplicatedLog:
        """Waits until everything that this replica has is committed. Raises NotLeader where another node leads."""
        async with self._opening.setdefault(log_id, asyncio.Lock()):
            leading = self._leading.get(log_id)
            if leading is not None and leading.is_closed:
                await leading.close()
            if leading is None or leading.is_closed:
                leading = await self._lead(log_id, options)
        log = self._logs[log_id]
        log.configure(options)
        await leading.committed(leading.leader.election_end)
        return log

    def leads(self, log_id: str) -> bool:
        """Whether the key names this process."""
        unit, _ = self.units.get(log_id, (None, 0))
        return unit is not None and (unit.leader, unit.incarnation) == self.member

    async def _lead(self, log_id: str, options: LogOptions) -> Leading:
        unit, revision = await self._unit(log_id)
        if (unit.leader, unit.incarnation) != self.member:
            raise NotLeader(what=log_id)
        replica = self._replicas.pop(log_id, None)
        if replica is not None:
            async with replica.turn:
                replica.follower.promise(unit.epoch)
        log = await self._local.open_log(log_id, options)
        await log.sync()
        if self.units[log_id][0].epoch != unit.epoch:
            raise NotLeader(what=log_id)
        leader = Leader(self.member.node, unit, revision, log.end_offset)

        async def write(changed: Unit, expected: int) -> tuple[Unit, int]:
            return await self._write(log_id, changed, expected)

        leading = self._leading[log_id] = Leading(leader, log_id, log, self._links, write, self._settings)
        self._logs[log_id] = ReplicatedLog(log, leading)
        leading.start(options)
        return leading

    async def _unit(self, log_id: str) -> tuple[Unit, int]:
        if log_id not in self.units:
            if self._new_unit is None:
                raise NotLeader(what=log_id)
            self._take(log_id, *await self._write(log_id, self._new_unit(log_id), ABSENT))
        return self.units[log_id]

    async def _write(self, log_id: str, unit: Unit, revision: int) -> tuple[Unit, int]:
        key = PREFIX + log_id
        outcome = await self._coordination.commit([Expected(key, revision)], [Put(key, unit.key_value)])
        if outcome.succeeded:
            return unit, outcome.revision
        found = await self._coordination.get(key)
        if found is None:
            raise NotLeader(what=log_id)
        return decode_unit(found.value), found.revision

    # what others ask

    async def handle(self, message: Message) -> Position:
        """Raises NotLeader for a log whose unit this process does not know yet."""
        if message.log_id not in self.units:
            raise NotLeader(what=message.log_id)
        leading = self._leading.get(message.log_id)
        if leading is not None and leading.leader.epoch >= message.epoch:
            return Position(leading.leader.epoch, 0, False)
        if leading is not None:
            await leading.close()
            if self._leading.get(message.log_id) is leading:
                del self._leading[message.log_id]
        replica = self._replicas.get(message.log_id)
        if replica is None:
            if not isinstance(message, Align):
                return Position(message.epoch, 0, False)
            replica = await self._opened(message)
        if message.log_id not in self.units:
            raise NotLeader(what=message.log_id)
        replica.follower.promise(self.units[message.log_id][0].epoch)
        return await (replica.align(message) if isinstance(message, Align) else replica.append(message))

    async def _opened(self, message: Align) -> Replica:
        async with self._opening.setdefault(message.log_id, asyncio.Lock()):
            if message.log_id in self._leading and not self._leading[message.log_id].is_closed:
                raise NotLeader(what=message.log_id)
            replica = self._replicas.get(message.log_id)
            if replica is None:
                replica = Replica(await self._local.open_log(message.log_id, message.options))
                self._replicas[message.log_id] = replica
            return replica

    # coordination

    async def _follow(self) -> None:
        async with aclosing(self._coordination.watch(PREFIX)) as watch:
            async for batch in watch:
                if batch.is_complete:
                    there = {change.key for change in batch.changes}
                    for log_id in [each for each in self.units if PREFIX + each not in there]:
                        self._forget(log_id)
                for change in batch.changes:
                    self._apply(change)
                self._known.set()

    def _apply(self, change: Change) -> None:
        log_id = change.key.removeprefix(PREFIX)
        if change.value is None:
            self._forget(log_id)
        else:
            self._take(log_id, decode_unit(change.value), change.revision)

    def _take(self, log_id: str, unit: Unit, revision: int) -> None:
        if revision <= self.units.get(log_id, (None, 0))[1]:
            return
        self.units[log_id] = unit, revision
        if log_id in self._leading:
            self._leading[log_id].adopt(unit, revision)
        if log_id in self._replicas:
            self._replicas[log_id].follower.promise(unit.epoch)
        self._changed.set()
        self._changed = asyncio.Event()

    def _forget(self, log_id: str) -> None:
        self.units.pop(log_id, None)
        leading = self._leading.get(log_id)
        if leading is not None:
            leading.end()

    async def changed(self) -> None:
        """Returns when some unit has changed."""
        await self._changed.wait()

    # the local engine; files of removed logs are removed by each node

    async def delete_logs(self, directory: str) -> None:
        await self._release(directory)
        await self._local.delete_logs(directory)

    async def discard_logs(self, directory: str) -> None:
        await self._release(directory)
        await self._local.discard_logs(directory)

    async def _release(self, directory: str) -> None:
        for log_id in [each for each in self._leading if each.startswith(f"{directory}/")]:
            await self._leading.pop(log_id).close()
            del self._logs[log_id]
        for log_id in [each for each in self._replicas if each.startswith(f"{directory}/")]:
            del self._replicas[log_id]

    async def list_logs(self, prefix: str = "") -> list[str]:
        return await self._local.list_logs(prefix)

    async def next_start_epoch(self) -> StartEpoch:
        return await self._local.next_start_epoch()

    async def close(self) -> None:
        await self.task.stop()
        for leading in self._leading.values():
            await leading.close()
        self._leading.clear()
        self._replicas.clear()
        await self._local.close()
