"""The delivery state of partitions: found again at start-up, forgotten with its group, alone with its damage."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from quiver.model.errors import CorruptData
from quiver.storage.memory.storage import MemoryLog, MemoryStorage
from quiver.storage.port import LogOptions
from unit.queues.queue_broker import QueueBroker, numbered, values


class DamagedStorage(MemoryStorage):
    """Logs whose id is in `damaged` cannot be opened."""

    damaged: frozenset[str] = frozenset()

    async def open_log(self, log_id: str, options: LogOptions) -> MemoryLog:
        if log_id in self.damaged:
            raise CorruptData(where=log_id, problem="a flipped bit", next_offset=0)
        return await super().open_log(log_id, options)


@pytest.fixture
async def queue() -> AsyncIterator[QueueBroker]:
    queue = QueueBroker(DamagedStorage())
    await queue.start()
    await queue.broker.create_topic("jobs", {"partitions": 3})
    yield queue
    await queue.broker.stop()


@pytest.mark.parametrize("number", [0, 1])
async def test_damage_holds_up_its_own_partition_alone(queue: QueueBroker, number: int) -> None:
    for partition in range(3):
        await queue.publish("jobs", *numbered(4, f"{partition}-"), partition=partition)
    await queue.settle(await queue.receive("jobs", count=3))
    left = await queue.receive("jobs")
    await queue.settle(left)
    for partition in range(3):
        await queue.publish("jobs", b"new %d" % partition, partition=partition)
    topic_id = queue.broker.topic("jobs").id
    queue.storage.damaged = frozenset({f"topics/{topic_id}/{number}-delivery"})  # type: ignore[attr-defined]
    await queue.restart()
    assert len(queue.broker.node.problems()) == 1
    assert sorted(values(await queue.receive("jobs"))) == [b"new %d" % other for other in range(3) if other != number]
    await queue.publish("jobs", b"more", partition=number)
    await queue.publish("jobs", b"goes on", partition=2)
    assert values(await queue.receive("jobs")) == [b"goes on"]


async def test_a_group_that_is_gone_is_forgotten_at_the_next_start(queue: QueueBroker) -> None:
    await queue.publish("jobs", *numbered(4))
    await queue.receive("jobs")
    topic_id = queue.broker.topic("jobs").id
    group_id = queue.broker.groups.group("g").id
    await queue.broker.streams.delete("g")  # and the broker dies before the partitions hear of it
    assert queue.broker.queues.partition_queues(topic_id)[0].group_ids == {group_id}
    await queue.restart()
    assert queue.broker.queues.partition_queues(topic_id)[0].group_ids == set()


async def test_depth_counts_everything_once(queue: QueueBroker) -> None:
    for partition in range(3):
        await queue.publish("jobs", *numbered(10), partition=partition, priority=partition)
    await queue.receive("jobs", consumer="early", count=1)
    queue.clock.ms += 7_000
    received = await queue.receive("jobs", consumer="late", count=12)
    await queue.settle(received[:1], 1, delay_ms=60_000)
    [depth] = await queue.broker.queue_depths.of_all("jobs")
    given_back = received[0].run.end - received[0].run.start
    assert depth.ready == sum(depth.ready_by_level) == 30 - 13
    assert (depth.leased, depth.retrying) == (13 - given_back, given_back)
    assert (depth.oldest_age_ms, depth.delayed, depth.dead) == (7_000, 0, 0)
    assert depth.consumers == {"early": 1, "late": 12 - given_back}
    await queue.wait(60_001)
    [depth] = await queue.broker.queue_depths.of_all("jobs")
    assert (depth.ready, depth.leased, depth.retrying) == (30, 0, 0)


async def test_blocked_keys_are_named(queue: QueueBroker) -> None:
    await queue.publish("jobs", *numbered(5), keys=[b"a", b"a", b"b", b"a", b"a"])
    await queue.receive("jobs", count=1, ordering="key")
    depth = await queue.broker.queue_depths.of("jobs", "g")
    assert (depth.leased, depth.blocked_keys) == (1, [(b"a", 3)])
    assert values(await queue.receive("jobs")) == [b"m2"]


async def test_groups_show_their_consumers_and_what_is_ready(queue: QueueBroker) -> None:
    await queue.publish("jobs", *numbered(5), partition=2)
    await queue.receive("jobs", consumer="me", count=2)
    [summary] = await queue.broker.group_admin.summaries()
    shown: tuple[Any, ...] = (summary.kind, summary.state, summary.member_count, summary.topics, summary.lag)
    assert shown == ("queue", "stable", 1, ["jobs"], 3)
    details = await queue.broker.group_admin.describe("g")
    assert [(member.id, member.joined_at_ms) for member in details.members] == [("me", queue.clock.ms)]
    assert [(part.partition, part.committed, part.end_offset, part.messages) for part in details.partitions] == [
        (0, 0, 0, 0),
        (1, None, 0, 0),
        (2, 0, 5, 3),
    ]
    await queue.wait(90_001)
    assert (await queue.broker.group_admin.summaries())[0].state == "empty"
