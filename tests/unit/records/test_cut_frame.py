"""Frames that lose messages before they are stored."""

import numpy as np
import pytest

from quiver.model.limits import Limits
from quiver.records.build import build_frame
from quiver.records.check import check_frame
from quiver.records.cut import cut_frame
from quiver.records.header import COLUMN_DELIVER_AT, unpack_header
from quiver.records.read import open_frame


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_the_others_close_up_and_stay_as_they_are(compression: str) -> None:
    frame = build_frame(
        [b"a", None, b"c", b"d"],
        keys=[b"k", None, b"l", None],
        timestamps_ms=[10, 40, 20, 30],
        headers=[{"h": b"1"}, None, {}, {"i": b"2"}],
        deliver_at_ms=[None, 7, None, None],
        expires_at_ms=[1, 2, 3, 4],
        ids=[b"1", b"2", None, b"4"],
        priority=1,
        compression=compression,
        producer_id=5,
        producer_epoch=6,
        base_sequence=7,
        schema_id=8,
        transactional=True,
    )
    before = unpack_header(frame)
    cut = cut_frame(before, open_frame(frame, verify=False).batch, np.array([True, False, True, False]))
    after = check_frame(cut, Limits())
    opened = open_frame(cut, verify=False)
    assert (opened.values(), opened.keys(), opened.timestamps()) == ([b"a", b"c"], [b"k", b"l"], [10, 20])
    assert (opened.headers(), opened.expires_at_ms(), opened.ids()) == ([{"h": b"1"}, {}], [1, 3], [b"1", None])
    assert (after.min_timestamp_ms, after.max_timestamp_ms, after.record_count) == (10, 20, 2)
    for name in ("priority", "producer_id", "producer_epoch", "base_sequence", "schema_id", "compression", "columns"):
        assert getattr(after, name) == getattr(before, name), name
    assert after.is_transactional
    assert after.columns & COLUMN_DELIVER_AT, "by its columns a frame belongs to the schedule log"


def test_one_time_for_all_stays_one() -> None:
    frame = build_frame([b"a", b"b"], timestamp_ms=5)
    cut = cut_frame(unpack_header(frame), open_frame(frame, verify=False).batch, np.array([False, True]))
    header = check_frame(cut, Limits())
    assert (header.min_timestamp_ms, header.max_timestamp_ms, header.columns) == (5, 5, 0)
