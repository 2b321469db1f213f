"""A worker that is handed over: its successor begins when nothing of it is left to store."""

import asyncio
from typing import Any

import pytest

from quiver.app.cluster.gate import WorkerGate
from quiver.app.cluster.hosted_worker import HostedWorker
from quiver.cluster.ownership import Assignment
from quiver.model.errors import StorageUnavailable


class Assigned:
    """The assignment of one worker."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.assignment: Assignment | None = Assignment("here", 1, start_epoch=1)
        self.handed_over: list[Assignment] = []

    def of(self, worker: int) -> Assignment | None:
        return self.assignment

    async def hand_over(self, worker: int, assignment: Assignment) -> None:
        self.handed_over.append(assignment)
        self.change(Assignment(assignment.next_node, assignment.epoch + 1))

    def change(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.changed.set()
        self.changed = asyncio.Event()


class Storage:
    """Cannot be closed while the database is away."""

    is_taken_over = False

    def __init__(self) -> None:
        self.is_away = False
        self.closings = 0
        self.is_closed = self.is_discarded = False

    async def close(self) -> None:
        self.closings += 1
        if self.is_away:
            raise StorageUnavailable(problem="it is away")
        self.is_closed = True

    async def discard(self) -> None:
        self.is_discarded = True


class FakeWorker:
    def __init__(self) -> None:
        self.local = self.peers = self

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def close(self, grace_seconds: float) -> None: ...

    def refuse_calls(self) -> None: ...


@pytest.fixture
def assigned() -> Assigned:
    return Assigned()


async def started(assigned: Assigned, storage: Storage) -> HostedWorker:
    async def open_storage(worker: int, assignment: Assignment) -> Any:
        return storage

    def new_worker(number: int, of: Any, gate: WorkerGate) -> Any:
        return FakeWorker()

    hosted = HostedWorker(0, "here", assigned, open_storage, new_worker, lambda: True)
    await hosted.start()
    assert hosted.running is not None
    return hosted


async def test_a_worker_is_handed_over_when_its_storage_is_closed(assigned: Assigned) -> None:
    storage = Storage()
    hosted = await started(assigned, storage)
    storage.is_away = True
    assigned.change(Assignment("here", 1, next_node="there", start_epoch=1))
    async with asyncio.timeout(30):
        while storage.closings < 3:
            await asyncio.sleep(0)
    assert (hosted.running, assigned.handed_over) == (None, [])
    assert isinstance(hosted.problem, StorageUnavailable)
    storage.is_away = False
    async with asyncio.timeout(30):
        while not assigned.handed_over:
            await asyncio.sleep(0)
    assert storage.is_closed
    await hosted.stop()


async def test_it_runs_again_here_only_after_that_and_what_others_took_is_left(assigned: Assigned) -> None:
    storage = Storage()
    hosted = await started(assigned, storage)
    storage.is_away = True
    assigned.change(Assignment("here", 1, next_node="there", start_epoch=1))
    async with asyncio.timeout(30):
        while storage.closings < 1:
            await asyncio.sleep(0)
    assigned.change(Assignment("here", 1, start_epoch=1))
    async with asyncio.timeout(30):
        while storage.closings < 3:
            await asyncio.sleep(0)
    assert hosted.running is None
    assigned.change(Assignment("there", 2))
    async with asyncio.timeout(30):
        while not storage.is_discarded:
            await asyncio.sleep(0)
    assert (storage.is_closed, assigned.handed_over) == (False, [])
    await hosted.stop()
