"""The due clock: partitions are told when they have something due, one delivery at a time."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from quiver.delays import due_clock as module
from quiver.delays.due_clock import DueClock
from quiver.model.names import TopicPartition
from unit.delays.delay_bench import START_MS, HandClock

HERE, THERE = TopicPartition(1, 0), TopicPartition(1, 1)


class Due:
    """Has something due at a time."""

    def __init__(self, at_ms: int | None) -> None:
        self.at_ms = at_ms
        self.delivered = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self.running = 0
        self.next_ms: int | None = None
        """When something is due after this delivery."""

    def next_time_ms(self) -> int | None:
        return self.at_ms

    async def deliver_due(self) -> None:
        assert not self.running, "one delivery at a time"
        self.running += 1
        await self.gate.wait()
        self.running -= 1
        self.at_ms, self.next_ms = self.next_ms, None
        self.delivered.set()


@pytest.fixture
async def due_clock(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DueClock]:
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.0)
    clock = DueClock(HandClock())
    clock.start()
    yield clock
    await clock.stop()


async def arrives(due: Due) -> None:
    async with asyncio.timeout(10):
        await due.delivered.wait()


async def test_a_partition_that_is_added_with_something_due_delivers(due_clock: DueClock) -> None:
    due = Due(START_MS)
    due_clock.add(HERE, due)
    await arrives(due)


async def test_a_deadline_that_comes_nearer_is_noted(due_clock: DueClock) -> None:
    due = Due(START_MS + 3_600_000)
    due_clock.add(HERE, due)
    await asyncio.sleep(0)
    due.at_ms = START_MS - 1
    due_clock.note(HERE)
    await arrives(due)


async def test_a_partition_that_was_removed_is_not_told(due_clock: DueClock) -> None:
    gone, other = Due(START_MS), Due(START_MS)
    due_clock.add(HERE, gone)
    due_clock.remove(HERE)
    due_clock.note(HERE)
    due_clock.add(THERE, other)
    await arrives(other)
    assert not gone.delivered.is_set()


async def test_what_falls_due_while_a_partition_delivers_is_delivered_after_that(due_clock: DueClock) -> None:
    due = Due(START_MS)
    due.gate.clear()
    due_clock.add(HERE, due)
    while not due.running:
        await asyncio.sleep(0)
    due.next_ms = START_MS
    due_clock.note(HERE)
    due.gate.set()
    await arrives(due)
    due.delivered.clear()
    await arrives(due)


async def test_a_partition_that_fails_is_asked_again_and_holds_up_no_other(due_clock: DueClock) -> None:
    class Failing(Due):
        attempts = 0

        async def deliver_due(self) -> None:
            self.attempts += 1
            if self.attempts < 3:
                raise ValueError("a bug")
            await super().deliver_due()

    failing, other = Failing(START_MS), Due(START_MS)
    due_clock.add(HERE, failing)
    due_clock.add(THERE, other)
    await arrives(other)
    await arrives(failing)
    assert failing.attempts == 3
