"""The frame of one message is what `build_frame` makes of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.model.limits import Limits
from quiver.records import single
from quiver.records.build import build_frame
from quiver.records.check import check_frame
from quiver.records.header import CONTROL, HEADER_BYTES, TRANSACTIONAL, unpack_header
from quiver.records.single import SINGLE_KEY_BYTES, SINGLE_VALUE_BYTES, is_single, single_frame, single_value


@given(
    value=st.binary(max_size=SINGLE_VALUE_BYTES),
    key=st.none() | st.binary(max_size=SINGLE_KEY_BYTES),
    timestamp_ms=st.integers(0, 253_402_300_799_999),
    priority=st.integers(0, 4),
    producer=st.tuples(st.integers(-1, 2**63 - 1), st.integers(-1, 2**31 - 1), st.integers(-1, 2**31 - 1)),
    is_marker=st.booleans(),
)
def test_it_is_what_build_frame_makes(
    value: bytes,
    key: bytes | None,
    timestamp_ms: int,
    priority: int,
    producer: tuple[int, int, int],
    is_marker: bool,
) -> None:
    options = {"producer_id": producer[0], "producer_epoch": producer[1], "base_sequence": producer[2]}
    built = build_frame(
        [value],
        keys=None if key is None else [key],
        timestamp_ms=timestamp_ms,
        priority=priority,
        transactional=is_marker,
        control=is_marker,
        **options,  # type: ignore[arg-type]
    )
    assert is_single(value, key)
    assert built == single_frame(
        value,
        key,
        timestamp_ms=timestamp_ms,
        priority=priority,
        identity=producer,
        attributes=TRANSACTIONAL | CONTROL if is_marker else 0,
    )


def test_the_broker_takes_it() -> None:
    frame = single_frame(b"value", b"key", timestamp_ms=5, priority=1, identity=(7, 0, 3))
    header = check_frame(frame, Limits())
    assert (header.record_count, header.producer_id, header.base_sequence, header.priority) == (1, 7, 3, 1)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single, "_MOST_KEPT", 3)
    monkeypatch.setattr(single, "_arrow_metadata", {})
    for length in range(10):
        single_frame(bytes(length), None, timestamp_ms=0, priority=2, identity=(1, 0, 0))
        assert len(single._arrow_metadata) <= 3


@given(
    values=st.lists(st.none() | st.binary(max_size=100), min_size=1, max_size=3),
    key=st.none() | st.binary(max_size=10),
    compression=st.sampled_from(["none", "lz4"]),
)
def test_its_value_is_read_or_left_to_others(values: list[bytes | None], key: bytes | None, compression: str) -> None:
    keys = None if key is None else [key] * len(values)
    frame = bytes(build_frame(values, keys=keys, timestamp_ms=5, compression=compression))
    found = single_value(frame, unpack_header(frame))
    is_plain = len(values) == 1 and values[0] is not None and key is None and compression == "none"
    assert found == (values[0] if is_plain else None)


def test_a_damaged_value_is_left_to_others() -> None:
    frame = bytearray(build_frame([b"some value"], timestamp_ms=5))
    header = unpack_header(frame)
    for place in range(HEADER_BYTES, len(frame)):
        frame[place] ^= 1
        assert single_value(bytes(frame), header) is None
        frame[place] ^= 1
