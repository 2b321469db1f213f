"""Calls that several owners answer: they are asked at the same time, and what they return is put together."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from quiver.links.peers import Peers
from quiver.links.request import PeerRequest, R
from quiver.model.errors import QuiverError, ShuttingDown, WorkerUnavailable

LOOK_SECONDS = 1.0
"""How long a look waits for other workers."""
T = TypeVar("T")


class Look(NamedTuple, Generic[T]):
    """What workers returned, by worker, and those that did not respond in time."""

    answers: dict[int, T]
    missing: dict[int, QuiverError]

    def values(self) -> list[T]:
        return [self.answers[worker] for worker in sorted(self.answers)]

    def complete(self) -> list[T]:
        """The same; raises WorkerUnavailable if one is missing."""
        for error in self.missing.values():
            raise error
        return self.values()


class Scatter:
    """`local` is the same call of this worker, which needs no link."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self.worker = peers.worker

    async def all(self, request: PeerRequest[R], local: Callable[[], Awaitable[R]]) -> list[R]:
        """Every worker does it, or the first error is raised once all have ended. By worker."""
        calls = (self._ask(worker, request, local) for worker in self.workers)
        return _values(await asyncio.gather(*calls, return_exceptions=True))

    async def split(
        self, requests: Mapping[int, PeerRequest[R]], local: Callable[[], Awaitable[R]]
    ) -> dict[int, R | QuiverError]:
        """Each worker does its own part, and one that fails fails only that: its error is in the result. `local` is
        called if this worker is among them.
        """
        calls = (self._ask(worker, request, local) for worker, request in requests.items())
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        done: dict[int, R | QuiverError] = {}
        for worker, outcome in zip(requests, outcomes, strict=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, QuiverError):
                raise outcome
            done[worker] = outcome
        return done

    async def look(
        self,
        request: PeerRequest[R],
        local: Callable[[], Awaitable[R]],
        *,
        seconds: float = LOOK_SECONDS,
        only_here: bool = False,
    ) -> Look[R]:
        """Nothing is changed, so whoever does not respond in time is left out. An error of another kind is raised.

        `only_here`: the workers of this node.
        """
        look: Look[R] = Look({}, {})
        asked = [n for n in self.workers if not only_here or self._peers.runs_here(n)]
        await asyncio.gather(*(self._look_at(look, n, request, local, seconds) for n in asked))
        return look

    async def ask(
        self, worker: int, request: PeerRequest[R], local: Callable[[], Awaitable[R]], seconds: float | None
    ) -> R:
        """What one worker returns. TimeoutError: it has not responded in time; WorkerUnavailable: it cannot.

        Without a time the caller waits until the worker responds or its link breaks.
        """
        if worker == self._peers.worker:
            return await local()
        try:
            return (await asyncio.wait_for(self._peers.call(worker, request), seconds)).value
        except ShuttingDown:
            raise WorkerUnavailable(worker=worker, problem="is stopping") from None

    @property
    def workers(self) -> list[int]:
        """Also this one, if it owns nothing."""
        return sorted({*range(self._peers.workers), self._peers.worker})

    async def _ask(self, worker: int, request: PeerRequest[R], local: Callable[[], Awaitable[R]]) -> R:
        if worker == self._peers.worker:
            return await local()
        return (await self._peers.call(worker, request)).value

    async def _look_at(
        self,
        look: Look[R],
        worker: int,
        request: PeerRequest[R],
        local: Callable[[], Awaitable[R]],
        seconds: float,
    ) -> None:
        try:
            look.answers[worker] = await self.ask(worker, request, local, seconds)
        except TimeoutError:
            look.missing[worker] = no_response(worker, seconds)
        except WorkerUnavailable as error:
            look.missing[worker] = error


def no_response(worker: int, seconds: float) -> WorkerUnavailable:
    return WorkerUnavailable(worker=worker, problem=f"has not responded within {seconds:g} s")


def _values(outcomes: Sequence[T | BaseException]) -> list[T]:
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
