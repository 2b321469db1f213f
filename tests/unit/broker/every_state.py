"""A broker on real files with something in every state machine: what happens to it, how it is saved, what it knows.

Logs have tiny segments, so that journals lose their fronts after a few snapshots.
"""

import contextlib
import shutil
from pathlib import Path
from typing import Any

import msgspec

from quiver.broker.broker import Broker
from quiver.cluster.placement import group_shard
from quiver.model.errors import ProducerFenced
from quiver.model.message import NewMessage
from quiver.model.queue import ReceiveRequest
from quiver.model.schedule import Schedule
from quiver.model.settlement import ACK, NACK, REJECT, SettleRequest
from quiver.model.transaction import CommitPart, GroupOffsetCommit, ProducerKey
from quiver.records.build import build_frame
from quiver.storage.local.log import LocalLog
from quiver.storage.local.settings import LocalSettings, LocalSystem
from quiver.storage.local.storage import LocalStorage
from quiver.storage.port import LogOptions
from quiver.streams.journal.shard import StreamShard, shard_log_id
from quiver.system.files import Files

START_MS = 1_800_000_000_000
DAY_MS = 86_400_000
STREAMS_LOG = shard_log_id(group_shard("stream"))
STATES = {
    "internal/coordination": "topics and groups",
    "internal/producers": "epochs of producers",
    STREAMS_LOG: "members and offsets",
    "internal/transactions": "transactions",
    "internal/schedules": "schedules",
    "topics/1/0": "partition",
    "topics/2/0": "a partition that is purged",
    "topics/1/0-delivery": "delivery",
    "topics/1/0-schedule": "schedule log",
    "topics/1/0-timers": "timers",
    "topics/3/0": "dead letters",
}
"""Every log that has snapshots, and whose they are."""


class StandingClock:
    def now_ms(self) -> int:
        return START_MS

    def monotonic(self) -> float:
        return START_MS / 1000


class SmallSegments(LocalStorage):
    async def open_log(self, log_id: str, options: LogOptions) -> LocalLog:
        return await super().open_log(log_id, msgspec.structs.replace(options, segment_bytes=600))


class Running:
    def __init__(self, root: Path, files: Files | None = None) -> None:
        self.root = root
        self.storage = SmallSegments(
            root, LocalSettings(min_free_bytes=0, sync_threads=1), LocalSystem(files=files or Files())
        )
        self.broker = Broker(self.storage, clock=StandingClock())
        self.producer = ProducerKey(-1, 0)

    async def start(self) -> "Running":
        await self.storage.open()
        await self.broker.start()
        return self

    async def stop(self) -> None:
        await self.broker.stop()
        await self.storage.close()

    async def give_up(self) -> None:
        """For a broker whose start has failed."""
        await self.storage.close()

    # a life

    async def set_up(self) -> None:
        broker = self.broker
        for name in ("work", "purged", "work.dlq"):
            await broker.create_topic(name, {"partitions": 1})
        self.producer = ProducerKey(*(await broker.init_producer()))

    def set_up_again(self) -> None:
        """After a restart, for further steps: the same producer goes on, whom the partitions must know."""
        self.producer = ProducerKey(min(self.broker._partitions.get(1, 0).tables.producers._producers), 0)

    async def step(self, number: int) -> None:
        """Something new in every state machine."""
        broker = self.broker
        await broker.create_topic(f"topic-{number}", {"partitions": 1})
        for topic_id in (1, 2):
            frame = build_frame(
                [b"%d" % number] * 4,
                timestamp_ms=START_MS,
                producer_id=self.producer.producer_id,
                producer_epoch=self.producer.epoch,
                base_sequence=4 * number,
            )
            await broker.produce(topic_id, 0, frame)
        await broker.purge_topic("purged")
        await broker.init_producer(*(await broker.init_producer()))  # a second epoch
        await self._transact(number)
        await self._work(number)
        await self._delay(number)
        await broker.schedules.add(
            Schedule(name=f"daily-{number}", cron="0 0 * * *", topic="work", value=b"%d" % number)
        )

    async def _transact(self, number: int) -> None:
        transactions = self.broker.transactions
        for name, commit in (("a", True), ("b", False)):
            key = await transactions.init(f"{name}-{number % 2}")
            await transactions.publish(key.producer_id, key.epoch, "work", NewMessage(value=b"tx %d" % number))
            if commit:
                offsets = [GroupOffsetCommit("stream", [CommitPart(2, 0, number)])]
                await transactions.commit([key], key=f"commit-{number}", offsets=offsets)
            else:
                await transactions.abort([key])
        await transactions._applier.flush()
        await transactions._coordinator.maintain()

    async def _work(self, number: int) -> None:
        queues = self.broker.queues
        found = await queues.receive(
            ReceiveRequest([self.broker.topic("work").id], "workers", consumer="c", max_messages=4)
        )
        offsets = [(one, offset) for one in found for offset in range(one.run.start, one.run.end)]
        for (one, offset), action in zip(offsets, (ACK, NACK, REJECT), strict=False):
            run = one.run
            part = SettleRequest(
                one.topic.id, 0, run.group_id, run.lease_id, action, [(offset, offset + 1)], DAY_MS, True, f"{number}"
            )
            await queues.settle([part])

    async def _delay(self, number: int) -> None:
        due_ms = START_MS + (number + 1) * DAY_MS
        [done, _] = await self.broker.publish(
            "work", [NewMessage(value=b"%d" % each, deliver_at_ms=due_ms + each) for each in range(2)]
        )
        await self.broker.delays.cancel("work", 0, [done.offset])  # type: ignore[union-attr]

    async def save_all(self) -> None:
        """A snapshot of everything."""
        broker = self.broker
        coordinator = broker.transactions._coordinator
        await broker.metadata.coordination._journaled.snapshot_if_due(after_seconds=0)  # type: ignore[union-attr]
        await broker._producer_ids._journaled.snapshot()
        await self._streams().journaled.snapshot()
        await coordinator.journaled.snapshot()
        await broker.schedules._journaled.snapshot_if_due(after_seconds=0)
        for partition in broker._partitions.all():
            await partition.saved_state.save_now(roll=False)
        for partition_queue in broker.queues._partition_queues.all():
            await partition_queue.journal._journal.snapshot_concurrently(partition_queue.journal._snapshot)
        for delays in broker.delays._partitions.all():
            await delays.schedule.saved_state.save_now(roll=False)
            await delays._trim()
            await delays._snapshot()

    def _streams(self) -> StreamShard:
        return self.broker.streams._journal._shards[group_shard("stream")]

    # what it knows

    def known(self) -> dict[str, Any]:
        """Of every state machine, by the log that it is saved in."""
        broker = self.broker
        partitions = {f"topics/{id}/{number}": found for id, number, found in broker._partitions.places()}
        partitions |= {f"topics/{id}/{n}-schedule": found for (id, n), found in broker.delays.schedule_logs()}
        known: dict[str, Any] = {
            name: (
                msgspec.msgpack.decode(each.tables.producers.encode(), strict=False),
                msgspec.to_builtins(each.tables.transactions.open, str_keys=True),
                each.tables.transactions._aborted,
                each.log.end_offset,
            )
            for name, each in partitions.items()
        }
        known["internal/coordination"] = b"".join(broker.metadata.coordination.snapshot())  # type: ignore[attr-defined]
        known["internal/producers"] = b"".join(broker._producer_ids._table.snapshot())
        with contextlib.suppress(Exception):
            known[STREAMS_LOG] = b"".join(self._streams().snapshot())
            known["internal/transactions"] = b"".join(broker.transactions._coordinator._state.snapshot())
            known["internal/schedules"] = b"".join(broker.schedules._table.snapshot())
        for partition_queue in broker.queues._partition_queues.all():
            name = f"topics/{partition_queue.place.topic_id}/{partition_queue.place.partition}-delivery"
            known[name] = b"".join(partition_queue.journal._snapshot())
        for delays in broker.delays._partitions.all():
            known[f"topics/{delays.place.topic_id}/{delays.place.partition}-timers"] = b"".join(
                delays.state.snapshot()
            )
        return known

    async def is_fenced(self, key: ProducerKey) -> bool:
        try:
            await self.broker.transactions.commit([key])
        except ProducerFenced:
            return True
        return False


def snapshots(root: Path, log_id: str) -> list[Path]:
    """The oldest first; a copy before its original."""
    return sorted((root / "logs" / log_id).glob("*.snapshot*"), key=lambda path: (path.name[:20], -len(path.name)))


def copy_of(root: Path, target: Path) -> Path:
    """What a killed broker leaves; whoever has the directory open does not matter."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(root, target)
    return target
