"""One run of a cluster: what one broker promises, kept by several that replace each other."""

import random

from quiver.replication.unit import PREFIX, decode_unit
from quiver.testing.simulation.cluster.faults import CLIENTS, ClusterFaults
from quiver.testing.simulation.cluster.member import Member, Setting
from quiver.testing.simulation.cluster.member_process import ClusterShape
from quiver.testing.simulation.history import History
from quiver.testing.simulation.plan import Plan
from quiver.testing.simulation.processes import Processes
from quiver.testing.simulation.run import Parts, Place, Report, Run
from quiver.testing.simulation.system.clock import ClocksOfSeveral
from quiver.testing.simulation.system.network import SimulatedNetwork
from quiver.testing.simulation.workloads.choice import chosen_workloads, durability_of
from quiver.testing.simulation.workloads.port import Workload
from quiver.testing.simulation.world import World

_NODES, _REPLICAS, _MIN_ISR = 3, 3, 2
_WORKERS = [1, 2, 3]
WORKLOADS = ("log",)
"""Those that are run in clusters."""


class ClusterScenario:
    def __init__(self, seed: int, plan: Plan) -> None:
        world, errors = World(seed), list[str]()
        chance: random.Random = world.seeded("scenario")
        network = SimulatedNetwork(world)
        self.history = History(world)
        processes = Processes(world, network, self.history, errors.append)
        shape = ClusterShape(_NODES, plan.workers or chance.choice(_WORKERS), _REPLICAS, _MIN_ISR)
        self._setting = setting = Setting(world, network, shape, errors.append)
        self._members = members = [Member(setting, number) for number in range(1, _NODES + 1)]
        faults = ClusterFaults(setting, self.history, members, processes)
        durability = durability_of(chance, cuts_power=faults.cuts_power)
        clocks = ClocksOfSeveral([member.clock for member in members])
        names = [name for name in plan.workloads if name in WORKLOADS]
        place = Place(CLIENTS, ",".join(member.name for member in members))
        workloads: list[tuple[Place, Workload]] = [
            (place, workload) for workload in chosen_workloads(self.history, chance, durability, clocks, names)
        ]
        self._run = Run(
            plan.seconds,
            Parts(world, self.history, processes, errors, members, self._is_up, faults, workloads),
        )

    def run(self) -> Report:
        return self._run.run()

    def _is_up(self) -> bool:
        """Every node serves, and every unit is led by its first node and has all replicas in sync."""
        if not all(member.is_up for member in self._members):
            return False
        units = [decode_unit(item.value) for item in self._setting.etcd.state.range(PREFIX).items]
        return len(units) == self._setting.shape.workers and all(
            unit.leader == unit.replicas[0] and set(unit.isr) == set(unit.replicas) for unit in units
        )
