"""What the broker counts in seconds does not follow steps of the wall clock, also not over a restart."""

import logging
from collections.abc import AsyncIterator

import pytest

from quiver.broker.broker import Broker
from quiver.model.settlement import EXTEND, NACK
from quiver.streams.member import Subscription
from quiver.telemetry.failures import Failures
from unit.queues.queue_broker import START_MS, QueueBroker

HOUR_MS = 3_600_000


class SteppedClock:
    """The wall clock can be set; the monotonic one cannot."""

    def __init__(self) -> None:
        self.step_ms = 0
        self.passed_ms = 0

    def now_ms(self) -> int:
        return START_MS + self.step_ms + self.passed_ms

    def monotonic(self) -> float:
        return self.passed_ms / 1000


class SteppedBroker(QueueBroker):
    def __init__(self) -> None:
        super().__init__()
        self.stepped = SteppedClock()
        self.broker = Broker(self.storage, clock=self.stepped)

    async def wait(self, milliseconds: int) -> None:
        self.stepped.passed_ms += milliseconds
        await self.broker.queues.expire_due()

    async def restart(self) -> None:
        await self.broker.stop()
        self.broker = Broker(self.storage, clock=self.stepped)
        await self.broker.start()

    async def kill(self) -> None:
        """Nothing is saved but the journal."""
        self.broker = Broker(self.storage, clock=self.stepped)
        await self.broker.start()


@pytest.fixture
async def queue() -> AsyncIterator[SteppedBroker]:
    queue = SteppedBroker()
    await queue.start()
    await queue.broker.create_topic("jobs", {"partitions": 1})
    yield queue
    await queue.broker.stop()


@pytest.mark.parametrize("ordering", ["none", "key"])
@pytest.mark.parametrize("step_ms", [-HOUR_MS, HOUR_MS])
@pytest.mark.parametrize("how", ["lease", "retry", "extended"])
async def test_a_lease_lasts_as_long_as_was_asked_for(
    queue: SteppedBroker, how: str, step_ms: int, ordering: str
) -> None:
    await queue.publish("jobs", b"x", keys=[b"k"])
    got = await queue.receive("jobs", visibility_ms=5_000, ordering=ordering)
    if how == "retry":
        await queue.settle(got, NACK, delay_ms=5_000)
    elif how == "extended":
        await queue.wait(2_000)
        await queue.settle(got, EXTEND, delay_ms=5_000)
    queue.stepped.step_ms += step_ms
    await queue.wait(4_900)
    assert await queue.receive("jobs", ordering=ordering) == []
    await queue.wait(101)
    assert len(await queue.receive("jobs", ordering=ordering)) == 1


@pytest.mark.parametrize("saved", [True, False], ids=["snapshot", "journal"])
@pytest.mark.parametrize("ordering", ["none", "key"])
@pytest.mark.parametrize("how", ["lease", "retry", "extended"])
async def test_a_lease_that_was_begun_by_a_clock_ahead_is_bounded_after_a_restart(
    queue: SteppedBroker, how: str, ordering: str, saved: bool, caplog: pytest.LogCaptureFixture
) -> None:
    queue.stepped.step_ms = HOUR_MS
    await queue.restart()
    await queue.publish("jobs", b"x", keys=[b"k"])
    got = await queue.receive("jobs", visibility_ms=5_000, ordering=ordering)
    if how == "retry":
        await queue.settle(got, NACK, delay_ms=5_000)
    elif how == "extended":
        await queue.settle(got, EXTEND, delay_ms=4_000)
    if saved:
        for partition_queue in queue.broker.queues.partition_queues(queue.broker.topic("jobs").id).values():
            await partition_queue.journal.snapshot()
    queue.stepped.step_ms = 0
    with caplog.at_level(logging.WARNING):
        await queue.kill()
    assert "3600 s behind" in caplog.text
    assert await queue.receive("jobs", ordering=ordering) == []
    await queue.wait(5_001)
    assert len(await queue.receive("jobs", ordering=ordering)) == 1


async def test_times_are_shown_by_the_wall_clock(queue: SteppedBroker) -> None:
    queue.stepped.step_ms = -HOUR_MS
    await queue.publish("jobs", b"x")
    (got,) = await queue.receive("jobs", visibility_ms=5_000)
    now_ms = queue.stepped.now_ms()
    assert (got.run.deadline_ms, got.run.first_delivered_ms) == (now_ms + 5_000, now_ms)
    (settled,) = await queue.settle([got], NACK, delay_ms=7_000)
    assert settled.until_ms == now_ms + 7_000


@pytest.mark.parametrize("is_lasting", [False, True], ids=["for a moment", "time passes"])
async def test_a_clock_that_is_ahead_for_a_moment_makes_nobody_forget(queue: SteppedBroker, is_lasting: bool) -> None:
    days_ms = 10 * 24 * HOUR_MS
    member = await queue.broker.streams.join("readers", Subscription(client_id="c", topics=frozenset({"jobs"})))
    await queue.broker.streams.members.leave("readers", member.member_id)
    producer = await queue.broker.transactions.init("mine")
    if is_lasting:
        queue.stepped.passed_ms += days_ms
    else:
        queue.stepped.step_ms = days_ms
        queue.stepped.passed_ms += 61_000
    failures = Failures()
    await queue.broker.streams._keep_up(failures)
    await queue.broker.transactions._coordinator.maintain()
    failures.check()
    assert ("readers" in queue.broker.groups.groups()) == (not is_lasting)
    again = await queue.broker.transactions.init("mine")
    assert (again.producer_id == producer.producer_id) == (not is_lasting)
