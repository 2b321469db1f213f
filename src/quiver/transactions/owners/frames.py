"""Frames of a transaction that are on their way into the logs of one worker."""

import asyncio
from collections.abc import Callable

from quiver.model.errors import InvalidRequest
from quiver.partition.partition import Appended
from quiver.transactions.events import Participant

Append = Callable[[], "asyncio.Future[Appended]"]
"""Queues a frame in its log."""


class TransactionFrames:
    """Belongs to one event loop."""

    def __init__(self, transaction_id: str) -> None:
        self.transaction_id = transaction_id
        self._refused: dict[tuple[Participant, int], BaseException] = {}
        """Frames that are missing, by participant and sequence."""
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def is_over(self) -> bool:
        """Every frame so far is written."""
        return not (self._in_flight or self._refused)

    def write(self, participant: Participant, sequence: int, append: Append) -> "asyncio.Future[Appended]":
        """Queues a frame. The transaction does not end before it is written or refused."""
        self.begun()
        try:
            appended = append()
        except BaseException as error:
            self.done(participant, sequence, error)
            raise
        appended.add_done_callback(lambda done: self.done(participant, sequence, done.exception()))
        return appended

    def begun(self) -> None:
        """A frame is about to be written; `done` follows."""
        self._in_flight += 1
        self._idle.clear()

    def done(self, participant: Participant, sequence: int, error: BaseException | None) -> None:
        """A frame was written or refused. A refused one may be sent again."""
        if error is None:
            self._refused.pop((participant, sequence), None)
        else:
            self._refused[participant, sequence] = error
        self._response()

    def never_joined(self) -> None:
        """A frame that was begun was refused before it was part of the transaction: its sender has to send what is in
        it in other frames."""
        self._response()

    def _response(self) -> None:
        self._in_flight -= 1
        if not self._in_flight:
            self._idle.set()

    @property
    def refused(self) -> "list[tuple[Participant, int]]":
        """Frames that are missing, by their sequence."""
        return list(self._refused)

    def found(self, participant: Participant, sequence: int) -> None:
        """A frame that was refused has been written since."""
        self._refused.pop((participant, sequence), None)

    def check_whole(self) -> None:
        """Raises InvalidRequest if a frame is missing: its sender may not know that yet."""
        for (participant, sequence), error in self._refused.items():
            raise InvalidRequest(
                problem=f"transaction {self.transaction_id} must be aborted: its frame with sequence {sequence} for"
                f" partition {participant.partition} of topic id {participant.topic_id} was refused ({error})"
            )

    async def idle(self) -> None:
        """Returns when every frame so far is written or refused."""
        await self._idle.wait()
