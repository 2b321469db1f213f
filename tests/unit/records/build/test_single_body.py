"""The quick check of single messages says no more than the whole one does."""

import pytest

from quiver.model.errors import QuiverError
from quiver.model.limits import Limits
from quiver.records.body import open_body
from quiver.records.build import build_frame
from quiver.records.check import check_frame
from quiver.records.header import HEADER_BYTES, unpack_header
from quiver.records.single import NO_IDENTITY, is_single_body, single_frame


def made(value: bytes, key: bytes | None) -> bytes:
    return single_frame(value, key, timestamp_ms=5, priority=2, identity=NO_IDENTITY)


def is_single(frame: bytes | bytearray) -> bool:
    return is_single_body(memoryview(frame)[HEADER_BYTES:], unpack_header(frame))


@pytest.mark.parametrize("key", [None, b"", b"k", b"k" * 8, b"k" * 256])
@pytest.mark.parametrize("value", [b"", b"v", b"v" * 7, b"v" * 8, b"v" * 1024])
def test_single_messages_are_recognised_however_they_were_built(value: bytes, key: bytes | None) -> None:
    built = build_frame([value], keys=None if key is None else [key], timestamp_ms=5)
    for frame in (made(value, key), bytes(built)):
        assert is_single(frame)
        assert check_frame(frame, Limits()).record_count == 1


@pytest.mark.parametrize(
    "frame",
    [
        build_frame([None], timestamp_ms=5),
        build_frame([b"v", b"w"], timestamp_ms=5),
        build_frame([b"v"], headers=[{"a": b"b"}], timestamp_ms=5),
        build_frame([b"v"], ids=[b"i"], timestamp_ms=5),
        build_frame([b"v" * 1025], timestamp_ms=5),
        build_frame([b"v" * 1000], timestamp_ms=5, compression="lz4"),
    ],
)
def test_others_are_left_to_arrow(frame: bytes | bytearray) -> None:
    assert not is_single(frame)


@pytest.mark.parametrize("key", [None, b"key"])
def test_a_body_with_any_other_byte_changed_is_not_recognised(key: bytes | None) -> None:
    frame = made(b"value", key)
    header = unpack_header(frame)
    for position in range(HEADER_BYTES, len(frame)):
        for bit in (0, 3, 7):
            changed = bytearray(frame)
            changed[position] ^= 1 << bit
            if is_single(changed):
                batch = open_body(memoryview(changed)[HEADER_BYTES:], header)
                assert [len(column[0].as_py()) for column in batch.columns][-1] == 5, "only the content has changed"
    for end in range(HEADER_BYTES, len(frame)):
        assert not is_single_body(memoryview(frame)[HEADER_BYTES:end], header)


def test_a_key_that_a_topic_needs_and_a_limit_are_still_checked() -> None:
    with pytest.raises(QuiverError):
        check_frame(made(b"v", None), Limits(), needs_keys=True)
    with pytest.raises(QuiverError):
        check_frame(made(b"v" * 1000, None), Limits(), max_message_bytes=900)
