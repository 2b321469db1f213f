"""Where messages go that may go to any partition: while many come, to partitions of the worker that got them."""

import asyncio

from quiver.cluster.placement import Placement
from quiver.model.topic import Topic

_STICKY_MESSAGES = 100
_MANY = 2
"""Messages in one turn of the loop, from as many requests: then other workers get messages of their own."""
_TURNS = 32
"""With fewer messages, until there are not many any more: requests of many clients do not always come together."""


class OwnPartitions:
    """A client that sends one message after the other uses all partitions. Of many clients each worker has a share:
    then the partitions fill evenly, and nothing has to be passed on."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self._in_turn = 0
        self._turns_left = 0
        """For which many are expected, because there were many."""
        self._sent: dict[int, int] = {}
        """By topic id."""

    def next(self, topic: Topic) -> int | None:
        """A partition of this worker; None if there is none, or if few messages come."""
        if not self._in_turn:
            asyncio.get_running_loop().call_soon(self._end_turn)
        self._in_turn += 1
        if not self._turns_left and self._in_turn < _MANY:
            return None
        placement, count = self._placement, topic.config.partitions
        workers = placement.worker_count
        if placement.worker >= workers:
            return None
        first = (placement.worker - placement.partition_worker(topic.name, 0)) % workers
        if first >= count:
            return None
        sent = self._sent[topic.id] = self._sent.get(topic.id, -1) + 1
        return first + workers * (sent // _STICKY_MESSAGES % len(range(first, count, workers)))

    def _end_turn(self) -> None:
        self._turns_left = _TURNS if self._in_turn >= _MANY else max(0, self._turns_left - 1)
        self._in_turn = 0
