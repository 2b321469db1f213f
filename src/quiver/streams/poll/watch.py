"""Waits for news in the partitions of this process: messages that arrive, and messages to deliver again."""

import asyncio
from collections.abc import Mapping

from quiver.model.names import TopicPartition
from quiver.partition.partition import Partition
from quiver.queues.service import Queues


class OwnWatch:
    def __init__(self, queues: Queues, group_id: int, partitions: Mapping[TopicPartition, Partition]) -> None:
        self.news = asyncio.Event()
        self._queues = queues
        self._group_id = group_id
        self._partitions = partitions
        for partition in partitions.values():
            partition.committed.watch(self.news.set)
        queues.watchers.watch(group_id, self.news.set)

    def extend(self) -> bool:
        return False

    def seconds_to_retry(self) -> float:
        nearest_ms = None
        for topic_id, number in self._partitions:
            queue = self._queues.partition_queues(topic_id).get(number)
            state = None if queue is None else queue.state(self._group_id)
            time_ms = None if state is None else state.next_time_ms()
            if time_ms is not None and (nearest_ms is None or time_ms < nearest_ms):
                nearest_ms = time_ms
        now_ms = self._queues.lease_clock.now_ms()
        return float("inf") if nearest_ms is None else max(0.01, (nearest_ms + 1 - now_ms) / 1000)

    def close(self) -> None:
        self._queues.watchers.unwatch(self._group_id, self.news.set)
        for partition in self._partitions.values():
            partition.committed.unwatch(self.news.set)
