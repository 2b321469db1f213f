"""Which partition messages go to: the one they name, that of their key or id, or one after the other."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from quiver.client.produce.rows import Indices, Rows
from quiver.model.errors import PartitionNotFound


class Routed(NamedTuple):
    parts: list[tuple[int, Rows]]
    order: Indices | None
    """How the rows were reordered to lie in the parts, one part behind the other; None when they were not."""
    hashed: bool
    """Whether the partition count matters."""


class Router:
    def __init__(self, topic: str, start: int) -> None:
        self._topic = topic
        self._next = start

    def route(self, rows: Rows, chosen: int | None, count: int, is_failing: Callable[[int], bool]) -> Routed:
        """Messages without key and id stay together and go to the next partition that takes messages."""
        if chosen is not None:
            if not 0 <= chosen < count:
                raise PartitionNotFound(topic=self._topic, count=count, partition=chosen)
            return Routed([(chosen, rows)], None, False)
        sticky = self._next_partition(count, is_failing)
        if not rows.has_hashes:
            return Routed([(sticky, rows)], None, False)
        partitions = rows.partitions(count, sticky)
        counts = np.bincount(partitions, minlength=count)
        used = np.flatnonzero(counts)
        if len(used) == 1:
            return Routed([(int(used[0]), rows)], None, True)
        # numpy sorts small integers by radix
        order = np.argsort(partitions.astype(np.int16) if count <= 2**15 else partitions, kind="stable")
        sorted_rows = rows.take(order)
        parts: list[tuple[int, Rows]] = []
        start = 0
        for partition in used.tolist():
            stop = start + int(counts[partition])
            parts.append((partition, sorted_rows.slice(start, stop)))
            start = stop
        return Routed(parts, order, True)

    def _next_partition(self, count: int, is_failing: Callable[[int], bool]) -> int:
        for _ in range(min(count, 100)):
            self._next = (self._next + 1) % count
            if not is_failing(self._next):
                break
        return self._next % count
