"""Messages that may go to any partition stay at the worker that got them while many come."""

import asyncio

import pytest

from quiver.cluster.placement import Placement
from quiver.model.topic import Topic, TopicConfig
from quiver.routing.messages.own_partitions import OwnPartitions

PARTITIONS = 8


def topic(partitions: int = PARTITIONS) -> Topic:
    return Topic(id=1, name="t", config=TopicConfig(partitions=partitions), created_at_ms=0)


async def turn(own: OwnPartitions, count: int, of: Topic) -> list[int | None]:
    chosen = [own.next(of) for _ in range(count)]
    await asyncio.sleep(0)
    return chosen


async def test_messages_one_at_a_time_use_all_partitions():
    own = OwnPartitions(Placement(0, 2))
    assert [await turn(own, 1, topic()) for _ in range(5)] == [[None]] * 5


@pytest.mark.parametrize("worker", [0, 1, 2])
async def test_many_messages_use_every_partition_of_the_worker(worker: int):
    placement, of = Placement(worker, 3), topic()
    own, chosen = OwnPartitions(placement), []
    assert (await turn(own, 2, of))[0] is None
    for _ in range(200):
        chosen += await turn(own, 5, of)
    owned = [number for number in range(PARTITIONS) if placement.owns_partition("t", number)]
    assert sorted(set(chosen)) == owned


async def test_after_a_while_with_one_message_at_a_time_all_partitions_are_used_again():
    own = OwnPartitions(Placement(0, 2))
    await turn(own, 10, topic())
    one_by_one = [(await turn(own, 1, topic()))[0] for _ in range(100)]
    used = one_by_one.index(None)
    assert used > 1
    assert set(one_by_one[used:]) == {None}


async def test_many_messages_that_come_one_by_one_now_and_then_stay():
    own = OwnPartitions(Placement(0, 2))
    await turn(own, 2, topic())
    chosen = [each for count in (1, 1, 1, 5, 1, 1, 2) * 20 for each in await turn(own, count, topic())]
    assert None not in chosen


async def test_a_worker_without_partitions_of_the_topic_chooses_none():
    placements = [Placement(worker, 2) for worker in range(2)]
    [without] = [each for each in placements if not each.owns_partition("t", 0)]
    assert set(await turn(OwnPartitions(without), 5, topic(partitions=1))) == {None}
