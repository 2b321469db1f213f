"""Which dead letters were redriven or purged, from a delivery journal and its snapshots."""

from pathlib import Path

import pytest

from quiver.broker.broker import Broker
from quiver.dead_letters.search import Search
from quiver.model.dead_letter import DeadLetterFilter
from quiver.model.errors import CorruptData
from quiver.model.message import NewMessage
from quiver.reader.data_directory import DELIVERY_JOURNAL, DataDirectory, partition_log
from quiver.storage.local.settings import LocalSettings
from quiver.storage.local.storage import LocalStorage
from quiver.structures.interval_set import IntervalSet

LETTERS = 40


async def test_a_snapshot_and_what_came_behind_it(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path, LocalSettings(min_free_bytes=0))
    await storage.open()
    broker = Broker(storage)
    await broker.start()
    topic = await broker.create_topic("work.dlq", {"partitions": 1})
    await broker.publish("work.dlq", [NewMessage(value=b"v")] * LETTERS)
    directory = DataDirectory(tmp_path)
    expected = IntervalSet()
    for first in (3, 10, 20):
        ids = [(0, first), (0, first + 1)]
        await broker.dead_letters.purge("work.dlq", Search(DeadLetterFilter(ids=ids)))
        expected.add(first, first + 2)
        assert directory.removed_dead_letters(topic.id, 0) == expected
        await broker.queues.partition_queues(topic.id)[0].journal.snapshot()
        assert directory.removed_dead_letters(topic.id, 0) == expected
    await broker.stop()
    await storage.close()
    journal = directory.log_directory(partition_log(topic.id, 0, DELIVERY_JOURNAL))
    snapshots = sorted(journal.glob("*.snapshot"))
    assert snapshots
    for path in snapshots:
        path.write_bytes(path.read_bytes()[:-1])
    (segment,) = journal.glob("*.log")
    segment.rename(journal / f"{9:020d}.log")
    with pytest.raises(CorruptData, match=r"0-delivery cannot be read .*: ask the broker instead"):
        directory.removed_dead_letters(topic.id, 0)


def test_a_partition_without_a_delivery_journal(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    assert len(DataDirectory(tmp_path).removed_dead_letters(7, 0)) == 0
