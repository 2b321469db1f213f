"""The queue groups of one partition: their states, and the journal that keeps them.

A change is made in the state first and then written. Leases are written before the response is sent; everything else
is on disk before the response is sent. A change that cannot be written is undone.
"""

from collections.abc import Callable, Sequence
from functools import partial

from quiver.model.names import TopicPartition
from quiver.model.queue import Ordering, QueueSettings
from quiver.outbox.outbox import Move, Outbox
from quiver.partition.partition import Partition
from quiver.queues.context import QueueContext
from quiver.queues.journal.events import Began, DeadLetterOrigin, DeadLettersRemoved, Forgotten, Rewound, SettledBelow
from quiver.queues.journal.journal import QueueJournal
from quiver.queues.journal.moves import MoveCarrier, MoveSource
from quiver.queues.partition.lease_issuer import LeaseIds, LeaseIssuer
from quiver.queues.partition.lease_settler import LeaseSettler
from quiver.queues.partition.queue_group import Counters, QueueGroup
from quiver.queues.partition.settled_messages import SettledMessages
from quiver.queues.state.keyed.reopening import LeveledRun
from quiver.queues.state.keyed.state import LaneState
from quiver.queues.state.port import GroupState, LeaseTerms, Run, Settlement
from quiver.storage.port import Storage
from quiver.structures.interval_set import IntervalSet
from quiver.system.pace import paced

_ARRIVED_WITHIN_SECONDS = 5.0
LOG_SUFFIX = "-delivery"
_SEEK = "seek"
"""The consumer in the journal of messages that were made available again."""


class PartitionQueue:
    """Belongs to one event loop. A group that is not known has nothing, and nothing of it can be settled.

    Messages go out through `issuer` and are settled through `settler`.
    """

    def __init__(
        self,
        place: TopicPartition,
        partition: Partition,
        journal: QueueJournal,
        context: QueueContext,
        lease_ids: LeaseIds,
    ) -> None:
        self.place = place
        self.partition = partition
        self.journal = journal
        self.issuer = LeaseIssuer(place, partition, journal, context, lease_ids)
        settled = SettledMessages(partition, context.frames)
        self.settler = LeaseSettler(journal, settled, partition.traffic, context)
        self._clock, self._lease_clock = context.clock, context.lease_clock
        self._groups = journal.groups
        self._frames = context.frames

    @classmethod
    async def open(
        cls,
        storage: Storage,
        place: TopicPartition,
        partition: Partition,
        context: QueueContext,
        mover: MoveCarrier,
        lease_ids: LeaseIds,
    ) -> "PartitionQueue":
        """All times of leases and retries are those of the context's `lease_clock`.

        `mover` carries out moves, maybe more than once the same one; `resume` begins with those left open."""
        journal = QueueJournal(partition.name, place.partition)
        await journal.open(
            storage,
            log_id(place),
            epoch=partition.leader_epoch,
            carry=partial(mover.carry, MoveSource(place, partition)),
            context=context,
        )
        return cls(place, partition, journal, context, lease_ids)

    def resume(self) -> None:
        """Continues the moves that were open when the broker stopped."""
        self.journal.resume()

    async def close(self) -> None:
        """Moves stop where they are, and continue after the next start."""
        self._frames.forget(self.partition)
        await self.journal.close()

    async def abandon(self) -> None:
        """Ends all work, for a partition that is about to be deleted."""
        self._frames.forget(self.partition)
        await self.journal.abandon()

    # what there is

    @property
    def outbox(self) -> Outbox:
        return self.journal.outbox

    @property
    def removed(self) -> IntervalSet:
        """In dead-letter topics: offsets that were sent back or purged."""
        return self.journal.removed

    @property
    def group_ids(self) -> set[int]:
        return set(self._groups)

    @property
    def counters_by_group(self) -> dict[int, Counters]:
        return {group_id: group.counters for group_id, group in self._groups.items()}

    def counters(self, group_id: int) -> Counters | None:
        group = self._groups.get(group_id)
        return None if group is None else group.counters

    def undone(self, group_id: int) -> Counters:
        """What `counters` has and was taken back."""
        group = self._groups.get(group_id)
        return Counters() if group is None else group.undone

    def state(self, group_id: int) -> GroupState | None:
        """For reading only: changes go through this class."""
        group = self._groups.get(group_id)
        return None if group is None else group.state

    def version(self, group_id: int) -> int:
        """The last commit of the group that its state here has followed."""
        group = self._groups.get(group_id)
        return 0 if group is None else group.version

    def settled_offset(self, group_id: int) -> int | None:
        """Everything below is settled, decided and on disk; None while the group has not begun here."""
        group = self._groups.get(group_id)
        return None if group is None else group.settled_offset(self.partition.committed, self.journal.synced_changes)

    def settled_with(self, group_id: int, runs: Sequence[Run]) -> int | None:
        """Where `settled_offset` is once these messages are settled; None if that settles nothing of the front.

        For groups whose members poll: what they may commit without passing over a message that they do not have.
        """
        group, synced = self._groups.get(group_id), self.journal.synced_changes
        return None if group is None else group.settled_with(runs, self.partition.committed, synced)

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

        It has begun before the first await: changes from then on come after its `Began` in the journal.
        """
        while True:
            group = self._groups.get(group_id)
            if group is None:
                group = QueueGroup(
                    group_id, ordering=ordering, start=start, in_offset_order=in_offset_order, version=version
                )
                self._groups[group_id] = group
                began = Began(group_id, ordering, in_offset_order, start, version)
                self.journal.put_event(began, lambda: self._take_out(group_id))
            await self.journal.durable()
            if self._groups.get(group_id) is group:
                return group.state

    async def forget(self, group_id: int) -> None:
        if group_id in self._groups:
            self._take_out(group_id)
            self.journal.put_event(Forgotten(group_id))
            await self.journal.durable()

    async def settle_below(self, group_id: int, offset: int) -> None:
        """Everything below is settled, leased or not."""
        group = self._groups.get(group_id)
        if group is not None:
            await group.settle_below(offset)
            self.journal.put(group)
            await self.journal.durable()

    def rewind(self, group_id: int, offset: int, version: int | None = None) -> None:
        """The group begins again: everything at or above the offset is unread, everything below is settled.

        That is so on return; it is on disk after the next `durable`.
        """
        group = self._groups.get(group_id)
        if group is not None:
            rewound = Rewound(group_id, offset, version)
            group.state.apply(rewound)
            group.pending_acks.clear()
            self.journal.put(group, [rewound])

    async def reopen(self, group_id: int, key: bytes, runs: Sequence[LeveledRun]) -> int | None:
        """Those of these messages of a key that are settled are available again; returns how many, None while a
        consumer holds messages of the key. They are on disk as such when this returns."""
        group = self._groups.get(group_id)
        if group is None or not isinstance(group.state, LaneState):
            return 0
        terms = LeaseTerms(self.issuer.new_lease_id(), _SEEK, self._lease_clock.now_ms())
        count = group.state.reopen(key, runs, terms, self._lease_clock.now_ms())
        if count:
            self.journal.put(group)
            await self.journal.durable()
        return count

    def follow(self, group_id: int, offset: int, version: int) -> bool:
        """The group has committed an offset: everything below is settled, also what is held; what is at or above it
        and was settled before is unread again. Returns whether messages became available again. A commit before the
        last one that was followed changes nothing.

        On return it is done in memory, not on disk: if it never gets there, the next start follows the commit.
        """
        group = self._groups.get(group_id)
        if group is None or version <= group.version:
            return False
        settled = group.settled_offset(self.partition.committed, self.journal.synced_changes)
        group.version = version
        if offset < settled:
            self.rewind(group_id, offset, version)
            return True
        group.state.settle_below(offset)
        self.journal.put(group, [SettledBelow(group_id, offset, version)])
        return False

    async def end_leases(self, group_id: int, consumer: str) -> None:
        """What the consumer holds becomes available at once; the deliveries count."""
        group = self._groups.get(group_id)
        if group is not None:
            group.state.end_leases(consumer)
            if self.settler.prepared:
                self.settler.prepared.pin(group)
            self.journal.put(group)
            await self.journal.durable()

    def _take_out(self, group_id: int) -> None:
        self._groups.pop(group_id, None)

    async def durable(self) -> None:
        """Returns when all leases so far are on disk."""
        await self.journal.durable()

    async def dead_letters_arrived(self, settlement: Settlement) -> bool:
        """Waits up to 5 s until the dead letters of a settlement have arrived; returns whether they have."""
        return await self.journal.arrived(settlement.moves, within_seconds=_ARRIVED_WITHIN_SECONDS)

    async def expire(self, settings_of: Callable[[int], QueueSettings]) -> list[int]:
        """Ends expired leases and makes due retries available; returns the groups that may have some."""
        now_ms, concerned = self._lease_clock.now_ms(), []
        async for group_id, group in paced(list(self._groups.items())):
            next_ms = group.state.next_time_ms()
            if next_ms is not None and next_ms <= now_ms:
                await self.settler.expire(group, settings_of(group_id))
            elif not any(group.state.available(now_ms)):
                continue
            concerned.append(group_id)
        return concerned

    async def remove_dead_letters(
        self, runs: Sequence[Run], moves: Sequence[Move], origins: Sequence[DeadLetterOrigin | None] = ()
    ) -> None:
        """These are delivered no more. The moves were just begun in `outbox`, and are carried out."""
        fresh = [gap for start, end in runs for gap in self.removed.gaps(start, end)]
        for start, end in fresh:
            self.removed.add(start, end)

        def undo() -> None:
            self.journal.take_back_moves(moves)
            for start, end in fresh:
                self.removed.remove(start, end)

        self.journal.put_event(DeadLettersRemoved(list(runs), list(moves), list(origins)), undo)
        self.journal.carry(moves)
        await self.journal.durable()


def log_id(place: TopicPartition) -> str:
    """Of the journal."""
    return f"topics/{place.topic_id}/{place.partition}{LOG_SUFFIX}"
