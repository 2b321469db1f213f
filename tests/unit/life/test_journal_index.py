"""The index of a delivery journal finds what reading all of it finds."""

import random
from collections.abc import Iterator

import msgspec
import pytest

from quiver.life.deliveries import Deliveries
from quiver.life.journal_index import JournalIndex, JournalIndexes
from quiver.queues.journal import events as e
from quiver.queues.journal.recorder import decode_record
from quiver.records.build import build_frame
from quiver.records.header import stamp, unpack_header
from quiver.records.read import open_frame, split_frames
from quiver.storage.memory.storage import MemoryStorage
from quiver.storage.port import Log, LogOptions

GROUPS = (1, 2)
MESSAGES = 200


async def open_log() -> Log:
    return await MemoryStorage().open_log("topics/1/0-delivery", LogOptions(segment_bytes=256 * 1024))


async def write(log: Log, *recorded: list[e.Event], at_ms: int = 1_000) -> None:
    frame = build_frame([msgspec.msgpack.encode(events) for events in recorded], timestamp_ms=at_ms)
    stamped = stamp(
        frame, unpack_header(frame), base_offset=log.end_offset, leader_epoch=1, append_time_ms=max(at_ms, 1)
    )
    await log.append([stamped])


def some_events(rng: random.Random) -> Iterator[list[e.Event]]:
    """Like those of two groups, with few resets; long error texts, so that there are many chunks."""
    lease = 0
    while True:
        group, start = rng.choice(GROUPS), rng.randrange(MESSAGES)
        end, lease = start + rng.choice((1, 1, 5)), lease + 1
        kind = rng.randrange(40)
        if kind == 0:
            yield [e.Rewound(group, start)]
        elif kind < 3:
            yield [e.SettledBelow(group, start, lease)]
        elif kind < 12:
            yield [e.Acked(group, lease, [(start, end)])]
        elif kind < 20:
            yield [e.Returned(group, lease, [e.ReturnedRun(start, end, 1, 0)], "x" * 500)]
        else:
            yield [e.Leased(group, lease, "c" * 300, 5, [e.LeasedRun(start, end, 2, 1, 0)], [0])]


async def all_records(log: Log) -> list[tuple[int, list[e.Event]]]:
    found, position = [], log.start_offset
    while (part := await log.read(position, max_bytes=1 << 20)) is not None:
        data = await part.read()
        part.release()
        for place, header in split_frames(data):
            records = [decode_record(record or b"") for record in open_frame(data, place).values()]
            found += [(header.append_time_ms, record) for record in records]
            position = header.next_offset
    return found


@pytest.mark.parametrize("seed", range(5))
async def test_it_finds_what_reading_everything_finds(seed: int) -> None:
    rng = random.Random(seed)
    log, events = await open_log(), some_events(rng)
    index = JournalIndex(log)
    for round_ in range(4):
        for at in range(400):
            await write(log, *[next(events) for _ in range(rng.choice((1, 1, 3)))], at_ms=round_ * 1000 + at)
        if round_ == 2:
            await log.drop_front(log.end_offset // 2)
        everything = await all_records(log)
        for offset in rng.sample(range(MESSAGES), 20):
            found = await index.about(offset)
            one, other = Deliveries(offset, str), Deliveries(offset, str)
            one.apply(found.records)
            other.apply(everything)  # type: ignore[arg-type]
            assert one.events == other.events
            assert one.finish(10_000) == other.finish(10_000)
            assert (found.known_since_ms is None) == (log.start_offset == 0)


async def test_a_look_reads_only_what_may_concern_the_message() -> None:
    log = await open_log()
    for number in range(2_000):
        await write(log, [e.Acked(1, number, [(number, number + 1)])], at_ms=number)
    found = await JournalIndex(log).about(1_000)
    assert 0 < len(found.records) < 700
    assert any(event == e.Acked(1, 1_000, [(1_000, 1_001)]) for record in found.records for event in record.events)


async def test_an_empty_journal_and_one_that_lost_its_front() -> None:
    log = await open_log()
    assert (await JournalIndex(log).about(0)).records == []
    await write(log, [e.Acked(1, 1, [(0, 1)])], at_ms=7)
    await log.roll()
    await write(log, [e.Acked(1, 2, [(1, 2)])], at_ms=9)
    index = JournalIndex(log)
    assert (await index.about(0)).known_since_ms is None
    await log.drop_front(1)
    found = await index.about(0)
    assert (found.known_since_ms, found.records) == (9, [])


async def test_the_indexes_of_the_last_journals_are_kept() -> None:
    indexes = JournalIndexes(most=2)
    first, second, third = [await open_log() for _ in range(3)]
    kept = indexes.of(first)
    indexes.of(second)
    assert indexes.of(first) is kept
    indexes.of(third)
    assert indexes.of(first) is kept
    assert indexes.of(second).log is second
