"""Whose turn it is to change a log."""

import asyncio
from collections import deque
from types import TracebackType


class LogTurn:
    """A lock that is awaited, or taken at once where nobody has it: so a callback may give it back as well as a task.

    Whoever waits gets it in the order of coming, and nobody takes it in between.
    """

    __slots__ = ("_waiting", "is_taken")

    def __init__(self) -> None:
        self.is_taken = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take_at_once(self) -> bool:
        if self.is_taken:
            return False
        self.is_taken = True
        return True

    def give_back(self) -> None:
        """It stays taken while somebody waits for it: the first of them has it from now on."""
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
                return
        self.is_taken = False

    async def __aenter__(self) -> None:
        if self.take_at_once():
            return
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            await waiting
        except asyncio.CancelledError:
            if not waiting.cancelled():  # it had the turn already
                self.give_back()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.give_back()
