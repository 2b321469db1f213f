"""The sampled messages of a frame, found in its bytes: the same as by looking at each message."""

import random

import numpy as np
import pytest

from quiver.model.trace.traceparent import parse_traceparent
from quiver.records.build import build_frame, build_frame_from_arrow
from quiver.records.header import HEADER_BYTES, SAMPLED, FrameHeader, stamp, unpack_header
from quiver.records.read import open_frame
from quiver.records.traced.column import PARENT_BYTES
from quiver.records.traced.entries import are_sampled
from quiver.traces.sampled_rows import FrameBody, SampledRows, stored_rows

GOOD = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHERS = [
    GOOD[:-1] + b"0",
    GOOD[:-1] + b"3",
    GOOD[:-1] + b"b",
    GOOD[:-1] + b"a",
    GOOD + b"-more",
    b"01" + GOOD[2:] + b"-more",
    b"01" + GOOD[2:] + b"more",
    b"ff" + GOOD[2:],
    b"00-" + b"0" * 32 + GOOD[35:],
    GOOD[:36] + b"0" * 16 + b"-01",
    GOOD.upper(),
    GOOD.replace(b"-", b"_"),
    GOOD[:-1],
    GOOD + b"x" * 600,
    b"",
    b"-" * PARENT_BYTES,
]


def stored(frame: bytes | bytearray) -> tuple[bytes, FrameHeader]:
    stamped = stamp(frame, unpack_header(frame), base_offset=1_000, leader_epoch=1, append_time_ms=5)
    return bytes(stamped.header_bytes) + bytes(stamped.body), stamped.header


def sampled_offsets(found: SampledRows) -> list[int]:
    parents = np.frombuffer(found.parents, np.uint8).reshape(-1, PARENT_BYTES)
    return found.offsets[are_sampled(parents)].tolist() if len(parents) else []


def expected(frame: bytes | bytearray) -> list[int]:
    parents = [parse_traceparent(each.get("traceparent")) for each in open_frame(frame, verify=False).headers()]
    return [1_000 + row for row, parent in enumerate(parents) if parent is not None and parent.is_sampled]


def random_headers(chance: random.Random) -> dict[str, bytes] | None:
    headers = {name: b"v" for name in ("a", "tracestate", "elevenbytes") if chance.random() < 0.3}
    if chance.random() < 0.6:
        headers["traceparent"] = GOOD if chance.random() < 0.4 else chance.choice(OTHERS)
    return headers or None


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
@pytest.mark.parametrize("seed", range(10))
def test_the_same_as_message_by_message(seed: int, compression: str) -> None:
    chance = random.Random(seed)
    count = chance.randrange(1, 60)
    keys = [chance.choice([None, b"k", "käse".encode(), b"\xff", b"x" * 300]) for _ in range(count)]
    times = [chance.randrange(1_000) for _ in range(count)]
    frame = build_frame(
        [b"x"] * count,
        keys=keys,
        timestamps_ms=times,
        headers=[random_headers(chance) for _ in range(count)],
        compression=compression,
    )
    data, header = stored(frame)
    found = stored_rows(data, 0, header)
    offsets = expected(frame)
    assert sampled_offsets(found) == offsets
    assert bool(header.attributes & SAMPLED) == bool(offsets)
    if compression == "none":
        direct = FrameBody(memoryview(data)[HEADER_BYTES : len(data) - header.padding], header).sampled_rows()
        assert (direct is None and not len(found.offsets)) or sampled_offsets(direct) == offsets  # type: ignore[arg-type]
    rows = [offset - 1_000 for offset in found.offsets.tolist()]
    if rows and found.timestamps_ms is not None:
        assert found.timestamps_ms.tolist() == [times[row] for row in rows]
    if rows and found.keys is not None:
        shown = {None: "", b"k": "k", "käse".encode(): "käse", b"\xff": "", b"x" * 300: "x" * 200}
        assert found.keys == [shown[keys[row]] for row in rows]


def test_headers_under_a_null_do_not_count() -> None:
    import pyarrow as pa

    whole = pa.array([[("traceparent", GOOD)]] * 4, pa.map_(pa.string(), pa.binary()))
    validity = pa.py_buffer(bytes([0b1010]))
    buffers = [validity, whole.buffers()[1]]
    pairs = pa.StructArray.from_arrays(
        [whole.keys, whole.items], fields=[whole.type.key_field, whole.type.item_field]
    )
    headers = pa.Array.from_buffers(whole.type, 4, buffers, 2, children=[pairs])
    frame = build_frame_from_arrow(pa.record_batch({"value": [b"x"] * 4, "headers": headers}), timestamp_ms=1)
    data, header = stored(frame)
    assert sampled_offsets(stored_rows(data, 0, header)) == [1_001, 1_003] == expected(frame)


def test_names_that_look_like_it_when_put_together() -> None:
    frame = build_frame([b"x"] * 2, timestamp_ms=1, headers=[{"traceparenttrace": GOOD}, {"parent": GOOD}])
    data, header = stored(frame)
    assert sampled_offsets(stored_rows(data, 0, header)) == []
