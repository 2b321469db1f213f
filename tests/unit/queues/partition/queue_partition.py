"""One partition with queue groups, a clock in the test's hand, and a journal that can be slow or full."""

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

from quiver.model.errors import DiskFull
from quiver.model.limits import Limits
from quiver.model.names import TopicPartition
from quiver.model.queue import QueueSettings
from quiver.model.settlement import ACK, SettleRequest
from quiver.model.topic import TopicConfig
from quiver.outbox.outbox import Move
from quiver.partition.partition import Appended, Partition
from quiver.partition.settings import PartitionSettings, log_options
from quiver.queues.context import QueueContext
from quiver.queues.journal.moves import MoveSource
from quiver.queues.partition.frame_cache import FrameCache
from quiver.queues.partition.lease_issuer import DeliveredRun, LeaseIds
from quiver.queues.partition.partition_queue import PartitionQueue
from quiver.queues.state.port import LeaseTerms, Settlement
from quiver.records.build import build_frame
from quiver.records.header import unpack_header
from quiver.records.read import open_frame
from quiver.storage.memory.storage import MemoryStorage
from quiver.storage.port import LogOptions, Storage

START_MS = 1_800_000_000_000
GROUP = 7
MAX_BYTES = 1 << 20


class HandClock:
    def __init__(self) -> None:
        self.ms = START_MS

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000


class NoChance:
    def token(self, byte_count: int) -> bytes:
        return bytes(byte_count)

    def jitter(self) -> float:
        return 1.0


class MoodyLog:
    """The journal of a delivery as a broker sees it; once the broker was killed, it writes no more."""

    def __init__(self, log: Any, storage: "MoodyStorage") -> None:
        self._log = log
        self._storage = storage
        self._life = storage.life

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def append_at_once(self, frames: Any, *, sync: bool = True) -> bool:
        if self._storage.is_slow:
            return False
        self._check()
        return bool(self._log.append_at_once(frames))

    async def append(self, frames: Any, *, sync: bool = True, alone: bool = False) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        self._check()
        self._log.append_at_once(frames)

    async def save_snapshot(self, offset: int, data: bytes, *, sync: bool = False) -> None:
        self._check()
        await self._log.save_snapshot(offset, data, sync=sync)

    def _check(self) -> None:
        storage = self._storage
        storage.writes_left -= 1
        if storage.is_full or storage.writes_left < 0 or self._life != storage.life:
            raise DiskFull(problem="it is full")


class MoodyStorage(MemoryStorage):
    """Journals of deliveries are slow or full as long as they are told to."""

    def __init__(self) -> None:
        super().__init__()
        self.is_slow = False
        self.is_full = False
        self.writes_left = sys.maxsize
        self.life = 0

    async def open_log(self, log_id: str, options: LogOptions) -> Any:
        log = await super().open_log(log_id, options)
        return MoodyLog(log, self) if log_id.endswith("-delivery") else log


class QueuePartition:
    def __init__(self, storage: Storage | None = None, *, topic: str = "jobs", **config: Any) -> None:
        self.storage = storage or MemoryStorage()
        self.topic = topic
        self.config = TopicConfig(**config)
        self.clock = HandClock()
        self.settings = QueueSettings(max_attempts=3)
        self.cache = FrameCache()
        self.moves: list[Move] = []
        self.moves_fail = 0

    async def open(self) -> None:
        log = await self.storage.open_log("topics/1/0", log_options(self.config))
        epoch = await self.storage.next_start_epoch()
        self.partition = Partition(
            f"{self.topic}-0", log, PartitionSettings(self.config, Limits()), leader_epoch=epoch, clock=self.clock
        )
        await self.partition.recover()
        context = QueueContext(self.clock, self.clock, NoChance(), frames=self.cache)
        self.partition_queue = await PartitionQueue.open(
            self.storage, TopicPartition(1, 0), self.partition, context, self, LeaseIds(epoch)
        )
        self.partition_queue.resume()

    async def close(self) -> None:
        await self.partition_queue.close()
        await self.partition.close()

    async def restart(self) -> None:
        await self.close()
        await self.open()

    async def kill(self) -> None:
        """What is on the journal is all that is left; nothing that ran before goes on."""
        if isinstance(self.storage, MoodyStorage):
            self.storage.life += 1
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            if self._is_of_delivery(task):
                task.cancel()
        self.cache = FrameCache()
        await self.open()

    @staticmethod
    def _is_of_delivery(task: "asyncio.Task[Any]") -> bool:
        return any(name in repr(task.get_coro()) for name in ("OutboxRelay", "QueueJournal._carry"))

    async def carry(self, source: MoveSource, move: Move) -> None:
        """As the mover of dead letters."""
        await asyncio.sleep(0)
        if self.moves_fail:
            self.moves_fail -= 1
            raise DiskFull(problem="the dead-letter topic is full")
        self.moves.append(move)

    @property
    def dead(self) -> list[tuple[int, str, str]]:
        """Offset, reason and error of what arrived among the dead, each move once."""
        moves = {move.id: move for move in self.moves}
        return [
            (offset, one[5], one[6])
            for _, move in sorted(moves.items())
            for one in move.content[1]
            for offset in range(one[0], one[1])
        ]

    async def begin(self, group: int = GROUP, **options: Any) -> None:
        await self.partition_queue.begin(group, **{"ordering": "none", "start": 0, **options})

    async def publish(self, *values: bytes, **options: Any) -> Appended:
        frame = build_frame(list(values), timestamp_ms=self.clock.ms, **options)
        return await self.partition.append(frame, unpack_header(frame))

    async def receive(
        self,
        count: int = 100,
        *,
        group: int = GROUP,
        level: int = 2,
        consumer: str = "ada",
        visibility_ms: int = 30_000,
        ttl_ms: int | None = None,
        max_bytes: int = MAX_BYTES,
    ) -> list[DeliveredRun]:
        await self.partition_queue.issuer.read_ahead(group, count=count, levels=1 << level)
        lease = self.partition_queue.issuer.new_lease_id()
        taken = self.partition_queue.issuer.take(
            group, level, count, LeaseTerms(lease, consumer, self.clock.ms + visibility_ms)
        )
        return await self.partition_queue.issuer.deliver(
            group, lease, taken, ttl_ms=ttl_ms, settings=self.settings, max_bytes=max_bytes
        )

    async def settle(
        self, run: DeliveredRun, action: int = ACK, runs: Sequence[tuple[int, int]] | None = None, **options: Any
    ) -> Settlement:
        request = SettleRequest(
            1, 0, run.group_id, run.lease_id, action, list(runs or [(run.start, run.end)]), **options
        )
        settlement = await self.partition_queue.settler.settle(request, self.settings)
        await self.partition_queue.durable()
        return settlement

    async def wait(self, milliseconds: int) -> None:
        self.clock.ms += milliseconds
        await self.partition_queue.expire(lambda _: self.settings)


def values(received: Sequence[DeliveredRun]) -> list[bytes]:
    return [value or b"" for run in received for value in open_frame(run.frame).values()]


def offsets(received: Sequence[DeliveredRun]) -> list[int]:
    for run in received:
        assert list(open_frame(run.frame).offsets()) == list(range(run.start, run.end))
    return [offset for run in received for offset in range(run.start, run.end)]


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]
