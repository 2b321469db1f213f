"""Chooses partitions: the one that a message names, that of its key or id, or each in turn."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from quiver.client.produce.options import BatchLimits
from quiver.client.produce.rows import Indices, Rows, runs_within
from quiver.model.errors import PartitionNotFound
from quiver.structures.murmur2 import partition_for

NO_LIMITS = BatchLimits(2**63 - 1, 2**63 - 1)


class RoutedRows(NamedTuple):
    partition: int
    rows: Rows
    hashed: bool
    """Whether the partition count matters."""


class Routed(NamedTuple):
    parts: list[RoutedRows]
    order: Indices | None
    """The order of the rows in the parts, one part after the other; None if it did not change."""


def _cut(partition: int, rows: Rows, limits: BatchLimits) -> list[RoutedRows]:
    """The rows of a partition in parts within limits."""
    if rows.size_bytes <= limits.size_bytes and len(rows) <= limits.messages:
        return [RoutedRows(partition, rows, True)]
    runs = runs_within(np.cumsum(rows.sizes()), limits)
    return [RoutedRows(partition, rows.slice(start, stop), True) for start, stop, _ in runs]


class Router:
    def __init__(self, topic: str, start: int) -> None:
        self._topic = topic
        self._next = start

    def route(
        self,
        rows: Rows,
        chosen: int | None,
        count: int,
        is_failing: Callable[[int], bool],
        limits: BatchLimits = NO_LIMITS,
    ) -> Routed:
        """Messages without key and id stay together and go to the next partition in turn.

        Messages by key may be more than a batch; they are cut if they are too many for a partition.
        """
        if chosen is not None:
            if not 0 <= chosen < count:
                raise PartitionNotFound(topic=self._topic, count=count, partition=chosen)
            return Routed([RoutedRows(chosen, rows, False)], None)
        sticky = self._next_partition(count, is_failing)
        if not rows.has_hashes:
            return Routed([RoutedRows(sticky, rows, False)], None)
        partitions = rows.partitions(count, sticky)
        counts = np.bincount(partitions, minlength=count)
        used = np.flatnonzero(counts)
        if len(used) == 1:
            return Routed(_cut(int(used[0]), rows, limits), None)
        # numpy sorts small integers by radix
        order = np.argsort(partitions.astype(np.int16) if count <= 2**15 else partitions, kind="stable")
        sorted_rows = rows.take(order)
        is_much = rows.size_bytes > limits.size_bytes or len(rows) > limits.messages
        parts: list[RoutedRows] = []
        start = 0
        for partition, part_count in zip(used.tolist(), counts[used].tolist(), strict=True):
            part = sorted_rows.slice(start, start + part_count)
            if is_much:
                parts += _cut(partition, part, limits)
            else:
                parts.append(RoutedRows(partition, part, True))
            start += part_count
        return Routed(parts, order)

    def partition_of(self, key: bytes | None, count: int, is_failing: Callable[[int], bool]) -> int:
        """Where a single message goes."""
        if count == 1:
            return 0
        return self._next_partition(count, is_failing) if key is None else partition_for(key, count)

    def _next_partition(self, count: int, is_failing: Callable[[int], bool]) -> int:
        for _ in range(min(count, 100)):
            self._next = (self._next + 1) % count
            if not is_failing(self._next):
                break
        return self._next % count
