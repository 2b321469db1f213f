"""Who gets how much: levels by weight over the whole topic, partitions in turn, idle ones for nothing."""

from collections import Counter
from collections.abc import AsyncIterator

import pytest

from quiver.records.header import unpack_header
from unit.queues.queue_broker import QueueBroker, numbered, values


@pytest.fixture
async def queue() -> AsyncIterator[QueueBroker]:
    queue = QueueBroker()
    await queue.start()
    yield queue
    await queue.broker.stop()


async def served(queue: QueueBroker, messages: int, count: int) -> Counter[int]:
    """How many of each level were delivered among the next messages."""
    found: Counter[int] = Counter()
    while found.total() < messages:
        received = await queue.receive("jobs", count=count)
        assert received
        for one in received:
            found[unpack_header(bytes(one.run.frame[:88])).priority] += len(values([one]))
        await queue.settle(received)
    return found


@pytest.mark.parametrize("count", [1, 7, 100])
async def test_levels_share_by_weight_whatever_partition_they_are_in(queue: QueueBroker, count: int) -> None:
    await queue.broker.create_topic("jobs", {"partitions": 5})
    for level in range(5):
        await queue.publish("jobs", *numbered(1000), partition=4 - level, priority=level)
    found = await served(queue, 1000, count)
    total = found.total()
    assert {level: round(100 * found[level] / total) for level in range(5)} == {0: 50, 1: 25, 2: 15, 3: 7, 4: 3}


async def test_nothing_is_skipped(queue: QueueBroker) -> None:
    await queue.broker.create_topic("jobs", {"partitions": 2})
    for round_ in range(20):
        for level in (4, 2, 0):
            await queue.publish("jobs", *numbered(3, f"{round_}-{level}-"), partition=round_ % 2, priority=level)
    found: list[bytes] = []
    while received := await queue.receive("jobs", count=11):
        found += values(received)
        await queue.settle(received)
    assert len(found) == len(set(found)) == 180


async def test_a_critical_message_overtakes_what_waits(queue: QueueBroker) -> None:
    await queue.broker.create_topic("jobs", {"partitions": 3})
    await queue.publish("jobs", *numbered(1000, "low"), partition=0, priority=3)
    await queue.receive("jobs", count=10)
    await queue.publish("jobs", b"critical", partition=2, priority=0)
    assert b"critical" in values(await queue.receive("jobs", count=10))


async def test_partitions_take_turns(queue: QueueBroker) -> None:
    await queue.broker.create_topic("jobs", {"partitions": 4})
    for partition in range(4):
        await queue.publish("jobs", *numbered(100), partition=partition)
    turns = []
    for _ in range(8):
        [received] = await queue.receive("jobs", count=10)
        turns.append(received.run.partition)
    assert sorted(turns[:4]) == [0, 1, 2, 3]
    assert turns[:4] == turns[4:]


async def test_small_partitions_are_gathered_in_one_answer_in_order(queue: QueueBroker) -> None:
    await queue.broker.create_topic("jobs", {"partitions": 10})
    for partition in range(10):
        await queue.publish("jobs", *numbered(3, f"{partition}-"), partition=partition)
    received = await queue.receive("jobs", count=25)
    assert len(values(received)) == 25
    by_partition: dict[int, list[int]] = {}
    for one in received:
        by_partition.setdefault(one.run.partition, []).append(one.run.start)
    assert all(starts == sorted(starts) for starts in by_partition.values())
    assert len(values(await queue.receive("jobs"))) == 5


async def test_idle_partitions_have_no_state_and_are_not_read(
    queue: QueueBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await queue.broker.create_topic("jobs", {"partitions": 200})
    reads: Counter[int] = Counter()
    for number, partition in enumerate(queue.broker._partitions.of(topic.id)):

        async def counted(*args: object, _number: int = number, _read: object = partition.log.read, **named: object):
            reads[_number] += 1
            return await _read(*args, **named)  # type: ignore[operator]

        monkeypatch.setattr(partition.log, "read", counted)
    for number in (7, 190):
        await queue.publish("jobs", *numbered(5), partition=number)
    for _ in range(12):
        await queue.receive("jobs", count=1)
    assert set(queue.broker.queues.partition_queues(topic.id)) == {0, 7, 190}
    assert set(reads) <= {7, 190}
    logs = await queue.storage.list_logs(f"topics/{topic.id}/")
    assert sorted(name for name in logs if name.endswith("-delivery")) == [
        f"topics/{topic.id}/{number}-delivery" for number in (0, 190, 7)
    ]


async def test_after_a_restart_every_level_is_found_again(queue: QueueBroker) -> None:
    await queue.broker.create_topic("jobs", {"partitions": 100})
    for partition in range(100):
        await queue.publish("jobs", b"normal", partition=partition)
    await queue.publish("jobs", b"critical", partition=99, priority=0)
    await queue.restart()
    found: list[bytes] = []
    for _ in range(120):
        received = await queue.receive("jobs", count=1)
        found += values(received)
    assert len(found) == 101
    assert found.index(b"critical") < 10
