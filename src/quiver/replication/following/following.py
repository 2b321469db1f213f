"""A node follows a unit: what its leader asks of it."""

import asyncio
import logging
from collections.abc import Awaitable

from quiver.model.errors import NotLeader, QuiverError
from quiver.replication.follower import Follower
from quiver.replication.following.replica import Replica
from quiver.replication.leading.led_log import local_options
from quiver.replication.messages import (
    Align,
    Append,
    Buffer,
    Compact,
    LogPart,
    LogPosition,
    LogStart,
    Manifest,
    Message,
    Position,
    SnapshotChunk,
)
from quiver.replication.settings import Member
from quiver.storage.port import Log, Storage
from quiver.system.pace import bounded_gather

logger = logging.getLogger(__name__)


class UnitLogs:
    """The local logs of a unit: below a directory of their own."""

    def __init__(self, worker: int, local: Storage) -> None:
        self.directory = f"units/{worker}"
        self._local = local

    def path(self, log_id: str) -> str:
        return f"{self.directory}/{log_id}"

    async def list(self) -> list[str]:
        prefix = f"{self.directory}/"
        return [each.removeprefix(prefix) for each in await self._local.list_logs(prefix)]

    async def open(self, start: LogStart) -> Log:
        return await self._local.open_log(self.path(start.log_id), local_options(start.options))

    async def remove(self, log_id: str) -> None:
        await self._local.delete_logs(self.path(log_id))

    async def recreate(self, start: LogStart) -> Log:
        await self.remove(start.log_id)
        return await self.open(start)


class Following:
    """`promise` first. Logs are opened when a leader asks for them, and are found here by whoever leads next."""

    def __init__(self, worker: int, member: Member, local: Storage) -> None:
        self._worker, self._member = worker, member
        self.local = UnitLogs(worker, local)
        self.follower = Follower()
        self.replicas: dict[str, Replica] = {}
        """By log id."""
        self._numbers: dict[int, Replica] = {}
        """In this epoch."""
        self._by_id: dict[str, int] = {}
        self._removed: set[int] = set()
        self._turn = asyncio.Lock()
        """Of what makes and removes logs."""
        self._compactions: set[asyncio.Task[None]] = set()

    def promise(self, epoch: int) -> bool:
        if epoch > self.follower.epoch:
            self._numbers, self._by_id, self._removed = {}, {}, set()
        return self.follower.promise(epoch)

    async def settle(self) -> None:
        """Returns when nothing of an earlier epoch changes a log any more."""
        async with self._turn:
            for replica in list(self.replicas.values()):
                async with replica.turn:
                    pass

    def forget(self, log_id: str) -> None:
        self.replicas.pop(log_id, None)

    async def close(self) -> None:
        for task in self._compactions:
            task.cancel()
        await asyncio.gather(*self._compactions, return_exceptions=True)
        await self.settle()

    def position(self, logs: tuple[LogPosition, ...] = ()) -> Position:
        return Position(self.follower.epoch, self._member.incarnation, self._member.lost_at, logs)

    async def handle(self, message: Message, payload: Buffer) -> Position:
        if message.to != self._member.incarnation or not self.promise(message.epoch):
            return self.position()
        if isinstance(message, Manifest):
            await self._remove_others(message)
        elif isinstance(message, Align):
            return self.position(tuple(await self._align(message)))
        elif isinstance(message, Append):
            return self.position(await self._append(message, memoryview(payload)))
        elif isinstance(message, SnapshotChunk):
            replica = self._numbers.get(message.number)
            if replica is not None:
                found = await replica.take_chunk(message.epoch, message, memoryview(payload))
                return self.position((found,))
        elif isinstance(message, Compact):
            self._compact(message)
        return self.position()

    def _check(self, epoch: int) -> None:
        if self.follower.epoch != epoch:
            raise NotLeader(what=f"worker {self._worker}")

    async def _remove_others(self, message: Manifest) -> None:
        """A log that is known by a number in this epoch is one that the leader has, or removes by that number."""
        async with self._turn:
            self._check(message.epoch)
            named = {log_id for _, log_id in message.logs}
            for log_id in await self.local.list():
                self._check(message.epoch)
                if log_id not in named and log_id not in self._by_id:
                    await self._remove(log_id)

    async def _remove(self, log_id: str) -> None:
        replica = self.replicas.pop(log_id, None)
        if replica is None:
            await self.local.remove(log_id)
            return
        async with replica.turn:
            await self.local.remove(log_id)

    async def _align(self, message: Align) -> list[LogPosition]:
        async def align(start: LogStart) -> LogPosition:
            replica = await self._opened(message.epoch, start)
            if replica is None:
                return LogPosition(start.number, 0, 0, False)
            return await replica.align(message.epoch, start)

        async with self._turn:
            return await bounded_gather(align, message.logs)

    async def _opened(self, epoch: int, start: LogStart) -> Replica | None:
        """None for a log that is removed."""
        self._check(epoch)
        before = self._by_id.get(start.log_id, start.number)
        if before < start.number:  # it was removed and made again
            await self._remove_numbered(before, start.log_id)
        elif before > start.number:
            self._removed.add(start.number)
        if start.number in self._removed:
            return None
        replica = self._numbers.get(start.number)
        if replica is None:
            replica = self.replicas.get(start.log_id)
            if replica is None:
                log = await self.local.open(start)
                replica = self.replicas[start.log_id] = Replica(start.log_id, log, self.follower, self.local.recreate)
            self._check(epoch)
            self._numbers[start.number], self._by_id[start.log_id] = replica, start.number
        return replica

    async def _append(self, message: Append, data: memoryview) -> tuple[LogPosition, ...]:
        for number, log_id in message.removed:
            if number not in self._removed:
                await self._remove_number(message.epoch, number, log_id)
        found: list[Awaitable[LogPosition]] = []
        position = 0
        for part in message.parts:
            found.append(self._append_part(message.epoch, part, data[position : position + part.frame_bytes]))
            position += part.frame_bytes
        if len(found) == 1:
            return (await found[0],)
        return tuple(await asyncio.gather(*found))

    async def _append_part(self, epoch: int, part: LogPart, data: memoryview) -> LogPosition:
        replica = self._numbers.get(part.number)
        if replica is None or self.follower.epoch != epoch:
            return LogPosition(part.number, 0, 0, False)
        return await replica.append(epoch, part, data)

    async def _remove_number(self, epoch: int, number: int, log_id: str) -> None:
        async with self._turn:
            self._check(epoch)
            await self._remove_numbered(number, log_id)

    async def _remove_numbered(self, number: int, log_id: str) -> None:
        """It may be here and have got no number yet; or it was made again, and has another number."""
        self._removed.add(number)
        self.follower.aligned.discard(number)
        if self._numbers.pop(number, None) is not None:
            del self._by_id[log_id]
        if log_id not in self._by_id:
            await self._remove(log_id)

    def _compact(self, message: Compact) -> None:
        """It takes as long as it takes; a leader does not wait for it. What is left is done by the next order."""
        replica = self._numbers.get(message.number)
        if replica is None or message.snapshot_offset > replica.snapshot_offset:
            return
        task = asyncio.get_running_loop().create_task(self._run_compaction(replica, message))
        self._compactions.add(task)
        task.add_done_callback(self._compactions.discard)

    async def _run_compaction(self, replica: Replica, message: Compact) -> None:
        try:
            async with replica.turn:
                if self.follower.epoch != message.epoch or replica.log.end_offset < message.compaction.end_offset:
                    return
                await replica.log.roll()
            await replica.log.compact(message.compaction)
        except (QuiverError, OSError) as error:
            logger.warning("%s was not compacted as its leader's log was: %s", replica.log_id, error)
