"""What this worker does with its dead letters for others; worker 0 also runs the redrive jobs."""

from quiver.broker.broker import Broker
from quiver.dead_letters.page import DeadLetterPage, RemovedDeadLetterPage
from quiver.dead_letters.taking import DeadLettersTaken
from quiver.links.request import Handlers, Reply
from quiver.model.dead_letter import DeadLetterCursor
from quiver.routing.dead_letters.owned import take_owned
from quiver.routing.dead_letters.requests import (
    REDRIVE_JOB_REQUESTS,
    CountDeadLetters,
    FindDeadLetters,
    PageOfDeadLetters,
    RemovedRuns,
    TakeDeadLetters,
)
from quiver.routing.owned_request import add_owned


class DeadLetterHandlers:
    def __init__(self, broker: Broker, handlers: Handlers) -> None:
        self._dead_letters = broker.dead_letters
        handlers.add(PageOfDeadLetters, self._page)
        handlers.add(FindDeadLetters, self._find)
        handlers.add(CountDeadLetters, self._count)
        handlers.add(RemovedRuns, self._removed)
        handlers.add(TakeDeadLetters, self._take)
        add_owned(handlers, broker, REDRIVE_JOB_REQUESTS)

    async def _page(self, request: PageOfDeadLetters, payload: memoryview) -> Reply[DeadLetterPage]:
        return Reply(await self._dead_letters.page(request.topic, request.search, limit=request.limit))

    async def _find(self, request: FindDeadLetters, payload: memoryview) -> Reply[list[DeadLetterCursor]]:
        return Reply(await self._dead_letters.find(request.topic, request.search, limit=request.limit))

    async def _count(self, request: CountDeadLetters, payload: memoryview) -> Reply[int]:
        return Reply(await self._dead_letters.count(request.topic))

    async def _removed(self, request: RemovedRuns, payload: memoryview) -> Reply[RemovedDeadLetterPage]:
        return Reply(await self._dead_letters.removed(request.topic, request.start))

    async def _take(self, request: TakeDeadLetters, payload: memoryview) -> Reply[DeadLettersTaken]:
        return Reply(await take_owned(self._dead_letters, request))
