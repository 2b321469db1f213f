"""Message ids in one partition: windows, limits, transactions, moves, snapshots; with a clock that the test sets."""

import asyncio
from typing import Any

import pytest

from quiver.model.errors import DiskFull, MessageIdUndecided, OutOfSequence
from quiver.model.limits import Limits
from quiver.model.message import NewMessage
from quiver.model.topic import TopicConfig
from quiver.outbox.append import append_again, append_moved
from quiver.partition import message_ids
from quiver.partition.id_keys import id_keys
from quiver.partition.message_ids import MessageIds
from quiver.partition.partition import Appended, Partition
from quiver.partition.settings import PartitionSettings, log_options
from quiver.records.build import build_frame
from quiver.records.header import COLUMN_ID, FrameHeader, unpack_header
from quiver.records.read import open_frame, split_frames
from quiver.storage.memory.storage import MemoryStorage

MINUTE = 60_000
MOVER = (1 << 62) + 5


class HandClock:
    def __init__(self) -> None:
        self.now = 1_700_000_000_000
        self.step = 0
        """By how much the wall clock was set."""

    def now_ms(self) -> int:
        return self.now + self.step

    def monotonic(self) -> float:
        return self.now / 1000


class DedupPartition:
    """A partition that can be opened again."""

    def __init__(self, **settings: Any) -> None:
        self.clock = HandClock()
        self.storage = MemoryStorage()
        self.config = TopicConfig(**settings)
        self.partition: Partition

    async def open(self, limits: Limits | None = None) -> "DedupPartition":
        log = await self.storage.open_log("topics/1/0", log_options(self.config))
        self.partition = Partition(
            "t-0", log, PartitionSettings(self.config, limits or Limits()), leader_epoch=1, clock=self.clock
        )
        await self.partition.recover()
        return self

    async def send(self, *ids: bytes | None, **options: Any) -> Appended:
        frame = build_frame([b"v"] * len(ids), timestamp_ms=1, ids=ids, **options)
        return await self.partition.append(frame, unpack_header(frame))

    async def publish(self, id: bytes) -> tuple[int, bool]:
        appended = await self.partition.append_message(NewMessage(value=b"v", id=id))
        return appended.base_offset, appended.duplicate

    async def stored(self) -> dict[int, bytes | None]:
        """Ids by offset."""
        part = await self.partition.log.read(0, max_bytes=1 << 20)
        data = b"" if part is None else await part.read()
        found: dict[int, bytes | None] = {}
        for position, header in split_frames(data):
            if not header.is_control:
                frame = open_frame(data, position)
                found.update(zip(frame.offsets(), frame.ids(), strict=True))
        return found


async def test_a_repeat_gets_the_first_offset_across_kinds() -> None:
    dedup = await DedupPartition().open()
    assert await dedup.publish(b"a") == (0, False)
    assert await dedup.publish(b"a") == (0, True)
    frame = await dedup.send(b"b", b"a", None, b"b", b"c")
    assert (frame.base_offset, frame.duplicate) == (1, False)
    assert frame.duplicates == ((1, 0, False), (3, 1, False))
    assert await dedup.stored() == {0: b"a", 1: b"b", 2: None, 3: b"c"}
    assert await dedup.publish(b"c") == (3, True)
    again = await dedup.send(b"c", b"b")
    assert (again.duplicate, again.base_offset) == (True, 3)
    assert again.duplicates == ((0, 3, False), (1, 1, False))


async def test_repeats_that_wait_together_are_told_apart() -> None:
    dedup = await DedupPartition().open()
    sent = [dedup.publish(id) for id in (b"x", b"y", b"x", b"z", b"y")]
    assert await asyncio.gather(*sent) == [(0, False), (1, False), (0, True), (2, False), (1, True)]
    assert await dedup.stored() == {0: b"x", 1: b"y", 2: b"z"}


@pytest.mark.parametrize("is_clean", [True, False])
async def test_the_window_counts_from_the_first_and_outlives_a_restart(is_clean: bool) -> None:
    dedup = await DedupPartition(dedup_window_ms=10 * MINUTE).open()
    await dedup.send(b"a", b"b")
    dedup.clock.now += 9 * MINUTE
    assert await dedup.publish(b"a") == (0, True)
    if is_clean:
        await dedup.partition.close()
    await dedup.open()
    assert await dedup.publish(b"b") == (1, True)
    dedup.clock.now += MINUTE - 1
    assert await dedup.publish(b"a") == (0, True)
    dedup.clock.now += 1
    assert await dedup.publish(b"a") == (2, False)
    assert await dedup.publish(b"a") == (2, True)


@pytest.mark.parametrize("ahead", [60 * MINUTE, -60 * MINUTE])
@pytest.mark.parametrize("is_reopened", [False, True])
async def test_the_window_is_as_long_as_it_says_whatever_the_clock_is_set_to(ahead: int, is_reopened: bool) -> None:
    dedup = await DedupPartition(dedup_window_ms=10 * MINUTE).open()
    await dedup.publish(b"before")
    dedup.clock.step = ahead
    assert await dedup.publish(b"before") == (0, True)
    await dedup.publish(b"a")
    dedup.clock.step = 0
    await dedup.publish(b"b")
    if is_reopened:
        await dedup.partition.close()
        await dedup.open()
    dedup.clock.now += 9 * MINUTE
    assert await dedup.publish(b"a") == (1, True)
    assert await dedup.publish(b"b") == (2, True)
    dedup.clock.now += 2 * MINUTE
    assert [(await dedup.publish(id))[1] for id in (b"a", b"b")] == [False, False]


async def test_a_clock_that_goes_back_makes_nothing_new() -> None:
    dedup = await DedupPartition().open()
    await dedup.send(b"a")
    dedup.clock.now -= 60 * MINUTE
    assert await dedup.publish(b"a") == (0, True)


async def test_the_setting_can_be_changed() -> None:
    dedup = await DedupPartition(dedup_window_ms=10 * MINUTE).open()
    await dedup.send(b"a")
    dedup.partition.reconfigure(TopicConfig(dedup_window_ms=MINUTE), Limits())
    assert await dedup.publish(b"a") == (0, True)
    dedup.clock.now += 2 * MINUTE
    assert await dedup.publish(b"a") == (1, False)
    dedup.partition.reconfigure(TopicConfig(dedup_window_ms=0), Limits())
    assert await dedup.publish(b"a") == (2, False)
    assert (await dedup.send(b"a", b"a")).duplicates == ()
    assert len(dedup.partition.tables.message_ids) == 0
    dedup.partition.reconfigure(TopicConfig(dedup_window_ms=10 * MINUTE), Limits())
    assert await dedup.publish(b"a") == (5, False)
    assert await dedup.publish(b"a") == (5, True)


async def test_empty_ids_are_none() -> None:
    dedup = await DedupPartition().open()
    assert (await dedup.send(b"", b"")).duplicates == ()
    assert len(dedup.partition.tables.message_ids) == 0


async def test_ids_are_forgotten_beyond_a_number_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_ids, "_SEALED_IDS", 10)
    monkeypatch.setattr(message_ids, "MESSAGE_IDS_REMEMBERED", 30)
    dedup = await DedupPartition().open()
    for number in range(100):
        await dedup.send(b"%d" % number)
        assert len(dedup.partition.tables.message_ids) <= 30 + 2 * 10
    first = (await dedup.send(b"0")).base_offset
    assert first == 100
    assert [(await dedup.send(b"%d" % number)).base_offset for number in range(75, 100)] == list(range(75, 100))


async def test_what_is_past_the_window_takes_no_memory() -> None:
    dedup = await DedupPartition(dedup_window_ms=MINUTE).open()
    await dedup.send(*(b"%d" % number for number in range(1000)))
    assert len(dedup.partition.tables.message_ids) == 1000
    dedup.clock.now += 2 * MINUTE
    await dedup.partition.retain(dedup.config)
    assert len(dedup.partition.tables.message_ids) == 0


async def test_what_retention_removes_is_remembered_by_a_killed_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    hour = 60 * MINUTE
    dedup = await DedupPartition(retention_ms=hour, dedup_window_ms=10 * hour).open()
    producer = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    await dedup.send(b"a", **producer)
    dedup.clock.now += 2 * hour
    drop_front = dedup.partition.log.drop_front

    async def killed_after(offset: int) -> int:
        await drop_front(offset)
        raise OSError("killed")

    monkeypatch.setattr(dedup.partition.log, "drop_front", killed_after)
    with pytest.raises(OSError, match="killed"):
        await dedup.partition.retain(dedup.config)
    monkeypatch.undo()
    await dedup.open()
    assert dedup.partition.log.start_offset == dedup.partition.log.end_offset == 1
    assert (await dedup.send(b"a", **producer)).duplicate
    assert await dedup.publish(b"a") == (0, True)


# failed writes


async def test_a_failed_write_leaves_no_id_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    dedup = await DedupPartition().open()
    await dedup.send(b"old")

    def fail(*_: object, **__: object) -> bool:
        raise DiskFull(problem="the test says so")

    with monkeypatch.context() as patch:
        patch.setattr(dedup.partition.log, "append_at_once", fail)
        sent = [dedup.send(b"a", b"b"), dedup.send(b"a"), dedup.publish(b"b"), dedup.publish(b"old")]
        outcomes = await asyncio.gather(*sent, return_exceptions=True)
    assert all(isinstance(outcome, DiskFull) for outcome in outcomes)
    assert await dedup.publish(b"b") == (1, False)
    assert (await dedup.send(b"a")).duplicate is False
    assert await dedup.publish(b"old") == (0, True)


async def test_offsets_used_after_a_failed_write_count_from_their_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    dedup = await DedupPartition(dedup_window_ms=10 * MINUTE).open()

    def fail(*_: object, **__: object) -> bool:
        raise DiskFull(problem="the test says so")

    with monkeypatch.context() as patch:
        patch.setattr(dedup.partition.log, "append_at_once", fail)
        sent = [dedup.send(None, None), dedup.send(b"a")]
        await asyncio.gather(*sent, return_exceptions=True)
    await dedup.send(b"b", b"c", b"d")
    assert await dedup.publish(b"b") == (0, True)


# producers


async def test_a_frame_that_comes_again_is_told_where_each_message_is() -> None:
    dedup = await DedupPartition().open()
    await dedup.send(b"a")
    producer = {"producer_id": 7, "producer_epoch": 0}
    first = await dedup.send(b"x", b"a", None, b"x", **producer, base_sequence=0)
    assert first.duplicates == ((1, 0, False), (3, 1, False))
    for _ in range(2):
        await dedup.open()
        again = await dedup.send(b"x", b"a", None, b"x", **producer, base_sequence=0)
        assert (again.base_offset, again.duplicate, again.duplicates) == (1, True, first.duplicates)
    assert (await dedup.send(b"y", **producer, base_sequence=4)).base_offset == 3


async def test_a_frame_of_repeats_alone_counts_as_sent() -> None:
    dedup = await DedupPartition().open()
    await dedup.send(b"a", b"b")
    producer = {"producer_id": 7, "producer_epoch": 0}
    known = await dedup.send(b"b", b"a", **producer, base_sequence=0)
    assert (known.duplicate, known.duplicates) == (True, ((0, 1, False), (1, 0, False)))
    assert (await dedup.send(None, **producer, base_sequence=2)).base_offset == 2
    again = await dedup.send(b"b", b"a", **producer, base_sequence=0)
    assert again.duplicates == known.duplicates
    await dedup.open()  # from the log alone, which has nothing of that frame
    again = await dedup.send(b"b", b"a", **producer, base_sequence=0)
    assert again.duplicates == known.duplicates
    assert (await dedup.send(None, **producer, base_sequence=3)).base_offset == 3


async def test_a_message_whose_place_is_forgotten_is_not_guessed() -> None:
    dedup = await DedupPartition(dedup_window_ms=MINUTE).open()
    await dedup.send(b"a")
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    await dedup.send(b"a", None, **producer)
    dedup.clock.now += 2 * MINUTE
    again = await dedup.send(b"a", None, **producer)
    assert (again.duplicate, again.duplicates) == (True, ((0, -1, False), (1, -1, False)))


async def test_a_producer_that_goes_on_after_a_crash_begins_a_new_epoch_at_worst() -> None:
    dedup = await DedupPartition().open()
    await dedup.send(b"a")
    producer = {"producer_id": 7, "producer_epoch": 0}
    await dedup.send(b"x", b"a", **producer, base_sequence=0)
    await dedup.open()  # from the log alone, which does not say how many messages were left out
    with pytest.raises(OutOfSequence):
        await dedup.send(None, **producer, base_sequence=2)
    assert (await dedup.send(None, producer_id=7, producer_epoch=1, base_sequence=0)).base_offset == 2
    await dedup.partition.close()
    await dedup.open()
    assert (await dedup.send(b"a", b"y", producer_id=7, producer_epoch=1, base_sequence=1)).base_offset == 3
    await dedup.partition.close()
    await dedup.open()  # a snapshot does
    assert (await dedup.send(None, producer_id=7, producer_epoch=1, base_sequence=3)).base_offset == 4


# transactions


async def test_an_open_transaction_leaves_it_undecided() -> None:
    dedup = await DedupPartition().open()
    mine = {"producer_id": 1, "producer_epoch": 0, "transactional": True}
    await dedup.send(b"a", **mine, base_sequence=0)
    own = await dedup.send(b"a", b"b", **mine, base_sequence=1)
    assert own.duplicates == ((0, 0, False),)
    for attempt in (dedup.send(b"c", b"b"), dedup.publish(b"a")):
        with pytest.raises(MessageIdUndecided, match="still open"):
            await attempt
    other = {"producer_id": 2, "producer_epoch": 0, "transactional": True}
    with pytest.raises(MessageIdUndecided):
        await dedup.send(b"a", **other, base_sequence=0)
    assert await dedup.publish(b"c") == (2, False)
    await dedup.partition.append_marker(1, 0, commit=True)
    assert await dedup.publish(b"a") == (0, True)
    assert (await dedup.send(b"b", **other, base_sequence=0)).duplicates == ((0, 1, False),)


@pytest.mark.parametrize("restart", ["no", "clean", "killed"])
async def test_ids_of_an_aborted_transaction_are_free(restart: str) -> None:
    dedup = await DedupPartition().open()
    mine = {"producer_id": 1, "producer_epoch": 0, "transactional": True}
    await dedup.send(b"a", b"b", **mine, base_sequence=0)
    if restart == "clean":
        await dedup.partition.close()
    if restart != "no":
        await dedup.open()
        with pytest.raises(MessageIdUndecided):
            await dedup.publish(b"a")
    await dedup.partition.append_marker(1, 0, commit=False)
    assert await dedup.publish(b"a") == (3, False)
    await dedup.open()
    assert await dedup.publish(b"a") == (3, True)
    assert await dedup.publish(b"b") == (4, False)


async def test_a_marker_that_was_not_written_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    dedup = await DedupPartition().open()
    await dedup.send(b"a", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    for commit in (True, False):
        with monkeypatch.context() as patch:
            patch.setattr(dedup.partition.log, "append_at_once", lambda *_, **__: [][0])
            with pytest.raises(Exception, match="unexpected"):
                await dedup.partition.append_marker(1, 0, commit=commit)
        with pytest.raises(MessageIdUndecided):
            await dedup.publish(b"a")
    await dedup.partition.append_marker(1, 0, commit=True)
    assert await dedup.publish(b"a") == (0, True)


# moves


async def test_moves_are_stored_whatever_their_ids_and_are_known_then() -> None:
    dedup = await DedupPartition().open()
    await dedup.send(b"a")
    messages = [NewMessage(value=b"v", id=id, timestamp_ms=1) for id in (b"a", b"b")]
    moved = await append_moved(dedup.partition, mover=MOVER, sequence=0, messages=messages)
    back = await append_again(dedup.partition, messages=messages)
    assert (moved.base_offset, back.base_offset) == (1, 3)
    for _ in range(2):
        assert await dedup.publish(b"a") == (0, True)
        assert await dedup.publish(b"b") == (2, True)
        await dedup.open()


@pytest.mark.parametrize("sealed_ids", [1, 1000])
async def test_a_move_counts_where_the_other_may_be_aborted(monkeypatch: pytest.MonkeyPatch, sealed_ids: int) -> None:
    monkeypatch.setattr(message_ids, "_SEALED_IDS", sealed_ids)
    dedup = await DedupPartition().open()
    await dedup.send(b"a", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    moved = [NewMessage(value=b"v", id=b"a", timestamp_ms=1)]
    await append_moved(dedup.partition, mover=MOVER, sequence=0, messages=moved)
    assert await dedup.publish(b"a") == (1, True)
    await dedup.partition.append_marker(1, 0, commit=False)
    assert await dedup.publish(b"a") == (1, True)
    await dedup.open()
    assert await dedup.publish(b"a") == (1, True)


# the table by itself


def header(base: int, count: int, time_ms: int) -> FrameHeader:
    frame = build_frame([b"v"] * count, timestamp_ms=1, ids=[b"x"] * count)
    return unpack_header(frame)._replace(base_offset=base, append_time_ms=time_ms)


def test_many_ids_take_little_room_and_come_back_whole() -> None:
    table = MessageIds(10 * MINUTE, settled_below=lambda: 0)
    step = 20_000
    for base in range(0, 300_000, step):
        entries = {base.to_bytes(8, "big") + n.to_bytes(8, "big"): base + n for n in range(step)}
        table.record(header(base, step, 5), entries, is_new=True)
        table.written()
    snapshot = table.snapshot()
    assert sum(map(len, snapshot.sealed)) == 24 * 300_000
    again = MessageIds(10 * MINUTE, settled_below=lambda: 0)
    again.restore(snapshot)
    for place in (0, 155_555, 299_999):
        key = (place // step * step).to_bytes(8, "big") + (place % step).to_bytes(8, "big")
        assert again.find({key: 0}.keys(), 6) == {key: place}
    assert len(again) == 300_000


def test_frames_without_ids_do_not_count() -> None:
    table = MessageIds(10 * MINUTE, settled_below=lambda: 0)
    with_ids = header(0, 1, 1)
    assert table.counts(with_ids)
    assert not table.counts(with_ids._replace(columns=with_ids.columns & ~COLUMN_ID))
    assert id_keys([b"a", None, b""])[1:] == [None, None]
