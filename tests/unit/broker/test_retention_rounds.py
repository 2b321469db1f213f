"""Retention is applied where something can have changed: an idle partition costs next to nothing."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from quiver.broker.broker import Broker
from quiver.model.message import NewMessage
from quiver.partition.partition import Partition
from quiver.storage.memory.storage import MemoryStorage
from quiver.telemetry.failures import Failures

MINUTE_MS, DAY_MS = 60_000, 86_400_000


class HandClock:
    def __init__(self) -> None:
        self.ms = 1_790_000_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def broker(clock: HandClock) -> AsyncIterator[Broker]:
    broker = Broker(MemoryStorage(), clock=clock)
    await broker.start()
    await broker.create_topic("slow", {"partitions": 1, "retention": "7d"})
    await broker.create_topic("quick", {"partitions": 1, "retention": "40s"})
    yield broker
    await broker.stop()


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The partitions whose retention was applied."""
    real, names = Partition.retain, list[str]()

    async def retain(self: Partition, *args: Any) -> None:
        names.append(self.name)
        await real(self, *args)

    monkeypatch.setattr(Partition, "retain", retain)
    return names


async def test_only_what_changes_or_gets_old_is_looked_at(
    broker: Broker, clock: HandClock, looked_at: list[str]
) -> None:
    maintenance = broker._maintenance

    async def round() -> list[str]:
        looked_at.clear()
        await maintenance._apply_retention(Failures())
        return sorted(looked_at)

    assert await round() == ["quick-0", "slow-0"]
    assert await round() == []
    clock.ms += 1_000
    assert await round() == ["quick-0"]
    await broker.publish("slow", [NewMessage(value=b"x")])
    assert await round() == ["slow-0"]
    await broker.alter_topic("slow", {"retention": "8d"})
    assert await round() == ["slow-0"]
    clock.ms += MINUTE_MS
    assert await round() == ["quick-0", "slow-0"]
    clock.ms -= 10_000
    assert await round() == ["quick-0", "slow-0"]
    clock.ms += 9 * DAY_MS
    await round()
    assert broker._partitions.get(broker.topic("slow").id, 0).log.start_offset == 1
