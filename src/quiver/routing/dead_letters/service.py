"""Dead letters of all workers: listed in one order, and taken by their owners."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from quiver.broker.broker import Broker
from quiver.dead_letters.error_shapes import ErrorGroups, grouped
from quiver.dead_letters.page import DeadLetterPage, RemovedDeadLetterPage, first_page, merged_removed
from quiver.dead_letters.search import Search, merged
from quiver.dead_letters.taking import DeadLettersTaken, TakenCount, slices
from quiver.model.dead_letter import (
    DeadLetter,
    DeadLetterCursor,
    DeadLetterFilter,
    DeadLetterId,
    dead_letter_topic,
)
from quiver.model.topic import Topic
from quiver.routing.dead_letters.owned import OwnedDeadLetters
from quiver.routing.dead_letters.requests import CountDeadLetters, RemovedRuns, TakeDeadLetters
from quiver.routing.owned_calls import OwnedCalls
from quiver.routing.owners import Owners


class RoutedDeadLetters:
    def __init__(self, local: Broker, owners: Owners, calls: OwnedCalls) -> None:
        self._local, self._owners, self._calls = local.dead_letters, owners, calls
        self._owned = [OwnedDeadLetters(worker, calls) for worker in range(calls.workers)]

    async def page(self, topic: str, search: Search, *, limit: int = 1000, skip: int = 0) -> DeadLetterPage:
        async with aclosing(self._walk(topic, search, limit + skip + 1)) as walk:
            dead_letters, following = await first_page(walk, limit=limit, skip=skip)
        look = await self._calls.look(CountDeadLetters(topic))
        return DeadLetterPage(dead_letters, sum(look.complete()), following)

    async def errors(self, topic: str, *, limit: int) -> ErrorGroups:
        async with aclosing(self._walk(topic, Search(DeadLetterFilter(), newest_first=True), limit + 1)) as walk:
            return await grouped(walk, limit)

    async def removed(self, topic: str, start: DeadLetterId) -> RemovedDeadLetterPage:
        look = await self._calls.look(RemovedRuns(topic, start))
        return merged_removed(look.complete())

    def check_redrive(self, topic: str, to: str | None) -> tuple[Topic | None, Topic | None]:
        return self._local.check_redrive(topic, to)

    async def redrive(
        self, topic: str, search: Search, *, limit: int | None = None, to: str | None = None, dry_run: bool = False
    ) -> DeadLettersTaken:
        self.check_redrive(topic, to)
        return await self._take(search, limit, TakeDeadLetters(topic, [], False, to, dry_run))

    async def purge(
        self, topic: str, search: Search, *, limit: int | None = None, dry_run: bool = False
    ) -> DeadLettersTaken:
        return await self._take(search, limit, TakeDeadLetters(topic, [], True, None, dry_run))

    def _walk(self, topic: str, search: Search, limit: int) -> AsyncGenerator[DeadLetter, None]:
        walks = [owned.walk(topic, search, limit) for owned in self._owned]
        return merged(walks, lambda each: each.cursor, newest_first=search.newest_first)

    async def _take(self, search: Search, limit: int | None, request: TakeDeadLetters) -> DeadLettersTaken:
        """They are found first, in the order of the search; then their owners take them, by their ids. What somebody
        else has taken meanwhile is not counted."""
        taken = TakenCount(search)
        walks = [owned.cursors(request.topic, search, limit) for owned in self._owned]
        async with aclosing(merged(walks, lambda cursor: cursor, newest_first=search.newest_first)) as walk:
            async for cursors, is_last in slices(walk, limit, lambda _: 0):
                await self._take_slice(cursors, request, taken)
                if is_last:
                    return taken.result(cursors[-1])
        return taken.result(None)

    async def _take_slice(
        self, cursors: Sequence[DeadLetterCursor], request: TakeDeadLetters, taken: TakenCount
    ) -> None:
        name = dead_letter_topic(request.topic)
        ids: dict[int, list[DeadLetterId]] = {}
        for cursor in cursors:
            worker = self._owners.of(name, cursor.partition)
            ids.setdefault(worker, []).append(DeadLetterId(cursor.partition, cursor.offset))
        for worker, own in ids.items():
            part = TakeDeadLetters(request.topic, own, request.is_purge, request.to, request.dry_run)
            taken.add((await self._owned[worker].take(part)).ids)
