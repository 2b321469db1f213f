"""A node of a replicated cluster: it leads and follows units, as coordination says."""

import asyncio
import contextlib
import logging
from contextlib import aclosing
from functools import partial

from quiver.coordination.port import ABSENT, Change, Coordination, Expected, Put
from quiver.model.errors import NotLeader
from quiver.replication.hosted_unit import HostedUnit, UnitStatus
from quiver.replication.leading.catch_up import Throttle
from quiver.replication.leading.leading import Ports
from quiver.replication.leading.storage import UnitStorage
from quiver.replication.messages import Buffer, Links, Message, Position
from quiver.replication.settings import Member, ReplicationSettings
from quiver.replication.unit import PREFIX, Unit, decode_unit, unit_key
from quiver.storage.port import Log, Storage
from quiver.telemetry.supervised_task import SupervisedTask

logger = logging.getLogger(__name__)


class ReplicatedNode:
    """`open` comes first. A worker is led from `lead` until `release`, or until another epoch is known; units are
    followed whenever a leader asks. The local engine stays the caller's."""

    def __init__(
        self,
        member: Member,
        local: Storage,
        coordination: Coordination,
        links: Links,
        settings: ReplicationSettings | None = None,
    ) -> None:
        self.member = member
        self._local, self._coordination, self._links = local, coordination, links
        self._settings = settings or ReplicationSettings()
        self._catch_up = Throttle(lambda: self._settings.catch_up_bytes_per_second)
        self._hosted: dict[int, HostedUnit] = {}
        self._removals: dict[int, asyncio.Task[None]] = {}
        self._is_leaving = False
        self._known = asyncio.Event()
        self.epochs_begun = 0
        """Of all units that were led here."""
        self.read_bytes = 0
        """Of frames that clients read here although another node leads."""
        self.changed = asyncio.Event()
        """Set with the next change of some unit, and replaced: take it before you look."""
        self.task = SupervisedTask("the view of units", self._follow)

    async def open(self) -> None:
        self.task.start()
        await self._known.wait()

    async def close(self) -> None:
        await self.task.stop()
        for removal in self._removals.values():
            removal.cancel()
        await asyncio.gather(*self._removals.values(), return_exceptions=True)
        for hosted in self._hosted.values():
            await hosted.close()

    async def leave(self) -> None:
        """Before a clean stop: follows nobody any more, and waits a moment until leaders go on without this node.

        The last member of a set stays in it.
        """
        self._is_leaving = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.idle_seconds * 2):
                while any(self._is_counted(hosted.unit) for hosted in self._hosted.values()):
                    await self.changed.wait()

    def _is_counted(self, unit: Unit | None) -> bool:
        return unit is not None and unit.leader != self.member.node and self.member.node in unit.isr

    # for the one who runs brokers

    def leads(self, worker: int) -> bool:
        """Whether the key of a unit names this process: `lead` is to be called."""
        return worker in self._hosted and self._hosted[worker].is_ours

    def led_workers(self) -> list[int]:
        return [worker for worker in self._hosted if self.leads(worker)]

    async def lead(self, worker: int) -> UnitStorage:
        """The storage for one start of a worker's broker, once everything that this replica has is committed.

        Raises NotLeader where the key names another process, or does so before that. The next `lead` of a worker ends
        what the one before has returned.
        """
        if worker not in self._hosted:
            raise NotLeader(what=f"worker {worker}")
        storage = await self._hosted[worker].lead()
        self.epochs_begun += 1
        return storage

    async def release(self, worker: int) -> None:
        """The worker's broker has stopped. The key may go on naming this process."""
        if worker in self._hosted:
            await self._hosted[worker].release()

    def unit(self, worker: int) -> tuple[Unit, int] | None:
        """As coordination has it, with the revision."""
        hosted = self._hosted.get(worker)
        return None if hosted is None or hosted.unit is None else (hosted.unit, hosted.revision)

    def status(self) -> list[UnitStatus]:
        found = (hosted.status() for _, hosted in sorted(self._hosted.items()))
        return [status for status in found if status is not None]

    # for readers near this node

    def log(self, worker: int, log_id: str) -> Log | None:
        """This node's replica of a log of a worker that another node leads. It may have frames that are not
        committed, and lack some that are."""
        hosted = self._hosted.get(worker)
        if hosted is None or hosted.leading is not None:
            return None
        replica = hosted.following.replicas.get(log_id)
        return None if replica is None else replica.log

    def count_read(self, size_bytes: int) -> None:
        self.read_bytes += size_bytes

    # for other nodes

    async def handle(self, message: Message, payload: Buffer = b"") -> Position:
        """Raises NotLeader for a unit that this process does not know yet, or has no replica of."""
        if message.unit not in self._hosted:
            raise NotLeader(what=f"worker {message.unit}")
        if self._is_leaving:
            return Position(0, self.member.incarnation, self.member.lost_at, is_leaving=True)
        return await self._hosted[message.unit].handle(message, payload)

    # coordination

    async def _follow(self) -> None:
        async with aclosing(self._coordination.watch(PREFIX)) as watch:
            async for batch in watch:
                if batch.is_complete:
                    there = {change.key for change in batch.changes}
                    for worker in [each for each in self._hosted if unit_key(each) not in there]:
                        self._take(worker, None, batch.revision)
                for change in batch.changes:
                    self._apply(change)
                self._known.set()
                self.changed.set()
                self.changed = asyncio.Event()

    def _apply(self, change: Change) -> None:
        worker = int(change.key.removeprefix(PREFIX))
        self._take(worker, None if change.value is None else decode_unit(change.value), change.revision)

    def _take(self, worker: int, unit: Unit | None, revision: int) -> None:
        hosted = self._hosted.get(worker)
        if hosted is None:
            ports = Ports(self._links, partial(self._write, worker), self._settings, self._catch_up)
            hosted = self._hosted[worker] = HostedUnit(worker, self.member, self._local, ports)
        hosted.take(unit, revision)
        is_left = unit is not None and self.member.node not in unit.replicas and hosted.has_files
        if is_left and worker not in self._removals:
            task = asyncio.get_running_loop().create_task(self._remove(worker, hosted))
            self._removals[worker] = task

    async def _remove(self, worker: int, hosted: HostedUnit) -> None:
        """The files of a replica that is another node's now."""
        try:
            await hosted.remove()
        except Exception:
            logger.exception("files of worker %d are left; the next start removes them", worker)
        finally:
            self._removals.pop(worker, None)

    async def _write(self, worker: int, unit: Unit, revision: int) -> tuple[Unit, int]:
        key = unit_key(worker)
        outcome = await self._coordination.commit([Expected(key, revision)], [Put(key, unit.key_value)])
        if outcome.succeeded:
            return unit, outcome.revision
        found = await self._coordination.get(key)
        if found is None:
            raise NotLeader(what=f"worker {worker}")
        return decode_unit(found.value), found.revision


async def write_new_unit(coordination: Coordination, worker: int, unit: Unit) -> bool:
    """The unit of a worker that has none yet. False if it has one."""
    key = unit_key(worker)
    outcome = await coordination.commit([Expected(key, ABSENT)], [Put(key, unit.key_value)])
    return outcome.succeeded
