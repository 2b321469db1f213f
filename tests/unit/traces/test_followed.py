"""Messages that are followed in runs have the same history as if each were followed by itself."""

import random

import numpy as np
import pytest

from quiver.life.deliveries import Deliveries
from quiver.life.journal_index import JournalRecord
from quiver.model.names import TopicPartition
from quiver.model.trace.life import LifeEvent
from quiver.queues.journal import events
from quiver.queues.state.port import LEASE_EXPIRED, Dead
from quiver.traces.followed import Followed, FollowedPartition
from quiver.traces.span_rows import TracedMessages


def followed(offsets: list[int]) -> FollowedPartition:
    traces = np.zeros((len(offsets), 32), np.uint8)
    return FollowedPartition(TracedMessages("t", 0, np.array(offsets, np.int64), traces, None), 0, str)


def random_event(chance: random.Random, end: int) -> events.Event:
    start = chance.randrange(end)
    run = (start, min(end, start + chance.choice([1, 5, 40])))
    second = (run[1] + 3, run[1] + 3 + chance.randrange(1, 20))
    group, lease = chance.randrange(2), chance.randrange(3)
    match chance.randrange(8):
        case 0 | 1:
            leased = [events.LeasedRun(*each, 0, 1, 0) for each in (run, second)]
            return events.Leased(group, lease, f"c{lease}", 10_000, leased, [])
        case 2 | 3:
            return events.Acked(group, lease, [run, second])
        case 4:
            error = chance.choice(["bad", LEASE_EXPIRED])
            return events.Returned(group, lease, [events.ReturnedRun(*run, 1, 0)], error)
        case 5:
            return events.Extended(group, lease, [run], 20_000)
        case 6:
            return events.SettledBelow(group, start, chance.choice([None, 1]))
        case _:
            return chance.choice(
                [
                    events.Rewound(group, start, 1),
                    events.Forgotten(group),
                    events.Died(group, [_dead(*run)], []),
                ]
            )


def _dead(start: int, end: int) -> Dead:
    return Dead(start, end, 0, 1, 0, "rejected", "no")


@pytest.mark.parametrize("seed", range(40))
def test_the_same_as_one_by_one(seed: int) -> None:
    chance = random.Random(seed)
    offsets = sorted(chance.sample(range(200), 60))
    partition, found = followed(offsets), dict[int, list[LifeEvent]]()
    alone = {offset: Deliveries(offset, str) for offset in offsets}
    expected = {offset: list[LifeEvent]() for offset in offsets}
    for at_ms in range(60):
        record = JournalRecord(at_ms, [events.WrittenAt(at_ms + 5), random_event(chance, 200)])
        for happened in partition.apply(record):
            for offset in offsets:
                if happened.start <= offset < happened.end:
                    assert happened.number == len(found.setdefault(offset, []))
                    found[offset].append(happened.event)
        for offset, deliveries in alone.items():
            deliveries.apply([record])
            expected[offset] += deliveries.events[len(expected[offset]) :]
    assert {offset: found.get(offset, []) for offset in offsets} == expected


def test_what_is_followed_is_bounded() -> None:
    kept = Followed(100, 5)
    first, second = TopicPartition(1, 0), TopicPartition(1, 1)
    kept.add(first, followed(list(range(80))))
    kept.add(second, followed(list(range(40))))
    kept.limit()
    assert len(kept) == 100
    assert kept.partitions[first].messages.offsets.tolist() == list(range(20, 80))
    for offset in range(20, 60, 2):
        leased = events.Leased(1, 1, "c", 0, [events.LeasedRun(offset, offset + 1, 0, 1, 0)], [])
        list(kept.partitions[first].apply(JournalRecord(0, [leased])))
    kept.limit()
    assert kept.partitions[first].run_count <= 5
    assert kept.partitions[first].messages.offsets[-1] == 79
    kept.add(first, followed([5, 6]))  # the log was cut off
    assert kept.partitions[first].messages.offsets.tolist() == [5, 6]
    kept.forget(second)
    assert len(kept) == 2
