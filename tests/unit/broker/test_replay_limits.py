"""What the next start has to replay stays short, however many partitions share it."""

import pytest
from tests.unit.queues.queue_broker import QueueBroker

from quiver.delays import service as delays
from quiver.model.message import NewMessage
from quiver.queues import maintenance
from quiver.telemetry.failures import Failures

PARTITIONS = 6
FAR_MS = 30 * 86_400_000


async def test_of_the_deliveries_of_all_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "_REPLAY_BYTES", 4_000)
    jobs = QueueBroker()
    await jobs.start()
    await jobs.broker.create_topic("jobs", {"partitions": PARTITIONS})
    for partition in range(PARTITIONS):
        await jobs.publish("jobs", *[b"job"] * 20, partition=partition)
    for _ in range(20):
        await jobs.settle(await jobs.receive("jobs", count=PARTITIONS))
    known = jobs.broker.queues._partition_queues
    assert sum(each.journal.replay_bytes for each in known.all()) > 10_000
    await jobs.broker.queues._maintenance.save_snapshots(Failures())
    assert sum(each.journal.replay_bytes for each in known.all()) <= 4_000
    await jobs.restart()
    assert await jobs.receive("jobs") == []
    await jobs.broker.stop()


async def test_of_the_delays_of_all_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delays, "_UNSAVED_MESSAGES", 30)
    host = QueueBroker()
    await host.start()
    await host.broker.create_topic("later", {"partitions": PARTITIONS})
    due_ms = host.clock.ms + FAR_MS
    messages = [NewMessage(value=b"x", deliver_at_ms=due_ms, partition=n % PARTITIONS) for n in range(120)]
    await host.broker.publish("later", messages)
    found = host.broker.delays._partitions.all
    assert sum(each.unsaved_messages for each in found()) == 120
    await host.broker.delays._shorten_replay(Failures())
    assert sum(each.unsaved_messages for each in found()) <= 60
    await host.restart()
    assert (await host.broker.delays.page("later", skip=0, limit=1)).total == 120
    await host.broker.stop()
