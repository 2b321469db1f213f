"""Message bodies: always the same bytes for a size, not compressible, with room for a time stamp."""

import random
import struct
import time
from collections.abc import Iterator

STAMP_BYTES = 8


def payload(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def stamped(body: bytes) -> bytes:
    """The body with its first bytes replaced by the monotonic clock, which all processes of a machine share."""
    return struct.pack("<q", time.monotonic_ns()) + body[STAMP_BYTES:]


def age_seconds(body: bytes) -> float:
    stamp: int = struct.unpack_from("<q", body)[0]
    return (time.monotonic_ns() - stamp) / 1e9


def paced(count: int, rate: float) -> Iterator[int]:
    """Yields `count` times, `rate` times a second; a late caller goes on from now, without bursts to catch up."""
    due = time.monotonic()
    for index in range(count):
        wait = due - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        yield index
        due = max(due + 1 / rate, time.monotonic() - 1 / rate)
