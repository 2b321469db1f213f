"""How fast replicas that are not in sync get what they lack."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
import pytest

from quiver.replication.leading.catch_up import CatchUp, Throttle
from quiver.replication.settings import ReplicationSettings
from quiver.storage.memory.storage import MemoryStorage
from quiver.storage.port import LogOptions
from quiver.testing.replication.direct import ReplicaGroup
from quiver.testing.simulation.system.loop import SimulatedLoop
from quiver.testing.simulation.world import World
from unit.log.frames import frame_at

LOG, EPOCH = "topics/1/0", 1 << 8
SLOW = ReplicationSettings(
    call_seconds=5.0, idle_seconds=0.02, lag_seconds=0.4, call_bytes=4096, catch_up_bytes_per_second=1
)


def seconds(*tasks: Callable[[], Awaitable[None]]) -> float:
    """Of virtual time, until all are done."""
    world, errors = World(1), list[str]()
    loop = SimulatedLoop(world, "leader", errors.append)
    started = [loop.create_task(task()) for task in tasks]  # type: ignore[arg-type]
    assert world.run(lambda: all(task.done() for task in started), at_most_seconds=1_000.0)
    assert not errors
    return world.now


async def send(throttle: Throttle, size_bytes: int) -> None:
    left = float(size_bytes)
    while left > 0:
        left = await throttle.wait(left)


def test_streams_share_a_limit() -> None:
    throttle = Throttle(lambda: 1_000)
    assert seconds(lambda: send(throttle, 2_000), lambda: send(throttle, 1_000)) == pytest.approx(3.0, abs=0.01)


def test_a_limit_may_change_while_somebody_waits() -> None:
    limits: list[int | None] = [10, 10, 1_000, 1_000]

    def limit() -> int | None:
        return limits.pop(0) if limits else None

    assert seconds(lambda: send(Throttle(limit), 1_000_000)) == pytest.approx(1.0, abs=0.01)


def test_calls_are_small_where_little_is_sent() -> None:
    assert Throttle(lambda: None).call_bytes(1 << 20) == 1 << 20
    assert Throttle(lambda: 1 << 30).call_bytes(1 << 20) == 1 << 20
    assert Throttle(lambda: 1 << 20).call_bytes(1 << 20) == 1 << 18
    assert Throttle(lambda: 1).call_bytes(1 << 20) == 4096


def test_a_reassignment_may_have_a_limit_of_its_own() -> None:
    of_node, limits = Throttle(lambda: 5), [0]
    catch_up = CatchUp(of_node, lambda: limits[0])
    assert catch_up.throttle(is_added=True) is of_node
    limits[0] = 7
    assert catch_up.throttle(is_added=False) is of_node
    assert catch_up.throttle(is_added=True).limit() == 7


class Replicas(ReplicaGroup):
    def __init__(self) -> None:
        super().__init__([MemoryStorage(), MemoryStorage(), MemoryStorage()], SLOW)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not condition():
                await asyncio.sleep(0)


@pytest.fixture
async def group() -> AsyncIterator[Replicas]:
    group = Replicas()
    await group.open()
    yield group
    await group.close()


async def test_a_new_replica_gets_what_the_limit_allows(group: Replicas) -> None:
    log = await (await group.lead()).open_log(LOG, LogOptions())
    unit = group.unit()
    await group.write(msgspec.structs.replace(unit, replicas=(0, 1), isr=(0, 1)))
    for first in range(20):
        await log.append([frame_at(first, body=b"-" * 1024, epoch=EPOCH)])
    unit = group.unit()
    await group.write(msgspec.structs.replace(unit, replicas=(0, 1, 2), adding=(2,)))
    lags = group.nodes[0].status
    await group.until(lambda: 0 < lags()[0].lag_bytes[2] < log.size_bytes)  # the first call, then it waits
    await log.append([frame_at(20, body=b"-", epoch=EPOCH)])  # the others are not held up
    assert group.unit().isr == (0, 1)
    await group.write(msgspec.structs.replace(group.unit(), throttle_bytes_per_sec=1 << 30))
    await group.until(lambda: set(group.unit().isr) == {0, 1, 2})
    assert lags()[0].lag_bytes == {1: 0, 2: 0}
