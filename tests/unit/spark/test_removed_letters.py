"""Which dead letters were sent back or purged: as the broker tells it, and as its files have it."""

from pathlib import Path

import pytest

import quiver
from quiver.broker.broker import Broker
from quiver.dead_letters.search import Search
from quiver.model.dead_letter import DeadLetterFilter, DeadLetterId
from quiver.model.errors import CorruptData
from quiver.model.message import NewMessage
from quiver.storage.local.settings import LocalSettings
from quiver.storage.local.storage import LocalStorage
from quiver.structures.interval_set import IntervalSet
from quiver_spark.direct.frames import LOGS
from quiver_spark.jobs.dead_letters.source import LetterRanges, find_removed, removed_in_files
from quiver_spark.jobs.replay.plan import Range
from quiver_spark.source.options import ReadOptions

LETTERS = 40


def purge(client: quiver.Client, offsets: dict[int, list[int]]) -> None:
    ids = [DeadLetterId(partition, offset) for partition, chosen in offsets.items() for offset in chosen]
    assert client.dead_letters.purge("work", ids=ids).letter_count == len(ids)


def test_page_by_page_and_from_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quiver.dead_letters.service._REMOVED_RUNS", 2)
    with quiver.open(tmp_path) as client:
        client.topics.create("work", partitions=1)
        assert client.dead_letters.removed("work") == {}, "no dead letters yet"
        client.topics.create("work.dlq", partitions=3)
        with client.producer("work.dlq") as producer:
            for partition in (0, 2):
                producer.send_many([b"v"] * LETTERS, partition=partition)
        assert client.dead_letters.removed("work") == {}
        topic_id = client.topics.describe("work.dlq").id
        found = LetterRanges([Range("work.dlq", n, 0, LETTERS) for n in range(3)], {"work.dlq": topic_id}, 0.0)

        def check(expected: dict[int, IntervalSet]) -> None:
            assert client.dead_letters.removed("work.dlq") == expected
            files = find_removed(ReadOptions(path=str(tmp_path)), found)
            assert {place[1]: gone for place, gone in files.items() if gone} == expected

        purge(client, {0: [3, 5, 6, 7, 9, 20, 30], 2: [1, 2]})
        removed = {0: IntervalSet([(3, 4), (5, 8), (9, 10), (20, 21), (30, 31)]), 2: IntervalSet([(1, 3)])}
        check(removed)
    with quiver.open(tmp_path) as client:
        check(removed)


async def test_a_snapshot_and_what_came_behind_it(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path, LocalSettings(min_free_bytes=0))
    await storage.open()
    broker = Broker(storage)
    await broker.start()
    topic = await broker.create_topic("work.dlq", {"partitions": 1})
    await broker.publish("work.dlq", [NewMessage(value=b"v")] * LETTERS)
    log_name = f"topics/{topic.id}/0-delivery"
    expected = IntervalSet()
    for first in (3, 10, 20):
        ids = [(0, first), (0, first + 1)]
        await broker.dead_letters.purge("work.dlq", Search(DeadLetterFilter(ids=ids)))
        expected.add(first, first + 2)
        assert removed_in_files(str(tmp_path), log_name) == expected
        await broker.queues.partition_queues(topic.id)[0].journal.snapshot()
        assert removed_in_files(str(tmp_path), log_name) == expected
    await broker.stop()
    await storage.close()
    directory = tmp_path / LOGS / log_name
    snapshots = sorted(directory.glob("*.snapshot"))
    assert snapshots
    for path in snapshots:
        path.write_bytes(path.read_bytes()[:-1])
    (segment,) = directory.glob("*.log")
    segment.rename(directory / f"{9:020d}.log")
    with pytest.raises(CorruptData, match=r"0-delivery cannot be read .*: ask the broker instead"):
        removed_in_files(str(tmp_path), log_name)


def test_a_partition_that_never_had_a_letter_removed(tmp_path: Path) -> None:
    assert len(removed_in_files(str(tmp_path), "topics/7/0-delivery")) == 0
