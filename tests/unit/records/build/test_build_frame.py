"""Building frames from lists: what is left out, and what is refused."""

from typing import Any

import pytest

from quiver.model.errors import InvalidRequest
from quiver.model.priority import Priority
from quiver.records.build import build_frame
from quiver.records.columns import MAX_TIMESTAMP_MS
from quiver.records.header import unpack_header
from unit.records.frame_content import through_the_broker


def test_columns_that_say_nothing_are_left_out() -> None:
    nothing: list[None] = [None, None]
    bare = build_frame([b"a", b"b"], timestamp_ms=5)
    same = build_frame(
        [b"a", b"b"],
        timestamps_ms=[5, 5],
        keys=nothing,
        headers=[{}, None],
        deliver_at_ms=nothing,
        expires_at_ms=nothing,
        ids=nothing,
    )
    assert bare == same
    assert unpack_header(bare).columns == 0


def test_an_empty_key_is_not_the_same_as_none() -> None:
    opened = through_the_broker(build_frame([b"", None], keys=[b"", None], timestamp_ms=1))
    assert opened.keys() == [b"", None]
    assert opened.values() == [b"", None]


@pytest.mark.parametrize(
    ("columns", "size"),
    [
        ({}, 360),
        ({"deliver_at_ms": [5]}, 360 + 56),
        ({"keys": [b"k"]}, 360 + 80),
        ({"headers": [{"a": b"b"}]}, 360 + 248),
    ],
)
def test_a_small_message_makes_a_small_frame(columns: dict[str, Any], size: int) -> None:
    assert len(build_frame([b"x" * 100], timestamp_ms=1, **columns)) <= size


def test_the_fields_of_the_broker_are_zero() -> None:
    header = unpack_header(build_frame([b"a"], timestamp_ms=1))
    assert (header.base_offset, header.leader_epoch, header.append_time_ms, header.header_crc) == (0, 0, 0, 0)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)


def test_options_reach_the_header() -> None:
    frame = build_frame(
        [b"a"],
        timestamp_ms=1,
        priority=Priority.CRITICAL,
        producer_id=2**63 - 1,
        producer_epoch=3,
        base_sequence=2**31 - 1,
        schema_id=9,
        transactional=True,
    )
    header = through_the_broker(frame).header
    assert (header.priority, header.producer_id, header.producer_epoch) == (0, 2**63 - 1, 3)
    assert (header.base_sequence, header.schema_id, header.is_transactional) == (2**31 - 1, 9, True)


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compression_makes_frames_smaller_and_keeps_them_aligned(compression: str) -> None:
    values = [b"the same again and again"] * 1000
    frame = build_frame(values, timestamp_ms=1, compression=compression)
    assert len(frame) < 5000
    assert len(frame) % 8 == 0
    assert through_the_broker(frame).values() == values


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"values": []}, "at least one"),
        ({"values": [1]}, "value: "),
        ({"values": [b"a"], "timestamp_ms": None}, "timestamp_ms or timestamps_ms"),
        ({"values": [b"a"], "timestamps_ms": [None]}, "every message needs one"),
        ({"values": [b"a"], "timestamps_ms": [1, 2]}, "2 of timestamp"),
        ({"values": [b"a"], "timestamps_ms": ["now"]}, "timestamp: "),
        ({"values": [b"a"], "timestamps_ms": [2**63]}, "timestamp: "),
        ({"values": [b"a"], "timestamp_ms": -1}, "1970"),
        ({"values": [b"a"], "timestamp_ms": MAX_TIMESTAMP_MS + 1}, "9999"),
        ({"values": [b"a"], "timestamp_ms": 1.5}, "does not fit its field"),
        ({"values": [b"a"], "keys": []}, "0 of key"),
        ({"values": [b"a"], "keys": [5]}, "key: "),
        ({"values": [b"a"], "headers": []}, "0 of headers"),
        ({"values": [b"a"], "headers": [{"a": 5}]}, "headers: "),
        ({"values": [b"a"], "headers": [{5: b"a"}]}, "headers: "),
        ({"values": [b"a"], "headers": [{"a": None}]}, "neither a name nor a value"),
        ({"values": [b"a"], "headers": [["a"]]}, "headers: "),
        ({"values": [b"a"], "headers": [{"\ud800": b""}]}, "headers: "),
        ({"values": [b"a"], "deliver_at_ms": [-1]}, "deliver_at"),
        ({"values": [b"a"], "expires_at_ms": [2**62]}, "expires_at"),
        ({"values": [b"a"], "ids": ["x", "y"]}, "2 of id"),
        ({"values": [b"a"], "priority": 5}, "priority 5"),
        ({"values": [b"a"], "compression": "gzip"}, "'gzip' is not one of none, lz4, zstd"),
        ({"values": [b"a"], "producer_id": 2**63}, "does not fit its field"),
        ({"values": [b"a"], "schema_id": -1}, "does not fit its field"),
    ],
)
def test_bad_input_is_named(arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidRequest, match=match):
        build_frame(**{"timestamp_ms": 1, **arguments})
