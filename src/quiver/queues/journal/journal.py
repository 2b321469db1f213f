"""What a partition remembers of its queue groups, and the journal that restores it after a restart."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence

import msgspec

from quiver.model.dead_letter import is_dead_letter_topic
from quiver.model.errors import QuiverError
from quiver.outbox.outbox import Move, Outbox
from quiver.outbox.relay import OutboxRelay
from quiver.queues.context import QueueContext
from quiver.queues.journal import snapshot as queue_snapshot
from quiver.queues.journal.events import (
    AcksEnded,
    AcksPrepared,
    Began,
    DeadLettersRemoved,
    Died,
    Event,
    Forgotten,
    MoveDone,
    Rewound,
    SettledBelow,
    WrittenAt,
)
from quiver.queues.journal.moves import begin_moves
from quiver.queues.journal.recorder import Recorder, decode_record
from quiver.queues.journal.replayed_times import ReplayedTimes
from quiver.queues.partition.queue_group import QueueGroup
from quiver.queues.state.port import Dead
from quiver.storage.journal import OPTIONS_FOR_WRITE, Journal
from quiver.storage.port import Log, Storage
from quiver.structures.interval_set import IntervalSet

logger = logging.getLogger(__name__)

_SNAPSHOT_AFTER_SECONDS = 300.0
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 30.0
_WORTH_A_WARNING_MS = 1_000


class _DeadLetterMoves:
    """The steps of a move: `carry` appends the messages, the journal notes the end."""

    def __init__(self, recorder: Recorder, carry: Callable[[Move], Awaitable[None]]) -> None:
        self._recorder = recorder
        self._carry = carry

    async def carry(self, move: Move) -> None:
        await self._carry(move)

    async def note_done(self, move: Move) -> None:
        self._recorder.put([MoveDone(move.id)])
        await self._recorder.flush(sync=False)


class QueueJournal:
    """Its owner changes groups, outbox and removed dead letters, and adds the events in the order of the changes."""

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        """Of the partition."""
        self._number = number
        self.is_dead_letter_partition = is_dead_letter_topic(name.rpartition("-")[0])
        """Nothing is moved from here to another dead-letter topic; dead letters are sent back, or purged."""
        self.groups: dict[int, QueueGroup] = {}
        self.removed = IntervalSet()
        self.outbox = Outbox()
        self.prepared: dict[int, list[AcksPrepared]] = {}
        """By decision: acks of transactions that another worker is deciding."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._held = 0
        self.changes = 0
        """How many were put so far."""
        self.synced_changes = 0
        """How many of them are on disk, or were taken back. Raised on the loop, by whoever waited for the sync."""

    async def open(
        self,
        storage: Storage,
        log_id: str,
        *,
        epoch: int,
        carry: Callable[[Move], Awaitable[None]],
        context: QueueContext,
    ) -> None:
        """Called first: restores everything up to the last record."""
        lease_clock = self._clock = context.lease_clock
        self._times = ReplayedTimes(lease_clock.now_ms())
        self._journal = await Journal.open(
            storage,
            log_id,
            epoch=epoch,
            clock=context.clock,
            restore=self._restore,
            apply=self._apply,
            options=OPTIONS_FOR_WRITE,
            history=context.history,
        )
        self._recorder = Recorder(self._journal, lease_clock)
        if self._times.most_ahead_ms >= _WORTH_A_WARNING_MS:
            logger.warning(
                "the clock is %.0f s behind the one that the delivery journal of %s was written with: leases and"
                " retries count from now on, for as long as was asked for",
                self._times.most_ahead_ms / 1000,
                self.name,
            )
        self._relay = OutboxRelay(self.name, self.outbox, _DeadLetterMoves(self._recorder, carry))

    # writing

    def put(self, group: QueueGroup, more: Sequence[Event] = (), undo: Callable[[], None] | None = None) -> None:
        """The `events` of a group's state, and more. `undo` takes the change back if it cannot be written."""
        events, group.state.events = group.state.events, []
        self.changes += 1
        self._recorder.put([*events, *more], undo)

    def put_event(self, event: Event, undo: Callable[[], None] | None = None) -> None:
        self.changes += 1
        self._recorder.put([event], undo)

    def put_all(self, events: Sequence[msgspec.Struct]) -> None:
        """Events that are certain: they are kept however often they cannot be written."""
        self.changes += 1
        self._recorder.put(list(events))

    def hold(self) -> None:
        """The groups contain changes that may be taken back: no snapshot is kept until `let_go`."""
        self._held += 1
        self._journal.doubt_snapshot()

    def let_go(self) -> None:
        self._held -= 1

    async def written(self) -> None:
        """Everything that was put is written: a killed broker remembers it."""
        await self._recorder.flush(sync=False)

    async def durable(self) -> None:
        """Everything that was put is on disk."""
        changes = self.changes
        await self._recorder.flush(sync=True)
        self.synced_changes = max(self.synced_changes, changes)

    @property
    def is_stuck(self) -> bool:
        """Something that was put could not be written."""
        return self._recorder.is_stuck

    # moves

    def move_to_dlq(self, group: QueueGroup, dead: Sequence[Dead]) -> list[Died]:
        """The events for messages that a group has given up, with the moves that carry them away."""
        if not dead:
            return []
        for each in dead:
            group.counters.note_dead(each.reason, each.end - each.start)
        if self.is_dead_letter_partition:
            return [Died(group.id, list(dead), [])]
        return begin_moves(group.id, dead, self.outbox, self._number)

    def resume(self) -> None:
        """Continues the moves that were open when the broker stopped."""
        self._relay.submit(list(self.outbox.open.values()))

    def carry(self, moves: Sequence[Move]) -> None:
        """Carries moves out as soon as they are on disk, whoever else waits for that or has given up waiting."""
        if moves:
            task = asyncio.get_running_loop().create_task(self._carry(moves))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def take_back_moves(self, moves: Sequence[Move]) -> None:
        for move in reversed(moves):
            self.outbox.take_back(move)
        self._relay.taken_back()

    async def arrived(self, moves: Sequence[Move], *, within_seconds: float) -> bool:
        return await self._relay.finished(moves, within_seconds=within_seconds)

    async def _carry(self, moves: Sequence[Move]) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while open_ones := [move for move in moves if move.id in self.outbox.open]:
            try:
                await self.durable()
            except (QuiverError, OSError) as error:
                logger.warning("dead letters of %s wait for their record: %s", self.name, error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            else:
                self._relay.submit(move for move in open_ones if move.id in self.outbox.open)
                return

    # the whole

    @property
    def log(self) -> Log:
        """For those who read what was written."""
        return self._journal.log

    @property
    def replay_bytes(self) -> int:
        """What the next start would have to replay."""
        return self._journal.replay_bytes

    @property
    def snapshot_bytes(self) -> int:
        return self._journal.snapshot_bytes

    async def snapshot_if_due(self) -> None:
        if self._journal.snapshot_due(_SNAPSHOT_AFTER_SECONDS):
            await self.snapshot()

    async def snapshot(self) -> None:
        """Unless the groups hold something that may be taken back."""
        if not self._held:
            await self._journal.snapshot_concurrently(self._snapshot, self.written)

    async def abandon(self) -> None:
        """Ends all work; the log is about to be removed."""
        await self._end_moves()
        await self._journal.abandon()

    async def _end_moves(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._relay.close()

    async def close(self) -> None:
        await self._end_moves()
        try:
            await self.written()
        finally:
            await self._journal.close()

    def _snapshot(self) -> Iterator[bytes]:
        now_ms = self._clock.now_ms()
        return queue_snapshot.snapshot(self.removed, self.groups, self.outbox, self.prepared, now_ms=now_ms)

    def _restore(self, data: bytes) -> None:
        self.removed, self.groups, self.outbox, self.prepared = queue_snapshot.restored(data, self._times)

    def _apply(self, record: bytes) -> None:
        for event in decode_record(record):
            match event:
                case WrittenAt(now_ms):
                    self._times.written_at(now_ms)
                case Began():
                    self._apply_began(event)
                case Forgotten():
                    self.groups.pop(event.group, None)
                case MoveDone():
                    self.outbox.done(event.move_id)
                case DeadLettersRemoved():
                    for start, end in event.runs:
                        self.removed.add(start, end)
                    self._apply_moves(event.moves)
                case AcksPrepared():
                    known = self.prepared.setdefault(event.decision, [])
                    if event not in known:
                        known.append(event)
                case AcksEnded():
                    self.prepared.pop(event.decision, None)
                case _:
                    group = self.groups.get(event.group)
                    if isinstance(event, Died):
                        count = self._apply_moves(event.moves)
                        if group is not None:
                            group.counters.dead += count
                    if group is not None:
                        group.state.apply(self._times.bounded(event))
                        if isinstance(event, SettledBelow | Rewound) and event.version is not None:
                            group.version = event.version

    def _apply_began(self, event: Began) -> None:
        if event.group not in self.groups:
            self.groups[event.group] = QueueGroup(
                event.group,
                ordering=event.ordering,
                start=event.start,
                in_offset_order=event.in_offset_order,
                version=event.version,
            )

    def _apply_moves(self, moves: Sequence[Move]) -> int:
        """Returns how many messages are in moves that were not known before."""
        return sum(move.count for move in moves if self.outbox.begun(move))
