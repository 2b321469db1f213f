"""One seed: four nodes, two workers, two controllers, clients and faults for a while; then quiet, and the checks."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from quiver.cluster.controller import NodeInfo, changed_units, new_units
from quiver.coordination.events import Proposed
from quiver.coordination.port import Expected, Put
from quiver.model.errors import QuiverError
from quiver.replication.unit import PREFIX, decode_unit, unit_key
from quiver.testing.replication.catalogue import WORKERS
from quiver.testing.replication.checks import Checks
from quiver.testing.replication.clients import Clients
from quiver.testing.replication.coordination import CoordinationClient
from quiver.testing.replication.faults import Faults
from quiver.testing.replication.node import Cluster, SimulatedNode
from quiver.testing.simulation.system.loop import SimulatedLoop
from quiver.testing.simulation.world import World

NODES = (0, 1, 2, 3)
_CLIENTS = 3
_CONTROLLERS = (100, 101)
_ADMIN = 300
_DECIDE_SECONDS = 0.3
_LATE_CALLS_SECONDS = 5.0
"""After the last fault, calls that were sent before arrive."""
_QUIET_SECONDS = 60.0


@dataclass(slots=True)
class ReplicationReport:
    seed: int
    trace_hash: str
    acked: int
    sent: int
    epochs: int
    """That the units had, together."""
    deleted: int
    """Logs."""
    losses: int
    """Epochs that began without anybody who had surely everything."""
    violations: list[str] = field(default_factory=list)


class ReplicationScenario:
    def __init__(self, seed: int, seconds: float) -> None:
        self.seed, self._seconds = seed, seconds
        self._world = World(seed)
        self._errors: list[str] = []
        self._cluster = Cluster(self._world, self._errors.append)
        self.nodes = [SimulatedNode(number, self._cluster) for number in NODES]
        self._clients = Clients(self._cluster, self.nodes)
        self._faults = Faults(self._cluster, self.nodes)
        self._checks = Checks(self._cluster, self.nodes, self._clients)

    def run(self) -> ReplicationReport:
        is_enabled = gc.isenabled()
        gc.disable()
        try:
            self._prepare()
            self._until(lambda: self._faults.is_over, self._seconds + 1)
            self._faults.calm()
            self._until(lambda: False, _LATE_CALLS_SECONDS)
            self._until(self._checks.is_whole, _QUIET_SECONDS)
            if not self._errors and not self._checks.is_whole():
                self._errors.append(
                    f"the replicas do not come together: {self._checks.units()}, {self._clients.deleting}"
                )
            if not self._errors:
                self._read_everything()
            return self._report()
        finally:
            for node in self.nodes:
                node.kill()
            self._world.discard()
            if is_enabled:
                gc.enable()

    def _report(self) -> ReplicationReport:
        units, sent = self._checks.units().values(), self._clients.sent
        return ReplicationReport(
            self.seed,
            self._world.trace_hash,
            sum(each.offset is not None for each in sent),
            len(sent),
            sum(unit.epoch for unit in units),
            len(self._cluster.catalogue.deleted),
            sum(unit.loss_epoch > 0 for unit in units),
            list(self._errors),
        )

    def _until(self, condition: Callable[[], bool], seconds: float) -> None:
        self._world.run(lambda: condition() or bool(self._errors), at_most_seconds=seconds)

    def _prepare(self) -> None:
        nodes = {number: NodeInfo(1) for number in NODES}
        for worker, unit in new_units(WORKERS, nodes, replica_count=3, min_isr=2).items():
            self._cluster.model.state.apply(Proposed(0, [], [Put(unit_key(worker), unit.key_value)]))
        for node in self.nodes:
            node.start()
        for number in _CONTROLLERS:
            self._process(f"controller-{number}", self._control, number)
        for number in range(_CLIENTS):
            self._process(f"client-{number}", self._clients.publish, 200 + number)
        self._process("admin", self._clients.administrate, _ADMIN)
        for number in NODES:
            self._process(f"reader-{number}", self._clients.look, number)
        self._world.later(1.0, self._faults.disturb)
        self._world.later(self._seconds, self._end)

    def _process(self, name: str, run: Callable[[int], Coroutine[Any, Any, None]], number: int) -> None:
        loop = SimulatedLoop(self._world, name, self._errors.append)
        loop.call_soon(lambda: loop.create_task(run(number)))

    def _end(self) -> None:
        self._clients.is_over = self._faults.is_over = True

    async def _control(self, number: int) -> None:
        client = CoordinationClient(self._cluster.model, number)
        while True:
            await asyncio.sleep(_DECIDE_SECONDS)
            try:
                nodes = await client.nodes()
                items = (await client.range(PREFIX)).items
                found = {int(item.key.removeprefix(PREFIX)): item for item in items}
                units = {worker: decode_unit(item.value) for worker, item in found.items()}
                for worker, unit in changed_units(units, nodes).items():
                    key = unit_key(worker)
                    await client.commit([Expected(key, found[worker].revision)], [Put(key, unit.key_value)])
            except QuiverError:
                continue

    def _read_everything(self) -> None:
        self._checks.begin()
        self._until(lambda: self._checks.read_count == len(self.nodes), _QUIET_SECONDS)
        if self._checks.read_count < len(self.nodes):
            self._errors.append("the replicas cannot be read")
        elif not self._errors:
            self._checks.check_acked()
