"""The dead letters of one worker, this one or another."""

from collections.abc import AsyncIterator

from quiver.dead_letters.page import DeadLetterPage
from quiver.dead_letters.search import Search
from quiver.dead_letters.taking import DeadLettersTaken
from quiver.model.dead_letter import DeadLetter, DeadLetterCursor
from quiver.routing.dead_letters.requests import FindDeadLetters, PageOfDeadLetters, TakeDeadLetters
from quiver.routing.owned_calls import OwnedCalls

_AT_ONCE = 1000


class OwnedDeadLetters:
    def __init__(self, worker: int, calls: OwnedCalls) -> None:
        self.worker, self._calls = worker, calls

    async def walk(self, topic: str, search: Search, limit: int) -> AsyncIterator[DeadLetter]:
        """In the order of the search; `limit` is how many are wanted, about."""
        following: DeadLetterCursor | None = search.after
        while True:
            page = await self._page(topic, search._replace(after=following), min(limit, _AT_ONCE))
            for dead_letter in page.dead_letters:
                yield dead_letter
            following = page.next
            if following is None:
                return

    async def cursors(self, topic: str, search: Search, limit: int | None) -> AsyncIterator[DeadLetterCursor]:
        """The same, without their contents."""
        at_once = _AT_ONCE if limit is None else min(limit, _AT_ONCE)
        while True:
            found = await self._find(topic, search, at_once)
            for cursor in found:
                yield cursor
            if len(found) < at_once:
                return
            search = search._replace(after=found[-1])

    async def take(self, request: TakeDeadLetters) -> DeadLettersTaken:
        """A repeat takes nothing twice; it only does not count what the first call took before its worker died."""
        return await self._calls.ask(self.worker, request)

    async def _page(self, topic: str, search: Search, limit: int) -> DeadLetterPage:
        return await self._calls.ask(self.worker, PageOfDeadLetters(topic, search, limit))

    async def _find(self, topic: str, search: Search, limit: int) -> list[DeadLetterCursor]:
        return await self._calls.ask(self.worker, FindDeadLetters(topic, search, limit))
