"""Message bodies: different from each other, with room for a time stamp, the same in every run."""

import itertools
import random
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from benchmarks.json_orders import orders

Compression = Literal["none", "lz4"]
STAMP_BYTES = 8
FEW_BODIES = 10_000
"""Enough for messages that go one by one."""
POOL_BYTES = 64 << 20
"""More than the last-level cache of a usual machine, so that bulk producers are not fed from it."""
FEWEST = 16


@dataclass(frozen=True, slots=True)
class Payload:
    """What the messages of a workload look like, and how the client compresses them on their way."""

    size: int
    kind: Literal["random", "JSON"] = "random"
    compression: Compression = "none"

    @property
    def detail(self) -> str:
        """For measurements: empty for random bodies, as most are."""
        compressed = "" if self.compression == "none" else f", {self.compression}"
        return "" if self.kind == "random" else f"{self.kind}{compressed}"

    def different(self, at_most: int) -> list[bytes]:
        """Bodies that all differ: `at_most` of them, or as many as the pool has."""
        return orders(self.size, at_most) if self.kind == "JSON" else random_pool(self.size, at_most)

    def bodies(self, count: int) -> list[bytes]:
        """A list of `count` bodies, which begins again when the pool is used up."""
        return list(itertools.islice(self.endless(count), count))

    def endless(self, count: int = FEW_BODIES) -> Iterator[bytes]:
        """One body after another, for about `count` messages; taking one costs as little as counting."""
        return itertools.cycle(self.different(count))

    def chunks(self, count: int, chunk: int) -> Iterator[list[bytes]]:
        """Lists of `chunk` bodies, `count` bodies in all. All lists are made by this call."""
        pool = self.bodies(-(-len(self.different(count)) // chunk) * chunk)
        lists = [pool[start : start + chunk] for start in range(0, len(pool), chunk)]
        return cut(itertools.cycle(lists), count)


def cut(lists: Iterator[list[bytes]], count: int) -> Iterator[list[bytes]]:
    """The lists until they have `count` elements; the last is shortened."""
    left = count
    while left > 0:
        values = next(lists)
        yield values if len(values) <= left else values[:left]
        left -= len(values)


def payload(size: int) -> bytes:
    """One body."""
    return random.Random(size).randbytes(size)


def bodies(size: int, count: int = FEW_BODIES) -> list[bytes]:
    """A list of `count` random bodies."""
    return Payload(size).bodies(count)


def endless_bodies(size: int) -> Iterator[bytes]:
    return Payload(size).endless()


def random_pool(size: int, at_most: int) -> list[bytes]:
    """Random bytes, which do not compress."""
    different = min(at_most, max(FEWEST, POOL_BYTES // size))
    data = random.Random(size).randbytes(different * size)
    return [data[start : start + size] for start in range(0, len(data), size)]


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
