"""Slices: which offsets of which partition one Spark task reads. Pure."""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from quiver.model.limits import MIB

SLICE_BYTES = 128 * MIB
"""The largest estimated size of a slice: tasks stay short, and repeating a lost one costs little."""
WORTHWHILE_BYTES = 8 * MIB
"""Slices below this are not cut to keep cores busy: starting a task would cost more than it saves."""
TASKS_PER_CORE = 2
_NARROW_FACTOR = 8
"""How many bytes a narrow read, of headers or keys alone, passes in the time that another one needs for one."""
_TOLERANCE = 1.1
"""How much larger than its share a task may be, so that partitions of about the same size do not make one more."""


class BrokerFiles(NamedTuple):
    """The data directory of a broker, and which start of the broker uses it."""

    path: str
    pid: int
    started_at_ms: int


class Replica(NamedTuple):
    """A node of a cluster that has everything of a partition, and where it is reached."""

    address: str
    http_url: str | None
    rack: str = ""


class Slice(NamedTuple):
    """The offsets from `start` to below `stop` of one partition."""

    topic: str
    partition: int
    start: int
    stop: int
    topic_id: int = 0
    size_bytes: int = 0
    """An estimate."""
    aborted: tuple[tuple[int, int, int], ...] = ()
    """Direct reads: (producer id, first offset, offset of the marker) of aborted transactions that reach into it."""
    log: str = ""
    """Direct reads: the log's name in the data directory."""
    files: BrokerFiles | None = None
    """Reads through a broker: where tasks find the same bytes if they run on its machine."""
    replicas: tuple[Replica, ...] = ()
    """Reads through a cluster: who has the same bytes."""

    @property
    def offsets(self) -> int:
        return max(0, self.stop - self.start)

    def between(self, low: int, high: int) -> "Slice":
        """The offsets of the slice from `low` to below `high`."""
        start = min(max(self.start, low), self.stop)
        stop = max(start, min(self.stop, high))
        if (start, stop) == (self.start, self.stop):
            return self
        return self._replace(start=start, stop=stop, size_bytes=self.size_bytes * (stop - start) // self.offsets)

    def __str__(self) -> str:
        """For people, who read `5 to 9` as including 9: so the last offset is named, not the one after it."""
        named = f"offset {self.start}" if self.offsets == 1 else f"offsets {self.start} to {self.stop - 1}"
        return f"{named} of {self.topic}-{self.partition}"


def cut(
    slices: Iterable[Slice],
    *,
    cores: int,
    min_slices: int | None = None,
    max_rows: int | None = None,
    narrow: bool = False,
) -> list[Slice]:
    """The same offsets in slices that keep `cores` busy, or in at least `min_slices` if there are so many offsets.

    Each slice is cut into equal parts, as many as its bytes and `max_rows` ask for; empty ones are left out.
    """
    whole = [each for each in slices if each.offsets]
    share: float = math.inf
    if min_slices is None:
        most = _most_bytes(sum(_weight(each) for each in whole), cores, narrow=narrow)
    else:
        share, most = sum(each.offsets for each in whole) / min_slices, SLICE_BYTES
    share = min(share, max_rows or math.inf)
    return [
        part for each in whole for part in _parts(each, math.ceil(max(each.offsets / share, _weight(each) / most)))
    ]


def pack(slices: Iterable[Slice], *, cores: int, narrow: bool = False) -> list[tuple[Slice, ...]]:
    """Slices in groups of which each is worth a task; their order is kept."""
    listed = list(slices)
    share = _most_bytes(sum(_weight(each) for each in listed), cores, narrow=narrow)
    most = min(_TOLERANCE * share, SLICE_BYTES * (_NARROW_FACTOR if narrow else 1))
    groups: list[tuple[Slice, ...]] = []
    size = math.inf
    for each in listed:
        size += _weight(each)
        if size > most:
            groups.append(())
            size = _weight(each)
        groups[-1] += (each,)
    return groups


def _most_bytes(total: int, cores: int, *, narrow: bool) -> float:
    """The largest share of one task. Several tasks per core even out uneven ones, unless they get too small: those of
    a narrow read take little longer than a task takes to start."""
    share = total / max(1, cores)
    if narrow:
        return _NARROW_FACTOR * min(max(share / _NARROW_FACTOR, WORTHWHILE_BYTES), SLICE_BYTES)
    return min(max(share / TASKS_PER_CORE, WORTHWHILE_BYTES), SLICE_BYTES)


def _weight(each: Slice) -> int:
    return max(each.size_bytes, each.offsets)


def _parts(each: Slice, wanted: int) -> list[Slice]:
    count = max(1, min(wanted, each.offsets))
    borders = [each.start + each.offsets * index // count for index in range(count + 1)]
    return [
        each._replace(
            start=start,
            stop=stop,
            size_bytes=each.size_bytes * (stop - start) // each.offsets,
        )
        for start, stop in pairwise(borders)
    ]


def limit_rows(slices: Sequence[Slice], max_rows: int) -> list[Slice]:
    """The front of each slice, `max_rows` offsets in all at most, shared out in proportion to what there is.

    Every slice gets something; when there are more slices than rows, the longest do.
    """
    total = sum(each.offsets for each in slices)
    if total <= max_rows:
        return list(slices)
    served = sorted((each for each in slices if each.offsets), key=lambda each: -each.offsets)[:max_rows]
    total = sum(each.offsets for each in served)
    spare, rest = max_rows - len(served), total - len(served)
    shares = {each: 1 + (each.offsets - 1) * spare // max(1, rest) for each in served}
    return [_front(each, shares.get(each, 0)) for each in slices]


def _front(each: Slice, count: int) -> Slice:
    return each._replace(stop=each.start + count, size_bytes=each.size_bytes * count // max(1, each.offsets))
