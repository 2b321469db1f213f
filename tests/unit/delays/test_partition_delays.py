"""Delayed messages of a partition on real logs, under a clock that the test moves."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quiver.delays.partition import log_rewrite
from quiver.model.errors import DiskFull, FrameTooLarge, InvalidRequest
from quiver.model.priority import Priority
from quiver.model.topic import TopicConfig
from quiver.storage.local.settings import LocalSettings
from quiver.storage.local.storage import LocalStorage
from quiver.storage.memory.storage import MemoryStorage
from quiver.storage.port import Storage
from unit.delays.delay_bench import START_MS, Bench, HandClock


@pytest.fixture(params=["memory", "local"])
async def storage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Storage]:
    if request.param == "memory":
        yield MemoryStorage()
        return
    local = LocalStorage(tmp_path, LocalSettings(min_free_bytes=0))
    await local.open()
    yield local
    await local.close()


@pytest.fixture
async def bench(storage: Storage) -> AsyncIterator[Bench]:
    bench = await Bench.open(storage)
    yield bench
    await bench.close()


async def test_nothing_comes_before_its_time(bench: Bench) -> None:
    await bench.schedule(b"later", 1000)
    await bench.schedule(b"sooner", 500)
    await bench.pass_time(499)
    assert await bench.values() == []
    assert bench.delays.next_time_ms() <= START_MS + 500
    await bench.pass_time(1)
    assert await bench.values() == [b"sooner"]
    await bench.pass_time(1000)
    assert await bench.values() == [b"sooner", b"later"]
    assert bench.delays.next_time_ms() is None
    assert bench.delays.state.totals.numbers() == [2, 2, 0, 0, 0]


async def test_a_message_keeps_what_it_came_with(bench: Bench) -> None:
    fields = {"key": b"k", "headers": {"h": b"x"}, "timestamp_ms": 77, "id": b"once", "priority": Priority.HIGH}
    await bench.schedule(b"v", 1000, expires_at_ms=START_MS + 3000, **fields)
    await bench.schedule(None, 1000, priority=Priority.HIGH)
    await bench.pass_time(1000)
    [frame] = await bench.frames()
    assert (frame.values(), frame.keys(), frame.ids()) == ([b"v", None], [b"k", None], [b"once", None])
    assert (frame.headers(), frame.header.priority) == ([{"h": b"x"}, {}], Priority.HIGH)
    assert frame.timestamps() == [77, START_MS]
    assert frame.expires_at_ms() == [START_MS + 3000, None]
    assert frame.deliver_at_ms() == [None, None]
    assert frame.header.append_time_ms == START_MS + 1000


async def test_a_time_to_live_counts_from_the_arrival(bench: Bench) -> None:
    await bench.schedule(b"late", 1000, expires_at_ms=START_MS + 3000)
    await bench.pass_time(60_000)
    [frame] = await bench.frames()
    assert frame.expires_at_ms() == [START_MS + 62_000]
    assert bench.delays.moves.lateness.max_ms == 59_000


async def test_what_expires_before_its_time_never_comes(bench: Bench) -> None:
    expiring = await bench.schedule(b"gone", 1000, expires_at_ms=START_MS + 900)
    await bench.pass_time(1000)
    assert await bench.values() == []
    again = await bench.reopen()
    delayed, state = await again.delays.look_up(expiring)
    assert (delayed.deliver_at_ms, state) == (START_MS + 1000, "expired")
    bench.delays, bench.target = again.delays, again.target


async def test_priorities_and_schemas_do_not_share_frames(bench: Bench) -> None:
    await bench.schedule_frame([b"a", b"b"], [10, 30], schema_id=7)
    await bench.schedule_frame([b"c", b"d"], [20, 40], priority=1)
    await bench.schedule_frame([b"e"], [25], schema_id=7)
    await bench.pass_time(100)
    frames = [(frame.header.priority, frame.header.schema_id, frame.values()) for frame in await bench.frames()]
    assert frames == [(2, 7, [b"a", b"e", b"b"]), (1, 0, [b"c", b"d"])]


async def test_rows_without_a_time_and_past_ones_come_at_once(bench: Bench) -> None:
    await bench.schedule_frame([b"none", b"past", b"later"], [None, -5, 10])
    await bench.pass_time()
    assert sorted(await bench.values()) == [b"none", b"past"]
    assert bench.delays.moves.lateness.max_ms == 0


async def test_a_cancelled_message_never_comes(bench: Bench) -> None:
    ids = [await bench.schedule(b"%d" % number, 1000) for number in range(5)]
    assert await bench.delays.cancel([ids[1], ids[3], 99]) == {ids[1], ids[3]}
    assert await bench.delays.cancel([ids[1]]) == set()
    again = await bench.reopen()
    assert (await again.delays.look_up(ids[1]))[1] == "cancelled"
    await again.pass_time(1000)
    assert await again.values() == [b"0", b"2", b"4"]
    assert await again.delays.cancel(ids) == set()
    assert (await again.delays.look_up(ids[0]))[1] == "delivered"
    assert await again.delays.look_up(99) is None
    bench.delays, bench.target = again.delays, again.target


async def test_a_message_that_was_sent_twice_is_scheduled_once(bench: Bench) -> None:
    identity = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    first = await bench.schedule_frame([b"a"], [10], **identity)
    assert await bench.schedule_frame([b"a"], [10], **identity) == first
    await bench.pass_time(10)
    assert await bench.values() == [b"a"]
    assert await bench.schedule_frame([b"a"], [10], **identity) == first
    await bench.pass_time(1000)
    assert await bench.values() == [b"a"]


async def test_everything_survives_a_restart(bench: Bench) -> None:
    for turn in range(3):
        await bench.schedule(b"%d" % turn, 1000 + turn)
        again = await bench.reopen()
        bench.delays, bench.target = again.delays, again.target
    await bench.pass_time(999)
    assert await bench.values() == []
    await bench.pass_time(1)
    again = await bench.reopen()
    bench.delays, bench.target = again.delays, again.target
    await bench.pass_time(10)
    assert await bench.values() == [b"0", b"1", b"2"]
    assert bench.delays.state.totals.numbers() == [3, 3, 0, 0, 0]


async def test_a_clock_that_goes_back_and_forth_delivers_once(bench: Bench) -> None:
    await bench.schedule(b"a", 1000)
    await bench.pass_time(-3_600_000)
    await bench.schedule(b"b", 1000)
    await bench.pass_time(1000)
    assert await bench.values() == [b"b"]
    await bench.pass_time(7_200_000)
    await bench.pass_time(-7_200_000)
    assert await bench.values() == [b"b", b"a"]


async def test_what_cannot_be_meant_is_refused(bench: Bench) -> None:
    with pytest.raises(InvalidRequest, match="10 years"):
        await bench.schedule(b"a", 11 * 366 * 86_400_000)
    with pytest.raises(InvalidRequest, match="10 years"):
        await bench.schedule_frame([b"a", b"b"], [1, 11 * 366 * 86_400_000])
    with pytest.raises(FrameTooLarge):
        await bench.schedule_frame([b"x" * 100_000] * 4, [1] * 4)
    assert await bench.schedule_frame([b"x" * 1_000_000], [1]) == 0


async def test_messages_larger_than_memory_would_like_come_in_turns(bench: Bench) -> None:
    for _ in range(12):
        await bench.schedule_frame([b"x" * 1_000_000], [100])
    await bench.schedule(b"small", 50)
    await bench.pass_time(100)
    assert sorted(map(len, await bench.values())) == [5, *[1_000_000] * 12]


async def test_purged_messages_never_come(bench: Bench) -> None:
    id = await bench.schedule(b"a", 1000)
    await bench.delays.purge()
    assert len(bench.delays.state.pending) == 0
    await bench.schedule(b"b", 1000)
    again = await bench.reopen()
    assert [id for _, id, _ in again.delays.state.pending.page(0, 9)] == [id + 1]
    await again.pass_time(1000)
    assert await again.values() == [b"b"]
    bench.delays, bench.target = again.delays, again.target


async def test_whoever_stops_waiting_has_sent_the_message_all_the_same(bench: Bench) -> None:
    waiting = asyncio.ensure_future(bench.schedule(b"a", 10))
    await asyncio.sleep(0)
    waiting.cancel()
    await bench.delays.intake.finish()
    await bench.pass_time(10)
    assert await bench.values() == [b"a"]


async def test_many_messages_at_random_places_are_read_ahead(bench: Bench) -> None:
    count = 3000
    for start in range(0, count, 500):
        numbers = range(start, start + 500)
        await bench.schedule_frame([b"%d" % n for n in numbers], [10_000 + n * 7919 % count for n in numbers])
    await bench.pass_time(9000)
    while (task := bench.delays._ahead._task) is not None:
        await task
    for _ in range(10):
        await bench.pass_time(500)
    assert await bench.values() == [b"%d" % n for n in sorted(range(count), key=lambda n: n * 7919 % count)]


async def test_the_front_of_the_schedule_is_dropped(storage: Storage) -> None:
    bench = await Bench.open(storage, config=TopicConfig(segment_bytes=64 * 1024))
    log = bench.delays.schedule.log
    for _ in range(20):
        await bench.schedule_frame([b"x" * 1000] * 20, [10] * 20)
        await bench.pass_time(10)
    await bench.delays.maintain()
    assert log.start_offset > 200
    assert log.size_bytes < 3 * 64 * 1024
    await bench.close()


async def test_a_far_message_does_not_keep_the_log(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_rewrite, "_SMALL_LOG_BYTES", 100_000)
    config, clock = TopicConfig(segment_bytes=64 * 1024), HandClock()
    bench = await Bench.open(storage, clock, config)
    fields = {"key": b"k", "headers": {"h": b"x"}, "timestamp_ms": 5, "expires_at_ms": START_MS + 90_000_000}
    far = [await bench.schedule(b"far", 80_000_000, priority=Priority(level), **fields) for level in (1, 3)]
    for _ in range(20):
        await bench.schedule_frame([b"x" * 1000] * 20, [10] * 20)
        await bench.pass_time(10)
        await bench.delays.maintain()
    log = bench.delays.schedule.log
    assert log.start_offset > 200
    assert [id for _, id, _ in bench.delays.state.pending.page(0, 9)] == far
    bench = await bench.reopen()
    [cancelled] = await bench.delays.cancel(far[1:])
    assert cancelled == far[1]
    for _ in range(20):
        await bench.schedule_frame([b"x" * 1000] * 20, [10] * 20)
        await bench.pass_time(10)
        await bench.delays.maintain()
    bench = await bench.reopen()
    assert bench.delays.schedule.log.start_offset > 600
    await bench.pass_time(80_000_000)
    last = (await bench.frames())[-1]
    assert (last.values(), last.keys(), last.headers()) == ([b"far"], [b"k"], [{"h": b"x"}])
    assert (last.header.priority, last.timestamps()) == (1, [5])
    assert last.expires_at_ms()[0] - last.header.append_time_ms == 10_000_000
    await bench.close()


async def test_a_topic_in_memory_forgets_its_delays_with_the_rest(tmp_path: Path) -> None:
    local = LocalStorage(tmp_path, LocalSettings(min_free_bytes=0))
    await local.open()
    bench = await Bench.open(local, config=TopicConfig(durability="memory"))
    await bench.schedule(b"a", 1000)
    bench = await bench.reopen()
    assert len(bench.delays.state.pending) == 0
    await bench.schedule(b"b", 1000)
    await bench.pass_time(1000)
    assert await bench.values() == [b"b"]
    await bench.close()
    await local.close()


async def test_a_full_disk_puts_messages_off(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [await bench.schedule(b"%d" % number, 1000) for number in range(3)]
    journal = bench.delays._journaled.journal

    async def full(record: bytes, *, sync: bool) -> None:
        raise DiskFull(problem="it is full")

    with monkeypatch.context() as patch:
        patch.setattr(journal, "write", full)
        with pytest.raises(DiskFull):
            await bench.delays.cancel(ids[:1])
        await bench.pass_time(1000)
        assert bench.delays.next_time_ms() > bench.clock.now
        assert len(bench.delays.state.pending) == 3
    assert await bench.values() == []
    await bench.pass_time(10_000)
    assert await bench.values() == [b"0", b"1", b"2"]
    assert bench.delays.state.totals.numbers() == [3, 3, 0, 0, 0]
