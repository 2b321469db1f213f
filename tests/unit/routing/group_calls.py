"""What tests of groups across workers share."""

import asyncio
from collections.abc import Sequence

from quiver.cluster.placement import Placement, group_shard
from quiver.model.names import TopicPartition
from quiver.model.settlement import Receipt
from quiver.records.build import build_frame
from quiver.streams.member import Subscription
from quiver.streams.member_view import MemberView
from quiver.streams.owners.port import PolledPartition
from quiver.testing.workers import WorkerSet

COUNT = 3
TOPIC, PARTITIONS = "orders", 6
WANTS = Subscription(client_id="c", topics=frozenset({TOPIC}))


def owned_by(worker: int) -> str:
    """A group whose members and commits are at a worker."""
    names = (f"g{number}" for number in range(1000))
    return next(name for name in names if Placement(0, COUNT).group_worker(name) == worker)


def journal_of(group: str) -> str:
    return f"internal/streams/{group_shard(group)}"


def partition_at(worker: int) -> int:
    """A partition of the topic that a worker owns."""
    return next(n for n in range(PARTITIONS) if Placement(0, COUNT).partition_worker(TOPIC, n) == worker)


def place(workers: WorkerSet, partition: int) -> TopicPartition:
    return TopicPartition(workers[0].broker.topic(TOPIC).id, partition)


async def fill(workers: WorkerSet, count: int, *partitions: int) -> None:
    topic = workers[0].broker.topic(TOPIC)
    for number in partitions or range(topic.config.partitions):
        frame = build_frame([b"%d" % n for n in range(count)], timestamp_ms=1)
        await workers[0].broker.produce(topic.id, number, frame)


async def stable(workers: WorkerSet, group: str, *views: MemberView) -> list[MemberView]:
    """The members' views when all of them have given up and received what they should."""
    seen = list(views)
    while True:
        for index, view in enumerate(seen):
            members = workers[index % COUNT].broker.streams.members
            view = await members.heartbeat(group, view.member_id)
            seen[index] = await members.heartbeat(group, view.member_id, revoked=view.revoke)
        if all(view.state == "complete" for view in seen):
            return seen
        await asyncio.sleep(0)


def receipts(polled: Sequence[PolledPartition]) -> list[Receipt]:
    runs = [received.run for part in polled for received in part.received]
    return [
        Receipt(TOPIC, run.partition, offset, run.attempt, run.group_id, run.lease_id)
        for run in runs
        for offset in range(run.start, run.end)
    ]


def offsets(polled: Sequence[PolledPartition]) -> list[tuple[int, int]]:
    return sorted((receipt.partition, receipt.offset) for receipt in receipts(polled))
