"""What operators see of a cluster, and what they change."""

import os

from quiver.app.cluster.hosting import Hosting
from quiver.broker.members import MemberNode, WorkerPlace
from quiver.cluster.membership import records
from quiver.cluster.membership.controlling import Controlling
from quiver.cluster.membership.session import Session
from quiver.cluster.membership.state import ClusterState
from quiver.coordination.port import Delete, Put
from quiver.model.errors import NodeInUse, NodeNotFound


class Administration:
    def __init__(
        self,
        state: ClusterState,
        session: Session,
        controlling: Controlling,
        hosting: Hosting,
        *,
        is_store_watched: bool,
    ) -> None:
        """`is_store_watched`: what is wrong with the store of leases is shown by the storage."""
        self._is_store_watched = is_store_watched
        self._state, self._session = state, session
        self._controlling, self._hosting = controlling, hosting

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
        return found

    def is_here(self, worker: int) -> bool:
        assignment = self._state.of(worker)
        return assignment is not None and assignment.node == self.node

    def places(self) -> list[WorkerPlace]:
        found = []
        for worker in range(self._state.workers):
            assignment = self._state.of(worker)
            if assignment is None:
                found.append(WorkerPlace(worker, "", "", 0))
            else:
                found.append(WorkerPlace(worker, assignment.node, assignment.next_node, assignment.epoch))
        return found

    def nodes(self) -> list[MemberNode]:
        state = self._state
        known = {*state.nodes, *state.draining, *(each.node for each in state.assignments.values())}
        return [self._shown(node) for node in sorted(known)]

    def _shown(self, node: str) -> MemberNode:
        state, record = self._state, self._state.nodes.get(node)
        workers = [number for number, each in sorted(state.assignments.items()) if each.node == node]
        is_draining, is_controller = node in state.draining, node == state.controller
        if record is None:
            return MemberNode(node, "gone", workers, False)
        return MemberNode(
            node,
            "draining" if is_draining else "alive",
            workers,
            is_controller,
            record.host,
            record.native_port,
            record.http_port,
            record.link_port,
            record.pid,
            record.version,
            record.started_ms,
        )

    async def drain(self, node: str, *, ends: bool = False) -> MemberNode:
        """It hands over what it runs, and gets nothing until that ends."""
        if node not in self._state.nodes and node not in self._state.draining:
            raise NodeNotFound(node=node)
        key = records.draining_key(node)
        change = Delete(key) if ends else Put(key, b"%d" % os.getpid())
        await self._state.view.commit([], [change])
        return self._shown(node)

    async def remove(self, node: str) -> None:
        """Forgets a broker that does not come back."""
        if node in self._state.nodes:
            raise NodeInUse(node=node)
        if node not in self._state.draining and all(each.node != node for each in self._state.assignments.values()):
            raise NodeNotFound(node=node)
        await self._state.view.commit([], [Delete(records.draining_key(node))])

    async def rebalance(self) -> list[WorkerPlace]:
        """Has the controller look now. Returns what is on its way to another broker."""
        await self._controlling.decide()
        return [place for place in self.places() if place.next_node]
