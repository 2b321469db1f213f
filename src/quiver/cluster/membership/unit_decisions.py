"""What the controller writes in a replicated cluster: who leads which unit, and who has its replicas."""

from quiver.cluster.controller import NodeInfo, Nodes, changed_units, new_units
from quiver.cluster.membership.state import ClusterState
from quiver.coordination.port import Change
from quiver.replication.unit import NOBODY, PREFIX, Unit, decode_unit, unit_key


class UnitDecisions:
    """Make it before the view of the state is opened."""

    def __init__(self, state: ClusterState, *, replica_count: int, min_isr: int) -> None:
        self._state, self._replica_count, self._min_isr = state, replica_count, min_isr
        self.units: dict[int, Unit] = {}
        """By worker."""
        state.view.follow(PREFIX, self._apply)

    @property
    def nodes(self) -> Nodes:
        draining = self._state.draining
        return {
            int(record.node): NodeInfo(
                record.incarnation, "draining" if name in draining else "alive", record.rack, record.lost_at
            )
            for name, record in self._state.nodes.items()
        }

    @property
    def lacking_nodes(self) -> int:
        """How many more a new cluster waits for before it begins; 0 when it has begun."""
        if len(self.units) == self._state.workers:
            return 0
        return max(0, self._replica_count - len(self._state.nodes))

    def missing_nodes(self) -> set[str]:
        leaders = {str(unit.leader) for unit in self.units.values() if unit.leader != NOBODY}
        return leaders - set(self._state.nodes)

    def changes(self) -> dict[str, bytes]:
        nodes = self.nodes
        without = [worker for worker in range(self._state.workers) if worker not in self.units]
        changed = changed_units(self.units, nodes)
        if without and not self.lacking_nodes:
            changed |= new_units(without, nodes, replica_count=self._replica_count, min_isr=self._min_isr)
        return {unit_key(worker): unit.key_value for worker, unit in changed.items()}

    def _apply(self, change: Change) -> None:
        worker = int(change.key.removeprefix(PREFIX))
        if change.value is None:
            self.units.pop(worker, None)
        else:
            self.units[worker] = decode_unit(change.value)
        self._state.wake()
