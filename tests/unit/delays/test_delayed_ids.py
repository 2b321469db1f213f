"""Ids of delayed messages: recognised while they wait and after, in the schedule log and in the topic alike."""

import asyncio

import pytest

from quiver.delays.partition import log_rewrite
from quiver.model.errors import MessageIdUndecided
from quiver.model.message import NewMessage
from quiver.model.topic import TopicConfig
from quiver.partition.partition import Appended
from quiver.records.build import build_frame
from quiver.records.header import unpack_header
from quiver.storage.memory.storage import MemoryStorage
from unit.delays.delay_bench import Bench

MINUTE = 60_000


async def schedule(bench: Bench, id: bytes, delay_ms: int, value: bytes = b"late") -> Appended:
    message = NewMessage(value=value, id=id, deliver_at_ms=bench.clock.now + delay_ms)
    return await bench.delays.intake.message(message)


async def schedule_frame(bench: Bench, ids: list[bytes | None], delay_ms: int, value: bytes = b"late") -> Appended:
    times = [bench.clock.now + delay_ms] * len(ids)
    frame = build_frame([value] * len(ids), timestamp_ms=1, ids=ids, deliver_at_ms=times)
    return await bench.delays.intake.frame(frame, unpack_header(frame))


async def publish(bench: Bench, id: bytes) -> Appended:
    return await bench.target.append_message(NewMessage(value=b"now", id=id))


def told(appended: Appended) -> tuple[int, bool, bool]:
    return appended.base_offset, appended.duplicate, appended.delayed


async def test_a_repeat_is_recognised_while_the_first_waits_and_after_it_arrived() -> None:
    bench = await Bench.open(MemoryStorage())
    assert told(await schedule(bench, b"a", 5 * MINUTE)) == (0, False, True)
    assert told(await schedule(bench, b"a", 9 * MINUTE)) == (0, True, True)
    assert told(await publish(bench, b"a")) == (0, True, True)
    await bench.pass_time(5 * MINUTE)
    assert await bench.values() == [b"late"]
    assert told(await schedule(bench, b"a", MINUTE)) == (0, True, True)
    assert told(await publish(bench, b"a")) == (0, True, False)
    await bench.pass_time(20 * MINUTE)
    assert await bench.values() == [b"late"]


async def test_what_is_in_the_topic_is_not_scheduled() -> None:
    bench = await Bench.open(MemoryStorage())
    await publish(bench, b"other")
    assert told(await publish(bench, b"a")) == (1, False, False)
    assert told(await schedule(bench, b"a", MINUTE)) == (1, True, False)
    frame = await schedule_frame(bench, [b"a"], MINUTE)
    assert told(frame) == (1, True, False)
    await bench.pass_time(2 * MINUTE)
    assert await bench.values() == [b"now", b"now"]


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_frame_loses_its_repeats_and_the_others_come(is_restarted: bool) -> None:
    bench = await Bench.open(MemoryStorage())
    await publish(bench, b"x")
    first = await schedule_frame(bench, [b"a", None, b"x", b"a", b"b"], MINUTE)
    assert (first.base_offset, first.delayed) == (0, True)
    assert first.duplicates == ((2, 0, False), (3, 0, True))
    assert len(bench.delays.state.pending) == 3
    assert await bench.delays.look_up(3) is None
    if is_restarted:
        bench = await bench.reopen()
        assert len(bench.delays.state.pending) == 3
    assert told(await schedule(bench, b"b", MINUTE)) == (2, True, True)
    assert await bench.delays.cancel([2]) == {2}
    await bench.pass_time(2 * MINUTE)
    assert await bench.values() == [b"now", b"late", b"late"]
    ids = [id for frame in await bench.frames() for id in frame.ids()]
    assert ids == [b"x", b"a", None]


async def test_a_message_that_waits_longer_than_the_window_is_stored_and_known_again() -> None:
    bench = await Bench.open(MemoryStorage(), config=TopicConfig(dedup_window_ms=MINUTE))
    await schedule(bench, b"a", 5 * MINUTE)
    await bench.pass_time(3 * MINUTE)
    bench = await bench.reopen()
    await bench.pass_time(2 * MINUTE)
    assert await bench.values() == [b"late"]
    assert told(await publish(bench, b"a")) == (0, True, False)
    await bench.pass_time(MINUTE + 100)
    assert told(await publish(bench, b"a")) == (1, False, False)


async def test_a_copy_of_a_message_that_waits_is_neither_dropped_nor_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_rewrite, "_SMALL_LOG_BYTES", -1)
    monkeypatch.setattr(log_rewrite, "_WASTE", 0)
    bench = await Bench.open(MemoryStorage())
    await schedule(bench, b"a", 5 * MINUTE)
    end = bench.delays.schedule.log.end_offset
    await bench.delays.maintain()
    assert bench.delays.schedule.log.end_offset == end + 1
    for _ in range(2):
        assert told(await publish(bench, b"a")) == (0, True, True)
        bench = await bench.reopen()
    await bench.pass_time(6 * MINUTE)
    assert await bench.values() == [b"late"]


async def test_both_at_once_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a writer of its own, and a write that fails must not have been answered for by the other."""
    bench = await Bench.open(MemoryStorage())
    schedule_log = bench.delays.schedule.log
    begun, gate, append = asyncio.Event(), asyncio.Event(), schedule_log.append

    async def slow(*args: object, **options: object) -> None:
        begun.set()
        await gate.wait()
        monkeypatch.undo()
        await append(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(schedule_log, "append", slow)
    monkeypatch.setattr(schedule_log, "append_at_once", lambda *_, **__: False)
    waiting = asyncio.ensure_future(schedule(bench, b"a", MINUTE))
    await begun.wait()
    with pytest.raises(MessageIdUndecided, match="being written"):
        await publish(bench, b"a")
    gate.set()
    assert told(await waiting) == (0, False, True)
    assert told(await publish(bench, b"a")) == (0, True, True)
