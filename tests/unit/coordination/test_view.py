"""Views of coordination: every process sees the same changes in the same order, and knows how far it is."""

import asyncio

import pytest

from quiver.coordination.counter import Counter
from quiver.coordination.port import Change, ChangeBatch, Delete, Put
from quiver.coordination.view import View
from quiver.model.errors import ShuttingDown
from quiver.testing.memory_coordination import MemoryCoordination


class Process:
    """Has a view, and what a part of the broker would know from it."""

    def __init__(self, coordination: MemoryCoordination) -> None:
        self.view = View(coordination)
        self.known: dict[str, bytes] = {}
        self.seen: list[int] = []
        self.view.follow("t/", self._apply)

    def _apply(self, change: Change) -> None:
        self.seen.append(change.revision)
        self.known.pop(change.key, None)
        if change.value is not None:
            self.known[change.key] = change.value


async def opened(coordination: MemoryCoordination) -> Process:
    process = Process(coordination)
    await process.view.open()
    return process


async def test_a_write_returns_when_the_own_view_shows_it() -> None:
    process = await opened(MemoryCoordination())
    assert await process.view.commit([process.view.expected("t/1")], [Put("t/1", b"x")])
    assert process.known == {"t/1": b"x"}
    before = process.view.expected("t/1")
    assert await process.view.commit([before], [Put("t/1", b"y"), Put("u/1", b"other")])
    assert process.known == {"t/1": b"y"}
    assert not await process.view.commit([before], [Delete("t/1")])
    assert await process.view.commit([process.view.expected("t/1")], [Delete("t/1")])
    assert process.known == {}
    await process.view.close()


async def test_a_lost_swap_returns_when_the_view_shows_why() -> None:
    coordination = MemoryCoordination()
    first, second = await opened(coordination), await opened(coordination)
    stale = second.view.expected("t/1")
    assert await first.view.commit([], [Put("t/1", b"first")])
    assert not await second.view.commit([stale], [Put("t/1", b"second")])
    assert second.known == {"t/1": b"first"}


async def test_others_can_wait_for_a_revision() -> None:
    coordination = MemoryCoordination()
    first, second = await opened(coordination), await opened(coordination)
    await first.view.commit([], [Put("t/1", b"x")])
    await second.view.reached(first.view.revision)
    assert second.known == first.known
    later = asyncio.ensure_future(second.view.reached(first.view.revision + 2))
    await first.view.commit([], [Put("u/1", b"not followed")])
    await second.view.reached(first.view.revision)
    assert not later.done()
    await first.view.commit([], [Put("t/2", b"x")])
    await later
    assert second.known == first.known
    never = asyncio.ensure_future(second.view.reached(1_000))
    await asyncio.sleep(0)
    await second.view.close()
    with pytest.raises(ShuttingDown):
        await never
    with pytest.raises(ShuttingDown):
        await second.view.reached(1_000)


async def test_a_view_that_was_left_behind_learns_what_is_gone() -> None:
    process = Process(MemoryCoordination())
    process.view._take(ChangeBatch(5, [Change("t/1", b"a", 3), Change("t/2", b"b", 5)], is_complete=True))
    process.view._take(ChangeBatch(6, [Change("t/3", b"c", 6)]))
    process.view._take(ChangeBatch(99, [Change("t/3", b"d", 50), Change("t/2", b"b", 5)], is_complete=True))
    assert process.known == {"t/2": b"b", "t/3": b"d"}
    assert process.seen == [3, 5, 6, 99, 50]
    assert process.view.revision == 99


async def test_numbers_are_given_out_once_by_all_processes() -> None:
    coordination = MemoryCoordination()
    given: list[int] = []
    for _ in range(2):
        views = [View(coordination) for _ in range(3)]
        counters = [Counter(view, "counters/x", block=7) for view in views]
        for view in views:
            await view.open()
        given += await asyncio.gather(*(counters[n % 3].take() for n in range(60)))
        assert counters[0].upper > max(given[-60::3])
        for view in views:
            await view.close()
    assert len(set(given)) == len(given)
    assert min(given) == 1


async def test_a_number_that_nobody_has_is_known_as_such() -> None:
    view = View(MemoryCoordination())
    counter = Counter(view, "counters/x", block=5)
    await view.open()
    assert not counter.may_be_given(1)
    assert await counter.take() == 1
    assert [counter.may_be_given(number) for number in (0, 1, 2, 5, 6)] == [True, True, False, False, False]
    await view.close()
