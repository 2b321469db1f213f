"""A look that is repeated all the time, as by the console: nobody waits again for a worker that does not respond."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar

from quiver.links.request import PeerRequest
from quiver.model.errors import QuiverError, WorkerUnavailable
from quiver.routing.scatter import LOOK_SECONDS, Look, Scatter, no_response

_MOMENT_SECONDS = 0.25
"""How long a worker is waited for that did not respond to the last call: it may have come back."""
T = TypeVar("T")


class Known(NamedTuple, Generic[T]):
    """What a worker returned last."""

    answer: T
    seconds_ago: float


class RepeatedLook(Generic[T]):
    """A worker that has not responded in time is *late*. From then on one call waits for it, however many look, until
    it responds or its link breaks."""

    def __init__(self, scatter: Scatter, request: PeerRequest[T], local: Callable[[], Awaitable[T]]) -> None:
        self._scatter, self._request, self._local = scatter, request, local
        self._last: dict[int, tuple[T, float]] = {}
        self._late: dict[int, QuiverError] = {}
        self._probes: dict[int, asyncio.Task[T | QuiverError]] = {}

    async def look(self) -> Look[T]:
        look: Look[T] = Look({}, {})
        await asyncio.gather(*(self._look_at(look, worker) for worker in self._scatter.workers))
        return look

    def known(self, worker: int) -> Known[T] | None:
        """None: it has never responded."""
        found = self._last.get(worker)
        return None if found is None else Known(found[0], asyncio.get_running_loop().time() - found[1])

    async def _look_at(self, look: Look[T], worker: int) -> None:
        outcome = await (self._probed(worker) if worker in self._late else self._asked(worker, LOOK_SECONDS))
        if isinstance(outcome, QuiverError):
            look.missing[worker] = outcome
        else:
            look.answers[worker] = outcome

    async def _probed(self, worker: int) -> T | QuiverError:
        probe = self._probes.get(worker)
        if probe is None:
            probe = self._probes[worker] = asyncio.get_running_loop().create_task(self._asked(worker, None))
            probe.add_done_callback(lambda _: self._probes.pop(worker))
        problem = self._late[worker]
        done, _ = await asyncio.wait([probe], timeout=_MOMENT_SECONDS)
        return probe.result() if done else problem

    async def _asked(self, worker: int, seconds: float | None) -> T | QuiverError:
        try:
            answer = await self._scatter.ask(worker, self._request, self._local, seconds)
        except TimeoutError:
            self._late[worker] = no_response(worker, LOOK_SECONDS)
            return self._late[worker]
        except WorkerUnavailable as error:
            if worker in self._late:
                self._late[worker] = error
            return error
        self._late.pop(worker, None)
        self._last[worker] = answer, asyncio.get_running_loop().time()
        return answer
