"""One change of a group at a time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable


class _CountedLock:
    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0
        """How many tasks hold the lock or wait for it."""


class GroupLocks:
    """A lock per name, also for names that are not groups yet. A name that is not in use takes no memory."""

    def __init__(self) -> None:
        self._locks: dict[str, _CountedLock] = {}

    @contextlib.asynccontextmanager
    async def hold(self, name: str) -> AsyncIterator[None]:
        counted = self._locks.get(name)
        if counted is None:
            counted = self._locks[name] = _CountedLock()
        counted.users += 1
        try:
            async with counted.lock:
                yield
        finally:
            counted.users -= 1
            if not counted.users:
                del self._locks[name]

    @contextlib.asynccontextmanager
    async def hold_all(self, names: Iterable[str]) -> AsyncIterator[None]:
        """Always in the same order, so that two tasks that need several locks never wait for each other."""
        async with contextlib.AsyncExitStack() as stack:
            for name in sorted(set(names)):
                await stack.enter_async_context(self.hold(name))
            yield
