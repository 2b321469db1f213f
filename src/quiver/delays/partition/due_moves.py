"""Moves due messages from the schedule log into their partition, through the outbox."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from quiver.delays.due_clock import DueClock
from quiver.delays.events import DelayEvent, MoveContent, MoveDone
from quiver.delays.partition.schedule_log import ScheduledRow, read_rows
from quiver.delays.pending import Delayed
from quiver.model.limits import MIB
from quiver.model.message import NewMessage
from quiver.model.names import TopicPartition
from quiver.outbox.append import append_moved
from quiver.outbox.outbox import Move, mover_id
from quiver.partition.partition import Partition
from quiver.storage.journaled_state import JournaledState
from quiver.storage.port import Log
from quiver.system.clock import Clock
from quiver.telemetry.histogram import WAIT_SECONDS, Histogram

MOVE_MESSAGES = 1000
MOVE_BYTES = 4 * MIB
_MOST_MESSAGES = 10_000
_MOST_BYTES = 32 * MIB
_BOUNDS_MS = sorted({0, *(round(1.25**step) for step in range(96))})
"""Up to about two weeks; each step is a quarter longer."""


class DueMessage(NamedTuple):
    delayed: Delayed
    row: ScheduledRow

    @property
    def due_ms(self) -> int:
        """When it should be delivered: when it is due, or when it was scheduled if it was overdue already."""
        return max(self.delayed.deliver_at_ms, self.row.scheduled_ms)

    @property
    def is_rescheduled(self) -> bool:
        """Whether its time is another one than the schedule log says."""
        return self.row.deliver_at_ms is not None and self.row.deliver_at_ms != self.delayed.deliver_at_ms

    @property
    def is_expired(self) -> bool:
        """Whether it expires before it is due."""
        expires_at_ms = self.row.expires_at_ms
        return expires_at_ms is not None and expires_at_ms <= self.due_ms

    def arriving(self, now_ms: int) -> NewMessage:
        """The message as it enters the topic; its time to live begins then."""
        return self.row.message(max(0, now_ms - self.due_ms))


class Departure(NamedTuple):
    """How messages that are due are divided."""

    parts: list[list[DueMessage]]
    """Each can be one frame: one priority, one schema, a bounded size."""
    expired: list[Delayed]
    lost: list[Delayed]
    """They are no longer in the schedule log."""

    @property
    def moved(self) -> list[list[Delayed]]:
        return [[due.delayed for due in part] for part in self.parts]

    @property
    def rescheduled(self) -> set[int]:
        """Which parts have messages that were rescheduled."""
        return {index for index, part in enumerate(self.parts) if any(due.is_rescheduled for due in part)}


def departure(messages: Sequence[Delayed], rows: Mapping[int, ScheduledRow]) -> Departure:
    """Divides messages into moves; `rows` are by place. Their order stays within each priority and schema."""
    result = Departure([], [], [])
    open_parts: dict[tuple[int, int], tuple[list[DueMessage], int]] = {}
    for delayed in messages:
        row = rows.get(delayed.place)
        if row is None:
            result.lost.append(delayed)
            continue
        due = DueMessage(delayed, row)
        if due.is_expired:
            result.expired.append(delayed)
            continue
        kind = (delayed.priority, row.schema_id)
        part, size = open_parts.get(kind, ([], 0))
        if not part or len(part) >= MOVE_MESSAGES or size + row.size > MOVE_BYTES:
            part, size = [], 0
            result.parts.append(part)
        part.append(due)
        open_parts[kind] = (part, size + row.size)
    return result


class Lateness:
    """How late messages arrive, as a histogram: percentiles are exact to a quarter, `max_ms` is exact."""

    def __init__(self) -> None:
        self.count = 0
        self.max_ms = 0
        self.counts = [0] * (len(_BOUNDS_MS) + 1)
        """By step, the last one for everything later."""
        self.seconds = Histogram(WAIT_SECONDS)
        """The same for monitoring."""

    def note(self, late_ms: int, count: int = 1) -> None:
        late_ms = max(late_ms, 0)
        self.count += count
        self.max_ms = max(self.max_ms, late_ms)
        self.counts[bisect_left(_BOUNDS_MS, late_ms)] += count
        self.seconds.observe(late_ms / 1000, count)

    def add(self, other: "Lateness") -> None:
        self.add_counts(other.counts, other.max_ms)

    def add_counts(self, counts: Sequence[int], max_ms: int) -> None:
        """What another one has noted."""
        self.count += sum(counts)
        self.max_ms = max(self.max_ms, max_ms)
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, counts, strict=True)]

    def percentile_ms(self, share: float) -> int:
        """The lateness that this share of the messages did not exceed; 0 when there were none."""
        wanted = share * self.count
        seen = 0
        for bound, count in zip([*_BOUNDS_MS, self.max_ms], self.counts, strict=True):
            seen += count
            if count and seen >= wanted:
                return min(bound, self.max_ms)
        return 0


class DueMoves:
    """Appends the messages of moves that the journal has, and writes to the journal that a move is done."""

    def __init__(
        self,
        place: TopicPartition,
        target: Partition,
        log: Log,
        journaled: JournaledState[DelayEvent],
        *,
        clock: Clock,
        due_clock: DueClock,
    ) -> None:
        self.lateness = Lateness()
        self.delay_ms_total = 0
        """How long delivered messages were delayed, as their producers asked."""
        self._place = place
        self._target = target
        self._log = log
        self._journaled = journaled
        self._clock = clock
        self._due_clock = due_clock
        self._mover = mover_id("delays", *place)
        self._messages: dict[int, list[DueMessage]] = {}
        """The messages of open moves, by move."""
        self._bytes = 0

    def is_full(self, moves: Mapping[int, Move]) -> bool:
        """Whether these open moves already have so much that no more should follow yet."""
        return self._bytes >= _MOST_BYTES or sum(move.count for move in moves.values()) >= _MOST_MESSAGES

    def hold(self, move: Move, messages: list[DueMessage]) -> None:
        """Keeps the messages of a move that has just begun, so that they need not be read again."""
        self._messages[move.id] = messages
        self._bytes += sum(due.row.size for due in messages)

    async def carry(self, move: Move) -> None:
        """Appends the messages to the partition, which recognises those that it has already."""
        if move.id not in self._messages:
            self.hold(move, await self._read(move))
        messages = self._messages[move.id]
        if messages:
            now_ms = self._clock.now_ms()
            await append_moved(
                self._target,
                mover=self._mover,
                sequence=move.sequence,
                messages=[due.arriving(now_ms) for due in messages],
                schema_id=messages[0].row.schema_id,
            )
        now_ms = self._clock.now_ms()
        for due in messages:
            self.lateness.note(now_ms - due.due_ms)
            self.delay_ms_total += max(0, due.delayed.deliver_at_ms - due.row.scheduled_ms)

    async def note_done(self, move: Move) -> None:
        """Does not wait for the disk: a move that is repeated after a crash is recognised."""
        self._bytes -= sum(due.row.size for due in self._messages.pop(move.id, []))
        await self._journaled.write(MoveDone(move.id), sync=False)
        self._due_clock.note(self._place)

    async def _read(self, move: Move) -> list[DueMessage]:
        """The messages of a move that was begun before this start."""
        content = MoveContent.unpack(move.content)
        rows, _ = await read_rows(self._log, sorted(content.places.tolist()))
        found = []
        for id, place, time_ms in zip(*(column.tolist() for column in content.columns()), strict=True):
            if (row := rows.get(place)) is not None:
                at_ms = (row.deliver_at_ms or 0) if time_ms < 0 else time_ms
                found.append(DueMessage(Delayed(id, at_ms, row.priority, place), row))
        return found
