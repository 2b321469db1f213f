"""Health and status of all workers."""

from collections.abc import Mapping, Sequence

from quiver.broker.broker import Broker
from quiver.broker.health import HealthReport
from quiver.broker.members import (
    ClusterMembers,
    ClusterMembership,
    MemberNode,
    ReassignmentOptions,
    ReassignmentProgress,
    WorkerPlace,
    no_cluster,
)
from quiver.broker.node import ClusterStatus, MissingWorker
from quiver.model.errors import QuiverError, ReassignmentNotFound
from quiver.routing.looks.repeated_look import RepeatedLook
from quiver.routing.looks.requests import GetHealth, GetStatus
from quiver.routing.scatter import Look, Scatter


class RoutedNode:
    def __init__(self, local: Broker, scatter: Scatter) -> None:
        self._scatter = scatter
        self._health = RepeatedLook(scatter, GetHealth(), local.node.health)
        self._status = RepeatedLook(scatter, GetStatus(), local.node.worker)
        self.members: ClusterMembership | None = None
        """Where workers move between brokers."""

    async def health(self) -> HealthReport:
        """What is wrong with any worker; one that does not respond is a problem."""
        look = await self._health.look()
        if self.members is not None:
            return _health_of_member(self.members, look, self._scatter.worker)
        problems = {f"worker {worker}": _reason(error) for worker, error in look.missing.items()}
        warnings: dict[str, str] = {}
        for worker, report in sorted(look.answers.items()):
            problems |= {f"worker {worker}: {name}": why for name, why in report.problems.items()}
            warnings |= {f"worker {worker}: {name}": why for name, why in report.warnings.items()}
        return HealthReport(problems, warnings)

    async def cluster(self) -> ClusterStatus:
        look = await self._status.look()
        missing = [self._missing(worker, error) for worker, error in sorted(look.missing.items())]
        if self.members is None:
            return ClusterStatus(look.values(), missing)
        look.answers.pop(self._scatter.worker, None)  # the worker that gateways call owns nothing
        return ClusterStatus(look.values(), missing, tuple(self.members.places()), await self.nodes())

    def _missing(self, worker: int, error: QuiverError) -> MissingWorker:
        known = self._status.known(worker)
        if known is None:
            return MissingWorker(worker, _reason(error))
        return MissingWorker(worker, _reason(error), known.answer, known.seconds_ago)

    async def nodes(self) -> ClusterMembers | None:
        members = self.members
        return None if members is None else ClusterMembers(members.node, members.nodes())

    def places(self) -> list[WorkerPlace]:
        return [] if self.members is None else self.members.places()

    async def drain(self, node: str, *, ends: bool = False) -> MemberNode:
        return await self._several().drain(node, ends=ends)

    async def remove(self, node: str, *, dry_run: bool = False) -> list[WorkerPlace]:
        return await self._several().remove(node, dry_run=dry_run)

    async def rebalance(self, *, dry_run: bool = False) -> list[WorkerPlace]:
        return await self._several().rebalance(dry_run=dry_run)

    async def reassign(
        self, targets: Mapping[int, Sequence[str]], options: ReassignmentOptions, *, dry_run: bool
    ) -> ReassignmentProgress:
        return await self._several().reassign(targets, options, dry_run=dry_run)

    def reassignments(self) -> list[ReassignmentProgress]:
        return [] if self.members is None else self.members.reassignments()

    def reassignment(self, number: int) -> ReassignmentProgress:
        if self.members is None:
            raise ReassignmentNotFound(reassignment=number)
        return self.members.reassignment(number)

    async def cancel_reassignment(self, number: int) -> ReassignmentProgress:
        return await self._several().cancel_reassignment(number)

    def _several(self) -> ClusterMembership:
        if self.members is None:
            raise no_cluster()
        return self.members


def _health_of_member(members: ClusterMembership, look: Look[HealthReport], own: int) -> HealthReport:
    """This broker is ready when it is a member and what it runs is well; the rest is for others to be ready for."""
    problems: dict[str, str] = members.problems()
    warnings: dict[str, str] = members.warnings()
    for worker, report in sorted(look.answers.items()):
        prefix = "" if worker == own else f"worker {worker}: "
        found = {f"{prefix}{name}": why for name, why in report.problems.items()}
        if worker == own or members.is_here(worker):
            problems |= found
        else:
            warnings |= found
        warnings |= {f"{prefix}{name}": why for name, why in report.warnings.items()}
    for worker, error in look.missing.items():
        (problems if members.is_here(worker) else warnings)[f"worker {worker}"] = _reason(error)
    return HealthReport(problems, warnings)


def _reason(error: QuiverError) -> str:
    return str(error.details.get("problem", error))
