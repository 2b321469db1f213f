"""What a broker knows of its cluster: a view of the cluster's keys."""

import asyncio

from quiver.cluster.membership import records
from quiver.cluster.membership.records import NodeRecord, Setup
from quiver.cluster.ownership import Assignment
from quiver.coordination.port import ABSENT, Change, Coordination, Expected, Put
from quiver.coordination.view import View


class ClusterState:
    """Open the view after it was made."""

    def __init__(self, view: View, workers: int) -> None:
        self.view, self.workers = view, workers
        self.nodes: dict[str, NodeRecord] = {}
        """Those whose lease lasts."""
        self.assignments: dict[int, Assignment] = {}
        self.draining: set[str] = set()
        self.controller: str | None = None
        self.changed = asyncio.Event()
        """Set with the next change, and replaced: take it before you look."""
        view.follow(records.PREFIX, self._apply)

    def of(self, worker: int) -> Assignment | None:
        return self.assignments.get(worker)

    def wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    def _apply(self, change: Change) -> None:
        key, value = change.key, change.value
        if (node := records.node_of(key)) is not None:
            if value is None:
                self.nodes.pop(node, None)
            else:
                self.nodes[node] = records.decode(value, NodeRecord)
        elif (worker := records.worker_of(key)) is not None:
            if value is None:
                self.assignments.pop(worker, None)
            else:
                self.assignments[worker] = records.decode_assignment(value)
        elif (node := records.draining_of(key)) is not None:
            (self.draining.discard if value is None else self.draining.add)(node)
        elif key == records.CONTROLLER_KEY:
            self.controller = None if value is None else value.decode()
        self.wake()


async def ensure_setup(coordination: Coordination, wanted: Setup) -> Setup:
    """What the first broker has written; this one, if there was none."""
    while True:
        found = await coordination.get(records.SETUP)
        if found is not None:
            return records.decode(found.value, Setup)
        await coordination.commit([Expected(records.SETUP, ABSENT)], [Put(records.SETUP, records.encode(wanted))])


async def restart_workers(coordination: Coordination) -> None:
    """Whoever runs them starts them again, and so reads again what their logs have."""
    for key, _, _ in (await coordination.range(records.WORKERS)).items:
        is_done = False
        while not is_done:
            found = await coordination.get(key)
            if found is None:
                break
            assignment = records.decode_assignment(found.value)
            put = Put(key, records.encode(assignment._replace(epoch=assignment.epoch + 1, start_epoch=0)))
            is_done = (await coordination.commit([Expected(key, found.revision)], [put])).succeeded
