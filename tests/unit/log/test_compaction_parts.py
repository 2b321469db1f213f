"""Parts of compaction that have rules of their own: progress, groups, damage, and passes that end early."""

import asyncio
import random
import threading
from pathlib import Path

import pytest

from quiver.log.compaction.grouping import groups
from quiver.log.compaction.job import EVERYTHING, Shape
from quiver.log.compaction.progress import Pass, Progress, ProgressFile
from quiver.log.compaction.source import MemorySource
from quiver.log.compaction.survey import SegmentSurvey
from quiver.log.segment.segment import Segment
from quiver.storage.local.log import LocalLog
from quiver.storage.local.settings import LocalSettings
from quiver.storage.local.storage import LocalStorage
from quiver.storage.port import LogOptions
from quiver.system.files import Files
from unit.log.keyed import (
    DAY_MS,
    Row,
    everything,
    keyed_frame,
    last_of_each_key,
    messages,
    stored_frames,
    stored_messages,
)


def test_tombstones_are_timed_by_the_first_pass_that_saw_them() -> None:
    progress = Progress()
    for clean_to, at_ms in ((100, 1_000), (200, 2_000), (300, 3_000)):
        progress = progress.after(Pass(clean_to, at_ms), tombstones=1, retention_ms=10_000)
    assert progress.clean_to == 300
    assert [progress.tombstones_below(now_ms, 10_000) for now_ms in (10_999, 11_000, 12_500, 13_000)] == [
        0,
        100,
        200,
        300,
    ]
    assert progress.tombstones_below(0, 0) == EVERYTHING
    assert progress.cut(150) == Progress((Pass(100, 1_000), Pass(150, 2_000), Pass(150, 3_000)), 1)


def test_many_passes_are_remembered_in_little_room_and_on_the_safe_side() -> None:
    chance, progress, true_passes, now_ms = random.Random(1), Progress(), [], 0
    for n in range(1, 2_000):
        now_ms += chance.choice([1, 10, 5_000])
        true_passes.append(Pass(n, now_ms))
        progress = progress.after(true_passes[-1], tombstones=0, retention_ms=DAY_MS)
        assert len(progress.passes) <= 48
        exact = Progress(tuple(true_passes)).tombstones_below(now_ms, DAY_MS)
        assert progress.tombstones_below(now_ms, DAY_MS) <= exact
    assert progress.tombstones_below(now_ms, DAY_MS) >= exact - 100
    assert progress.clean_to == 1_999


@pytest.mark.parametrize("damage", [b"", b"short", b"\0" * 40])
def test_a_bad_progress_file_means_nothing_was_compacted(tmp_path: Path, damage: bytes) -> None:
    file = ProgressFile(tmp_path / "compacted", Files())
    assert file.load() == Progress()
    done = Progress((Pass(7, 8),), 9)
    file.save(done)
    assert file.load() == done
    (tmp_path / "compacted").write_bytes(damage)
    assert file.load() == Progress()


def surveyed(base: int, size: int, *, kept: int = 5, time_ms: int = 0) -> SegmentSurvey:
    source = MemorySource(base, [])
    return SegmentSurvey(source, None, 10, kept, size, time_ms, time_ms)  # type: ignore[arg-type]


def bases(found: list[list[SegmentSurvey]]) -> list[list[int]]:
    return [[segment.source.base_offset for segment in group] for group in found]


def test_neighbours_are_joined_up_to_the_size_of_a_segment() -> None:
    segments = [surveyed(n, size) for n, size in enumerate([40, 50, 20, 30, 100, 0])]
    assert bases(groups(segments, [], Shape(segment_bytes=100))) == [[0, 1], [2, 3], [4, 5]]


def test_what_would_not_change_is_left_alone() -> None:
    segments = [surveyed(0, 90, kept=10), surveyed(1, 90), surveyed(2, 90, kept=10)]
    assert bases(groups(segments, [], Shape(segment_bytes=100))) == [[1]]


def test_damaged_segments_are_in_no_group() -> None:
    segments = [surveyed(n, 10) for n in range(5)]
    assert bases(groups(segments, [2], Shape(segment_bytes=100))) == [[0, 1], [3, 4]]


def test_segments_of_different_times_stay_apart_for_retention() -> None:
    segments = [surveyed(n, 10, time_ms=100 * n) for n in range(5)]
    assert bases(groups(segments, [], Shape(max_span_ms=200))) == [[0, 1, 2], [3, 4]]


async def open_log(root: Path) -> tuple[LocalStorage, LocalLog]:
    storage = LocalStorage(root, LocalSettings(min_free_bytes=0))
    await storage.open()
    return storage, await storage.open_log("topics/1/0", LogOptions(segment_bytes=64 * 1024))


async def test_a_damaged_segment_stays_and_so_do_tombstones_behind_it(tmp_path: Path) -> None:
    storage, log = await open_log(tmp_path)
    pieces: list[list[Row]] = [
        [(b"a", b"0"), (b"b", b"0"), (b"b", None)],
        [(b"a", b"1"), (b"c", b"1"), (b"c", b"1")],
        [(b"a", b"2"), (b"c", None), (b"d", b"2")],
    ]
    for rows in pieces:
        await log.append([keyed_frame(log.end_offset, rows), keyed_frame(log.end_offset + 3, [(b"z", b"z")])])
        await log.roll()
    path = log._disk.view.segments[1].path
    damaged = bytearray(path.read_bytes())
    damaged[200] ^= 1
    path.write_bytes(damaged)
    done = await log.compact(everything(log, tombstone_retention_ms=0))
    assert path.read_bytes() == damaged
    assert done.aborted_below == 4
    readable = [message for message in await stored_frames_but(log, 4) if message[1] != b"z"]
    assert readable == [(8, b"a", b"2"), (9, b"c", None), (10, b"d", b"2")]
    await storage.close()


async def stored_frames_but(log: LocalLog, bad: int) -> list[tuple[int, bytes | None, bytes | None]]:
    """Messages of the frames that do not begin at an offset."""
    frames = [frame for header, frame in await stored_frames(log) if header.base_offset != bad]
    return [(m.offset, m.key, m.value) for frame in frames for m in messages(frame)]


async def test_more_keys_than_a_pass_may_see_take_several(tmp_path: Path) -> None:
    storage, log = await open_log(tmp_path)
    chance = random.Random(2)
    for _ in range(6):
        rows: list[Row] = [(b"key %d" % chance.randrange(300), chance.randbytes(20)) for _ in range(200)]
        await log.append([keyed_frame(log.end_offset, rows)])
        await log.roll()
    before = await stored_messages(log)
    log._compaction.max_keys = 100
    done = await log.compact(everything(log))
    assert await stored_messages(log) == last_of_each_key(before)
    assert (done.records_before, done.records_after) == (1200, len(last_of_each_key(before)))
    assert len(log._compaction.progress.passes) > 2
    await storage.close()


@pytest.mark.parametrize("search", [False, True])
async def test_a_read_that_is_overtaken_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, search: bool
) -> None:
    """It has the old list of segments, and comes to their files when they are gone."""
    storage, log = await open_log(tmp_path)
    for _ in range(3):
        await log.append([keyed_frame(log.end_offset, [(b"a", b"1")])])
        await log.roll()
    overtaken, replaced, find = threading.Event(), threading.Event(), Segment.find

    def find_late(segment: Segment, **how: object) -> object:
        if not overtaken.is_set():
            overtaken.set()
            assert replaced.wait(30)
        return find(segment, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(Segment, "find", find_late)
    log._disk.view.forget_positions()
    reading = asyncio.create_task(log.offset_for_time(0) if search else log.read(0, max_bytes=1 << 20))
    await asyncio.to_thread(overtaken.wait, 30)
    await log.compact(everything(log))
    replaced.set()
    found = await reading
    if isinstance(found, int):
        assert found == 2
    else:
        assert found is not None
        assert messages(bytes(await found.read()))[0].offset == 2
        found.release()
    assert not log.damage
    await storage.close()


async def test_reads_that_come_late_find_the_new_segments(tmp_path: Path) -> None:
    """With room for three open files, most reads open theirs by name."""
    storage = LocalStorage(tmp_path, LocalSettings(min_free_bytes=0, max_open_files=3))
    await storage.open()
    log = await storage.open_log("topics/1/0", LogOptions(segment_bytes=64 * 1024))
    for turn in range(8):
        await log.append([keyed_frame(log.end_offset, [(b"%d" % (n % 40), bytes(50)) for n in range(400)])])
        await log.roll()
        if turn % 2:
            before = await stored_messages(log)
            await log.compact(everything(log))
            assert await stored_messages(log) == last_of_each_key(before)
    assert not log.damage
    assert await log.offset_for_time(0) == (await stored_messages(log))[0].offset // 400 * 400
    await storage.close()
