"""What members do while a new membership of their group is being written."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from quiver.broker.broker import Broker
from quiver.cluster.placement import group_shard
from quiver.streams.journal.shard import shard_log_id
from quiver.streams.member import RECONNECT_MS, SESSION_MS, Subscription
from quiver.telemetry.failures import Failures
from quiver.testing.held_storage import HeldStorage, Hold
from unit.queues.queue_broker import StandingClock

STREAM_JOURNAL = shard_log_id(group_shard("g"))

WANTS = Subscription(client_id="c", topics=frozenset({"t"}))


class PendingJoin:
    """A group of one member; another one is joining, which is in the journal and not applied yet."""

    def __init__(self, broker: Broker, clock: StandingClock, hold: Hold, first: str) -> None:
        self.broker = broker
        self.clock = clock
        self.hold = hold
        self.first = first

    async def expire(self) -> list[str]:
        """Who is left, when nobody holds the group any more."""
        while self.broker.groups.locks.is_held("g"):
            await asyncio.sleep(0)
        await self.broker.streams.members.expire(Failures())
        return list(self.broker.streams.group("g").membership.members)


@pytest.fixture
async def joining() -> AsyncIterator[PendingJoin]:
    storage, clock = HeldStorage(), StandingClock()
    broker = Broker(storage, clock=clock)
    await broker.start()
    await broker.create_topic("t", {"partitions": 2})
    first = (await broker.streams.join("g", WANTS)).member_id
    hold = storage.hold(STREAM_JOURNAL, "appended")
    second = asyncio.ensure_future(broker.streams.join("g", WANTS))
    await hold.reached()
    yield PendingJoin(broker, clock, hold, first)
    storage.release_all()
    await second
    await broker.stop()


async def applied(joining: PendingJoin) -> None:
    joining.hold.release()
    while len(joining.broker.streams.group("g").membership.members) < 2:
        await asyncio.sleep(0)


async def test_a_heartbeat_counts(joining: PendingJoin) -> None:
    joining.clock.ms += SESSION_MS - 1
    await joining.broker.streams.members.heartbeat("g", joining.first)
    await applied(joining)
    joining.clock.ms += 2
    left = await joining.expire()
    assert joining.first in left
    assert len(left) == 1, "of the other one nothing was heard since it began to join"


async def test_a_broken_connection_counts(joining: PendingJoin) -> None:
    joining.broker.streams.members.connection_lost("g", joining.first)
    await applied(joining)
    joining.clock.ms += RECONNECT_MS + 1
    assert joining.first not in await joining.expire()
