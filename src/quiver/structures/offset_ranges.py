"""Integers as half-open ranges: from single integers, from ranges that touch, from ranges in any order.

`IntervalSet` is for sets that are kept and changed; these are for lists that are made once.
"""

from collections.abc import Iterable, Sequence

import numpy as np

Range = tuple[int, int]
"""`start` is in, `stop` is not."""


def ranges_of(integers: Iterable[int], *, gap: int = 0) -> list[Range]:
    """In the order given. An integer that follows the last range with at most `gap` others in between extends it."""
    found: list[Range] = []
    start = stop = None
    for integer in integers:
        if stop is None:
            start = integer
        elif not stop <= integer <= stop + gap:
            found.append((start, stop))  # type: ignore[arg-type]  # both are set, or neither
            start = integer
        stop = integer + 1
    if stop is not None:
        found.append((start, stop))  # type: ignore[arg-type]
    return found


def joined(ranges: Iterable[Range], *, gap: int = 0) -> list[Range]:
    """In the order given. A range that follows the last one with at most `gap` integers in between extends it."""
    found: list[Range] = []
    for start, stop in ranges:
        if found and 0 <= start - found[-1][1] <= gap:
            found[-1] = (found[-1][0], stop)
        else:
            found.append((start, stop))
    return found


def merged(ranges: Iterable[Range]) -> list[Range]:
    """The same integers in order, in as few ranges as possible. Ranges may overlap; empty ones are left out."""
    found: list[Range] = []
    for start, stop in sorted(ranges):
        if start >= stop:
            continue
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(stop, found[-1][1]))
        else:
            found.append((start, stop))
    return found


def merged_many(ranges: Sequence[Range]) -> list[Range]:
    """Like `merged`, for very many ranges, none of them empty."""
    if not ranges:
        return []
    bounds = np.array(ranges, dtype=np.int64)
    bounds = bounds[np.argsort(bounds[:, 0], kind="stable")]
    reach = np.maximum.accumulate(bounds[:, 1])
    first = np.concatenate(([True], bounds[1:, 0] > reach[:-1]))
    last = np.concatenate((first[1:], [True]))
    return list(zip(bounds[first, 0].tolist(), reach[last].tolist(), strict=True))


def size(ranges: Iterable[Range]) -> int:
    """How many integers they contain, if none overlap."""
    return sum(stop - start for start, stop in ranges)
