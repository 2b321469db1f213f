"""Who runs which worker, as hosting needs to know it; and the storage that a worker is run on."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from quiver.cluster.membership import records
from quiver.cluster.membership.state import ClusterState
from quiver.cluster.ownership import Assignment, handed_over
from quiver.coordination.port import Put
from quiver.model.errors import NotOwner
from quiver.model.names import StartEpoch
from quiver.storage.port import Storage


class HostedStorage(Storage, Protocol):
    """Of one worker. `next_start_epoch` returns the one that it was opened with."""

    @property
    def is_taken_over(self) -> bool:
        """Another broker writes what this one had opened."""
        ...

    async def discard(self) -> None:
        """Closes it; nothing is written any more."""
        ...


OpenStorage = Callable[[int, Assignment], Awaitable[HostedStorage]]
"""Returns when this node may run the worker; NotOwner when it may not, because the assignment has changed."""


class Assignments(Protocol):
    """A watched source of assignments."""

    @property
    def changed(self) -> asyncio.Event:
        """Set with the next change, and replaced: take it before you look."""
        ...

    def of(self, worker: int) -> Assignment | None: ...

    async def hand_over(self, worker: int, assignment: Assignment) -> None:
        """The worker is stopped here: its successor may begin. Does nothing if the assignment has changed."""
        ...


class KeyAssignments:
    """The keys of workers, which the controller and their brokers write by compare-and-swap."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state

    @property
    def changed(self) -> asyncio.Event:
        return self._state.changed

    def of(self, worker: int) -> Assignment | None:
        return self._state.of(worker)

    async def claim(self, worker: int, assignment: Assignment, start_epoch: StartEpoch) -> None:
        """This node begins to run it. So start epochs rise in the order of owners."""
        await self._write(worker, assignment, assignment._replace(start_epoch=start_epoch))
        if self.of(worker) != assignment._replace(start_epoch=start_epoch):
            raise NotOwner(worker=worker)

    async def hand_over(self, worker: int, assignment: Assignment) -> None:
        await self._write(worker, assignment, handed_over(assignment))

    async def _write(self, worker: int, before: Assignment, after: Assignment) -> None:
        key, view = records.worker_key(worker), self._state.view
        if self.of(worker) == before:
            await view.commit([view.expected(key)], [Put(key, records.encode(after))])
