"""Which partition messages go to: the one they name, that of their key or id, or one after the other."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from quiver.client.produce.rows import Indices, Rows
from quiver.model.errors import PartitionNotFound


class RoutedRows(NamedTuple):
    partition: int
    rows: Rows
    hashed: bool
    """Whether the partition count matters."""


class Routed(NamedTuple):
    parts: list[RoutedRows]
    order: Indices | None
    """How the rows were reordered to lie in the parts, one part after the other; None when they were not."""


class Router:
    def __init__(self, topic: str, start: int) -> None:
        self._topic = topic
        self._next = start

    def route(self, rows: Rows, chosen: int | None, count: int, is_failing: Callable[[int], bool]) -> Routed:
        """Messages without key and id stay together and go to the next partition that takes messages."""
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
            return Routed([RoutedRows(int(used[0]), rows, True)], None)
        # numpy sorts small integers by radix
        order = np.argsort(partitions.astype(np.int16) if count <= 2**15 else partitions, kind="stable")
        sorted_rows = rows.take(order)
        parts: list[RoutedRows] = []
        start = 0
        for partition in used.tolist():
            stop = start + int(counts[partition])
            parts.append(RoutedRows(partition, sorted_rows.slice(start, stop), True))
            start = stop
        return Routed(parts, order)

    def _next_partition(self, count: int, is_failing: Callable[[int], bool]) -> int:
        for _ in range(min(count, 100)):
            self._next = (self._next + 1) % count
            if not is_failing(self._next):
                break
        return self._next % count
