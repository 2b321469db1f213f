"""What runs in place of brokers on a simulated node: logs are opened, written, retained and deleted."""

import asyncio
from collections.abc import Callable
from random import Random

import msgspec

from quiver.model.errors import NotLeader, QuiverError
from quiver.replication.leading.log import ReplicatedLog
from quiver.replication.leading.storage import UnitStorage
from quiver.replication.node import ReplicatedNode
from quiver.system.clock import Clock
from quiver.testing.replication.catalogue import OPTIONS, Catalogue, Place
from quiver.testing.replication.frames import new_frame, stored_values

_SNAPSHOT_BYTES = 700
"""More than a chunk of the simulation has."""


class Publish(msgspec.Struct, frozen=True):
    place: Place
    value: int


class DeleteLog(msgspec.Struct, frozen=True):
    place: Place


class Host:
    """`run` goes on until the node ends. `problem` gets what must never happen."""

    def __init__(
        self, node: ReplicatedNode, catalogue: Catalogue, clock: Clock, chance: Random, problem: Callable[[str], None]
    ) -> None:
        self._node, self._catalogue, self._clock, self._chance = node, catalogue, clock, chance
        self._problem = problem
        self.storages: dict[int, UnitStorage] = {}
        self.logs: dict[Place, ReplicatedLog] = {}
        """Logs that it serves."""
        self._starting: dict[int, asyncio.Task[None]] = {}
        self._opening: dict[Place, asyncio.Task[None]] = {}
        self._writing: dict[Place, asyncio.Lock] = {}

    async def run(self) -> None:
        """Starts and stops workers. A start that waits for followers does not hold up others."""
        while True:
            for worker, storage in list(self.storages.items()):
                if storage.deposed.is_set():
                    await self._stop(worker)
            for worker in self._node.led_workers():
                if worker not in self.storages and worker not in self._starting:
                    self._starting[worker] = asyncio.get_running_loop().create_task(self._start(worker))
            for place in list(self._catalogue.logs):
                if place.worker in self.storages and place not in self.logs and not self._lock(place).locked():
                    self._opening[place] = asyncio.get_running_loop().create_task(self._open_new(place))
            await asyncio.sleep(0.05)

    def _lock(self, place: Place) -> asyncio.Lock:
        return self._writing.setdefault(place, asyncio.Lock())

    async def _open_new(self, place: Place) -> None:
        """A log that was made since the worker started."""
        try:
            async with self._lock(place):
                if place in self._catalogue.logs and place not in self.logs and place.worker in self.storages:
                    await self._open(self.storages[place.worker], place)
        except QuiverError:
            return
        finally:
            self._opening.pop(place, None)

    async def _stop(self, worker: int) -> None:
        del self.storages[worker]
        for place in [place for place in self.logs if place.worker == worker]:
            del self.logs[place]
        await self._node.release(worker)

    async def _start(self, worker: int) -> None:
        try:
            storage = await self._node.lead(worker)
            for place in self._catalogue.of(worker):
                async with self._lock(place):
                    if place in self._catalogue.logs:
                        await self._open(storage, place)
            self.storages[worker] = storage
        except QuiverError:
            await self._node.release(worker)
        finally:
            self._starting.pop(worker, None)

    async def _open(self, storage: UnitStorage, place: Place) -> ReplicatedLog:
        kind = self._catalogue.logs[place]
        log = await storage.open_log(place.log_id, OPTIONS[kind])
        if place in self._catalogue.deleted:  # meanwhile
            await storage.delete_logs(place.log_id)
            raise NotLeader(what=place.log_id)
        self.logs[place] = log
        if kind == "journal":
            await self._replay(place, log)
        return log

    async def _replay(self, place: Place, log: ReplicatedLog) -> None:
        """A journal is worth nothing without the snapshot that takes the place of its front."""
        snapshot = await log.load_snapshot()
        after = 0 if snapshot is None else snapshot.offset
        if snapshot is not None and snapshot.data != snapshot_of(place, after):
            self._problem(f"{place} has another snapshot at {after}")
        if after < log.start_offset:
            self._problem(f"{place} begins at {log.start_offset}, its newest snapshot is at {after}")
        expected = after
        for offset, _ in await stored_values(log, log.readable_offset, from_offset=after):
            if offset != expected:
                self._problem(f"{place} has {offset} where {expected} was expected, after the snapshot at {after}")
            expected = offset + 1

    # what clients ask

    async def publish(self, message: Publish) -> int:
        place = message.place
        async with self._lock(place):
            log = self.logs.get(place)
            if log is None or log.is_over:
                if place not in self._catalogue.logs or place.worker not in self.storages:
                    raise NotLeader(what=place.log_id)
                log = await self._open(self.storages[place.worker], place)
            offset = log.end_offset
            time_ms = max(self._clock.now_ms(), log.last_append_time_ms)
            await log.append([new_frame(offset, log.leader_epoch, time_ms, message.value)])
        if self._catalogue.logs.get(place) == "journal":
            await log.sync()
        return offset

    async def delete(self, message: DeleteLog) -> None:
        """Its topic is in the catalogue no longer."""
        place = message.place
        if place.worker not in self.storages:
            raise NotLeader(what=place.log_id)
        async with self._lock(place):
            self.logs.pop(place, None)
            topic = place.log_id.rsplit("/", 1)[0]
            await self.storages[place.worker].delete_logs(topic)

    async def maintain(self) -> None:
        """Retention and snapshots, of one log."""
        while True:
            await asyncio.sleep(0.2 + self._chance.random())
            place = self._chance.choice(list(self.logs)) if self.logs else None
            if place is None or place not in self._catalogue.logs:
                continue
            try:
                await self._maintain(place, self.logs[place])
            except QuiverError:
                continue

    async def _maintain(self, place: Place, log: ReplicatedLog) -> None:
        if self._catalogue.logs[place] == "journal":
            async with self._lock(place):
                offset = log.end_offset
                await log.sync()
                await log.save_snapshot(offset, snapshot_of(place, offset))
                below = offset
        else:
            below = self._chance.randint(log.start_offset, max(log.start_offset, log.readable_offset))
        self._catalogue.dropped[place] = max(below, self._catalogue.dropped.get(place, 0))
        await log.drop_front(below)


def snapshot_of(place: Place, offset: int) -> bytes:
    """What a snapshot of a log at an offset holds."""
    return (f"{place.worker} {place.log_id} {offset};" * 100).encode()[:_SNAPSHOT_BYTES]
