"""The dead letters of one worker, this one or another."""

from collections.abc import AsyncIterator

from quiver.broker.broker import Broker
from quiver.dead_letters.page import DeadLetterPage
from quiver.dead_letters.search import Search
from quiver.dead_letters.service import DeadLetters
from quiver.dead_letters.taking import DeadLettersTaken
from quiver.links.peers import Peers
from quiver.model.dead_letter import DeadLetter, DeadLetterCursor, DeadLetterFilter
from quiver.routing.dead_letters.requests import FindDeadLetters, PageOfDeadLetters, TakeDeadLetters
from quiver.routing.repeated import call_again

_AT_ONCE = 1000


async def take_owned(dead_letters: DeadLetters, request: TakeDeadLetters) -> DeadLettersTaken:
    search = Search(DeadLetterFilter(ids=[(id.partition, id.offset) for id in request.ids]))
    if request.is_purge:
        return await dead_letters.purge(request.topic, search, dry_run=request.dry_run)
    return await dead_letters.redrive(request.topic, search, to=request.to, dry_run=request.dry_run)


class OwnedDeadLetters:
    def __init__(self, worker: int, local: Broker, peers: Peers) -> None:
        self.worker = worker
        self._local, self._peers = local.dead_letters, peers
        self._is_here = worker == peers.worker

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
        if self._is_here:
            return await take_owned(self._local, request)
        return await call_again(self._peers, self.worker, request)

    async def _page(self, topic: str, search: Search, limit: int) -> DeadLetterPage:
        if self._is_here:
            return await self._local.page(topic, search, limit=limit)
        return await call_again(self._peers, self.worker, PageOfDeadLetters(topic, search, limit))

    async def _find(self, topic: str, search: Search, limit: int) -> list[DeadLetterCursor]:
        if self._is_here:
            return await self._local.find(topic, search, limit=limit)
        return await call_again(self._peers, self.worker, FindDeadLetters(topic, search, limit))
