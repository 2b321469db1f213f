"""The event loop on virtual time."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from quiver.system.pace import paced
from quiver.testing.simulation.system.loop import SimulatedLoop
from quiver.testing.simulation.world import World


def start(loop: SimulatedLoop, work: Coroutine[Any, Any, None]) -> None:
    loop.call_soon(loop.create_task, work)


def test_an_hour_passes_in_no_time() -> None:
    world, errors, noted = World(1), list[str](), list[float]()
    loop = SimulatedLoop(world, "one", errors.append)

    async def wait() -> None:
        noted.append(asyncio.get_running_loop().time())
        await asyncio.sleep(3600)
        noted.append(asyncio.get_running_loop().time())
        try:
            async with asyncio.timeout(10):
                await asyncio.Event().wait()
        except TimeoutError:
            noted.append(asyncio.get_running_loop().time())

    start(loop, wait())
    assert world.run(lambda: len(noted) == 3, at_most_seconds=10_000)
    assert 3600 <= noted[1] - noted[0] < 3601
    assert 10 <= noted[2] - noted[1] < 11
    assert not errors
    world.discard()


def test_a_killed_loop_does_nothing_any_more() -> None:
    world, noted = World(1), list[str]()
    victim = SimulatedLoop(world, "victim", noted.append)

    async def work() -> None:
        try:
            await asyncio.sleep(5)
            noted.append("went on")
        finally:
            noted.append("cleaned up")

    start(victim, work())
    world.later(1, victim.kill)
    world.run(lambda: False, at_most_seconds=20)
    assert noted == []
    world.discard()


def test_what_nobody_caught_is_told() -> None:
    world, errors = World(1), list[str]()
    loop = SimulatedLoop(world, "one", errors.append)
    loop.call_soon(lambda: 1 / 0)
    world.run(lambda: bool(errors), at_most_seconds=1)
    assert "ZeroDivisionError" in errors[0]
    world.discard()


def _order(seed: int) -> tuple[list[str], str]:
    """Who of three got their turn when."""
    world, noted = World(seed), list[str]()

    async def work(name: str) -> None:
        async for step in paced(range(12)):
            noted.append(f"{name}{step}")
            world.note(name, step)
        noted.append(await asyncio.to_thread(str.upper, name))

    for name in "abc":
        start(SimulatedLoop(world, name, noted.append), work(name))
    assert world.run(lambda: len(noted) == 39, at_most_seconds=10)
    world.discard()
    return noted, world.trace_hash


def test_a_seed_decides_the_order() -> None:
    assert _order(1) == _order(1)
    assert len({_order(seed)[1] for seed in range(5)}) > 1
