"""Compaction as every engine must do it; reads and appends beside it."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from contract.conftest import EngineUnderTest
from quiver.model.errors import OffsetOutOfRange
from quiver.records.header import HEADER_BYTES, read_stamped_header
from quiver.storage.port import Log, Storage
from unit.log.keyed import (
    DAY_MS,
    Row,
    Stored,
    everything,
    keyed_frame,
    last_of_each_key,
    messages,
    stored_frames,
    stored_messages,
)

Reopen = Callable[[Storage], Awaitable[Storage]]


async def fill(log: Log, chance: random.Random, *, frames: int, keys: int, priority: int = 2) -> None:
    for _ in range(frames):
        rows: list[Row] = [(b"key %d" % chance.randrange(keys), chance.randbytes(40)) for _ in range(20)]
        await log.append([keyed_frame(log.end_offset, rows, priority=priority)])


async def test_of_each_key_the_last_message_stays(under_test: EngineUnderTest, storage: Storage) -> None:
    log = await storage.open_log("topics/1/0", under_test.options)
    await fill(log, random.Random(1), frames=100, keys=50)
    await log.roll()
    before, size, end = await stored_messages(log), log.size_bytes, log.end_offset
    dry = await log.compact(everything(log, dry_run=True))
    assert await stored_messages(log) == before, "a dry run changes nothing"
    done = await log.compact(everything(log))
    assert (done.records_before, done.records_after) == (2_000, 50) == (dry.records_before, dry.records_after)
    assert done.dirty_ratio == dry.dirty_ratio == 1.0
    assert await stored_messages(log) == last_of_each_key(before)
    assert (log.start_offset, log.end_offset) == (0, end)
    assert log.size_bytes < size / 10


async def test_the_active_segment_and_what_is_above_the_bound_stay(
    under_test: EngineUnderTest, storage: Storage
) -> None:
    log = await storage.open_log("topics/1/0", under_test.options)
    await fill(log, random.Random(1), frames=30, keys=5)
    await log.roll()
    bound = log.end_offset
    await fill(log, random.Random(2), frames=30, keys=5)
    await log.roll()
    await fill(log, random.Random(3), frames=3, keys=5)
    before = await stored_messages(log)
    await log.compact(everything(log, end_offset=bound + 1))
    expected = last_of_each_key([m for m in before if m.offset < bound]) + [m for m in before if m.offset >= bound]
    assert await stored_messages(log) == expected
    done = await log.compact(everything(log))
    assert 0.5 < done.dirty_ratio < 1.0
    active = [m for m in before if m.offset >= 1200]
    assert await stored_messages(log) == last_of_each_key([m for m in before if m.offset < 1200]) + active


async def test_a_second_pass_goes_on_where_the_first_ended(
    under_test: EngineUnderTest, storage: Storage, reopen: Reopen
) -> None:
    log = await storage.open_log("topics/1/0", under_test.options)
    for turn in range(3):
        await fill(log, random.Random(turn), frames=20, keys=30 + 10 * turn)
        await log.roll()
        before = await stored_messages(log)
        assert log.dirt(everything(log)).dirty_bytes > 0
        await log.compact(everything(log))
        assert await stored_messages(log) == last_of_each_key(before)
        assert log.dirt(everything(log)).dirty_bytes == 0
        if under_test.keeps_frames_over_reopen:
            storage = await reopen(storage)
            log = await storage.open_log("topics/1/0", under_test.options)
            assert await stored_messages(log) == last_of_each_key(before)
            assert log.dirt(everything(log)).dirty_bytes == 0, "how far it came is remembered"


async def test_tombstones_go_when_their_time_is_over(under_test: EngineUnderTest, storage: Storage) -> None:
    log = await storage.open_log("topics/1/0", under_test.options)
    await log.append([keyed_frame(0, [(b"a", b"1"), (b"b", b"2"), (b"a", None), (b"c", None)])])
    await log.roll()
    await log.compact(everything(log, now_ms=10_000))
    assert [(m.key, m.value) for m in await stored_messages(log)] == [(b"b", b"2"), (b"a", None), (b"c", None)]
    just_before = everything(log, now_ms=10_000 + DAY_MS - 1)
    assert not log.dirt(just_before).has_old_tombstones
    await log.compact(just_before)
    assert len(await stored_messages(log)) == 3
    later = everything(log, now_ms=10_000 + 2 * DAY_MS)
    assert log.dirt(later).has_old_tombstones
    await log.compact(later)
    assert [m.key for m in await stored_messages(log)] == [b"b"]
    assert not log.dirt(everything(log, now_ms=later.now_ms + 2 * DAY_MS)).has_old_tombstones


async def test_a_log_of_which_nothing_is_left_still_begins_where_it_did(
    under_test: EngineUnderTest, storage: Storage, reopen: Reopen
) -> None:
    log = await storage.open_log("topics/1/0", under_test.options)
    await log.append([keyed_frame(0, [(b"a", b"1"), (b"a", None)])])
    await log.roll()
    await log.compact(everything(log, tombstone_retention_ms=0))
    assert await stored_messages(log) == []
    assert (log.start_offset, log.end_offset) == (0, 2)
    await log.append([keyed_frame(2, [(b"b", b"2")])])
    if under_test.keeps_frames_over_reopen:
        storage = await reopen(storage)
        log = await storage.open_log("topics/1/0", under_test.options)
        assert (log.start_offset, log.end_offset) == (0, 3)
    assert [m.offset for m in await stored_messages(log)] == [2]
    await log.drop_front(await log.retention_offset(now_ms=10 * DAY_MS, retention_ms=DAY_MS, retention_bytes=None))
    assert log.start_offset == log.end_offset == 3


async def test_retention_goes_on_over_compacted_segments(under_test: EngineUnderTest, storage: Storage) -> None:
    log = await storage.open_log("topics/1/0", under_test.options)
    for day in range(4):
        await log.append([keyed_frame(log.end_offset, [(b"%d" % day, b"")] * 3, time_ms=day * DAY_MS)])
        await log.roll()
    await log.compact(everything(log, max_span_ms=DAY_MS // 2))
    assert [m.key for m in await stored_messages(log)] == [b"0", b"1", b"2", b"3"]
    offset = await log.retention_offset(now_ms=4 * DAY_MS, retention_ms=int(1.5 * DAY_MS), retention_bytes=None)
    assert await log.drop_front(offset) == 9
    assert [m.key for m in await stored_messages(log)] == [b"3"]
    assert await log.drop_front(log.end_offset) == log.end_offset


async def test_priorities_are_found_and_counted_as_before(under_test: EngineUnderTest, storage: Storage) -> None:
    log = await storage.open_log("topics/1/0", under_test.options)
    chance = random.Random(4)
    for turn in range(60):
        await fill(log, chance, frames=1, keys=100, priority=0 if turn in (7, 41) else 3)
    await log.roll()
    await fill(log, chance, frames=1, keys=100, priority=1)
    await log.compact(everything(log))
    frames = [header for header, _ in await stored_frames(log)]
    for offset in range(0, log.end_offset, 17):
        left = [header for header in frames if header.last_offset >= offset]
        for priority in range(5):
            found = next((h.base_offset for h in left if h.priority == priority), None)
            assert await log.find_priority(offset, 1 << priority) == found
    counts = [sum(h.record_count for h in frames if h.priority == priority) for priority in range(5)]
    assert await log.count_by_priority(0) == counts


async def test_times_are_found_as_before(under_test: EngineUnderTest, storage: Storage) -> None:
    log = await storage.open_log("topics/1/0", under_test.options)
    for turn in range(40):
        rows: list[Row] = [(b"key %d" % (turn % 7), b""), (b"only %d" % (turn // 5), b"")]
        await log.append([keyed_frame(log.end_offset, rows, time_ms=1_000 + 100 * turn)])
        if turn % 10 == 9:
            await log.roll()
    await log.compact(everything(log))
    frames = [header for header, _ in await stored_frames(log)]
    assert len(frames) < 20
    for time_ms in range(900, 5_100, 50):
        left = [header.base_offset for header in frames if header.append_time_ms >= time_ms]
        assert await log.offset_for_time(time_ms) == (left[0] if left else log.end_offset)


async def test_messages_without_a_key_and_compressed_ones(under_test: EngineUnderTest, storage: Storage) -> None:
    log = await storage.open_log("topics/1/0", under_test.options)
    for compression in ("none", "lz4", "zstd"):
        rows: list[Row] = [(b"a", b"old"), (None, b"x"), (b"a", compression.encode())]
        await log.append([keyed_frame(log.end_offset, rows, compression=compression)])
    await log.roll()
    await log.compact(everything(log))
    assert [(m.offset, m.value) for m in await stored_messages(log)] == [
        (1, b"x"),
        (4, b"x"),
        (7, b"x"),
        (8, b"zstd"),
    ]


async def test_reads_beside_compaction_see_every_last_value(under_test: EngineUnderTest, storage: Storage) -> None:
    """Readers begin at random places while passes, appends and rolls go on.

    What they see rises, was appended just so, and of each key it holds at least what was last when they began.
    """
    log = await storage.open_log("topics/1/0", under_test.options)
    chance = random.Random(5)
    appended: dict[int, Stored] = {}
    done = asyncio.Event()
    reads = passes = 0

    async def write() -> None:
        turn = 0
        while (reads < 200 or passes < 15) and not any(task.done() for task in others):
            turn += 1
            rows: list[Row] = [(b"key %d" % chance.randrange(40), chance.randbytes(30)) for _ in range(25)]
            frame = keyed_frame(log.end_offset, rows)
            for message in messages(bytes(frame.header_bytes) + bytes(frame.body)):
                appended[message.offset] = message
            await log.append([frame])
            if turn % 10 == 9:
                await log.roll()
            await asyncio.sleep(0)

    async def compact() -> None:
        nonlocal passes
        while not done.is_set():
            await log.compact(everything(log))
            passes += 1
            await asyncio.sleep(0)

    async def read() -> None:
        nonlocal reads
        own = random.Random(6)
        while not done.is_set():
            end = log.readable_offset
            start = own.randrange(max(0, end - 3_000), end + 1)
            wanted = {m.offset for m in last_of_each_key([m for o, m in appended.items() if start <= o < end])}
            found = await read_from(log, start, end, own.choice([500, 20_000]))
            offsets = [message.offset for message in found]
            assert offsets == sorted(set(offsets))
            assert all(appended[message.offset] == message for message in found)
            later = {m.key for m in appended.values() if m.offset >= end}
            missing = [appended[offset] for offset in wanted - set(offsets)]
            assert all(message.key in later for message in missing), "only what was written again may be gone"
            reads += 1
            await asyncio.sleep(0)

    others = [asyncio.create_task(work()) for work in (compact, read, read)]
    await write()
    done.set()
    await asyncio.gather(*others)
    await log.roll()
    await log.compact(everything(log))
    assert await stored_messages(log) == last_of_each_key(list(appended.values()))


async def read_from(log: Log, offset: int, end: int, max_bytes: int) -> list[Stored]:
    found: list[Stored] = []
    begin = offset
    while offset < end and (part := await log.read(offset, max_bytes=max_bytes)) is not None:
        await asyncio.sleep(0)
        data = bytes(await part.read())
        part.release()
        position = 0
        while position < len(data):
            next_offset, size = _whole_frame(data, position)
            if not size:
                break
            found += [m for m in messages(data[position : position + size]) if m.offset >= begin]
            offset, position = next_offset, position + size
    return found


def _whole_frame(data: bytes, position: int) -> tuple[int, int]:
    """Where the log goes on behind a frame, and its size; 0 when it is cut off."""
    if position + HEADER_BYTES > len(data):
        return 0, 0
    header = read_stamped_header(data, position)
    return header.next_offset, header.frame_bytes if position + header.frame_bytes <= len(data) else 0


async def test_a_reader_that_holds_a_part_reads_it_to_the_end(under_test: EngineUnderTest, storage: Storage) -> None:
    log = await storage.open_log("topics/1/0", under_test.options)
    await fill(log, random.Random(7), frames=10, keys=3)
    await log.roll()
    part = await log.read(0, max_bytes=1 << 20)
    assert part is not None
    await log.compact(everything(log))
    assert len(await part.read()) == part.length
    part.release()
    assert len(await stored_messages(log)) == 3


async def test_what_retention_takes_during_a_pass_stays_away(under_test: EngineUnderTest, storage: Storage) -> None:
    log = await storage.open_log("topics/1/0", under_test.options)
    for _ in range(3):
        await fill(log, random.Random(8), frames=10, keys=3)
        await log.roll()
    compacting = asyncio.create_task(log.compact(everything(log)))
    await asyncio.sleep(0)
    await log.drop_front(log.end_offset)
    await asyncio.gather(compacting, return_exceptions=True)
    assert log.start_offset == log.end_offset == 600
    assert await stored_messages(log) == []
    with pytest.raises(OffsetOutOfRange):
        await log.read(0, max_bytes=1)
