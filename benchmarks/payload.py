"""Message bodies: different from each other, not compressible, with room for a time stamp; the same in every run."""

import itertools
import random
import struct
import time
from collections.abc import Iterator

STAMP_BYTES = 8
POOL_BODIES = 10_000
POOL_BYTES = 16 << 20
_FEWEST = 16


def payload(size: int) -> bytes:
    """One body."""
    return random.Random(size).randbytes(size)


def bodies(size: int, count: int = POOL_BODIES) -> list[bytes]:
    """A list of `count` bodies. They differ until the pool is used up: 10,000 bodies, or 16 MiB of larger ones."""
    different = min(count, POOL_BODIES, max(_FEWEST, POOL_BYTES // size))
    data = random.Random(size).randbytes(different * size)
    pool = [data[start : start + size] for start in range(0, len(data), size)]
    return list(itertools.islice(itertools.cycle(pool), count))


def endless_bodies(size: int) -> Iterator[bytes]:
    """Bodies for one message after another; taking one costs as little as counting."""
    return itertools.cycle(bodies(size))


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
