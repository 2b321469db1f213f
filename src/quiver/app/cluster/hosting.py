"""The workers that this broker runs."""

import asyncio
from collections.abc import Callable, Sequence

from quiver.app.cluster.assignments import Assignments, OpenStorage
from quiver.app.cluster.hosted_worker import HostedWorker, NewWorker
from quiver.routing.worker import Worker


class Hosting:
    def __init__(
        self,
        node: str,
        workers: int,
        assignments: Assignments,
        open_storage: OpenStorage,
        new_worker: NewWorker,
        *,
        may_serve: Callable[[], bool],
    ) -> None:
        self._hosted = [
            HostedWorker(number, node, assignments, open_storage, new_worker, may_serve) for number in range(workers)
        ]

    def on_change(self, changed: Callable[[], None]) -> None:
        """Called when a worker has begun to run here."""
        for hosted in self._hosted:
            hosted.on_change = changed

    def running(self, worker: int) -> Worker | None:
        return self._hosted[worker].running

    @property
    def all_running(self) -> list[Worker]:
        return [worker for hosted in self._hosted if (worker := hosted.running) is not None]

    @property
    def problems(self) -> dict[str, str]:
        return {f"worker {each.number}": str(each.problem) for each in self._hosted if each.problem is not None}

    async def start(self) -> None:
        """Returns when everything that is assigned to this broker runs, and follows assignments from then on."""
        starts: Sequence[BaseException | None] = await asyncio.gather(
            *(hosted.start() for hosted in self._hosted), return_exceptions=True
        )
        for problem in starts:
            if problem is not None:
                raise problem

    async def stop(self, *, drops: bool = False) -> None:
        """Finishes what was accepted, unless it `drops` that: where it cannot be finished."""
        for worker in self.all_running:
            worker.peers.end()
        await asyncio.gather(*(hosted.stop(drops=drops) for hosted in self._hosted))
