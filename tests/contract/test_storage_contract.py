"""What every storage engine does, whatever it is made of."""

import asyncio
import time

import pytest

from contract.conftest import EngineUnderTest
from quiver.model.errors import InvalidRequest, OffsetOutOfRange, QuiverError, StaleEpoch
from quiver.records.header import StampedFrame, read_stamped_header
from quiver.storage.port import Log, Storage
from unit.log.frames import frame_at, frame_bytes

MUCH = 1 << 30
DAY_MS = 86_400_000


@pytest.fixture
async def log(storage: Storage, under_test: EngineUnderTest) -> Log:
    return await storage.open_log("topics/1/0", under_test.options)


async def bytes_at(log: Log, offset: int, *, max_bytes: int = MUCH, end_offset: int | None = None) -> bytes | None:
    piece = await log.read(offset, max_bytes=max_bytes, end_offset=end_offset)
    if piece is None:
        return None
    try:
        data = bytes(await piece.read())
        assert len(data) == piece.length
        return data
    finally:
        piece.release()


async def frames_from(log: Log, offset: int) -> list[tuple[int, bytes]]:
    """Everything from an offset on, as (base offset, frame)."""
    frames = []
    while (data := await bytes_at(log, offset, max_bytes=10_000)) is not None:
        position = 0
        while position + 88 <= len(data):
            header = read_stamped_header(data, position)
            if position + header.frame_bytes > len(data):
                break
            frames.append((header.base_offset, data[position : position + header.frame_bytes]))
            position += header.frame_bytes
            offset = header.next_offset
    return frames


def run_of(
    count: int, *, start: int = 0, size: int = 1000, epoch: int = 1, time_ms: int = 1000
) -> list[StampedFrame]:
    """Frames of 10 messages each, one millisecond apart."""
    return [
        frame_at(start + 10 * n, count=10, body=bytes([n % 251]) * size, epoch=epoch, time_ms=time_ms + n)
        for n in range(count)
    ]


class TestAppendAndRead:
    async def test_new_log_is_empty(self, log: Log) -> None:
        assert (log.start_offset, log.end_offset, log.readable_offset, log.size_bytes) == (0, 0, 0, 0)
        assert log.last_append_time_ms == 0
        assert log.failure is None
        assert await log.read(0, max_bytes=MUCH) is None

    async def test_what_goes_in_comes_out(self, log: Log) -> None:
        frames = run_of(5)
        await log.append(frames[:2])
        await log.append(frames[2:])
        assert await frames_from(log, 0) == [(f.header.base_offset, frame_bytes(f)) for f in frames]
        assert log.end_offset == log.readable_offset == 50
        assert log.size_bytes == sum(f.header.frame_bytes for f in frames)
        assert log.last_append_time_ms == 1004

    async def test_headers_without_bodies(self, log: Log) -> None:
        frames = run_of(5)
        await log.append(frames)
        stored = await log.read(10, max_bytes=MUCH, end_offset=40)
        assert stored is not None
        headers = [bytes(frame.header_bytes) for frame in frames[1:4]]
        assert [await stored.read_headers(most) for most in (MUCH, 200, 1)] == [
            b"".join(headers[:count]) for count in (3, 2, 1)
        ]
        stored.release()

    async def test_an_append_that_is_begun_is_readable_when_it_ends(self, log: Log) -> None:
        frames = run_of(3)
        await log.append(frames[:1])
        for number, frame in enumerate(frames[1:], 1):
            ended: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
            begun = log.begin_append([frame], ended.set_result)
            assert log.end_offset == log.readable_offset == 10 * number
            assert not ended.done()
            if begun:
                assert await ended is None
            else:
                await log.append([frame])
        assert await frames_from(log, 0) == [(f.header.base_offset, frame_bytes(f)) for f in frames]

    async def test_changes_wait_for_an_append_that_is_begun(self, log: Log) -> None:
        frames = run_of(3)
        await log.append(frames[:1])
        ended: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        if not log.begin_append(frames[1:2], ended.set_result):
            await log.append(frames[1:2])
            ended.set_result(None)
        await asyncio.gather(log.roll(), log.append(frames[2:]), log.sync())
        assert ended.done()
        assert ended.result() is None
        assert await frames_from(log, 0) == [(f.header.base_offset, frame_bytes(f)) for f in frames]
        await log.truncate(10)
        assert log.end_offset == 10
        await log.close()

    async def test_appending_nothing(self, log: Log) -> None:
        await log.append([])
        assert log.end_offset == 0

    async def test_read_inside_a_frame_gives_the_frame(self, log: Log) -> None:
        await log.append(run_of(3))
        data = await bytes_at(log, 17)
        assert data is not None
        assert read_stamped_header(data).base_offset == 10

    async def test_first_frame_is_whole_whatever_the_limit(self, log: Log) -> None:
        frames = run_of(3, size=40_000)
        await log.append(frames)
        data = await bytes_at(log, 0, max_bytes=1)
        assert data is not None
        assert data[: frames[0].header.frame_bytes] == frame_bytes(frames[0])

    async def test_limit_is_kept_behind_the_first_frame(self, log: Log) -> None:
        await log.append(run_of(40))
        data = await bytes_at(log, 0, max_bytes=5000)
        assert data is not None
        assert 1088 <= len(data) <= 5000

    async def test_end_offset_is_never_passed(self, log: Log) -> None:
        frames = run_of(20)
        await log.append(frames)
        assert await bytes_at(log, 0, end_offset=100) == b"".join(map(frame_bytes, frames[:10]))
        assert await bytes_at(log, 100, end_offset=100) is None

    async def test_offsets_outside_are_refused(self, log: Log) -> None:
        await log.append(run_of(2))
        with pytest.raises(OffsetOutOfRange):
            await log.read(21, max_bytes=MUCH)
        with pytest.raises(OffsetOutOfRange):
            await log.read(-1, max_bytes=MUCH)
        assert await log.read(20, max_bytes=MUCH) is None

    async def test_a_hole_is_skipped(self, log: Log) -> None:
        await log.append(run_of(2))
        await log.append([frame_at(1_000, count=5, time_ms=2_000)])
        data = await bytes_at(log, 500)
        assert data is not None
        assert read_stamped_header(data).base_offset == 1_000
        assert log.end_offset == 1_005

    async def test_offsets_must_rise(self, log: Log) -> None:
        await log.append(run_of(2))
        with pytest.raises(InvalidRequest):
            await log.append([frame_at(19, time_ms=5_000)])
        with pytest.raises(InvalidRequest):
            await log.append([frame_at(30, time_ms=5_000), frame_at(30, time_ms=5_000)])
        assert log.end_offset == 20

    async def test_append_times_never_go_back(self, log: Log) -> None:
        await log.append([frame_at(0, time_ms=5_000)])
        with pytest.raises(InvalidRequest):
            await log.append([frame_at(1, time_ms=4_999)])

    async def test_truncation_of_a_log_without_frames_forgets_their_time(self, log: Log) -> None:
        await log.append([frame_at(0, time_ms=5_000)])
        await log.roll()
        await log.drop_front(1)
        assert (log.start_offset, log.last_append_time_ms) == (1, 5_000)
        await log.truncate(1)
        assert (log.end_offset, log.last_append_time_ms) == (1, 0)
        await log.append([frame_at(1, time_ms=4_999)])
        assert (log.end_offset, log.last_append_time_ms) == (2, 4_999)

    async def test_an_old_epoch_is_refused(self, log: Log) -> None:
        await log.append([frame_at(0, epoch=3)])
        with pytest.raises(StaleEpoch):
            await log.append([frame_at(1, epoch=2)])
        await log.append([frame_at(1, epoch=3)])

    async def test_a_slice_outlives_the_segment(self, log: Log) -> None:
        frames = run_of(3)
        await log.append(frames)
        piece = await log.read(0, max_bytes=MUCH)
        assert piece is not None
        await log.roll()
        await log.drop_front(30)
        assert bytes(await piece.read()) == b"".join(map(frame_bytes, frames))
        piece.release()

    async def test_many_segments_read_as_one_log(self, log: Log) -> None:
        frames = run_of(300)
        for begin in range(0, 300, 7):
            await log.append(frames[begin : begin + 7])
        assert await frames_from(log, 0) == [(f.header.base_offset, frame_bytes(f)) for f in frames]
        for offset in (0, 9, 10, 555, 2990, 2999):
            data = await bytes_at(log, offset)
            assert data is not None
            assert read_stamped_header(data).base_offset == offset // 10 * 10

    async def test_one_append_larger_than_segments(self, log: Log) -> None:
        frames = run_of(200)
        await log.append(frames)
        assert await frames_from(log, 0) == [(f.header.base_offset, frame_bytes(f)) for f in frames]
        assert await log.drop_front(1_000) > 0


class TestTimesAndEpochs:
    async def test_first_offset_at_or_after_a_time(self, log: Log) -> None:
        for n in range(200):
            await log.append([frame_at(10 * n, count=10, body=bytes(900), time_ms=1_000 + 10 * (n // 2))])
        assert await log.offset_for_time(0) == 0
        assert await log.offset_for_time(1_000) == 0
        assert await log.offset_for_time(1_001) == 20
        assert await log.offset_for_time(1_500) == 1_000
        assert await log.offset_for_time(1_990) == 1_980
        assert await log.offset_for_time(1_991) == log.end_offset

    async def test_end_offset_of_epochs(self, log: Log) -> None:
        assert await log.end_offset_of_epoch(9) == 0
        await log.append(run_of(100, epoch=2))
        await log.append(run_of(100, start=1_000, epoch=5, time_ms=2_000))
        await log.append(run_of(1, start=2_000, epoch=6, time_ms=3_000))
        assert await log.end_offset_of_epoch(1) == 0
        assert await log.end_offset_of_epoch(2) == 1_000
        assert await log.end_offset_of_epoch(4) == 1_000
        assert await log.end_offset_of_epoch(5) == 2_000
        assert await log.end_offset_of_epoch(6) == 2_010


class TestRemoving:
    async def test_truncate_at_a_boundary(self, log: Log) -> None:
        frames = run_of(200)
        for frame in frames:
            await log.append([frame])
        await log.truncate(500)
        assert log.end_offset == 500
        assert await frames_from(log, 0) == [(f.header.base_offset, frame_bytes(f)) for f in frames[:50]]
        await log.append([frame_at(500, time_ms=1_100)])
        assert (await frames_from(log, 500))[0][0] == 500

    async def test_truncate_inside_a_frame_is_refused(self, log: Log) -> None:
        await log.append(run_of(3))
        with pytest.raises(InvalidRequest):
            await log.truncate(15)
        assert log.end_offset == 30

    async def test_truncate_above_the_end_does_nothing(self, log: Log) -> None:
        await log.append(run_of(3))
        await log.truncate(31)
        assert log.end_offset == 30

    async def test_truncate_to_nothing_and_epochs_start_again(self, log: Log) -> None:
        await log.append([frame_at(0, epoch=7, time_ms=9_000)])
        await log.truncate(0)
        assert (log.start_offset, log.end_offset, log.size_bytes) == (0, 0, 0)
        await log.append([frame_at(0, epoch=3, time_ms=1_000)])
        assert log.end_offset == 1

    async def test_truncate_removes_later_snapshots(self, log: Log) -> None:
        await log.append(run_of(3))
        await log.save_snapshot(10, b"ten")
        await log.save_snapshot(30, b"thirty")
        await log.truncate(20)
        assert await log.load_snapshot() == (10, b"ten")

    async def test_drop_front_removes_whole_segments(self, log: Log) -> None:
        frames = run_of(300)
        for frame in frames:
            await log.append([frame])
        size = log.size_bytes
        start = await log.drop_front(1_500)
        assert 0 < start <= 1_500
        assert start == log.start_offset
        assert log.size_bytes < size
        assert (await frames_from(log, start))[0][0] == start
        with pytest.raises(OffsetOutOfRange):
            await log.read(start - 1, max_bytes=MUCH)

    async def test_roll_and_drop_everything(self, log: Log) -> None:
        await log.append(run_of(3))
        await log.roll()
        await log.roll()
        assert await log.drop_front(30) == 30
        assert (log.start_offset, log.end_offset, log.size_bytes) == (30, 30, 0)
        assert await log.read(30, max_bytes=MUCH) is None
        await log.append(run_of(1, start=30, time_ms=2_000))
        assert len(await frames_from(log, 30)) == 1


async def retain(
    log: Log, *, now_ms: int, retention_ms: int | None, retention_bytes: int | None, up_to: int | None = None
) -> int:
    """Removes what is too old or too much, and nothing from an offset on; returns the new start."""
    offset = await log.retention_offset(now_ms=now_ms, retention_ms=retention_ms, retention_bytes=retention_bytes)
    return await log.drop_front(offset if up_to is None else min(offset, up_to))


class TestRemovedMessages:
    @pytest.mark.parametrize("count", [1, 30], ids=["a frame", "many frames"])
    async def test_holes_are_no_messages(self, log: Log, count: int) -> None:
        size = 10 * count
        await log.append(run_of(count))
        await log.append(run_of(count, start=1_000_000, time_ms=2_000))
        await log.append([frame_at(1_000_000 + size + 7, count=10, time_ms=3_000)])
        await log.roll()
        await log.append(run_of(1, start=3_000_000, time_ms=4_000))
        assert log.removed_count(0) == 0
        await log.drop_front(3_000_000)
        expected = {0: 2 * size + 10, 5: 2 * size + 5, size: size + 10, 500_000: size + 10, 1_000_005: size + 5}
        expected |= {1_000_000 + size: 10, 1_000_000 + size + 12: 5, 2_000_000: 0, 3_000_000: 0, 3_000_005: 0}
        assert {offset: log.removed_count(offset) for offset in expected} == expected

    async def test_without_holes_every_offset_is_one(self, log: Log) -> None:
        for number in range(100):
            await log.append(run_of(2, start=20 * number, time_ms=1_000 + 10 * number))
            if number % 10 == 9:
                await log.roll()
        start = await log.drop_front(1_000)
        assert (start, log.removed_count(0), log.removed_count(333)) == (1_000, 1_000, 667)


class TestRetention:
    async def test_by_time(self, log: Log) -> None:
        for n in range(300):
            await log.append([frame_at(10 * n, count=10, body=bytes(1000), time_ms=1_000 * n)])
        start = await retain(log, now_ms=300_000, retention_ms=100_000, retention_bytes=None)
        assert 0 < start <= 2_000
        assert (await frames_from(log, start))[0][0] == start

    async def test_what_a_clock_stored_that_was_ahead_grows_old_too(self, log: Log) -> None:
        now_ms = time.time_ns() // 1_000_000
        await log.append(run_of(3, time_ms=now_ms + 3650 * DAY_MS))
        for later_ms in (0, DAY_MS - 1):
            assert await retain(log, now_ms=now_ms + later_ms, retention_ms=2 * DAY_MS, retention_bytes=None) == 0
        await retain(log, now_ms=now_ms + DAY_MS, retention_ms=2 * DAY_MS, retention_bytes=None)
        await log.append(run_of(2, start=30, time_ms=now_ms + 3650 * DAY_MS + 10))
        await retain(log, now_ms=now_ms + 2 * DAY_MS, retention_ms=2 * DAY_MS, retention_bytes=None)
        start = await retain(log, now_ms=now_ms + 3 * DAY_MS + 1, retention_ms=2 * DAY_MS, retention_bytes=None)
        assert start >= 30, "when it was written, or met, is what counts"

    async def test_a_clock_that_is_behind_for_a_while_makes_nothing_older(self, log: Log) -> None:
        now_ms = time.time_ns() // 1_000_000
        await log.append(run_of(3, time_ms=now_ms + 100 * DAY_MS))
        await log.roll()
        for at_ms in (now_ms, 5_000, now_ms + 100 * DAY_MS + 10):
            assert await retain(log, now_ms=at_ms, retention_ms=DAY_MS, retention_bytes=None) == 0

    async def test_by_size(self, log: Log) -> None:
        for frame in run_of(300):
            await log.append([frame])
        await retain(log, now_ms=2_000, retention_ms=None, retention_bytes=150_000)
        assert 0 < log.size_bytes <= 150_000

    async def test_everything_goes_when_all_is_old(self, log: Log) -> None:
        await log.append(run_of(3))
        assert await retain(log, now_ms=2 * DAY_MS, retention_ms=DAY_MS, retention_bytes=None) == 30
        assert log.size_bytes == 0

    async def test_a_small_log_obeys_a_small_size(self, log: Log) -> None:
        for frame in run_of(30):
            await log.append([frame])
            await retain(log, now_ms=2_000, retention_ms=None, retention_bytes=8_000)
        assert 0 < log.size_bytes <= 8_000 + 1_088

    @pytest.mark.parametrize("limits", [(0, None), (None, 1), (0, 1)])
    async def test_nothing_goes_from_an_offset_on(self, log: Log, limits: tuple[int | None, int | None]) -> None:
        for frame in run_of(300):
            await log.append([frame])
        retention_ms, retention_bytes = limits
        start = await retain(
            log, now_ms=10**15, retention_ms=retention_ms, retention_bytes=retention_bytes, up_to=2_000
        )
        assert 0 < start <= 2_000, "whole segments below it go"
        assert (await frames_from(log, start))[0][0] == start
        again = await retain(log, now_ms=10**15, retention_ms=retention_ms, retention_bytes=retention_bytes, up_to=0)
        assert again == start

    async def test_nothing_goes_without_a_limit(self, log: Log) -> None:
        await log.append(run_of(300))
        assert await retain(log, now_ms=10**15, retention_ms=None, retention_bytes=None) == 0


class TestSnapshots:
    async def test_newest_is_loaded(self, log: Log) -> None:
        assert await log.load_snapshot() is None
        await log.append(run_of(5))
        for offset in (10, 20, 30, 40):
            await log.save_snapshot(offset, b"at %d" % offset)
        assert await log.load_snapshot() == (40, b"at 40")

    async def test_saving_at_an_offset_again_replaces(self, log: Log) -> None:
        await log.append(run_of(5))
        await log.save_snapshot(10, b"old")
        await log.save_snapshot(10, b"new")
        assert await log.load_snapshot() == (10, b"new")


async def test_offsets_are_left_out(storage: Storage, log: Log, under_test: EngineUnderTest, reopen) -> None:  # type: ignore[no-untyped-def]
    await log.append([frame_at(0, count=3, epoch=4)])
    await log.skip_to(100)
    await log.skip_to(50)
    assert (log.end_offset, log.last_frame) == (100, (4, 3))
    with pytest.raises(InvalidRequest):
        await log.append([frame_at(50, count=1, epoch=4)])
    if under_test.keeps_frames_over_reopen:
        log = await (await reopen(storage)).open_log("topics/1/0", under_test.options)
        assert log.end_offset >= 100
    await log.append([frame_at(log.end_offset, count=1, epoch=4)])
    assert [offset for offset, _ in await frames_from(log, 0)][-1] >= 100


class TestStorage:
    async def test_logs_are_listed_and_deleted(self, storage: Storage, under_test: EngineUnderTest) -> None:
        for log_id in ("topics/1/0", "topics/1/1", "topics/12/0", "internal/coordination"):
            await storage.open_log(log_id, under_test.options)
        assert await storage.list_logs() == ["internal/coordination", "topics/1/0", "topics/1/1", "topics/12/0"]
        assert await storage.list_logs("topics/1/") == ["topics/1/0", "topics/1/1"]
        await storage.delete_logs("topics/1")
        await storage.delete_logs("topics/1")
        assert await storage.list_logs("topics") == ["topics/12/0"]
        await storage.delete_logs("topics/12")
        assert await storage.list_logs() == ["internal/coordination"]

    async def test_one_log_is_deleted_by_its_id(self, storage: Storage, under_test: EngineUnderTest) -> None:
        for log_id in ("topics/1/0", "topics/1/0-delivery", "topics/1/1"):
            await (await storage.open_log(log_id, under_test.options)).append(run_of(1))
        await storage.delete_logs("topics/1/0")
        assert await storage.list_logs() == ["topics/1/0-delivery", "topics/1/1"]
        assert (await storage.open_log("topics/1/0", under_test.options)).end_offset == 0
        assert (await storage.open_log("topics/1/1", under_test.options)).end_offset > 0

    async def test_discarded_logs_are_closed(self, storage: Storage, under_test: EngineUnderTest) -> None:
        log = await storage.open_log("topics/1/0", under_test.options)
        other = await storage.open_log("topics/2/0", under_test.options)
        await storage.discard_logs("topics/1")
        await storage.discard_logs("topics/1")
        with pytest.raises(QuiverError):
            await log.append(run_of(1))
        await other.append(run_of(1))

    async def test_a_deleted_log_starts_empty(self, storage: Storage, under_test: EngineUnderTest) -> None:
        log = await storage.open_log("topics/1/0", under_test.options)
        await log.append(run_of(3))
        await storage.delete_logs("topics/1")
        log = await storage.open_log("topics/1/0", under_test.options)
        assert (log.end_offset, log.size_bytes) == (0, 0)

    @pytest.mark.parametrize("log_id", ["", "/a", "a/", "a//b", "../a", "a/../b", "a b", "a\0b", ".", "a/."])
    async def test_log_ids_are_plain_words(self, storage: Storage, under_test: EngineUnderTest, log_id: str) -> None:
        with pytest.raises(InvalidRequest):
            await storage.open_log(log_id, under_test.options)

    async def test_opening_twice_gives_the_same_log(self, storage: Storage, under_test: EngineUnderTest) -> None:
        first = await storage.open_log("a/b", under_test.options)
        assert await storage.open_log("a/b", under_test.options) is first

    async def test_epochs_rise(self, storage: Storage, reopen) -> None:  # type: ignore[no-untyped-def]
        epochs = [await storage.next_start_epoch() for _ in range(3)]
        storage = await reopen(storage)
        epochs += [await storage.next_start_epoch() for _ in range(3)]
        assert epochs == sorted(set(epochs))

    async def test_a_clean_reopen_keeps_everything(self, storage: Storage, under_test, reopen) -> None:  # type: ignore[no-untyped-def]
        log = await storage.open_log("a", under_test.options)
        frames = run_of(100, epoch=4)
        for frame in frames:
            await log.append([frame])
        await log.save_snapshot(500, b"state")
        await log.truncate(900)
        storage = await reopen(storage)
        log = await storage.open_log("a", under_test.options)
        assert log.end_offset == 900
        if under_test.keeps_frames_over_reopen:
            assert log.start_offset == 0
            assert await frames_from(log, 0) == [(f.header.base_offset, frame_bytes(f)) for f in frames[:90]]
            assert await log.load_snapshot() == (500, b"state")
            assert log.last_append_time_ms == 1_089
            with pytest.raises(StaleEpoch):
                await log.append([frame_at(900, epoch=3, time_ms=9_000)])
        await log.append([frame_at(900, epoch=4, time_ms=9_000)])
        assert log.end_offset == 901

    async def test_durability_may_change(self, storage: Storage, under_test: EngineUnderTest) -> None:
        import msgspec

        log = await storage.open_log("a", under_test.options)
        frames = run_of(200)
        turns = ["fsync", "memory", "interval", "memory", "fsync"]
        for n, frame in enumerate(frames):
            if n % 40 == 0:
                log.configure(msgspec.structs.replace(under_test.options, durability=turns[n // 40]))
            await log.append([frame])
            assert (await frames_from(log, 0))[-1][0] == frame.header.base_offset
        assert [base for base, _ in await frames_from(log, 0)] == [f.header.base_offset for f in frames]
        assert [await log.offset_for_time(1_000 + n) for n in (0, 45, 130, 199)] == [0, 450, 1_300, 1_990]
