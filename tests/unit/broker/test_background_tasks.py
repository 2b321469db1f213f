"""What the broker does in the background goes on after an error that nobody expected, and readiness tells of it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from quiver.broker.broker import Broker, BrokerSettings
from quiver.broker.maintenance import Maintenance
from quiver.model.errors import MemberFenced
from quiver.model.message import NewMessage
from quiver.model.queue import ReceiveRequest
from quiver.partition.partition import Partition
from quiver.queues.partition.partition_queue import PartitionQueue
from quiver.records.build import build_frame
from quiver.storage.memory.storage import MemoryStorage
from quiver.streams.member import Subscription
from quiver.streams.membership import Membership
from quiver.telemetry import supervised_task
from quiver.transactions.coordinator import Coordinator
from quiver.transactions.owners.frames import TransactionFrames

SECONDS = 10


@pytest.fixture
async def broker(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Broker]:
    monkeypatch.setattr(supervised_task, "FIRST_PAUSE_SECONDS", 0.01)
    broker = Broker(MemoryStorage(), settings=BrokerSettings(maintenance_seconds=0.01))
    await broker.start()
    await broker.create_topic("jobs", {"partitions": 2})
    yield broker
    await broker.stop()


def fail_once(monkeypatch: pytest.MonkeyPatch, kind: type, name: str) -> list[Exception]:
    """The method of a class fails when it is called next; what is left of it tells whether it did."""
    left: list[Exception] = [ZeroDivisionError("nobody expected this")]
    real = getattr(kind, name)

    async def method(*args: Any, **options: Any) -> Any:
        if left:
            raise left.pop()
        return await real(*args, **options)

    monkeypatch.setattr(kind, name, method)
    return left


async def until(check: Callable[[], Any]) -> None:
    async with asyncio.timeout(SECONDS):
        while not check():
            await asyncio.sleep(0)


def aborted_count(broker: Broker) -> int:
    return broker.transactions._coordinator.state.aborts


async def test_maintenance_goes_on_with_the_other_partitions(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    real, kept_up = Partition.retain, []

    async def retain(self: Partition, *args: Any) -> None:
        if self.name == "jobs-0":
            raise ZeroDivisionError("of jobs-0")
        kept_up.append(self.name)
        await real(self, *args)

    monkeypatch.setattr(Partition, "retain", retain)
    await until(lambda: "jobs-1" in kept_up and "task maintenance" in broker.node.problems())
    assert "of jobs-0" in broker.node.problems()["task maintenance"]


async def test_leases_end_after_an_error_at_the_end_of_one(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    left = fail_once(monkeypatch, PartitionQueue, "expire")
    await broker.publish("jobs", [NewMessage(value=b"x", partition=0)])
    assert await broker.queues.receive(
        ReceiveRequest([broker.topic("jobs").id], "g", consumer="dies", visibility_ms=1)
    )
    again = await broker.queues.receive(
        ReceiveRequest([broker.topic("jobs").id], "g", consumer="other", wait_ms=SECONDS * 1000)
    )
    assert (len(again), left) == (1, [])
    assert "task queues" in broker.node.problems()


async def test_sessions_end_after_an_error_at_the_end_of_one(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    real, failing = Membership.expire, list[str]()

    def expire(self: Membership, *args: Any) -> list[str]:
        if failing and failing[0] in {member.subscription.client_id for member in self.members.values()}:
            raise ZeroDivisionError("nobody expected this")
        return real(self, *args)

    monkeypatch.setattr(Membership, "expire", expire)
    members = {}
    for name in ("first", "second"):
        wants = Subscription(client_id=name, topics=frozenset({"jobs"}), session_ms=100)
        members[name] = (await broker.streams.join(name, wants)).member_id

    failing.append("first")

    def has_ended(name: str) -> bool:
        try:
            broker.streams.members.view(name, members[name])
        except MemberFenced:
            return True
        return False

    await until(lambda: has_ended("second"))
    assert not has_ended("first")
    await until(lambda: "task streams" in broker.node.problems())
    failing.clear()
    await until(lambda: has_ended("first"))


async def test_transactions_time_out_after_an_error_in_their_maintenance(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = fail_once(monkeypatch, Coordinator, "maintain")
    await until(lambda: not left)
    key = await broker.transactions.init(timeout_ms=1)
    await broker.transactions.begin(key.producer_id, key.epoch)
    await until(lambda: aborted_count(broker) == 1)
    assert "task transactions" in broker.node.problems()


async def test_a_timeout_that_hangs_holds_up_no_other(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = [await broker.transactions.init(timeout_ms=1) for _ in range(2)]
    real, gate = TransactionFrames.idle, asyncio.Event()

    async def idle(self: TransactionFrames) -> None:
        if self.transaction_id == f"{first.producer_id}:0":
            await gate.wait()
        await real(self)

    monkeypatch.setattr(TransactionFrames, "idle", idle)
    frame = build_frame(
        [b"x"], timestamp_ms=1, producer_id=first.producer_id, producer_epoch=0, base_sequence=0, transactional=True
    )
    await broker.produce(broker.topic("jobs").id, 0, frame)
    await until(lambda: broker.transactions._aborts.timeouts)
    await broker.transactions.begin(second.producer_id, second.epoch)
    await until(lambda: aborted_count(broker) == 1)
    gate.set()
    await until(lambda: aborted_count(broker) == 2)


async def test_maintenance_that_ended_begins_again(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    left = fail_once(monkeypatch, Maintenance, "_apply_retention")
    await until(lambda: not left)
    await broker.publish("jobs", [NewMessage(value=b"x", partition=0)])
    await broker.alter_topic("jobs", {"retention": "1ms"})
    await until(lambda: broker._partitions.of(broker.topic("jobs").id)[0].log.start_offset == 1)
