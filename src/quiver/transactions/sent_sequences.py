"""Messages that are sent one by one to one log of a transaction, with or without a number that the caller chose."""

import asyncio
from typing import Generic, TypeVar

from quiver.model.errors import OutOfSequence

Result = TypeVar("Result")
_REMEMBERED = 10_000


class SentSequences(Generic[Result]):
    """The caller's numbers start anywhere and rise; those of the frames have no gaps."""

    def __init__(self, producer_id: int) -> None:
        self._producer_id = producer_id
        self._last = -1
        self._sent: dict[int, asyncio.Future[Result]] = {}
        self.asking = asyncio.Lock()
        """Held by whoever asks for the next sequence."""
        self.next_sequence: int | None = None
        """The sequence of the next frame; None: the log knows it."""

    def find(self, number: int | None) -> "asyncio.Future[Result] | None":
        """The result of a message that was sent with this number before. Raises OutOfSequence if it is no longer
        known."""
        if number is None:
            return None
        found = self._sent.get(number)
        if found is None and number <= self._last:
            raise OutOfSequence(producer_id=self._producer_id, sequence=number, expected=self._last + 1)
        return found

    def sent(self, number: int | None, result: "asyncio.Future[Result]") -> None:
        if self.next_sequence is not None:
            self.next_sequence += 1
        if number is not None:
            self._last = number
            self._sent[number] = result
            if len(self._sent) > _REMEMBERED:
                del self._sent[next(iter(self._sent))]

    def failed(self, number: int | None) -> None:
        """Forgets a failed message, so that it may be sent again if nothing came after it."""
        self.next_sequence = None
        if number is not None:
            self._sent.pop(number, None)
            if number == self._last:
                self._last = max(self._sent, default=-1)
