import asyncio

import pytest

from quiver.storage.log_turn import LogTurn


async def test_it_is_taken_at_once_by_one_only() -> None:
    turn = LogTurn()
    assert turn.take_at_once()
    assert not turn.take_at_once()
    turn.give_back()
    assert turn.take_at_once()


async def test_who_waits_gets_it_in_order_and_nobody_takes_it_in_between() -> None:
    turn, order = LogTurn(), []

    async def take(name: str) -> None:
        async with turn:
            order.append(name)
            await asyncio.sleep(0)

    assert turn.take_at_once()
    tasks = [asyncio.create_task(take(name)) for name in "abc"]
    await asyncio.sleep(0)
    turn.give_back()
    assert not turn.take_at_once(), "it belongs to the first who waits"
    await asyncio.gather(*tasks)
    assert order == ["a", "b", "c"]
    assert not turn.is_taken


@pytest.mark.parametrize("had_it", [False, True])
async def test_one_that_is_cancelled_leaves_it_to_the_next(had_it: bool) -> None:
    turn = LogTurn()

    async def take() -> bool:
        async with turn:
            return True

    assert turn.take_at_once()
    cancelled, other = asyncio.create_task(take()), asyncio.create_task(take())
    await asyncio.sleep(0)
    if had_it:
        turn.give_back()
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    if not had_it:
        turn.give_back()
    assert await other
    assert not turn.is_taken
