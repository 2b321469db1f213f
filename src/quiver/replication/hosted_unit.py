"""A unit that this node has a replica of: it leads or follows, and changes from one to the other."""

import asyncio
from typing import NamedTuple

import msgspec

from quiver.model.errors import NotLeader
from quiver.replication.following.following import Following
from quiver.replication.leader import Leader
from quiver.replication.leading.leading import Leading, Ports
from quiver.replication.leading.storage import UnitStorage
from quiver.replication.messages import Buffer, Message, Position
from quiver.replication.settings import Member
from quiver.replication.unit import Unit
from quiver.storage.port import LogOptions, Storage
from quiver.system.pace import bounded_gather


class UnitStatus(NamedTuple):
    """What there is to see of a unit at one of its nodes."""

    worker: int
    unit: Unit
    is_led_here: bool
    lag_bytes: dict[int, int]
    """By follower, where it is led: about what each lacks."""
    log_count: int
    refusing_count: int = 0
    """Of them, where it is led: those that take no messages, because too few replicas are in sync."""


class HostedUnit:
    def __init__(self, worker: int, member: Member, local: Storage, ports: Ports) -> None:
        self.worker, self._member, self._local, self._ports = worker, member, local, ports
        self.unit: Unit | None = None
        """None: there is no key any more."""
        self.revision = 0
        self.following = Following(worker, member, local)
        self.leading: Leading | None = None
        self._led_epoch = 0
        self._is_removing = False
        self.has_files = True
        """This node may have files of it."""
        self._turn = asyncio.Lock()
        """Of changes between leading and following."""

    @property
    def is_ours(self) -> bool:
        """Whether the key names this process as the leader."""
        unit = self.unit
        return unit is not None and (unit.leader, unit.incarnation) == (self._member.node, self._member.incarnation)

    def take(self, unit: Unit | None, revision: int) -> None:
        """What coordination has, whoever wrote it."""
        if revision <= self.revision:
            return
        self.unit, self.revision = unit, revision
        if unit is None:
            if self.leading is not None:
                self.leading.end()
            return
        if self.leading is not None:
            self.leading.adopt(unit, revision)
        self.following.promise(unit.epoch)

    # leading

    async def lead(self) -> UnitStorage:
        async with self._turn:
            await self._begin_epoch()
            leading = await self._begin()
        await leading.opened()
        leading.check()
        return UnitStorage(leading, self.following.local, self._local)

    async def _begin_epoch(self) -> None:
        """Each start of a broker has an epoch of its own: the leader begins one itself if it has led in this one."""
        await self._end_leading()
        while self.is_ours and self.unit is not None and self._led_epoch >= self.unit.epoch:
            again = msgspec.structs.replace(self.unit, epoch=self.unit.epoch + 1)
            self.take(*await self._ports.write(again, self.revision))
        if not self.is_ours:
            raise self._not_leader()

    async def _begin(self) -> Leading:
        unit, revision, following = self.unit, self.revision, self.following
        assert unit is not None
        following.promise(unit.epoch)
        await following.settle()
        logs = following.local

        async def opened(log_id: str) -> tuple[str, int]:
            log = await self._local.open_log(logs.path(log_id), LogOptions())
            snapshot = await log.load_snapshot()
            return log_id, -1 if snapshot is None else snapshot.offset

        snapshots = dict(await bounded_gather(opened, await logs.list()))
        leading = Leading(self.worker, Leader(self._member.node, unit, revision), self._ports)
        for log_id, offset in snapshots.items():
            log = await self._local.open_log(logs.path(log_id), LogOptions())
            leading.add_log(log_id, log, LogOptions(), is_new=False).snapshot_offset = offset
        if following.follower.epoch != unit.epoch or not self.is_ours:
            raise self._not_leader()
        following.replicas.clear()
        self._led_epoch = unit.epoch
        self.leading = leading
        leading.start()
        if self.unit is not unit and self.unit is not None:
            leading.adopt(self.unit, self.revision)
        return leading

    def _not_leader(self) -> NotLeader:
        return NotLeader(what=f"worker {self.worker}")

    async def release(self) -> None:
        async with self._turn:
            await self._end_leading()

    async def _end_leading(self) -> None:
        if self.leading is not None:
            await self.leading.close()
            self.leading = None

    # following

    async def handle(self, message: Message, payload: Buffer) -> Position:
        unit = self.unit
        if unit is None or self._member.node not in unit.replicas or self._is_removing:
            raise self._not_leader()
        self.has_files = True
        leading = self.leading
        if leading is not None and leading.leader.epoch >= message.epoch:
            return Position(leading.leader.epoch, self._member.incarnation, self._member.lost_at)
        if leading is not None:
            async with self._turn:
                if self.leading is leading:
                    await self._end_leading()
        return await self.following.handle(message, payload)

    async def remove(self) -> None:
        """This node has no replica any more: its files go."""
        async with self._turn:
            self._is_removing = True
            try:
                await self._end_leading()
                await self.following.close()
                self.following = Following(self.worker, self._member, self._local)
                self.following.promise(0 if self.unit is None else self.unit.epoch)
                await self._local.delete_logs(self.following.local.directory)
                self.has_files = False
            finally:
                self._is_removing = False

    async def close(self) -> None:
        async with self._turn:
            await self._end_leading()
            await self.following.close()

    def status(self) -> UnitStatus | None:
        if self.unit is None:
            return None
        leading = self.leading if self.leading is not None and not self.leading.is_closed else None
        if leading is None:
            return UnitStatus(self.worker, self.unit, False, {}, len(self.following.replicas))
        lags = {node: stream.lag_bytes() for node, stream in leading.streams.items()}
        return UnitStatus(self.worker, self.unit, True, lags, len(leading.logs), leading.refusing_count())
