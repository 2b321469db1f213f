"""Locks by key, for the tasks of one event loop."""

import asyncio
from collections import deque
from collections.abc import Sequence
from types import TracebackType

from quiver.system.pace import Pace

Key = int | str


class KeyLocks:
    """A lock per key, in the order of arrival. A key that nobody holds takes no memory."""

    def __init__(self) -> None:
        self._waiting: dict[Key, deque[asyncio.Future[None]]] = {}
        """The keys that are held, each with those who wait for it."""

    def __len__(self) -> int:
        """How many keys are held."""
        return len(self._waiting)

    def is_held(self, key: Key) -> bool:
        return key in self._waiting

    def hold(self, *keys: Key) -> "HeldKeys":
        """An asynchronous context manager that holds all of them.

        Always in the same order, so that two tasks that need several locks never wait for each other.
        """
        return HeldKeys(self, keys if len(keys) < 2 else sorted(set(keys), key=_order))

    async def take(self, key: Key) -> None:
        waiting = self._waiting.get(key)
        if waiting is None:
            self._waiting[key] = deque()
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it had the lock already
                self.give_back(key)
            raise

    def give_back(self, key: Key) -> None:
        """The first who waits has it from now on."""
        waiting = self._waiting[key]
        while waiting:
            turn = waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        del self._waiting[key]


class HeldKeys:
    __slots__ = ("_keys", "_locks", "_taken")

    def __init__(self, locks: KeyLocks, keys: Sequence[Key]) -> None:
        self._locks = locks
        self._keys = keys
        self._taken: list[Key] = []

    async def __aenter__(self) -> None:
        pace = Pace() if len(self._keys) > 1 else None
        try:
            for key in self._keys:
                await self._locks.take(key)
                self._taken.append(key)
                if pace is not None:
                    await pace.turn()
        except BaseException:
            self._give_back()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._give_back()

    def _give_back(self) -> None:
        while self._taken:
            self._locks.give_back(self._taken.pop())


def _order(key: Key) -> tuple[bool, Key]:
    return isinstance(key, str), key
