"""The moves of schedules: fired messages are appended to their topics, and the journal records that it is done."""

import asyncio
import logging

from quiver.model.errors import PartitionNotFound, QuiverError, TopicNotFound
from quiver.outbox.outbox import Move, mover_id
from quiver.outbox.targets import MovedFrame, MoveTargets
from quiver.schedules.events import Event, FiringEnded
from quiver.schedules.firing import firings_of, message_of
from quiver.schedules.state import ScheduleTable
from quiver.storage.journaled_state import JournaledState

logger = logging.getLogger(__name__)

_MOVER = mover_id("schedules", 0, 0)


class FiringMoves:
    """`arrived` is set whenever a move is done: its schedules may have room for more."""

    def __init__(
        self, table: ScheduleTable, journaled: JournaledState[Event], targets: MoveTargets, arrived: asyncio.Event
    ) -> None:
        self._table = table
        self._journaled = journaled
        self._targets = targets
        self._arrived = arrived
        self._problems: dict[int, str] = {}
        """Why the messages of a move are not in the topic yet, or never will be."""
        self._endings: set[asyncio.Task[None]] = set()

    def problem(self, name: str) -> str:
        """Why a fired message is not in its topic yet; empty when all is well."""
        for move_id, problem in self._problems.items():
            move = self._table.outbox.open.get(move_id)
            if move is not None and any(firing[0] == name for firing in move.content):
                return problem
        return ""

    async def carry(self, move: Move) -> None:
        firings = firings_of(move)
        try:
            messages = [message_of(firing) for firing in firings]
            await self._targets.append(move.target, MovedFrame(_MOVER, move.sequence, messages))
        except (TopicNotFound, PartitionNotFound):
            self._problems[move.id] = "the topic was deleted before the message arrived"
        except QuiverError as error:
            self._problems[move.id] = error.message
            raise
        else:
            self._problems.pop(move.id, None)

    async def note_done(self, move: Move) -> None:
        """Does not wait for the journal, so that the next move does not have to wait either."""
        self._arrived.set()
        problem = self._problems.pop(move.id, "")
        names = [firing.schedule for firing in firings_of(move)] if problem else []
        ending = asyncio.get_running_loop().create_task(self._note_end(FiringEnded(move.id, problem, names)))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)

    async def finish(self) -> None:
        """Returns when the end of every move is in the journal."""
        await asyncio.gather(*self._endings)

    async def _note_end(self, event: FiringEnded) -> None:
        """If it fails, the move is repeated after a restart, and the target recognises it."""
        try:
            await self._journaled.append(event)
        except (QuiverError, OSError) as error:
            logger.warning("the end of move %d of schedules was not noted: %s", event.move_id, error)
