"""Keeps messages of one key in order for handlers that run at the same time. Pure but for a mutex."""

import threading
from collections import deque
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

    def admit(self, job: _J) -> bool:
        """Whether the job can be processed now; otherwise it is kept until its turn."""
        if job.key is None:
            return True
        with self._mutex:
            queue = self._waiting.get(_place(job))
            if queue is None:
                self._waiting[_place(job)] = deque()
                return True
            queue.append(job)
            return False

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
