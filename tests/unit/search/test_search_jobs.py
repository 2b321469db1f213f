"""Search jobs: how they end, who waits for them, and what is kept."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from quiver.broker.broker import Broker
from quiver.model.errors import Overloaded, SearchNotFound, ShuttingDown
from quiver.model.message import NewMessage
from quiver.search import job as job_module
from quiver.search import partition_walk, service
from quiver.search.language.expression import Expression
from quiver.search.request import Bounds, SearchRequest, parse_cursor
from quiver.storage.memory.storage import MemoryStorage
from quiver.system.clock import Clock


class HandClock(Clock):
    def __init__(self) -> None:
        self.ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def broker(clock: HandClock, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Broker]:
    monkeypatch.setattr(partition_walk, "_SLICE_BYTES", 1)
    monkeypatch.setattr(partition_walk, "_FIRST_SPAN", 1)
    broker = Broker(MemoryStorage(), clock=clock)
    await broker.start()
    await broker.create_topic("t", {"partitions": 1})
    for n in range(20):
        await broker.publish("t", [NewMessage(value=b'{"n": %d}' % n)])
    yield broker
    await broker.stop()


def request(where: str = "true", **bounds: int | float | None) -> SearchRequest:
    return SearchRequest(Expression(where), bounds=Bounds(**bounds).check())  # type: ignore[arg-type]


async def ended(broker: Broker, id: str) -> job_module.Progress:
    while True:
        found = await broker.searches.progress(id, after=10**9, wait_seconds=60)
        if found.state != "running":
            return found


class Gate:
    """Stops every search before its next slice."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened = asyncio.Event()
        self.steps = 0
        step = partition_walk.PartitionWalk.step

        async def gated(walk: partition_walk.PartitionWalk, limit: int) -> list:  # type: ignore[type-arg]
            self.steps += 1
            await self.opened.wait()
            return await step(walk, limit)

        monkeypatch.setattr(partition_walk.PartitionWalk, "step", gated)


async def reached(gate: Gate) -> None:
    while not gate.steps:
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("bounds", "stopped_by", "matched"),
    [
        ({"limit": 3}, "limit", 3),
        ({"max_messages": 5}, "max_messages", 5),
        ({"max_bytes": 1}, "max_bytes", 1),
        ({}, None, 20),
    ],
)
async def test_bounds(broker: Broker, bounds: dict[str, int], stopped_by: str | None, matched: int) -> None:
    found = await ended(broker, (await broker.searches.begin("t", request(**bounds))).id)
    assert (found.state, found.stopped_by, found.matched) == ("done", stopped_by, matched)
    assert (found.cursor is None) == (stopped_by is None)
    offsets = [message.offset for message in (await broker.searches.progress(found.id)).messages]
    assert offsets == list(range(19, 19 - matched, -1))


async def test_time_is_a_bound(broker: Broker, clock: HandClock, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    begun = await broker.searches.begin("t", request(max_seconds=5))
    await reached(gate)
    clock.ms += 6_000
    gate.opened.set()
    found = await ended(broker, begun.id)
    assert (found.stopped_by, found.matched) == ("max_seconds", 1)


async def test_what_nobody_asks_for_is_cancelled(
    broker: Broker, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    begun = await broker.searches.begin("t", request())
    await reached(gate)
    clock.ms += 31_000
    gate.opened.set()
    while broker.searches._jobs[begun.id].is_running:
        await asyncio.sleep(0)
    found = await broker.searches.progress(begun.id)
    assert (found.state, found.error) == ("cancelled", "nobody asked for its progress for 30 s")
    clock.ms += 61_000
    with pytest.raises(SearchNotFound):
        await broker.searches.progress(begun.id)


async def test_a_cancelled_search_ends_at_once_for_those_who_wait(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    begun = await broker.searches.begin("t", request())
    await reached(gate)
    waiting = asyncio.ensure_future(broker.searches.progress(begun.id, wait_seconds=600))
    await asyncio.sleep(0)
    assert (await broker.searches.cancel(begun.id)).state == "cancelled"
    assert (await waiting).state == "cancelled"
    assert (await broker.searches.cancel(begun.id)).state == "cancelled"
    gate.opened.set()


async def test_a_topic_that_is_deleted_ends_its_search_with_a_sentence(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    begun = await broker.searches.begin("t", request())
    await reached(gate)
    await broker.delete_topic("t")
    await broker.create_topic("t", {"partitions": 1})
    gate.opened.set()
    found = await ended(broker, begun.id)
    assert (found.state, found.error) == ("failed", "topic 't' was deleted while it was searched")


async def test_there_are_not_too_many(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    begun = [await broker.searches.begin("t", request()) for _ in range(service.MOST_RUNNING)]
    with pytest.raises(Overloaded):
        await broker.searches.begin("t", request())
    gate.opened.set()
    for search in begun:
        await ended(broker, search.id)
    for _ in range(service._MOST_KEPT + 5):
        await ended(broker, (await broker.searches.begin("t", request())).id)
    assert len(broker.searches._jobs) <= service._MOST_KEPT


async def test_a_broker_that_stops_ends_its_searches(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    begun = await broker.searches.begin("t", request())
    await reached(gate)
    waiting = asyncio.ensure_future(broker.searches.progress(begun.id, wait_seconds=600))
    await asyncio.sleep(0)
    await broker.searches.stop()
    assert ((await waiting).state, (await waiting).error) == ("cancelled", "the broker is shutting down")
    with pytest.raises(ShuttingDown):
        await broker.searches.begin("t", request())


async def test_results_are_bounded(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_module, "PAGE_BYTES", 20)
    seen: list[int] = []
    cursor = None
    for _ in range(30):
        wanted = request(limit=100)
        if cursor is not None:
            wanted = wanted._replace(cursor=parse_cursor(cursor, newest_first=True))
        found = await ended(broker, (await broker.searches.begin("t", wanted)).id)
        seen += [message.offset for message in (await broker.searches.progress(found.id)).messages]
        cursor = found.cursor
        if cursor is None:
            break
        assert found.stopped_by == "result_bytes"
    assert seen == list(range(19, -1, -1))
