"""Numbers that are never given out twice, by no process and after no restart."""

import asyncio

from quiver.coordination.port import Change, Put
from quiver.coordination.view import View


class Counter:
    """Takes numbers in blocks, so most need no write. What is left of a block at a restart is not used."""

    def __init__(self, view: View, key: str, *, block: int, first: int = 1) -> None:
        self._view = view
        self._key = key
        self._block = block
        self._next = self._end = 0
        """The block of this process: numbers from `_next` to below `_end`."""
        self._change = asyncio.Lock()
        self.upper = first
        """Numbers below may have been given out, by any process."""
        view.follow(key, self._apply)

    async def take(self) -> int:
        while self._next >= self._end:
            async with self._change:
                if self._next >= self._end:
                    await self._take_block()
        self._next += 1
        return self._next - 1

    def may_be_given(self, number: int) -> bool:
        """False for a number that nobody can have: exact where one process takes all blocks."""
        return number < self.upper and not self._next <= number < self._end

    async def _take_block(self) -> None:
        """Several processes may try at the same time: one of them gets each block."""
        first = self.upper
        taken = Put(self._key, b"%d" % (first + self._block))
        if await self._view.commit([self._view.expected(self._key)], [taken]):
            self._next, self._end = first, first + self._block

    def _apply(self, change: Change) -> None:
        if change.value is not None:
            self.upper = int(change.value)
