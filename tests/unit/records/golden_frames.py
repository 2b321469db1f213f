"""What the golden files hold. A file, once committed, never changes: a new format version gets new files.

`python tests/unit/records/golden_frames.py` (with `tests` on the path) writes those that are missing.
"""

import struct
from pathlib import Path
from typing import Any

import pyarrow as pa

from quiver.records.build import build_frame, seal
from quiver.records.columns import KEY, OFFSET_DELTA, VALUE
from quiver.records.header import HEADER_BYTES, body_crc, pack_header, stamp, unpack_header

DIRECTORY = Path(__file__).parent / "golden"
BASE_OFFSET, LEADER_EPOCH, APPEND_TIME_MS = 1_234_567_890_123, 42, 1_760_000_000_123
COMPACTED_DELTAS = [0, 3, 9]

EVERY_COLUMN: dict[str, Any] = {
    "values": [b"first", None, b"", b"\x00\xff" * 20],
    "keys": [b"customer-7", b"", None, "schlüssel".encode()],
    "timestamps_ms": [1_700_000_000_000, 1_600_000_000_000, 0, 253_402_300_799_999],
    "headers": [{"source": b"web", "größe": b"\x00"}, None, {}, {"empty": b""}],
    "deliver_at_ms": [None, 1_800_000_000_000, None, None],
    "expires_at_ms": [1_900_000_000_000, None, 0, None],
    "ids": [None, b"id-1", b"", None],
}
ONE = {"values": [b"hello"], "timestamp_ms": 1_700_000_000_000}
MANY = {"values": [b"message %d" % number for number in range(100)], "timestamp_ms": 1_700_000_000_000}

CASES: dict[str, dict[str, Any]] = {
    "one": ONE,
    "tombstone": {"values": [None], "keys": [b"gone"], "timestamp_ms": 1},
    "every-column": EVERY_COLUMN,
    "lz4": {**MANY, "compression": "lz4"},
    "zstd": {**EVERY_COLUMN, "compression": "zstd"},
    "transactional": {
        **ONE,
        "priority": 0,
        "producer_id": 2**62,
        "producer_epoch": 7,
        "base_sequence": 2**31 - 1,
        "schema_id": 2**32 - 1,
        "transactional": True,
    },
    "control": {**ONE, "priority": 4, "producer_id": 9, "producer_epoch": 1, "base_sequence": 0, "control": True},
}
"""Frames as producers send them: the arguments of `build_frame`."""


def path_of(name: str) -> Path:
    return DIRECTORY / f"{name}.bin"


def stamped(frame: bytes) -> bytes:
    done = stamp(
        frame,
        unpack_header(frame),
        base_offset=BASE_OFFSET,
        leader_epoch=LEADER_EPOCH,
        append_time_ms=APPEND_TIME_MS,
    )
    return bytes(done.header_bytes) + bytes(done.body)


def compacted() -> bytes:
    """A stored frame of ten messages, of which compaction has left three."""
    arrays = {
        VALUE.bit: pa.array([b"a", b"d", b"j"]),
        KEY.bit: pa.array([b"1", b"2", b"3"]),
        OFFSET_DELTA.bit: pa.array(COMPACTED_DELTAS, pa.int32()),
    }
    frame = seal(arrays, 5, 5)
    header = bytearray(pack_header(unpack_header(frame)._replace(last_offset_delta=9)))
    struct.pack_into("<I", header, 4, body_crc(header, frame[HEADER_BYTES:]))
    return stamped(bytes(header) + frame[HEADER_BYTES:])


def build_all() -> dict[str, bytes]:
    frames = {name: build_frame(**arguments) for name, arguments in CASES.items()}
    return frames | {"stamped": stamped(frames["every-column"]), "compacted": compacted()}


if __name__ == "__main__":
    for name, frame in build_all().items():
        if not path_of(name).exists():
            path_of(name).write_bytes(frame)
            print("written", path_of(name))
