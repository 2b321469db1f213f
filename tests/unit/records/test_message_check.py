import struct
from itertools import product

import pytest

from quiver.model.errors import InvalidFrame
from quiver.records import message_check
from quiver.records.build import build_frame
from quiver.records.header import HEADER_BYTES, unpack_header
from quiver.records.message_check import check_message

COLUMNS = {
    "keys": [b"k1", None, b""],
    "timestamps_ms": [1, 2, 3],
    "headers": [{"a": b"1"}, None, {"b": b"", "c": b"22"}],
    "deliver_at_ms": [5, None, 7],
    "expires_at_ms": [None, None, 9],
    "ids": [b"id", None, b"other"],
}


def message_of(values: list[bytes | None], **columns: object) -> tuple[memoryview, int]:
    frame = build_frame(values, **{"timestamp_ms": 1, **columns})  # type: ignore[arg-type]
    header = unpack_header(frame)
    return memoryview(frame)[HEADER_BYTES : HEADER_BYTES + header.uncompressed_length], header.columns


@pytest.mark.parametrize("chosen", list(product([False, True], repeat=len(COLUMNS))))
def test_what_the_client_builds_has_the_known_shape(chosen: tuple[bool, ...]) -> None:
    columns = {name: items for (name, items), taken in zip(COLUMNS.items(), chosen, strict=True) if taken}
    message, bits = message_of([b"one", None, b"three"], **columns)
    found = message_check._shape_of(bits).numbers(message)
    walked = message_check._walk(message, message_check.layout_for(bits))
    assert found is not None
    assert found.body_position + found.body_length == len(message)
    assert found._replace(nodes=()) == walked._replace(nodes=())
    assert not walked.nodes or tuple(walked.nodes) == tuple(found.nodes)
    check_message(message, bits)


def test_metadata_of_another_shape_is_walked_through() -> None:
    message, bits = message_of([b"value"] * 50)
    padded = bytearray(message)
    length = struct.unpack_from("<I", padded, 4)[0]
    padded[8 + length : 8 + length] = bytes(8)  # a writer that aligns otherwise
    struct.pack_into("<I", padded, 4, length + 8)
    assert message_check._shape_of(bits).numbers(memoryview(padded)) is None
    check_message(memoryview(padded), bits)


def test_every_byte_of_the_metadata_is_looked_at() -> None:
    """A changed byte makes it another shape, or changes a number; the walk and the shape agree on the outcome."""
    message, bits = message_of([b"value"] * 3, keys=[b"a", b"b", b"c"])
    length = struct.unpack_from("<I", message, 4)[0]
    for place in range(8 + length):
        changed = bytearray(message)
        changed[place] ^= 0x41
        found = message_check._shape_of(bits).numbers(memoryview(changed))
        if found is not None:
            walked = message_check._walk(memoryview(changed), message_check.layout_for(bits))
            assert found.buffers == walked.buffers
            assert found.body_length == walked.body_length


def test_a_cut_off_message_is_refused() -> None:
    message, bits = message_of([b"value"])
    for end in range(0, len(message), 7):
        with pytest.raises(InvalidFrame):
            check_message(message[:end], bits)
