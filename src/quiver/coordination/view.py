"""What this process knows of coordination: every key, in the order of revisions.

The parts of the broker that live in coordination follow the view: each takes the changes of its own keys. All of them
are as far as `revision`, always.
"""

import asyncio
import heapq
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from itertools import count

import msgspec

from quiver.coordination.port import ABSENT, Change, ChangeBatch, Coordination, Expected, Operation
from quiver.model.errors import CorruptData, ShuttingDown
from quiver.telemetry.supervised_task import SupervisedTask

Follower = Callable[[Change], None]


class View:
    """`follow` first, then `open`. Belongs to one event loop."""

    def __init__(self, coordination: Coordination) -> None:
        self._coordination = coordination
        self._revisions: dict[str, int] = {}
        """Of every key that is there: its last change."""
        self._followers: list[tuple[str, Follower]] = []
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        """A heap: the revision that is waited for, a number that makes each entry different, the future."""
        self._numbers = count()
        self._is_closed = False
        self.revision = 0
        self.after_commit: Callable[[], Awaitable[None]] | None = None
        """Awaited after every write that succeeded: what other processes have to do before it returns."""
        self.task = SupervisedTask("the view of coordination", self._follow)

    def follow(self, prefix: str, apply: Follower) -> None:
        """`apply` gets every change of keys that begin with a prefix, in order. A change may come again."""
        self._followers.append((prefix, apply))

    async def open(self) -> None:
        """Returns when everything that there is now is known. CorruptData: a value is not understood."""
        async with aclosing(self._coordination.watch("")) as watch:
            first = await anext(watch)
        try:
            self._take(first)
        except (msgspec.MsgspecError, ValueError) as error:
            problem = f"a value cannot be read ({error}); a newer version of Quiver may have written it"
            raise CorruptData(where="coordination", problem=problem, next_offset=first.revision) from error
        self.task.start()

    async def close(self) -> None:
        """Whoever waits gets ShuttingDown."""
        self._is_closed = True
        await self.task.stop()
        while self._waiting:
            _, _, future = heapq.heappop(self._waiting)
            if not future.done():
                future.set_exception(ShuttingDown())

    def expected(self, key: str) -> Expected:
        """That a key is as this view knows it."""
        return Expected(key, self._revisions.get(key, ABSENT))

    async def commit(self, expected: Sequence[Expected], operations: Sequence[Operation]) -> bool:
        """Returns when this view shows the result. False: something was not as expected; the view shows that too."""
        outcome = await self._coordination.commit(expected, operations)
        await self.reached(outcome.revision)
        if outcome.succeeded and self.after_commit is not None:
            await self.after_commit()
        return outcome.succeeded

    async def reached(self, revision: int) -> None:
        """Returns when the view is as far as a revision that some other view has shown."""
        if self.revision >= revision:
            return
        if self._is_closed:
            raise ShuttingDown()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (revision, next(self._numbers), future))
        await future

    async def _follow(self) -> None:
        watch: AsyncGenerator[ChangeBatch, None]
        async with aclosing(self._coordination.watch("", self.revision)) as watch:
            async for batch in watch:
                self._take(batch)

    def _take(self, batch: ChangeBatch) -> None:
        for change in self._with_deletions(batch) if batch.is_complete else batch.changes:
            for prefix, apply in self._followers:
                if change.key.startswith(prefix):
                    apply(change)
            if change.value is None:
                self._revisions.pop(change.key, None)
            else:
                self._revisions[change.key] = change.revision
        self.revision = batch.revision
        while self._waiting and self._waiting[0][0] <= self.revision:
            _, _, future = heapq.heappop(self._waiting)
            if not future.done():
                future.set_result(None)

    def _with_deletions(self, batch: ChangeBatch) -> list[Change]:
        """What has changed, in the order of revisions, though a complete batch does not say what is gone."""
        there = {change.key for change in batch.changes}
        gone = [Change(key, None, batch.revision) for key in self._revisions if key not in there]
        new = [change for change in batch.changes if self._revisions.get(change.key) != change.revision]
        return [*gone, *sorted(new, key=lambda change: change.revision)]
