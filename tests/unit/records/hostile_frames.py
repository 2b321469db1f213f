"""Sends damaged frames with good checksums through the entry check and the reader.

Run as a program, with `tests` on the path:

    python -m unit.records.hostile_frames ROUNDS SEED

It limits its own memory, so a frame that makes a reader allocate too much ends it, as does one that crashes Arrow.
Prints `ok`, how many of the frames were taken, and the most memory that Arrow has held.
"""

import random
import resource
import sys

import pyarrow as pa

from quiver.model.errors import QuiverError
from quiver.model.limits import KIB, MIB, Limits
from quiver.records.build import build_frame
from quiver.records.check import check_frame
from quiver.records.header import HEADER_BYTES, PADDING_SHIFT, FrameHeader, stamp, unpack_header
from quiver.records.read import open_frame
from unit.records.frame_content import sealed

LIMITS = Limits(frame_bytes=MIB, message_bytes=64 * KIB)
HEADROOM_BYTES = 384 * MIB
_INTERESTING = (0, 1, 2, 3, 7, 8, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1)


def seeds() -> list[bytes]:
    count = 9
    values = [bytes([65 + i]) * (i * 7) for i in range(count)]
    columns = {
        "keys": [b"k%d" % i for i in range(count)],
        "timestamps_ms": list(range(1000, 1000 + count)),
        "headers": [{"name": b"x" * i, "ü": b""} if i % 2 else None for i in range(count)],
        "deliver_at_ms": [None, 5] + [None] * (count - 2),
        "expires_at_ms": [7] * count,
        "ids": [b"id"] * count,
    }
    frames = []
    for compression in ("none", "lz4", "zstd"):
        frames += [
            build_frame(values, timestamp_ms=5, compression=compression),
            build_frame([None, *values[1:]], compression=compression, **columns),
            build_frame(
                values, keys=columns["keys"], headers=columns["headers"], timestamp_ms=5, compression=compression
            ),
        ]
    return frames


def arrow_compressed(rng: random.Random) -> bytes:
    """A body whose Arrow buffers are compressed and claim to hold far more than they do."""
    held = 64 * KIB
    batch = pa.record_batch({"value": pa.array([bytes(held)], pa.binary())})
    options = pa.ipc.IpcWriteOptions(compression=rng.choice(["lz4", "zstd"]))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    reader = pa.ipc.MessageReader.open_stream(sink.getvalue())
    reader.read_next_message()
    body = reader.read_next_message().serialize().to_pybytes()
    claim = body.rindex(held.to_bytes(8, "little"))  # in front of the last buffer, which is the values
    return body[:claim] + rng.choice((2**26, 2**30, 2**40)).to_bytes(8, "little") + body[claim + 8 :]


def damaged_bytes(body: bytes, rng: random.Random) -> bytes:
    data = bytearray(body)
    # Most of what can go wrong is in the metadata in front; the rest are offsets and lengths further back.
    span = len(data) if rng.random() < 0.4 else min(len(data), 640)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        place = rng.randrange(span)
        kind = rng.randrange(4)
        if kind == 0:
            data[place] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[place] = rng.randrange(256)
        else:
            width = 8 if kind == 2 else 4
            place -= place % 4
            number = (rng.choice(_INTERESTING) + rng.choice((0, 0, 0, -1, 1, 4))) % 2 ** (8 * width)
            data[place : place + width] = number.to_bytes(width, "little")
    if rng.random() < 0.1:
        data = data[: rng.randrange(len(data))]
    return bytes(data)


def damaged_header(header: FrameHeader, rng: random.Random) -> FrameHeader:
    field = rng.choice(("record_count", "uncompressed_length", "attributes", "columns", "last_offset_delta"))
    wide = field in ("attributes", "columns")
    number = rng.randrange(2**11) if wide else rng.choice((rng.randrange(64), rng.randrange(2**21), 2**31, 2**32 - 1))
    changed = header._replace(**{field: number})
    if field == "record_count" and number:
        changed = changed._replace(last_offset_delta=number - 1)
    return changed


def hostile_frame(frames: list[bytes], rng: random.Random) -> bytes:
    frame = rng.choice(frames)
    header, body = unpack_header(frame), frame[HEADER_BYTES:]
    plain = header._replace(attributes=0)
    choice = rng.random()
    if choice < 0.05:
        body, header = rng.randbytes(rng.randrange(1, 400)), plain
    elif choice < 0.06:
        body, header = arrow_compressed(rng), plain._replace(columns=0, record_count=1, last_offset_delta=0)
    elif choice < 0.2:
        header = damaged_header(header, rng)
    elif header.compression and choice < 0.6:
        message = pa.Codec(("lz4", "zstd")[header.compression - 1])
        stored = body[: header.length - header.padding]
        whole = message.decompress(stored, decompressed_size=header.uncompressed_length).to_pybytes()
        whole = damaged_bytes(whole, rng)
        length = max(0, len(whole) + rng.choice((0, 0, 0, 1, -1, 8, 1000)))
        body, header = message.compress(whole).to_pybytes(), header._replace(uncompressed_length=length)
    else:
        body = damaged_bytes(body, rng)
    return padded(header, body)


def padded(header: FrameHeader, body: bytes) -> bytes:
    """The frame with the padding and the lengths that its body needs, so that the checks behind those are reached."""
    padding = -len(body) % 8
    if not header.compression:
        header = header._replace(uncompressed_length=len(body))
    attributes = header.attributes & ~(0b111 << PADDING_SHIFT) | padding << PADDING_SHIFT
    return sealed(header._replace(length=len(body) + padding, attributes=attributes), body + bytes(padding))


def read_all(frame: bytes) -> bool:
    """Whether the frame was taken; what the reader opens, it reads in every way there is."""
    try:
        check_frame(frame, LIMITS)
        taken = True
    except QuiverError:
        taken = False
    stamped = stamp(frame, unpack_header(frame), base_offset=2**40, leader_epoch=3, append_time_ms=1)
    try:
        opened = open_frame(bytes(stamped.header_bytes) + bytes(stamped.body), limits=LIMITS)
    except QuiverError:
        assert not taken, "the entry check took a frame that the reader refuses"
        return False
    opened.values(), opened.keys(), opened.ids(), opened.timestamps(), opened.headers(), opened.offsets()
    opened.deliver_at_ms(), opened.expires_at_ms(), opened.to_arrow().to_pylist()
    return taken


def limit_memory() -> None:
    with open("/proc/self/statm") as file:
        held = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + HEADROOM_BYTES, held + HEADROOM_BYTES))


def main(rounds: int, seed: int) -> None:
    frames = seeds()
    limit_memory()
    rng = random.Random(seed)
    taken = sum(read_all(hostile_frame(frames, rng)) for _ in range(rounds))
    print("ok", taken, pa.default_memory_pool().max_memory())


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
