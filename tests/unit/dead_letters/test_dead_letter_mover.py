"""Moves of dead letters when the world has changed since they were decided."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from quiver.broker.broker import Broker
from quiver.dead_letters.mover import DeadLetterMover
from quiver.dead_letters.search import Search
from quiver.messages.browse import BrowseRequest
from quiver.model.dead_letter import DeadLetter, DeadLetterFilter
from quiver.model.errors import InvalidFrame
from quiver.model.message import NewMessage
from quiver.model.priority import Priority
from quiver.model.topic import Topic
from quiver.outbox.outbox import Move, Target, mover_id
from quiver.outbox.packing import FRAME_BYTES
from quiver.queues.journal.moves import MoveSource
from quiver.queues.partition.partition_queue import PartitionQueue
from quiver.queues.state.port import Dead
from quiver.records.build import build_frame
from quiver.storage.memory.storage import MemoryStorage

ALL = Search(DeadLetterFilter())


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    broker = Broker(MemoryStorage())
    await broker.start()
    yield broker
    await broker.stop()


@pytest.fixture
async def topic(broker: Broker) -> Topic:
    return await broker.create_topic("work", {"partitions": 2})


async def queue_of(broker: Broker, name: str, partition: int = 0) -> PartitionQueue:
    return await broker.queues.partition_queue(broker.topic(name), partition)


async def carry(broker: Broker, queue: PartitionQueue, move: Move) -> None:
    mover = DeadLetterMover(
        broker._catalogue, broker.move_targets, broker.topic_admin, groups=broker.groups, clock=broker.clock
    )
    await mover.carry(MoveSource(queue.place, queue.partition), move)


async def publish(broker: Broker, *values: bytes, priority: Priority = Priority.NORMAL) -> None:
    messages = [NewMessage(value=value, partition=0, priority=priority) for value in values]
    await broker.publish("work", messages)


def dead_move(*runs: tuple[int, int], sequence: int = 0, group: int = 77) -> Move:
    dead = [Dead(start, end, 2, 3, 1_000, "rejected", "no") for start, end in runs]
    count = sum(end - start for start, end in runs)
    return Move(1, Target(0, 0), sequence, count, [group, msgspec.to_builtins(dead)])


async def dead_letters(broker: Broker) -> list[DeadLetter]:
    return (await broker.dead_letters.page("work", ALL)).dead_letters


async def test_a_repeat_changes_nothing(broker: Broker, topic: Topic) -> None:
    await publish(broker, b"a", b"b", b"c")
    partition_queue = await queue_of(broker, "work")
    for _ in range(3):
        await carry(broker, partition_queue, dead_move((2, 3), (0, 1)))
    found = await dead_letters(broker)
    assert [dead_letter.value for dead_letter in found] == [b"c", b"a"], "in the order of the move"
    assert {dead_letter.group for dead_letter in found} == {"77"}, "a group that is gone is shown by its id"
    assert broker.topic("work.dlq").config.retention_ms is None


async def test_messages_that_are_gone_leave_the_others_in_their_place(broker: Broker, topic: Topic) -> None:
    """A move is decided, its messages are removed in part, and the next move begins behind its sequence."""
    await publish(broker, b"a", b"b", b"c")
    await broker.purge_topic("work")
    await publish(broker, b"d", b"e")
    partition_queue = await queue_of(broker, "work")
    for _ in range(2):
        await carry(broker, partition_queue, dead_move((1, 4)))
        await carry(broker, partition_queue, dead_move((0, 2), sequence=3))
        await carry(broker, partition_queue, dead_move((4, 5), sequence=5))
    assert [dead_letter.value for dead_letter in await dead_letters(broker)] == [b"d", b"e"]


async def test_large_messages_make_several_frames(broker: Broker, topic: Topic) -> None:
    size = FRAME_BYTES // 5
    for number in range(12):
        await publish(broker, b"%d" % number * (size // len(str(number))))
    partition_queue = await queue_of(broker, "work")
    await carry(broker, partition_queue, dead_move((0, 6)))
    for _ in range(2):
        await carry(broker, partition_queue, dead_move((0, 12)))
    found = (await broker.read_messages("work.dlq", 0, BrowseRequest(limit=100))).messages
    assert [message.headers["dlq.offset"] for message in found] == [b"%d" % number for number in range(12)]


async def test_levels_do_not_mix_in_a_frame(broker: Broker, topic: Topic) -> None:
    await publish(broker, b"a")
    await publish(broker, b"b", priority=Priority.LOW)
    await carry(broker, await queue_of(broker, "work"), dead_move((0, 2)))
    assert [dead_letter.priority for dead_letter in await dead_letters(broker)] == [Priority.NORMAL, Priority.LOW]


async def test_a_topic_that_is_gone_moves_nothing(broker: Broker, topic: Topic) -> None:
    await publish(broker, b"a")
    partition_queue = await queue_of(broker, "work")
    await broker.delete_topic("work")
    await carry(broker, partition_queue, dead_move((0, 1)))
    assert [topic.name for topic in broker.topics()] == []


async def test_a_dead_letter_topic_that_is_deleted_is_created_again(broker: Broker, topic: Topic) -> None:
    await publish(broker, b"a", b"b")
    partition_queue = await queue_of(broker, "work")
    await carry(broker, partition_queue, dead_move((0, 1)))
    await broker.delete_topic("work.dlq")
    await carry(broker, partition_queue, dead_move((1, 2), sequence=1))
    assert [dead_letter.value for dead_letter in await dead_letters(broker)] == [b"b"]


async def test_dead_letters_whose_target_is_gone_come_back(broker: Broker, topic: Topic) -> None:
    await publish(broker, b"a", b"b")
    await carry(broker, await queue_of(broker, "work"), dead_move((0, 2)))
    elsewhere = await broker.create_topic("elsewhere", {})
    queue = await queue_of(broker, "work.dlq")
    move = queue.outbox.begin(Target(elsewhere.id, 0), 2, [[0, 2]])
    await broker.delete_topic("elsewhere")
    await queue.remove_dead_letters([(0, 2)], [move])
    while queue.outbox.open:
        await asyncio.sleep(0)
    found = await dead_letters(broker)
    assert [(dead_letter.value, dead_letter.offset, dead_letter.reason) for dead_letter in found] == [
        (b"a", 2, "rejected"),
        (b"b", 3, "rejected"),
    ]


async def test_nobody_else_is_a_mover(broker: Broker, topic: Topic) -> None:
    frame = build_frame(
        [b"x"],
        timestamp_ms=1,
        producer_id=mover_id("dead_letters", topic.id, 0),
        producer_epoch=0,
        base_sequence=1_000_000,
    )
    with pytest.raises(InvalidFrame, match="the broker's own"):
        broker.produce(topic.id, 0, frame)
