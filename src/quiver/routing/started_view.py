"""This worker's view of metadata as its links see it: calls of others are begun when the broker has started."""

import asyncio

from quiver.coordination.view import View


class StartedView:
    def __init__(self, view: View) -> None:
        self._view = view
        self._started = asyncio.Event()

    @property
    def revision(self) -> int:
        """-1: no call may be begun."""
        return self._view.revision if self._started.is_set() else -1

    def start(self) -> None:
        self._started.set()

    async def reached(self, revision: int) -> None:
        await self._started.wait()
        await self._view.reached(revision)
