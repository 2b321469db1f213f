"""Tells partitions to deliver when they have something due."""

import asyncio
import logging
from typing import Protocol

from quiver.model.names import TopicPartition
from quiver.structures.deadlines import Deadlines
from quiver.system.clock import Clock
from quiver.telemetry.supervised_task import SupervisedTask

logger = logging.getLogger(__name__)

_TICK_SECONDS = 0.25
"""The wall clock may jump, so it is checked this often while anything waits."""
_PAUSE_SECONDS = 0.02
"""What becomes due within this time after a delivery is delivered together."""


class DuePartition(Protocol):
    def next_time_ms(self) -> int | None:
        """When `deliver_due` has to be called; None if there is nothing to wait for."""

    async def deliver_due(self) -> None: ...


class DueClock:
    """Each partition delivers in one task at a time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._partitions: dict[TopicPartition, DuePartition] = {}
        self._deadlines: Deadlines[tuple[int, int]] = Deadlines()
        self._nearer = asyncio.Event()
        """The nearest deadline has changed."""
        self._deliveries: dict[TopicPartition, asyncio.Task[None]] = {}
        self.task = SupervisedTask("delivery of delayed messages", self._run)

    def start(self) -> None:
        self.task.start()

    async def stop(self) -> None:
        """Starts no more deliveries and waits for those that run."""
        await self.task.stop()
        await asyncio.gather(*self._deliveries.values(), return_exceptions=True)

    def add(self, place: TopicPartition, partition: DuePartition) -> None:
        """From now on the partition is told when it has something due."""
        self._partitions[place] = partition
        self.note(place)

    def remove(self, place: TopicPartition) -> None:
        self._partitions.pop(place, None)
        self._deadlines.forget(place)

    def note(self, place: TopicPartition) -> None:
        """The partition may have something due earlier than it said before."""
        partition = self._partitions.get(place)
        if partition is None or place in self._deliveries:
            return  # it is asked when it is added, and after each delivery
        before = self._deadlines.nearest_ms()
        self._deadlines.note(place, partition.next_time_ms())
        if self._deadlines.nearest_ms() != before:
            self._nearer.set()

    async def _run(self) -> None:
        while True:
            self._nearer.clear()
            now_ms = self._clock.now_ms()
            while (taken := self._deadlines.take(now_ms + 1)) is not None:
                place = TopicPartition(*taken)
                partition = self._partitions.get(place)
                if partition is not None and place not in self._deliveries:
                    delivery = self._deliver(place, partition)
                    self._deliveries[place] = asyncio.get_running_loop().create_task(delivery)
            nearest_ms = self._deadlines.nearest_ms()
            seconds = None if nearest_ms is None else min(_TICK_SECONDS, max(1, nearest_ms - now_ms) / 1000)
            try:
                async with asyncio.timeout(seconds):
                    await self._nearer.wait()
            except TimeoutError:
                pass

    async def _deliver(self, place: TopicPartition, partition: DuePartition) -> None:
        try:
            await partition.deliver_due()
        except Exception:
            logger.exception("due messages of topic id %d, partition %d have to wait", *place)
        try:
            await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            del self._deliveries[place]
            self.note(place)
