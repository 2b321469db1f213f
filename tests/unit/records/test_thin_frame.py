"""Frames that lose messages: what is left is as it was, where it was."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.records.build import build_frame
from quiver.records.header import StampedFrame, stamp, unpack_header
from quiver.records.read import OpenFrame, open_frame
from quiver.records.thin import thin_frame

LARGE = 1 << 24


def stored(count: int, **options: object) -> OpenFrame:
    frame = build_frame(
        [None if n % 5 == 4 else b"value %d " % n * 3 for n in range(count)],
        keys=[b"key %d" % (n % 3) for n in range(count)],
        timestamps_ms=[1_000 + n // 2 for n in range(count)],
        headers=[{"n": b"%d" % n} if n % 2 else None for n in range(count)],
        ids=[b"id" if n == 0 else None for n in range(count)],
        expires_at_ms=[9_000 + n for n in range(count)],
        **options,  # type: ignore[arg-type]
    )
    return opened(stamp(frame, unpack_header(frame), base_offset=100, leader_epoch=3, append_time_ms=77))


def opened(frame: StampedFrame) -> OpenFrame:
    return open_frame(bytes(frame.header_bytes) + bytes(frame.body))


def rows(frame: OpenFrame) -> list[tuple[object, ...]]:
    columns = (frame.offsets(), frame.keys(), frame.values(), frame.timestamps(), frame.headers(), frame.ids())
    return list(zip(*columns, frame.expires_at_ms(), strict=True))


@given(st.lists(st.booleans(), min_size=2, max_size=40), st.sampled_from(["none", "lz4", "zstd"]))
def test_what_is_kept_stays_as_it_was(kept: list[bool], compression: str) -> None:
    if all(kept) or not any(kept):
        kept[0] = not kept[0]
    whole = stored(len(kept), compression=compression, producer_id=5, producer_epoch=2, base_sequence=40)
    [thinned] = thin_frame(whole.header, whole.batch, np.array(kept), max_bytes=LARGE)
    found = opened(thinned)
    assert rows(found) == [row for row, stays in zip(rows(whole), kept, strict=True) if stays]
    same = ("base_offset", "last_offset_delta", "append_time_ms", "leader_epoch", "priority", "producer_id")
    for field in (*same, "producer_epoch", "base_sequence", "schema_id"):
        assert getattr(found.header, field) == getattr(whole.header, field), field
    assert (found.header.min_timestamp_ms, found.header.max_timestamp_ms) == (
        min(found.timestamps()),
        max(found.timestamps()),
    )


def test_thinning_again_keeps_the_offsets() -> None:
    whole = stored(10)
    [once] = thin_frame(whole.header, whole.batch, np.arange(10) % 2 == 1, max_bytes=LARGE)
    again = opened(once)
    [twice] = thin_frame(again.header, again.batch, np.array([False, True, False, False, True]), max_bytes=LARGE)
    assert opened(twice).offsets() == [103, 109]
    assert opened(twice).header.next_offset == whole.header.next_offset


def test_a_frame_that_would_grow_too_large_becomes_two() -> None:
    whole = stored(1_000, producer_id=5, producer_epoch=0, base_sequence=2**31 - 100)
    kept = np.arange(1_000) != 500
    frames = [opened(frame) for frame in thin_frame(whole.header, whole.batch, kept, max_bytes=60_000)]
    assert len(frames) > 1
    assert [row for frame in frames for row in rows(frame)] == [row for row in rows(whole) if row[0] != 600]
    assert all(frame.header.uncompressed_length <= 60_000 for frame in frames)
    ends = [frame.header.next_offset for frame in frames]
    assert [frame.header.base_offset for frame in frames] == [100, *ends[:-1]]
    assert ends[-1] == whole.header.next_offset
    starts = [frame.header.base_sequence for frame in frames]
    assert starts == [(2**31 - 100 + frame.header.base_offset - 100) % 2**31 for frame in frames]


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_plain_bodies_are_compressed_when_that_pays(compression: str) -> None:
    whole = stored(1_000, compression=compression)
    [thinned] = thin_frame(whole.header, whole.batch, np.arange(1_000) % 10 == 0, max_bytes=LARGE)
    assert thinned.header.compression == (whole.header.compression or 2)
