"""Delivers messages of one partition: reads ahead, leases, and builds the response once the lease is journaled."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from quiver.model.names import StartEpoch, TopicPartition
from quiver.model.queue import QueueSettings
from quiver.partition.partition import Partition
from quiver.queues.context import RECENT_LEASES, QueueContext
from quiver.queues.journal.events import Died
from quiver.queues.journal.journal import QueueJournal
from quiver.queues.journal.moves import moves_of
from quiver.queues.partition.queue_group import Counters, QueueGroup
from quiver.queues.partition.read_ahead import ReadAhead
from quiver.queues.partition.response_builder import BuiltResponse, ResponseBuilder
from quiver.queues.state.port import LEVELS, LeaseTerms, Run, Taken
from quiver.queues.state.retry_policy import RetryPolicy
from quiver.telemetry.histogram import WAIT_SECONDS

_ALL_LEVELS = (1 << LEVELS) - 1
_LEASE_COUNTER_BITS = 40


class LeaseIds:
    """Lease ids that no two brokers on one data directory ever use twice: the epoch of the broker's start, and a
    counter that all partitions share. A topic that is deleted and created again never sees an old id again; receipts
    name topics by name, so they could not tell the two apart."""

    __slots__ = ("_last",)

    def __init__(self, start_epoch: StartEpoch) -> None:
        self._last = start_epoch << _LEASE_COUNTER_BITS

    def next(self) -> int:
        self._last += 1
        return self._last


class DeliveredRun(NamedTuple):
    """A run of messages that is delivered to a consumer."""

    partition: int
    group_id: int
    lease_id: int
    start: int
    end: int
    attempt: int
    deadline_ms: int
    """By the wall clock."""
    first_delivered_ms: int
    last_error: str
    frame: bytes | memoryview
    """A stamped frame with exactly these messages: as it is stored when they are all of it."""


class LeaseIssuer:
    def __init__(
        self,
        place: TopicPartition,
        partition: Partition,
        journal: QueueJournal,
        context: QueueContext,
        lease_ids: LeaseIds,
    ) -> None:
        self._log, self._traffic = partition.log, partition.traffic
        self._number = place.partition
        self._journal = journal
        self._clock, self._lease_clock = context.clock, context.lease_clock
        self._lease_ids = lease_ids
        self._delivery_times = context.delivery_times
        removed = journal.removed if journal.is_dead_letter_partition else None
        self._read_ahead = ReadAhead(partition, context.frames, removed)
        self._response_builder = ResponseBuilder(partition, context.frames, removed, context.clock)
        self._deadlines: dict[int, int] = {}
        """Of leases that were taken and not delivered yet."""

    def new_lease_id(self) -> int:
        return self._lease_ids.next()

    async def read_ahead(self, group_id: int, *, count: int, levels: int = _ALL_LEVELS) -> list[int]:
        """Reads the log until `count` of each of the levels (bits) are available, or no more; returns how many are.

        While something cannot be written to the journal, nothing new is read: that error is raised.
        """
        group = self._journal.groups.get(group_id)
        if group is None:
            return [0] * LEVELS
        if self._journal.is_stuck:
            await self._journal.written()
        if self._log.start_offset > group.log_start:
            await self._pass_over_lost(group)
        available = await self._read_ahead.read_ahead(group, count, levels, self._lease_clock.now_ms())
        if group.state.events:
            self._journal.put(group)
        return available

    def take(self, group_id: int, level: int, count: int, terms: LeaseTerms) -> list[Taken]:
        """Leases up to `count` messages of a level, of what was read ahead or is due. Several calls may add to one
        lease; then `deliver` is called with all of it."""
        group = self._journal.groups.get(group_id)
        if group is None:
            return []
        taken = group.state.take(level, count, terms, self._lease_clock.now_ms(), self._clock.now_ms())
        if taken:
            self._deadlines.setdefault(terms.lease, terms.deadline_ms)
            # At once: the positions in an event cover all that was taken, so events must come in the order of takes.
            group.state.lease_taken()
            self._journal.put(group)
        return taken

    async def deliver(
        self,
        group_id: int,
        lease: int,
        taken: Sequence[Taken],
        *,
        ttl_ms: int | None,
        settings: QueueSettings,
        max_bytes: int,
    ) -> list[DeliveredRun]:
        """The messages of a lease in the order in which they were taken, once the lease is in the journal and, in
        order by key, what was settled before them on disk.

        Expired messages become dead letters instead, those that the log no longer has are settled, and those that do
        not fit become available as if they had not been taken; one message always fits. If this raises, all of them
        become available again.
        """
        group, deadline_ms = self._journal.groups.get(group_id), self._deadlines.pop(lease, 0)
        if group is None:
            return []
        try:
            response = await self._response_builder.build(taken, ttl_ms=ttl_ms, max_bytes=max_bytes)
            died = self._leave_out(group, lease, response, settings)
            waits_for_disk = died or group.may_overtake(self._journal.synced_changes)
            await (self._journal.durable() if waits_for_disk else self._journal.written())
        except BaseException:
            self._give_back(group, lease, [(run.start, run.end) for run in taken], settings)
            self._journal.put(group)
            raise
        self._note_delivered(group.counters, response)
        now_ms = self._lease_clock.now_ms()
        self._delivery_times[lease % RECENT_LEASES] = lease, now_ms
        shown_ms = deadline_ms + self._clock.now_ms() - now_ms
        return [
            DeliveredRun(
                self._number,
                group.id,
                lease,
                run.start,
                run.end,
                run.taken.attempt,
                shown_ms,
                run.taken.first_delivered_ms,
                run.taken.last_error,
                run.frame,
            )
            for run in response.runs
        ]

    def _leave_out(self, group: QueueGroup, lease: int, response: BuiltResponse, settings: QueueSettings) -> bool:
        """Settles what is not delivered, gives back what does not fit; returns whether there are new dead letters."""
        if not (response.lost or response.removed or response.expired or response.unfit):
            return False
        events: list[Died] = []
        gone = response.lost + response.removed
        if gone:
            events.append(Died(group.id, group.state.drop(lease, gone, "lost"), []))
            group.counters.lost += sum(end - start for start, end in response.lost)
        expired = self._journal.move_to_dlq(group, group.state.drop(lease, response.expired, "expired"))
        if response.unfit:
            self._give_back(group, lease, response.unfit, settings)
        self._journal.put(group, [*events, *expired])
        if expired:
            group.pending_acks.add_unsynced(min(response.expired)[0], self._journal.changes)
            self._journal.carry(moves_of(expired))
        return bool(expired)

    def _give_back(self, group: QueueGroup, lease: int, runs: Sequence[Run], settings: QueueSettings) -> None:
        """As if they had not been taken."""
        policy = RetryPolicy(settings, self._lease_clock.now_ms(), delay_ms=0, is_counted=False)
        group.state.nack(lease, runs, policy)

    def _note_delivered(self, counters: Counters, response: BuiltResponse) -> None:
        now_ms, traffic = self._clock.now_ms(), self._traffic
        seconds = traffic.delivery_seconds
        for run in response.runs:
            count, level = run.end - run.start, run.taken.level
            traffic.received_messages += count
            traffic.received_bytes += len(run.frame)
            counters.delivered += count
            if run.taken.attempt > 1:
                counters.delivered_again += count
            else:
                waited = max(0, now_ms - run.append_time_ms) / 1000
                seconds.counts[bisect_left(WAIT_SECONDS, waited)] += count
                seconds.sum += waited * count
            counters.delivered_by_level[level] += count
            counters.waited_ms_by_level[level] += count * max(0, now_ms - run.append_time_ms)
            counters.last_served_ms_by_level[level] = now_ms

    async def _pass_over_lost(self, group: QueueGroup) -> None:
        """Retention has removed what the group had not settled, or not even read."""
        start = group.log_start = self._log.start_offset
        if group.state.lowest_unsettled() < start:
            lost = self._log.removed_count(group.highest_position())
            lost += await group.settle_below(start)
            group.counters.lost += lost
            self._journal.put(group)
