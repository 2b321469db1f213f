"""Going through partitions in both directions, against a list that is sorted and filtered."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.model.limits import Limits
from quiver.model.message import NewMessage, StoredMessage
from quiver.model.priority import Priority
from quiver.model.topic import TopicConfig
from quiver.outbox.append import append_again
from quiver.partition.partition import Partition
from quiver.partition.settings import PartitionSettings, log_options
from quiver.search import frame_batch, partition_walk
from quiver.search.language.expression import Expression
from quiver.search.partition_walk import Filter, PartitionWalk
from quiver.search.request import SearchCursor, SearchRequest, parse_cursor
from quiver.search.topic_walk import TopicWalk
from quiver.storage.memory.storage import MemoryStorage
from quiver.system.clock import Clock


class HandClock(Clock):
    def __init__(self) -> None:
        self.ms = 1_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000


Place = tuple[int, int, int]
"""Append time, partition, offset."""


async def filled(plan: Sequence[tuple[int, int, int]], count: int = 3) -> tuple[list[Partition], list[Place]]:
    """Partitions with frames: (partition, messages in the frame, milliseconds that pass after it)."""
    clock, storage, config = HandClock(), MemoryStorage(), TopicConfig()
    partitions = [
        Partition(
            f"t-{number}",
            await storage.open_log(f"topics/1/{number}", log_options(config)),
            PartitionSettings(config, Limits()),
            leader_epoch=1,
            clock=clock,
        )
        for number in range(count)
    ]
    places: list[Place] = []
    for number, size, pause_ms in plan:
        start = partitions[number].log.end_offset
        messages = [NewMessage(value=b'{"n": %d}' % (start + n), timestamp_ms=5) for n in range(size)]
        await append_again(partitions[number], messages=messages)
        places += [(clock.ms, number, start + n) for n in range(size)]
        clock.ms += pause_ms
    return partitions, places


def walk_of(partitions: list[Partition], where: str, *, newest_first: bool, cursor: SearchCursor | None) -> TopicWalk:
    filter = Filter(SearchRequest(Expression(where), newest_first=newest_first), now_ms=10**12, ttl_ms=None)
    walks = []
    for number, partition in enumerate(partitions):
        low, high = 0, 2**62
        if cursor is not None:
            low, high = (0, cursor.offsets[number]) if newest_first else (cursor.offsets[number], 2**62)
        walks.append(PartitionWalk(number, partition, filter, (low, high)))
    return TopicWalk(walks, newest_first=newest_first)


plans = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 5), st.integers(0, 2)),
    max_size=25,
)


@given(plans, st.booleans(), st.integers(1, 7), st.integers(1, 4), st.sampled_from([1, 300, 2000]))
async def test_any_order_any_pages(
    plan: list[tuple[int, int, int]], newest_first: bool, limit: int, every: int, slice_bytes: int
) -> None:
    """A search that stops after `limit` and goes on with its cursor finds each message once, in order."""
    partitions, places = await filled(plan)
    wanted = [place for place in places if place[2] % every == 0]
    sign = -1 if newest_first else 1
    wanted.sort(key=lambda place: (sign * place[0], place[1], sign * place[2]))
    found: list[Place] = []
    cursor: SearchCursor | None = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition_walk, "_SLICE_BYTES", slice_bytes)
        patch.setattr(partition_walk, "_FIRST_SPAN", 2)
        for _ in range(len(places) + 2):
            walk = walk_of(partitions, f"value.n % {every} == 0", newest_first=newest_first, cursor=cursor)
            page: list[Place] = []
            while not walk.is_done and len(page) < limit:
                await walk.step(limit - len(page))
                page += [(m.append_time_ms, m.partition, m.offset) for m in walk.release(limit - len(page))]
            found += page
            cursor = walk.cursor()
            if cursor is None:
                assert walk.scanned == walk.total
                break
            assert parse_cursor(str(cursor), newest_first=newest_first) == cursor
    assert cursor is None
    assert [place[0] for place in found] == [place[0] for place in wanted]
    assert sorted(found) == sorted(wanted)
    for number in range(3):
        mine = [place for place in found if place[1] == number]
        assert mine == [place for place in wanted if place[1] == number]


async def test_a_large_hole_is_left_behind_in_a_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    partitions, _ = await filled([(0, 3, 1)], 1)
    partition = partitions[0]
    walk = PartitionWalk(0, partition, Filter(SearchRequest(Expression("true")), now_ms=0, ttl_ms=None), (0, 3))
    walk.high = 10**12
    walk._readable_end = 3
    steps = 0
    found = []
    while not walk.is_done:
        found += await walk.step(10)
        steps += 1
        assert steps < 40
    assert [message.offset for message in found] == [2, 1, 0]


async def test_aborted_and_stopped_messages_are_not_shown() -> None:
    partitions, _ = await filled([(0, 3, 1)], 1)
    filter = Filter(SearchRequest(Expression("true")), now_ms=0, ttl_ms=None)
    walk = PartitionWalk(0, partitions[0], filter, (0, 3))
    filter.is_stopped = True
    assert await walk.step(10) == []
    assert walk.left == 3


shapes = st.builds(
    NewMessage,
    value=st.sampled_from([None, b'{"n": 1}', b'{"n": 2}', b"text"]),
    key=st.sampled_from([None, b"k"]),
    headers=st.sampled_from([None, {"h": b"1"}]),
    timestamp_ms=st.integers(5, 6),
    expires_at_ms=st.sampled_from([None, 10, 10**13]),
)


@given(
    st.lists(st.tuples(st.sampled_from(list(Priority)), st.lists(shapes, min_size=1, max_size=3)), max_size=12),
    st.sampled_from(
        ["true", "value.n == 1", "value.n > 1", "'k' in key or headers.h == '1'", "timestamp == 5", "offset % 2 == 0"]
    ),
    st.booleans(),
)
async def test_frames_that_are_looked_at_together_give_the_same_messages(
    plan: list[tuple[Priority, list[NewMessage]]], where: str, newest_first: bool
) -> None:
    partitions, _ = await filled([], 1)
    for priority, messages in plan:
        await append_again(
            partitions[0], messages=[msgspec.structs.replace(message, priority=priority) for message in messages]
        )
    found: list[list[StoredMessage]] = []
    for batch_rows in (1, 4, 2_048):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(frame_batch, "_BATCH_ROWS", batch_rows)
            walk = walk_of(partitions, where, newest_first=newest_first, cursor=None)
            found.append([])
            while not walk.is_done:
                await walk.step(1_000)
                found[-1] += walk.release(1_000)
    assert found[0] == found[1] == found[2]
    if where == "true":
        assert len(found[0]) == sum(message.expires_at_ms != 10 for _, part in plan for message in part)
