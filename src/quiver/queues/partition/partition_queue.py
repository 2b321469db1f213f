"""The queue groups of one partition: who holds what, the journal behind it, and the messages on their way.

A change is made in the state first and then written: leases before their answer leaves, everything else to the disk
before it is answered. What cannot be written is taken back.
"""

from collections.abc import Awaitable, Callable, Sequence

from quiver.model.epochs import StartEpoch
from quiver.model.errors import LeaseLost
from quiver.model.queue import Ordering, QueueSettings
from quiver.outbox.outbox import Move, Outbox
from quiver.partition.partition import Partition
from quiver.queues.journal.events import Began, DeadLettersRemoved, Forgotten, Rewound, SettledBelow
from quiver.queues.journal.journal import QueueJournal
from quiver.queues.lease_ids import LeaseIds
from quiver.queues.partition.frame_cache import FrameCache
from quiver.queues.partition.lease_issuer import DeliveredRun, LeaseIssuer
from quiver.queues.partition.lease_settler import LeaseSettler, PreparedAcks
from quiver.queues.partition.queue_group import QueueGroup
from quiver.queues.partition.settled_offset import settled_offset, settled_with
from quiver.queues.state.counters import Counters
from quiver.queues.state.port import LEVELS, GroupState, Refused, Run, Settlement, Taken
from quiver.queues.state.settle_below import settle_below
from quiver.storage.history import NO_HISTORY, History
from quiver.storage.port import Storage
from quiver.structures.interval_set import IntervalSet
from quiver.system.clock import Clock
from quiver.system.pace import paced
from quiver.system.randomness import Randomness

__all__ = ["Counters", "DeliveredRun", "MoveToDlq", "PartitionQueue"]

_ARRIVED_WITHIN_SECONDS = 5.0
_ALL_LEVELS = (1 << LEVELS) - 1


class PartitionQueue:
    """Belongs to one event loop. A group that is not known has nothing, and nothing of it can be settled."""

    def __init__(
        self,
        partition: Partition,
        journal: QueueJournal,
        *,
        topic_id: int,
        number: int,
        lease_ids: LeaseIds,
        clock: Clock,
        lease_clock: Clock,
        randomness: Randomness,
        frames: FrameCache,
    ) -> None:
        self.partition = partition
        self.topic_id = topic_id
        self.number = number
        self._journal = journal
        self._clock, self._lease_clock = clock, lease_clock
        self._groups = journal.groups
        self._frames = frames
        self._issuer = LeaseIssuer(partition, number, journal, frames, clock=clock, lease_clock=lease_clock)
        self._settler = LeaseSettler(journal, lease_clock, randomness)
        self._lease_ids = lease_ids

    @classmethod
    async def open(
        cls,
        storage: Storage,
        partition: Partition,
        *,
        topic_id: int,
        number: int,
        epoch: int,
        clock: Clock,
        randomness: Randomness,
        frames: FrameCache,
        move_to_dlq: "MoveToDlq",
        lease_clock: Clock | None = None,
        lease_ids: LeaseIds | None = None,
        history: History = NO_HISTORY,
    ) -> "PartitionQueue":
        """All times of leases and retries are those of `lease_clock`; without one, of the wall clock.

        `bury` carries out a move, maybe more than once for the same one; `resume` begins with those left open."""
        journal = QueueJournal(partition.name, number)

        async def carry(move: Move) -> None:
            await move_to_dlq(queue, move)

        lease_clock = lease_clock or clock
        log_id = f"topics/{topic_id}/{number}-delivery"
        await journal.open(
            storage, log_id, epoch=epoch, clock=clock, lease_clock=lease_clock, carry=carry, history=history
        )
        queue = cls(
            partition,
            journal,
            topic_id=topic_id,
            number=number,
            lease_ids=lease_ids or LeaseIds(StartEpoch(epoch)),
            clock=clock,
            lease_clock=lease_clock,
            randomness=randomness,
            frames=frames,
        )
        return queue

    def resume(self) -> None:
        """Goes on with the moves that were open when the broker stopped."""
        self._journal.resume()

    @property
    def journal(self) -> QueueJournal:
        return self._journal

    async def snapshot_if_due(self) -> None:
        await self._journal.snapshot_if_due()

    async def close(self) -> None:
        """Moves stop where they are, and go on after the next start."""
        self._frames.forget(self.partition)
        await self._journal.close()

    async def abandon(self) -> None:
        """Ends all work, for a partition that is about to be deleted."""
        self._frames.forget(self.partition)
        await self._journal.abandon()

    # what there is

    @property
    def outbox(self) -> Outbox:
        return self._journal.outbox

    @property
    def removed(self) -> IntervalSet:
        """In dead-letter topics: offsets that were sent back or purged."""
        return self._journal.removed

    @property
    def group_ids(self) -> set[int]:
        return set(self._groups)

    @property
    def counters_by_group(self) -> dict[int, Counters]:
        return {group_id: group.counters for group_id, group in self._groups.items()}

    def counters(self, group_id: int) -> Counters | None:
        group = self._groups.get(group_id)
        return None if group is None else group.counters

    def state(self, group_id: int) -> GroupState | None:
        """To be looked at; changes go through here."""
        group = self._groups.get(group_id)
        return None if group is None else group.state

    def version(self, group_id: int) -> int:
        """The last commit of the group that its state here has followed."""
        group = self._groups.get(group_id)
        return 0 if group is None else group.version

    def settled_offset(self, group_id: int) -> int | None:
        """Everything below is settled, decided and on disk; None while the group has not begun here."""
        group = self._groups.get(group_id)
        return None if group is None else settled_offset(group, self.partition, self._journal.synced_changes)

    def settled_with(self, group_id: int, runs: Sequence[Run]) -> int | None:
        """Where `settled_offset` is once these messages are settled; None if that settles nothing of the front.

        For groups whose members poll: what they may commit without passing over a message that they do not have.
        """
        group, synced = self._groups.get(group_id), self._journal.synced_changes
        return None if group is None else settled_with(group, self.partition, synced, runs)

    def shown_ms(self, lease_time_ms: int | None) -> int | None:
        """A time of a lease or a retry by the wall clock."""
        if lease_time_ms is None:
            return None
        return lease_time_ms + self._clock.now_ms() - self._lease_clock.now_ms()

    def next_time_ms(self) -> int | None:
        """When `expire` has something to do, by the clock of leases."""
        times = [group.state.next_time_ms() for group in self._groups.values()]
        return min((time for time in times if time is not None), default=None)

    # a group's life

    async def begin(
        self, group_id: int, *, ordering: Ordering, start: int, in_offset_order: bool = False, version: int = 0
    ) -> GroupState:
        """The group's first use of the partition. One that has begun already stays as it is.

        It has begun before the first await: whatever is told to it from now on comes behind.
        """
        while True:
            group = self._groups.get(group_id)
            if group is None:
                group = QueueGroup(
                    group_id, ordering=ordering, start=start, in_offset_order=in_offset_order, version=version
                )
                self._groups[group_id] = group
                began = Began(group_id, ordering, in_offset_order, start, version)
                self._journal.put_event(began, lambda: self._take_out(group_id))
            await self._journal.durable()
            if self._groups.get(group_id) is group:
                return group.state

    async def forget(self, group_id: int) -> None:
        if group_id in self._groups:
            self._take_out(group_id)
            self._journal.put_event(Forgotten(group_id))
            await self._journal.durable()

    async def settle_below(self, group_id: int, offset: int) -> None:
        """Everything below is settled, leased or not."""
        group = self._groups.get(group_id)
        if group is not None:
            await settle_below(group, offset)
            self._journal.put(group)
            await self._journal.durable()

    def rewind(self, group_id: int, offset: int, version: int | None = None) -> None:
        """The group begins anew: everything at or above the offset is unread, everything below is settled.

        That is so on return; it is on disk after the next `durable`.
        """
        group = self._groups.get(group_id)
        if group is not None:
            rewound = Rewound(group_id, offset, version)
            group.state.apply(rewound)
            group.pending_acks.clear()
            self._journal.put(group, [rewound])

    def follow(self, group_id: int, offset: int, version: int) -> bool:
        """The group has committed an offset: everything below is settled, also what is held; what is at or above it
        and was settled before is unread again. Returns whether there is something to be had again.

        That is so on return, and is not on disk yet: should it not get there, the next start follows the commit.
        """
        group, settled = self._groups.get(group_id), self.settled_offset(group_id)
        if group is None or settled is None or group.version == version:
            return False
        group.version = version
        if offset < settled:
            self.rewind(group_id, offset, version)
            return True
        group.state.settle_below(offset)
        self._journal.put(group, [SettledBelow(group_id, offset, version)])
        return False

    async def end_leases(self, group_id: int, consumer: str) -> None:
        """What the consumer holds is to be had again at once; the deliveries count."""
        group = self._groups.get(group_id)
        if group is not None:
            group.state.end_leases(consumer)
            self._journal.put(group)
            await self._journal.durable()

    def _take_out(self, group_id: int) -> None:
        self._groups.pop(group_id, None)

    # delivering

    async def read_ahead(self, group_id: int, *, count: int, levels: int = _ALL_LEVELS) -> list[int]:
        """Reads the log until `count` of each of the levels (bits) can be had, or no more; returns how many can.

        While something cannot be written to the journal, nothing new is read: that error is raised.
        """
        group = self._groups.get(group_id)
        return [0] * LEVELS if group is None else await self._issuer.read_ahead(group, count, levels)

    def new_lease_id(self) -> int:
        return self._lease_ids.next()

    def take(
        self, group_id: int, level: int, count: int, *, lease: int, consumer: str, deadline_ms: int
    ) -> list[Taken]:
        """Leases up to `count` messages of a level, of what was read ahead or is due. Several calls may add to one
        lease; then `deliver` is called with all of it."""
        group = self._groups.get(group_id)
        if group is None:
            return []
        return self._issuer.take(group, level, count, lease=lease, consumer=consumer, deadline_ms=deadline_ms)

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
        """The messages of a lease in the order in which they were taken, once the lease is on the journal.

        What is past its time dies instead, what the log has no more is settled, and what does not fit can be had
        again as if it had not been taken; one message always fits. When this raises, that holds for all of them.
        """
        group = self._groups.get(group_id)
        if group is None:
            return []
        return await self._issuer.deliver(group, lease, taken, ttl_ms=ttl_ms, settings=settings, max_bytes=max_bytes)

    # settling

    async def settle(
        self,
        group_id: int,
        lease: int,
        action: int,
        runs: Sequence[Run],
        *,
        delay_ms: int | None = None,
        is_counted: bool = True,
        reason: str = "",
        settings: QueueSettings,
    ) -> Settlement:
        """An action of protocol.queue_messages. What is not refused is done and on disk; the dead are under way."""
        group = self._groups.get(group_id)
        if group is None:
            lost = LeaseLost(message=self.partition.name)
            return Settlement([Refused(start, end, lost) for start, end in runs])
        return await self._settler.settle(
            group,
            lease,
            action,
            runs,
            delay_ms=delay_ms,
            is_counted=is_counted,
            reason=reason,
            settings=settings,
        )

    async def durable(self) -> None:
        """Returns when all leases so far are on disk."""
        await self._journal.durable()

    def prepare_acks(self, group_id: int, lease: int, runs: Sequence[Run]) -> PreparedAcks:
        """Acknowledges messages for a transaction that is being decided on: `finish_acks` or `take_back_acks` follow.

        LeaseLost, SettleInOrder: nothing is done.
        """
        group = self._groups.get(group_id)
        if group is None:
            raise LeaseLost(message=self.partition.name)
        return self._settler.prepare_acks(group, lease, runs)

    async def finish_acks(self, prepared: PreparedAcks) -> None:
        """The transaction is committed. On disk on return; after an error it is called again."""
        await self._settler.finish_acks(prepared)

    def take_back_acks(self, prepared: PreparedAcks) -> None:
        """It is not: the messages are leased as before."""
        self._settler.take_back_acks(prepared)

    async def dead_letters_arrived(self, settlement: Settlement) -> bool:
        """Waits until the dead of a settlement have arrived, for 5 s at most; whether they have."""
        return await self._journal.arrived(settlement.moves, within_seconds=_ARRIVED_WITHIN_SECONDS)

    async def expire(self, settings_of: Callable[[int], QueueSettings]) -> list[int]:
        """Ends leases whose time is over, and finds retries that are due; returns the groups that may have some."""
        now_ms, concerned = self._lease_clock.now_ms(), []
        async for group_id, group in paced(list(self._groups.items())):
            next_ms = group.state.next_time_ms()
            if next_ms is not None and next_ms <= now_ms:
                await self._settler.expire(group, settings_of(group_id))
            elif not any(group.state.available(now_ms)):
                continue
            concerned.append(group_id)
        return concerned

    async def remove_dead_letters(self, runs: Sequence[Run], moves: Sequence[Move]) -> None:
        """Nobody gets these any more. The moves were begun in `outbox` just now, and are carried out."""
        fresh = [gap for start, end in runs for gap in self.removed.gaps(start, end)]
        for start, end in fresh:
            self.removed.add(start, end)

        def undo() -> None:
            self._journal.take_back_moves(moves)
            for start, end in fresh:
                self.removed.remove(start, end)

        self._journal.put_event(DeadLettersRemoved(list(runs), list(moves)), undo)
        self._journal.carry(moves)
        await self._journal.durable()


MoveToDlq = Callable[[PartitionQueue, Move], Awaitable[None]]
"""Carries out a move of a partition's outbox."""
