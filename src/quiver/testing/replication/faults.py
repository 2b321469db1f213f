"""What goes wrong in a simulated cluster."""

from quiver.cluster.controller import begin_reassignment
from quiver.coordination.events import Proposed
from quiver.coordination.port import Expected, Put
from quiver.replication.unit import decode_unit, unit_key
from quiver.testing.replication.catalogue import WORKERS
from quiver.testing.replication.node import Cluster, SimulatedNode

_THROTTLES = (0, 0, 20_000)
"""Of reassignments, in bytes per second."""


class Faults:
    def __init__(self, cluster: Cluster, nodes: list[SimulatedNode]) -> None:
        self._cluster, self.nodes = cluster, nodes
        self._later = cluster.world.later
        self._chance = cluster.world.seeded("faults")
        self.is_over = False

    def disturb(self) -> None:
        if self.is_over:
            return
        faults = (
            *(self._kill, self._kill, self._cut_power, self._stop, self._pause, self._cut, self._cut),
            *(self._lose_coordination, self._reassign),
        )
        self._chance.choice(faults)()
        self._later(0.2 + self._chance.random() * 3, self.disturb)

    def _kill(self) -> None:
        node = self._chance.choice(self.nodes)
        node.kill()
        self._later(self._chance.random() * 4, self._start, node)

    def _cut_power(self) -> None:
        struck = self.nodes if self._chance.random() < 0.2 else [self._chance.choice(self.nodes)]
        for node in struck:
            node.cut_power()
            self._later(self._chance.random() * 4, self._start, node)

    def _stop(self) -> None:
        node = self._chance.choice(self.nodes)
        node.stop()
        self._later(1 + self._chance.random() * 3, self._start, node)

    def _start(self, node: SimulatedNode) -> None:
        if not node.is_running:
            node.start()

    def _pause(self) -> None:
        loop = self._chance.choice(self.nodes).loop
        if loop is not None:
            loop.pause()
            self._later(self._chance.random() * 5, loop.resume)

    def _cut(self) -> None:
        source, target = self._chance.sample([node.number for node in self.nodes], 2)
        pairs = {(source, target)} if self._chance.random() < 0.5 else {(source, target), (target, source)}
        self._cluster.network.cut |= pairs
        self._later(self._chance.random() * 5, self._cluster.network.cut.difference_update, pairs)

    def _lose_coordination(self) -> None:
        model = self._cluster.model
        if self._chance.random() < 0.3:
            model.is_away = True
            self._later(self._chance.random() * 3, setattr, model, "is_away", False)
        else:
            node = self._chance.choice(self.nodes).number
            model.cut_off.add(node)
            self._later(self._chance.random() * 5, model.cut_off.discard, node)

    def _reassign(self) -> None:
        """An operator moves a unit to three of the nodes."""
        key, state = unit_key(self._chance.choice(WORKERS)), self._cluster.model.state
        found = state.get(key)
        assert found is not None
        target = self._chance.sample([node.number for node in self.nodes], 3)
        changed = begin_reassignment(
            decode_unit(found.value), target, throttle_bytes_per_sec=self._chance.choice(_THROTTLES)
        )
        state.apply(Proposed(0, [Expected(key, found.revision)], [Put(key, changed.key_value)]))

    def calm(self) -> None:
        self.is_over = self._cluster.network.is_calm = True
        self._cluster.network.cut.clear()
        self._cluster.model.cut_off.clear()
        self._cluster.model.is_away = False
        for node in self.nodes:
            if node.loop is not None:
                node.loop.resume()
            self._start(node)
