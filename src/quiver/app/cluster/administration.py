"""What operators see of a cluster, and what they change."""

import os
from collections.abc import Mapping, Sequence

from quiver.app.cluster.assignments import Assignments
from quiver.app.cluster.hosting import Hosting
from quiver.app.cluster.replicas.reassignments import Reassignments
from quiver.app.cluster.replicas.replica_sets import ReplicaSets, Units, shown_replicas
from quiver.broker.members import MemberNode, ReassignmentOptions, ReassignmentProgress, WorkerPlace, no_replicas
from quiver.cluster.membership import records
from quiver.cluster.membership.controlling import Controlling
from quiver.cluster.membership.session import Session
from quiver.cluster.membership.state import ClusterState
from quiver.cluster.ownership import Assignment, changed_assignments
from quiver.coordination.port import Delete, Put
from quiver.model.errors import NodeInUse, NodeNotFound, ReassignmentNotFound

NOBODY = Assignment("", 0)


class Administration:
    def __init__(
        self,
        session: Session,
        controlling: Controlling,
        hosting: Hosting,
        state: ClusterState,
        assignments: Assignments,
        *,
        is_store_watched: bool,
    ) -> None:
        """`is_store_watched`: what is wrong with the store of leases is shown by the storage."""
        self._session, self._controlling, self._hosting = session, controlling, hosting
        self._state, self._assignments, self._is_store_watched = state, assignments, is_store_watched
        self.replica_sets: ReplicaSets | None = None
        """In a replicated cluster."""
        self.replica_moves: Reassignments | None = None
        """The same."""

    @property
    def node(self) -> str:
        return self._session.node

    def problems(self) -> dict[str, str]:
        found, session = self._hosting.problems, self._session
        if session.problem is not None and not (session.is_store_away and self._is_store_watched):
            found["cluster"] = session.problem
        for task in (self._state.view.task, session.task, self._controlling.task):
            if task.problem is not None:
                found[f"task {task.name}"] = task.problem
        return found if self.replica_sets is None else found | self.replica_sets.problems()

    def warnings(self) -> dict[str, str]:
        return {} if self.replica_sets is None else self.replica_sets.warnings()

    def is_here(self, worker: int) -> bool:
        assignment = self._assignments.of(worker)
        return assignment is not None and assignment.node == self.node

    def places(self) -> list[WorkerPlace]:
        replicas = {} if self.replica_sets is None else self.replica_sets.all()
        found = []
        for worker in range(self._state.workers):
            node, epoch, next_node, *_ = self._assignments.of(worker) or NOBODY
            found.append(WorkerPlace(worker, node, next_node, epoch, replicas.get(worker)))
        return found

    def nodes(self) -> list[MemberNode]:
        state = self._state
        with_replicas = set() if self.replica_sets is None else self.replica_sets.nodes
        running = self._running()
        found = {*state.nodes, *state.draining, *running, *with_replicas}
        return [self._shown(node, running.get(node, [])) for node in sorted(found)]

    def _running(self) -> dict[str, list[int]]:
        """The workers of each node that has some."""
        found: dict[str, list[int]] = {}
        for worker in range(self._state.workers):
            assignment = self._assignments.of(worker)
            if assignment is not None and assignment.node:
                found.setdefault(assignment.node, []).append(worker)
        return found

    def _shown(self, node: str, workers: list[int]) -> MemberNode:
        state, record = self._state, self._state.nodes.get(node)
        is_draining, is_controller = node in state.draining, node == state.controller
        if record is None:
            return MemberNode(node, "dead", workers, False)
        return MemberNode(
            node,
            "draining" if is_draining else "joining" if self._is_joining(node) else "alive",
            workers,
            is_controller,
            record.host,
            record.native_port,
            record.http_port,
            record.link_port,
            record.pid,
            record.version,
            record.started_ms,
            record.rack,
            record.catch_up_bytes_per_second,
        )

    def _is_joining(self, node: str) -> bool:
        return self.replica_sets is not None and node in self.replica_sets.joining

    async def drain(self, node: str, *, ends: bool = False) -> MemberNode:
        """It hands over what it runs, and gets nothing until that ends."""
        if node not in self._state.nodes and node not in self._state.draining:
            raise NodeNotFound(node=node)
        key = records.draining_key(node)
        change = Delete(key) if ends else Put(key, b"%d" % os.getpid())
        await self._state.view.commit([], [change])
        return self._shown(node, self._running().get(node, []))

    async def remove(self, node: str, *, dry_run: bool = False) -> list[WorkerPlace]:
        """Forgets a broker that does not come back. Its replicas go to other nodes."""
        moved: Units = {}
        if node in self._state.nodes:
            raise NodeInUse(node=node)
        if self.replica_sets is not None:
            moved = await self.replica_sets.move_off(node, dry_run=dry_run)
        elif node not in self._state.draining and all(each.node != node for each in self._state.assignments.values()):
            raise NodeNotFound(node=node)
        if not dry_run:
            await self._state.view.commit([], [Delete(records.draining_key(node))])
        return self._places_of(moved)

    async def rebalance(self, *, dry_run: bool = False) -> list[WorkerPlace]:
        """Has the controller look now, after replicas have been spread. Returns what is on its way to another
        broker; of a dry run, what would be because of it."""
        planned = {} if self.replica_sets is None else await self.replica_sets.spread(dry_run=dry_run)
        if dry_run:
            return self._places_of(planned) if self.replica_sets is not None else self._handovers()
        await self._controlling.decide()
        return [place for place in self.places() if place.next_node or (place.replicas and place.replicas.adding)]

    def _places_of(self, units: Units) -> list[WorkerPlace]:
        """Units as they are planned."""
        return [
            place._replace(replicas=shown_replicas(units[place.worker], {}))
            for place in self.places()
            if place.worker in units
        ]

    def _handovers(self) -> list[WorkerPlace]:
        """What the controller would hand over to other brokers now."""
        state = self._state
        changed = changed_assignments(state.nodes, state.workers, state.assignments, state.draining)
        return [
            WorkerPlace(worker, each.node, each.next_node, each.epoch)
            for worker, each in sorted(changed.items())
            if each.next_node
        ]

    async def reassign(
        self, targets: Mapping[int, Sequence[str]], options: ReassignmentOptions, *, dry_run: bool
    ) -> ReassignmentProgress:
        if self.replica_moves is None:
            raise no_replicas()
        return await self.replica_moves.begin(targets, options, dry_run=dry_run)

    def reassignments(self) -> list[ReassignmentProgress]:
        return [] if self.replica_moves is None else self.replica_moves.all()

    def reassignment(self, number: int) -> ReassignmentProgress:
        if self.replica_moves is None:
            raise ReassignmentNotFound(reassignment=number)
        return self.replica_moves.get(number)

    async def cancel_reassignment(self, number: int) -> ReassignmentProgress:
        if self.replica_moves is None:
            raise no_replicas()
        return await self.replica_moves.cancel(number)
