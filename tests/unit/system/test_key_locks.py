import asyncio

import pytest

from quiver.system.key_locks import KeyLocks


async def test_one_at_a_time_per_key_and_nothing_is_left() -> None:
    locks, running, most = KeyLocks(), 0, 0

    async def change(name: str) -> None:
        nonlocal running, most
        async with locks.hold(name):
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1

    await asyncio.gather(*(change("g") for _ in range(20)))
    assert most == 1
    await asyncio.gather(change("g"), change("h"))
    assert most == 2
    assert len(locks) == 0


async def test_whoever_gives_up_waiting_leaves_the_lock_to_the_others() -> None:
    locks, held = KeyLocks(), list[str]()

    async def hold(who: str) -> None:
        async with locks.hold("g"):
            held.append(who)

    async with locks.hold("g"):
        impatient, patient = asyncio.create_task(hold("impatient")), asyncio.create_task(hold("patient"))
        await asyncio.sleep(0)
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient
    await asyncio.wait_for(patient, 1)
    assert held == ["patient"]
    assert len(locks) == 0


async def test_two_who_need_several_do_not_wait_for_each_other() -> None:
    locks, held = KeyLocks(), list[str]()

    async def hold(*names: str) -> None:
        async with locks.hold(*names):
            await asyncio.sleep(0)
            held.append(names[0])

    async with asyncio.timeout(1):
        await asyncio.gather(hold("a", "b", "a"), hold("b", "a"))
    assert sorted(held) == ["a", "b"]
    assert len(locks) == 0
