"""The node as a whole: whether it is well, and which workers it has."""

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from quiver.broker.health import Health, HealthReport
from quiver.broker.members import (
    ClusterMembers,
    MemberNode,
    ReassignmentOptions,
    ReassignmentProgress,
    WorkerPlace,
    no_cluster,
)
from quiver.cluster.placement import Placement
from quiver.model.errors import ReassignmentNotFound
from quiver.model.names import StartEpoch, sole_leader_epoch
from quiver.system.clock import Clock
from quiver.topics.partitions import Partitions


class WorkerStatus(NamedTuple):
    worker: int
    pid: int
    uptime_seconds: float
    partitions: int
    """That it owns."""
    group_shards: list[int]
    leader_epoch: int = 0
    """Of what it owns; rises with every start."""


class MissingWorker(NamedTuple):
    """It has not responded."""

    worker: int
    reason: str
    last: WorkerStatus | None = None
    """What it was when it responded last."""
    seconds_ago: float = 0.0
    """When that was."""


class ClusterStatus(NamedTuple):
    workers: list[WorkerStatus]
    missing: list[MissingWorker]
    places: tuple[WorkerPlace, ...] = ()
    """Of several brokers: who runs which worker."""
    members: ClusterMembers | None = None
    """Of several brokers: all of them."""


class NodeStatus:
    """Of this process, which is the only worker unless something is put in front of it."""

    def __init__(self, health: Health, partitions: Partitions, placement: Placement, *, clock: Clock) -> None:
        self._health, self._partitions, self._placement, self._clock = health, partitions, placement, clock
        self._started_at = clock.monotonic()

    @property
    def start_epoch(self) -> StartEpoch:
        """Higher than that of any process in its place before."""
        return self._partitions.start_epoch

    @property
    def uptime_seconds(self) -> float:
        return self._clock.monotonic() - self._started_at

    def problems(self) -> dict[str, str]:
        """What cannot be written or read, and why; empty when all is well."""
        return self._health.problems()

    def warnings(self) -> dict[str, str]:
        """What was found damaged, although everything can be read and written."""
        return self._health.warnings()

    async def health(self) -> HealthReport:
        return HealthReport(self.problems(), self.warnings())

    async def worker(self) -> WorkerStatus:
        placement, pid, partitions = self._placement, os.getpid(), len(self._partitions.owned_places())
        uptime, shards, epoch = self.uptime_seconds, placement.owned_shards(), sole_leader_epoch(self.start_epoch)
        return WorkerStatus(placement.worker, pid, uptime, partitions, shards, epoch)

    async def cluster(self) -> ClusterStatus:
        return ClusterStatus([await self.worker()], [])

    async def nodes(self) -> ClusterMembers | None:
        """The brokers that share a store with this one, if it may be shared."""
        return None

    def places(self) -> list[WorkerPlace]:
        """Who has which worker of a cluster, as far as this process knows."""
        return []

    async def drain(self, node: str, *, ends: bool = False) -> MemberNode:
        raise no_cluster()

    async def remove(self, node: str, *, dry_run: bool = False) -> list[WorkerPlace]:
        raise no_cluster()

    async def rebalance(self, *, dry_run: bool = False) -> list[WorkerPlace]:
        raise no_cluster()

    async def reassign(
        self, targets: Mapping[int, Sequence[str]], options: ReassignmentOptions, *, dry_run: bool
    ) -> ReassignmentProgress:
        raise no_cluster()

    def reassignments(self) -> list[ReassignmentProgress]:
        return []

    def reassignment(self, number: int) -> ReassignmentProgress:
        raise ReassignmentNotFound(reassignment=number)

    async def cancel_reassignment(self, number: int) -> ReassignmentProgress:
        raise no_cluster()
