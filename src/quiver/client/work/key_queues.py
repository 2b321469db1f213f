"""Keeps messages of one key in order for handlers that run at the same time. Pure but for a mutex."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from quiver.client.work.held_run import LeaseKey
from quiver.client.work.settlement import AckedSource

Place = tuple[str, int, bytes | None]


class Keyed(Protocol):
    key: bytes | None

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...

    @property
    def source(self) -> AckedSource: ...


_J = TypeVar("_J", bound=Keyed)


class KeyQueues(Generic[_J]):
    """One job per key is processed at a time; those after it wait here. Jobs without a key have no order."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._waiting: dict[Place, deque[_J]] = {}

    def next_of(self, ready: Callable[[], _J | None]) -> _J | None:
        """The next of the jobs that `ready` yields that can be processed now; the others are kept until their turn.

        Between taking a job and giving it its place no other thread takes one: it might be the next of the same key.
        """
        with self._mutex:
            while (job := ready()) is not None:
                queue = None if job.key is None else self._waiting.get(_place(job))
                if queue is not None:
                    queue.append(job)
                    continue
                if job.key is not None:
                    self._waiting[_place(job)] = deque()
                return job
            return None

    def next_after(self, job: _J, *, is_over: bool = False) -> _J | None:
        """The job was processed: returns the next one of its key to process, unless `is_over`."""
        if job.key is None:
            return None
        with self._mutex:
            queue = self._waiting[_place(job)]
            if is_over:
                return None
            if queue:
                return queue.popleft()
            del self._waiting[_place(job)]
            return None

    def drop_after(self, job: _J, lease: LeaseKey) -> list[_J]:
        """Removes what waits for a job and was leased with it."""
        with self._mutex:
            queue = self._waiting.get(_place(job), deque())
            dropped = [other for other in queue if other.source.run.lease == lease]
            for other in dropped:
                queue.remove(other)
            return dropped

    def clear(self) -> list[_J]:
        """Takes out everything that waits."""
        with self._mutex:
            jobs = [job for queue in self._waiting.values() for job in queue]
            for queue in self._waiting.values():
                queue.clear()
            return jobs


def _place(job: Keyed) -> Place:
    return job.topic, job.partition, job.key
