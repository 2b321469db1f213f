"""The other workers as owners of partitions: what worker 0 waits for when it changes a topic."""

import asyncio
import logging
import math

from quiver.links.peers import Peers
from quiver.links.request import PeerRequest
from quiver.model.errors import WorkerUnavailable
from quiver.model.topic import Topic
from quiver.routing.repeated import call_again
from quiver.routing.topics.requests import Ended, Opened, Prepare, TakeBack

_log = logging.getLogger(__name__)

_WAITED_FOR_SECONDS = 10.0
"""For a worker that is down: another one replaces it much sooner."""
_TAKE_BACK_SECONDS = 1.0


class LinkedOwners:
    """All other workers, also those that own nothing of a topic: whoever is asked next knows of the change."""

    exist = True

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    async def prepare(self, topic: Topic) -> None:
        await self._all(Prepare(topic), _WAITED_FOR_SECONDS)

    async def take_back(self, topic: Topic) -> None:
        """A worker that cannot be reached has nothing open when it starts again."""
        try:
            await self._all(TakeBack(topic.id), _TAKE_BACK_SECONDS)
        except WorkerUnavailable as error:
            _log.warning("partitions that topic %s did not get may be open: %s", topic.name, error)

    async def opened(self, topic: Topic) -> None:
        """A worker that cannot be reached opens them when it starts."""
        try:
            await self._all(Opened(topic.id), _WAITED_FOR_SECONDS)
        except WorkerUnavailable as error:
            _log.warning("topic %s is there, but not everywhere yet: %s", topic.name, error)

    async def ended(self, topic: Topic) -> None:
        await self._all(Ended(topic.id), None)

    async def _all(self, request: PeerRequest[None], seconds: float | None) -> None:
        others = (n for n in range(self._peers.workers) if n != self._peers.worker)
        calls = (self._until_done(worker, request, seconds) for worker in others)
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            if outcome is not None:
                raise outcome

    async def _until_done(self, worker: int, request: PeerRequest[None], seconds: float | None) -> None:
        """WorkerUnavailable when the worker, or the one that follows it, is not there in time."""
        try:
            async with asyncio.timeout(seconds):
                await call_again(self._peers, worker, request, away_seconds=math.inf)
        except TimeoutError:
            raise WorkerUnavailable(worker=worker, problem=f"has not responded within {seconds:g} s") from None
