"""Which dead letters were redriven or purged: as the broker says, and as its files say."""

from pathlib import Path

import pytest

import quiver
from quiver.model.dead_letter import DeadLetterId
from quiver.structures.interval_set import IntervalSet
from quiver_spark.jobs.dead_letters.source import DeadLetterRanges, find_removed
from quiver_spark.jobs.replay.plan import Range
from quiver_spark.source.options import ReadOptions

LETTERS = 40


def purge(client: quiver.Client, offsets: dict[int, list[int]]) -> None:
    ids = [DeadLetterId(partition, offset) for partition, chosen in offsets.items() for offset in chosen]
    assert client.dead_letters.purge("work", ids=ids).dead_letter_count == len(ids)


def test_page_by_page_and_from_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quiver.dead_letters.service.REMOVED_RUNS", 2)
    with quiver.open(tmp_path) as client:
        client.topics.create("work", partitions=1)
        assert client.dead_letters.removed("work") == {}, "no dead letters yet"
        client.topics.create("work.dlq", partitions=3)
        with client.producer("work.dlq") as producer:
            for partition in (0, 2):
                producer.send_many([b"v"] * LETTERS, partition=partition)
        assert client.dead_letters.removed("work") == {}
        topic_id = client.topics.describe("work.dlq").id
        found = DeadLetterRanges([Range("work.dlq", n, 0, LETTERS) for n in range(3)], {"work.dlq": topic_id}, 0.0)

        def check(expected: dict[int, IntervalSet]) -> None:
            assert client.dead_letters.removed("work.dlq") == expected
            files = find_removed(ReadOptions(path=str(tmp_path)), found)
            assert {place[1]: gone for place, gone in files.items() if gone} == expected

        purge(client, {0: [3, 5, 6, 7, 9, 20, 30], 2: [1, 2]})
        removed = {0: IntervalSet([(3, 4), (5, 8), (9, 10), (20, 21), (30, 31)]), 2: IntervalSet([(1, 3)])}
        check(removed)
    with quiver.open(tmp_path) as client:
        check(removed)
