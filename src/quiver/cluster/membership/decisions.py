"""What the controller writes, when all workers use one store: which node runs which worker."""

from typing import Protocol

from quiver.cluster.membership import records
from quiver.cluster.membership.state import ClusterState
from quiver.cluster.ownership import changed_assignments


class Decisions(Protocol):
    """What is decided in one kind of clusters. Keys are those that the view of the state shows."""

    def missing_nodes(self) -> set[str]:
        """Named by some key, and not there. They are waited for a moment, as after an outage of the store."""
        ...

    def changes(self) -> dict[str, bytes]:
        """Keys to write, each by compare-and-swap on what the view shows; nothing when all is as it should be."""
        ...


class WorkerDecisions:
    def __init__(self, state: ClusterState) -> None:
        self._state = state

    def missing_nodes(self) -> set[str]:
        return {each.node for each in self._state.assignments.values()} - set(self._state.nodes)

    def changes(self) -> dict[str, bytes]:
        state = self._state
        changed = changed_assignments(state.nodes, state.workers, state.assignments, state.draining)
        return {records.worker_key(worker): records.encode(assignment) for worker, assignment in changed.items()}
