"""The journals of deliveries, and no others, keep the history that the broker's settings ask for."""

from pathlib import Path

import msgspec
import pytest

from quiver.app.config import load_config
from quiver.app.node import start_broker
from quiver.broker.broker import Broker, BrokerSettings
from quiver.model.limits import KIB, MIB
from quiver.storage.history import NO_HISTORY, History
from quiver.storage.memory.storage import MemoryLog, MemoryStorage
from quiver.storage.port import LogOptions
from unit.queues.queue_broker import QueueBroker, numbered

DAY_MS = 86_400_000


class SmallSegments(MemoryStorage):
    async def open_log(self, log_id: str, options: LogOptions) -> MemoryLog:
        return await super().open_log(log_id, msgspec.structs.replace(options, segment_bytes=KIB))


async def start_of_journal(history: History) -> int:
    """Where a delivery journal begins after snapshots enough for its front to go."""
    queue = QueueBroker(SmallSegments())
    queue.broker = Broker(queue.storage, clock=queue.clock, settings=BrokerSettings(delivery_history=history))
    await queue.start()
    await queue.broker.create_topic("jobs", {"partitions": 1})
    topic = queue.broker.topic("jobs")
    for _ in range(6):
        await queue.publish("jobs", *numbered(30))
        for _ in range(10):
            await queue.settle(await queue.receive("jobs", count=3))
        await (await queue.broker.queues.partition_queue(topic, 0)).journal.snapshot()
        await queue.wait(DAY_MS)
    log = await queue.storage.open_log(f"topics/{topic.id}/0-delivery", LogOptions())
    await queue.broker.stop()
    return log.start_offset


async def test_the_setting_reaches_the_journals() -> None:
    none, days, all_of_it = [
        await start_of_journal(history)
        for history in (NO_HISTORY, History(4 * DAY_MS, MIB), History(7 * DAY_MS, MIB))
    ]
    assert none > days > all_of_it == 0


@pytest.mark.parametrize(
    ("flags", "history"),
    [
        ({}, History(7 * DAY_MS, 16 * MIB)),
        ({"delivery_history": "2h", "delivery_history_bytes": "0"}, History(7_200_000, 0)),
    ],
)
async def test_the_configuration_reaches_the_broker(tmp_path: Path, flags: dict[str, str], history: History) -> None:
    config = load_config({"data_dir": str(tmp_path), **flags}, environment={}).config
    running = await start_broker(config)
    await running.stop()
    assert running.broker.settings.delivery_history == history
