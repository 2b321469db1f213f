"""What happens to queues as time passes: leases end, retries are due, journals get snapshots."""

from quiver.groups.service import Groups
from quiver.model.limits import MIB
from quiver.queues.context import QueueContext
from quiver.queues.effective_settings import EffectiveSettings
from quiver.queues.lease_times import LONGEST_PAUSE_MS, LeaseTimes
from quiver.queues.partition.partition_queue import PartitionQueue
from quiver.queues.partition_queues import PartitionQueues
from quiver.queues.topic.topic_queues import TopicQueues
from quiver.system.pace import paced
from quiver.telemetry.failures import Failures
from quiver.telemetry.supervised_task import SupervisedTask

_SNAPSHOTS_EVERY_SECONDS = 2.0
_REPLAY_BYTES = 4 * MIB


class QueueMaintenance:
    """State of groups that were deleted is removed here too."""

    def __init__(
        self,
        queues: PartitionQueues,
        topic_queues: TopicQueues,
        times: LeaseTimes,
        groups: Groups,
        settings: EffectiveSettings,
        context: QueueContext,
    ) -> None:
        self._queues = queues
        self._topic_queues = topic_queues
        self._times = times
        self._groups = groups
        self._settings = settings
        self._clock, self._lease_clock = context.clock, context.lease_clock
        self._snapshots_at = 0.0
        self.task = SupervisedTask("queues", self._run)

    async def start(self) -> None:
        """Continues open moves, and starts the task."""
        async for queue in paced(self._queues.all()):
            await self._forget_groups(queue)
            queue.resume()
        self._snapshots_at = self._clock.monotonic() + _SNAPSHOTS_EVERY_SECONDS
        self.task.start()

    async def expire_due(self, failures: Failures) -> None:
        """Ends expired leases and makes due retries available, in the partitions whose time has come."""
        now_ms = self._lease_clock.now_ms()
        while (place := self._times.take(now_ms)) is not None:
            queue = self._queues.get(*place)
            if queue is None:
                continue
            next_ms: int | None = now_ms + LONGEST_PAUSE_MS
            with failures.of(f"the end of leases of {queue.partition.name}"):
                await self.expire(queue)
                next_ms = queue.next_time_ms()
            self._times.note(queue, next_ms)

    async def expire(self, queue: PartitionQueue) -> None:
        """Ends the expired leases of one partition."""
        topic_id = queue.place.topic_id
        for group_id in await queue.expire(lambda group_id: self._settings.of(topic_id, group_id)):
            self._topic_queues.changed(queue, group_id)

    async def save_snapshots(self, failures: Failures) -> None:
        """Where they are due, and where the next start would have to replay too much."""
        async for queue in paced(self._queues.all()):
            with failures.of(f"a snapshot of the queues of {queue.partition.name}"):
                await self._forget_groups(queue)
                await queue.journal.snapshot_if_due()
        await self._shorten_replay(failures)

    async def _run(self) -> None:
        while True:
            await self._times.pause()
            failures = Failures()
            await self.expire_due(failures)
            if self._clock.monotonic() >= self._snapshots_at:
                self._snapshots_at = self._clock.monotonic() + _SNAPSHOTS_EVERY_SECONDS
                await self.save_snapshots(failures)
            failures.check()

    async def _shorten_replay(self, failures: Failures) -> None:
        """Limits what the next start has to replay of all partitions together, however many there are."""
        total = snapshots = 0
        async for queue in paced(self._queues.all()):
            total += queue.journal.replay_bytes
            snapshots += queue.journal.snapshot_bytes
        limit = max(_REPLAY_BYTES, snapshots)
        if total <= limit:
            return
        for journal in sorted((queue.journal for queue in self._queues.all()), key=lambda each: -each.replay_bytes):
            if total <= limit:
                return
            total -= journal.replay_bytes
            with failures.of(f"a snapshot of the queues of {journal.name}"):
                await journal.snapshot()

    async def _forget_groups(self, queue: PartitionQueue) -> None:
        async for group_id in paced(queue.group_ids):
            if self._groups.name_of(group_id) is None:
                await queue.forget(group_id)
