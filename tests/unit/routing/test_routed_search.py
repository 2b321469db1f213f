"""Searches and live tails over partitions of several workers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from quiver.model.errors import SearchNotFound, WorkerUnavailable
from quiver.model.message import NewMessage
from quiver.search import tail as tail_module
from quiver.search.job import Progress
from quiver.search.language.expression import Expression
from quiver.search.request import Bounds, SearchRequest, parse_cursor
from quiver.search.tail import TailRequest
from quiver.testing.workers import WorkerSet

COUNT = 3
PARTITIONS = 6


@pytest.fixture
async def workers() -> AsyncIterator[WorkerSet]:
    async with WorkerSet(COUNT) as started:
        await started[0].broker.create_topic("t", {"partitions": PARTITIONS})
        yield started


async def publish(workers: WorkerSet, first: int, count: int) -> None:
    for n in range(first, first + count):
        await workers[n % COUNT].broker.publish("t", [NewMessage(value=b'{"n": %d}' % n, partition=n % PARTITIONS)])


async def ended(workers: WorkerSet, worker: int, request: SearchRequest) -> Progress:
    """The search of one worker, asked for by another."""
    begun = await workers[worker].broker.searches.begin("t", request)
    other = workers[(worker + 1) % COUNT].broker.searches
    progress = begun
    while progress.state == "running":
        progress = await other.progress(begun.id, wait_seconds=60, after=10_000)
    return await other.progress(begun.id)


@pytest.mark.parametrize("newest_first", [True, False])
async def test_a_search_goes_through_all_owners(workers: WorkerSet, newest_first: bool) -> None:
    await publish(workers, 0, 60)
    for worker in range(COUNT):
        request = SearchRequest(Expression("value.n >= 30"), newest_first=newest_first, bounds=Bounds(limit=20))
        found = await ended(workers, worker, request)
        assert (found.state, found.stopped_by, found.total, found.error) == ("done", "limit", 60, None)
        numbers = [int((message.value or b"")[6:-1]) for message in found.messages]
        assert found.cursor is not None
        rest = request._replace(cursor=parse_cursor(found.cursor, newest_first=newest_first), bounds=Bounds())
        found = await ended(workers, worker, rest)
        numbers += [int((message.value or b"")[6:-1]) for message in found.messages]
        assert sorted(numbers) == list(range(30, 60))
        assert found.cursor is None


async def test_a_search_fails_with_the_worker_that_it_asks(workers: WorkerSet) -> None:
    await publish(workers, 0, 6)
    workers.kill(1)
    with pytest.raises(WorkerUnavailable):
        await workers[0].broker.searches.begin("t", SearchRequest(Expression("true")))
    await workers.start(1)
    found = await ended(workers, 0, SearchRequest(Expression("true")))
    assert (found.state, len(found.messages)) == ("done", 6)
    cancelled = await workers[1].broker.searches.cancel(found.id)
    assert cancelled.state == "done"
    for unknown in ("nothing", "9-abc", f"1-{found.id[2:]}"):
        with pytest.raises(SearchNotFound):
            await workers[0].broker.searches.progress(unknown)


async def test_a_search_goes_on_when_a_worker_is_replaced(workers: WorkerSet) -> None:
    await publish(workers, 0, 60)
    begun = await workers[0].broker.searches.begin("t", SearchRequest(Expression("true")))
    while not workers[0].peers._outgoing[1].in_flight:
        await asyncio.sleep(0)
    workers.kill(1)
    await workers.start(1)
    await workers[0].broker.searches.progress(begun.id, wait_seconds=60, after=10_000)
    found = await workers[0].broker.searches.progress(begun.id)
    assert (found.state, found.error, len(found.messages)) == ("done", None, 60)


async def test_a_tail_follows_all_owners(workers: WorkerSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_module, "_LOOK_SECONDS", 60.0)  # what a slow machine does not get to would be dropped
    await publish(workers, 0, 6)
    tail = await workers[0].broker.tails.follow(TailRequest("t", Expression("value.n != 7")))
    async with aclosing(tail):
        await anext(tail)
        await publish(workers, 6, 6)
        numbers: list[int] = []
        while len(numbers) < 5:
            numbers += [int((message.value or b"")[6:-1]) for message in (await anext(tail)).messages]
        assert sorted(numbers) == [6, 8, 9, 10, 11]
    for worker in range(COUNT):
        while workers[worker].local.tails._open:
            await workers[0].broker.node.health()
    one = await workers[0].broker.tails.follow(TailRequest("t", partition=2))
    async with aclosing(one):
        await anext(one)
        await publish(workers, 12, 6)
        assert [message.partition for message in (await anext(one)).messages] == [2]
