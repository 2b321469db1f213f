"""Due messages on their way from the schedule log into their partition."""

from collections.abc import Awaitable, Callable, Sequence

from quiver.delays.events import MoveContent
from quiver.delays.lateness import Lateness
from quiver.delays.partition.due_messages import DueMessage
from quiver.delays.partition.schedule_log import read_rows
from quiver.delays.pending import Delayed
from quiver.model.limits import MIB
from quiver.outbox.append import append_moved
from quiver.outbox.outbox import Move, Outbox, Target, mover_id
from quiver.outbox.relay import OutboxRelay
from quiver.partition.partition import Partition
from quiver.storage.port import Log
from quiver.system.clock import Clock

_MOST_MESSAGES = 10_000
_MOST_BYTES = 32 * MIB


class DueRelay:
    """Carries moves out that the journal has. `note_done` writes that one has ended."""

    def __init__(
        self,
        log: Log,
        outbox: Outbox,
        partition: Partition,
        *,
        target: Target,
        clock: Clock,
        note_done: Callable[[Move], Awaitable[None]],
    ) -> None:
        self.target = target
        self.lateness = Lateness()
        self.delay_ms_total = 0
        """How long messages that arrived had to wait, by their own wish."""
        self._log = log
        self._outbox = outbox
        self._partition = partition
        self._clock = clock
        self._note_done = note_done
        self._relay = OutboxRelay(f"the delays of {partition.name}", outbox, carry=self._carry, done=self._done)
        self._loads: dict[int, list[DueMessage]] = {}
        """The messages of open moves, by move."""
        self._load_bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether so much is on its way that no more should follow yet."""
        return self._load_bytes >= _MOST_BYTES or self._message_count() >= _MOST_MESSAGES

    def resume(self) -> None:
        """Goes on with what was under way at the last end."""
        self._relay.submit(self._outbox.open.values())

    def submit(self, moves: Sequence[Move], parts: Sequence[list[DueMessage]]) -> None:
        """Moves that are on disk, with the messages of each."""
        for move, part in zip(moves, parts, strict=True):
            self._hold(move, part)
        self._relay.submit(moves)

    async def finished(self, within_seconds: float) -> bool:
        """Waits until everything has arrived; False when that takes too long."""
        return await self._relay.finished(list(self._outbox.open.values()), within_seconds=within_seconds)

    async def close(self) -> None:
        """Stops where it is; the next start goes on."""
        await self._relay.close()

    def _message_count(self) -> int:
        return sum(move.count for move in self._outbox.open.values())

    def _hold(self, move: Move, load: list[DueMessage]) -> None:
        self._loads[move.id] = load
        self._load_bytes += sum(due.row.size for due in load)

    async def _carry(self, move: Move) -> None:
        if move.id not in self._loads:
            self._hold(move, await self._load(move))
        load = self._loads[move.id]
        if load:
            now_ms = self._clock.now_ms()
            await append_moved(
                self._partition,
                mover=mover_id("delays", self.target.topic_id, self.target.partition),
                sequence=move.sequence,
                messages=[due.arriving(now_ms) for due in load],
                schema_id=load[0].row.schema_id,
            )
        now_ms = self._clock.now_ms()
        for due in load:
            self.lateness.note(now_ms - due.due_ms)
            self.delay_ms_total += max(0, due.delayed.deliver_at_ms - due.row.scheduled_ms)

    async def _load(self, move: Move) -> list[DueMessage]:
        """The messages of a move that was begun before this start."""
        content = MoveContent.unpack(move.content)
        rows, _ = await read_rows(self._log, sorted(content.places.tolist()))
        load = []
        for id, place, time_ms in zip(*(column.tolist() for column in content.columns()), strict=True):
            if (row := rows.get(place)) is not None:
                at_ms = (row.deliver_at_ms or 0) if time_ms < 0 else time_ms
                load.append(DueMessage(Delayed(id, at_ms, row.priority, place), row))
        return load

    async def _done(self, move: Move) -> None:
        self._load_bytes -= sum(due.row.size for due in self._loads.pop(move.id, []))
        await self._note_done(move)
