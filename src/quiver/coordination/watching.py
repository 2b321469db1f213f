"""Watches of a state in this process."""

import asyncio
from collections.abc import AsyncGenerator

from quiver.coordination.port import ChangeBatch
from quiver.coordination.state import CoordinationState


class Watches:
    """A watch keeps its place, and nothing else: the changes are in the state's history, once for all watches."""

    def __init__(self, state: CoordinationState) -> None:
        self._state = state
        self._changed: asyncio.Event | None = None
        """Set at the next change; None while nobody waits."""

    def wake(self) -> None:
        """The state has changed."""
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    async def watch(self, prefix: str, after_revision: int) -> AsyncGenerator[ChangeBatch, None]:
        is_first = after_revision == 0
        while True:
            batch = await self.next_batch(prefix, after_revision, is_first=is_first)
            is_first, after_revision = False, batch.revision
            yield batch

    async def next_batch(self, prefix: str, after_revision: int, *, is_first: bool) -> ChangeBatch:
        """What a watch gets next; the first batch of a watch from 0 comes even if there is nothing."""
        while True:
            batch = self._state.changes(prefix, after_revision)
            if batch is not None and (batch.revision != after_revision or is_first):
                return batch
            await self._next_change()

    async def _next_change(self) -> None:
        if self._changed is None:
            self._changed = asyncio.Event()
        await self._changed.wait()
