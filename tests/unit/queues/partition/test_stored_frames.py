"""Frames on their way to consumers: holes, control frames, damage, times and sizes; and what is kept of them."""

import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.model.errors import InvalidFrame
from quiver.queues.partition.frame_cache import READ_BYTES, FrameCache, StoredFrame
from quiver.queues.state.port import StoredRun
from quiver.records.build import build_frame, seal
from quiver.records.columns import KEY, OFFSET_DELTA, VALUE
from quiver.records.header import HEADER_BYTES, body_crc, pack_header, stamp, unpack_header
from quiver.records.read import open_frame
from quiver.storage.local.storage import LocalStorage
from unit.queues.partition.queue_partition import GROUP, QueuePartition, numbered, offsets, values

DELTAS = [0, 1, 2, 5, 7, 8, 12]
"""Of a frame that once had 15 messages."""


def compacted(base_offset: int = 0) -> StoredFrame:
    count = len(DELTAS)
    arrays = {
        VALUE.bit: pa.array([b"v%d" % delta for delta in DELTAS], pa.binary()),
        KEY.bit: pa.array([b"k%d" % delta for delta in DELTAS], pa.binary()),
        OFFSET_DELTA.bit: pa.array(DELTAS, pa.int32()),
    }
    frame = seal(arrays, 5, 5)
    packed = pack_header(unpack_header(frame)._replace(last_offset_delta=14))
    struct.pack_into("<I", packed, 4, body_crc(packed, frame[HEADER_BYTES:]))
    done = stored(bytes(packed) + frame[HEADER_BYTES:], base_offset)
    assert done.header.record_count == count
    return done


def stored(frame: bytes, base_offset: int = 0, append_time_ms: int = 1_000) -> StoredFrame:
    done = stamp(frame, unpack_header(frame), base_offset=base_offset, leader_epoch=1, append_time_ms=append_time_ms)
    return StoredFrame(done.header, bytes(done.header_bytes) + bytes(done.body))


async def append(jobs: QueuePartition, frame: StoredFrame) -> None:
    """Straight into the log, as compaction and transactions do."""
    done = stamp(
        bytes(frame.data),
        frame.header,
        base_offset=frame.start,
        leader_epoch=jobs.partition.leader_epoch,
        append_time_ms=jobs.clock.ms,
    )
    await jobs.partition.log.append([done])
    jobs.partition.committed.newest[done.header.priority] = jobs.partition.committed.high_watermark = (
        done.header.next_offset
    )


def test_a_compacted_frame_has_runs() -> None:
    frame = compacted(100)
    assert frame.runs() == [(100, 103), (105, 106), (107, 109), (112, 113)]
    runs = frame.stored_runs(101, with_keys=True)
    assert runs[0] == StoredRun(101, 103, 2, [b"k1", b"k2"])
    assert runs[2] == StoredRun(107, 109, 2, [b"k7", b"k8"])
    cut = open_frame(frame.cut(107, 109))
    assert (list(cut.offsets()), cut.values(), cut.keys()) == ([107, 108], [b"v7", b"v8"], [b"k7", b"k8"])


def test_a_control_frame_has_no_messages() -> None:
    assert stored(build_frame([b"marker"], timestamp_ms=1, control=True)).runs() == []


async def test_holes_and_control_frames_are_passed_over() -> None:
    jobs = QueuePartition()
    await jobs.open()
    await jobs.begin()
    await jobs.publish(*numbered(3))
    await append(jobs, stored(build_frame([b"marker"], timestamp_ms=1, control=True), 3))
    await append(jobs, compacted(10))
    await jobs.publish(b"last")
    expected = [0, 1, 2, *[10 + delta for delta in DELTAS], 25]
    assert offsets(await jobs.receive(5)) == expected[:5]
    received = await jobs.receive()
    assert offsets(received) == expected[5:]
    for run in received:
        assert (await jobs.settle(run)).refused == []
    await jobs.close()


async def test_a_damaged_frame_is_passed_over_and_counted(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    await storage.open()
    jobs = QueuePartition(storage)
    await jobs.open()
    await jobs.begin()
    sizes = []
    for number in range(4):
        await jobs.publish(*numbered(3, 3 * number))
        sizes.append(jobs.partition.log.size_bytes)
    [path] = (tmp_path / "logs" / "topics" / "1" / "0").glob("*.log")
    data = bytearray(path.read_bytes())
    data[sizes[0] + HEADER_BYTES + 40] ^= 1
    path.write_bytes(data)
    received = await jobs.receive(10)
    assert offsets(received) == [0, 1, 2, 6, 7, 8, 9]
    assert jobs.partition_queue.counters_by_group[GROUP].lost == 3
    await jobs.begin(8, ordering="key")
    assert offsets(await jobs.receive(group=8)) == [0, 1, 2, *range(6, 12)]
    assert jobs.partition_queue.counters_by_group[8].lost == 3
    await jobs.close()
    await storage.close()


async def test_a_damaged_header_is_passed_over_and_counted(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    await storage.open()
    jobs = QueuePartition(storage)
    await jobs.open()
    await jobs.begin()
    sizes = []
    for number in range(4):
        await jobs.publish(*numbered(3, 3 * number))
        sizes.append(jobs.partition.log.size_bytes)
    [path] = (tmp_path / "logs" / "topics" / "1" / "0").glob("*.log")
    data = bytearray(path.read_bytes())
    data[sizes[1] + 9] ^= 1
    path.write_bytes(data)
    await jobs.begin(8, in_offset_order=True)
    assert offsets(await jobs.receive(20, group=8, level=0)) == [0, 1, 2, 3, 4, 5, 9, 10, 11]
    assert jobs.partition_queue.counters_by_group[8].lost == 3
    assert offsets(await jobs.receive(20)) == [0, 1, 2, 3, 4, 5, 9, 10, 11]
    await jobs.close()
    await storage.close()


def test_a_frame_whose_body_was_changed_is_neither_sent_whole_nor_cut() -> None:
    frame = stored(build_frame(numbered(5), timestamp_ms=1))
    frame.check()
    assert frame.cut(0, 5) is frame.data
    data = bytearray(frame.data)
    data[-20] ^= 1
    changed = StoredFrame(frame.header, bytes(data))
    with pytest.raises(InvalidFrame):
        changed.check()
    with pytest.raises(InvalidFrame):
        changed.cut(1, 2)


@given(
    times=st.lists(st.one_of(st.none(), st.integers(90, 110)), min_size=1, max_size=12),
    ttl_ms=st.one_of(st.none(), st.integers(0, 20)),
    start=st.integers(0, 11),
    count=st.integers(1, 12),
)
def test_the_time_of_each_message(times: list[int | None], ttl_ms: int | None, start: int, count: int) -> None:
    frame = stored(build_frame([b"x"] * len(times), timestamp_ms=1, expires_at_ms=times), 50, append_time_ms=90)
    start = min(start, len(times) - 1)
    end = min(len(times), start + count)
    expired = frame.expired(50 + start, 50 + end, 100, ttl_ms)
    found = [offset - 50 for run in expired for offset in range(*run)]
    limits = [at if at is not None else 90 + ttl_ms if ttl_ms is not None else 101 for at in times]
    assert found == [row for row in range(start, end) if limits[row] <= 100]


@given(
    sizes=st.lists(st.integers(0, 3_000), min_size=1, max_size=40), max_bytes=st.integers(0, 50_000), data=st.data()
)
def test_what_fits_is_about_as_large_as_it_may_be(sizes: list[int], max_bytes: int, data: Any) -> None:
    frame = stored(build_frame([bytes(size) for size in sizes], timestamp_ms=1))
    start = data.draw(st.integers(0, len(sizes) - 1))
    stop = frame.fitting(start, len(sizes), max_bytes)
    assert start <= stop <= len(sizes)
    if stop > start:
        assert len(frame.cut(start, stop)) <= max_bytes
    if stop < len(sizes):
        assert len(frame.cut(start, stop + 1)) + 1_000 > max_bytes


@given(data=st.data())
def test_a_cut_frame_says_what_the_whole_one_says(data: Any) -> None:
    count = data.draw(st.integers(1, 12))
    column = st.one_of(st.none(), st.binary(max_size=5))
    arguments: dict[str, Any] = {
        "values": data.draw(st.lists(column, min_size=count, max_size=count)),
        "keys": data.draw(st.lists(column, min_size=count, max_size=count)),
        "ids": data.draw(st.lists(column, min_size=count, max_size=count)),
        "headers": data.draw(
            st.lists(st.dictionaries(st.text(max_size=3), st.binary(max_size=3)), min_size=count, max_size=count)
        ),
        "timestamps_ms": data.draw(st.lists(st.integers(0, 2_000), min_size=count, max_size=count)),
        "compression": data.draw(st.sampled_from(("none", "lz4", "zstd"))),
        "priority": 3,
    }
    frame = stored(build_frame(**arguments), 1_000)
    start = data.draw(st.integers(0, count - 1))
    end = data.draw(st.integers(start + 1, count))
    cut = open_frame(frame.cut(1_000 + start, 1_000 + end))
    assert list(cut.offsets()) == list(range(1_000 + start, 1_000 + end))
    assert cut.values() == arguments["values"][start:end]
    assert cut.keys() == arguments["keys"][start:end]
    assert cut.ids() == arguments["ids"][start:end]
    assert cut.headers() == arguments["headers"][start:end]
    assert cut.timestamps() == arguments["timestamps_ms"][start:end]
    assert (cut.header.priority, cut.header.append_time_ms) == (3, 1_000)
    assert cut.header.min_timestamp_ms == min(cut.timestamps())


async def test_the_cache_keeps_to_its_limit_and_the_log_has_the_rest() -> None:
    jobs = QueuePartition()
    jobs.cache = FrameCache(limit_bytes=300 * 1024)
    await jobs.open()
    await jobs.begin()
    await jobs.begin(8)
    for number in range(100):
        await jobs.publish(*([b"%04d" % number + bytes(10_000)] * 2))
    assert await jobs.partition_queue.issuer.read_ahead(GROUP, count=1_000) == [0, 0, 200, 0, 0]
    assert jobs.cache.size_bytes <= 300 * 1024 + READ_BYTES
    for group in (GROUP, 8):
        received = await jobs.receive(1_000, group=group, max_bytes=1 << 24)
        assert [value[:4] for value in values(received)] == [b"%04d" % (number // 2) for number in range(200)]
    assert jobs.cache.size_bytes <= 300 * 1024 + READ_BYTES
    await jobs.close()
    assert jobs.cache.size_bytes == 0
