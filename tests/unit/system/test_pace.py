"""Long work in slices: others run in between, and never all at once."""

import asyncio
from collections.abc import Iterator

import pytest

from quiver.system import pace
from quiver.system.pace import Pace, Turnstile, bounded_gather, paced


@pytest.fixture
def used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every slice is used up at once."""
    monkeypatch.setattr(pace, "SLICE_SECONDS", 0.0)


class Bystander:
    """Counts the turns that it gets."""

    def __init__(self) -> None:
        self.turns = 0
        self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.turns += 1

    def __enter__(self) -> "Bystander":
        return self

    def __exit__(self, *error: object) -> None:
        self._task.cancel()


async def test_others_run_between_two_slices(used_up: None) -> None:
    with Bystander() as bystander:
        assert [item async for item in paced(range(100))] == list(range(100))
        assert bystander.turns >= 99


async def test_a_slice_that_is_not_used_up_costs_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "SLICE_SECONDS", 3600.0)
    with Bystander() as bystander:
        turns = Pace()
        for _ in range(100):
            await turns.turn()
        assert bystander.turns == 0


async def test_results_come_in_order_and_few_run_at_once() -> None:
    running, most = 0, 0

    async def work(item: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(item % 3):
            await asyncio.sleep(0)
        running -= 1
        return -item

    assert await bounded_gather(work, range(50), at_once=4) == [-item for item in range(50)]
    assert most == 4
    assert await bounded_gather(work, []) == []


async def test_items_are_taken_as_their_turn_comes() -> None:
    """However many there are, nothing is prepared for those that wait."""
    taken, gate = 0, asyncio.Event()

    def items() -> Iterator[int]:
        nonlocal taken
        for item in range(1_000):
            taken += 1
            yield item

    async def work(item: int) -> None:
        await gate.wait()

    gathering = asyncio.ensure_future(bounded_gather(work, items(), at_once=4))
    for _ in range(10):
        await asyncio.sleep(0)
    assert taken == 4
    gate.set()
    assert len(await gathering) == 1_000


async def test_the_first_error_ends_all_of_them() -> None:
    ended = []

    async def work(item: int) -> None:
        if item == 2:
            raise ValueError(item)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(item)

    with pytest.raises(ValueError, match="2"):
        await bounded_gather(work, range(100), at_once=4)
    assert ended == [0, 1, 3]


async def test_a_turnstile_lets_a_few_through_at_each_turn_in_order() -> None:
    turnstile, passed, by_turn = Turnstile(at_once=3), [], []

    async def enter(number: int) -> None:
        await turnstile.enter()
        passed.append(number)

    tasks = [asyncio.ensure_future(enter(number)) for number in range(10)]
    while len(passed) < 10:
        before = len(passed)
        await asyncio.sleep(0)
        by_turn.append(len(passed) - before)
    assert passed == list(range(10))
    assert max(by_turn) == 3
    await asyncio.gather(*tasks)


async def test_one_who_gives_up_does_not_hold_up_the_turnstile() -> None:
    turnstile = Turnstile(at_once=1)
    await turnstile.enter()
    first, second = asyncio.ensure_future(turnstile.enter()), asyncio.ensure_future(turnstile.enter())
    await asyncio.sleep(0)
    first.cancel()
    async with asyncio.timeout(5):
        await second
