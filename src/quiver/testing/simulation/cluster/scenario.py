"""One run of a cluster: what one broker promises, kept by several that replace each other."""

import random

from quiver.testing.simulation.cluster.cluster import Cluster
from quiver.testing.simulation.cluster.faults import CLIENTS, ClusterFaults
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

_NODES = [3, 3, 3, 4]
_REPLICAS, _MIN_ISR = 3, 2
_MIXED = 0.3
"""How many clusters have nodes of two versions."""
_WORKERS = [1, 2, 3, 4]
_STALE_SECONDS = 15.0
"""No node is cut off from the others for so long."""


class ClusterScenario:
    def __init__(self, seed: int, plan: Plan) -> None:
        world, errors = World(seed), list[str]()
        chance: random.Random = world.seeded("scenario")
        network = SimulatedNetwork(world)
        self.history = History(world)
        self.history.stale_seconds = _STALE_SECONDS
        processes = Processes(world, network, self.history, errors.append)
        workers = plan.workers or chance.choice(_WORKERS)
        shape = ClusterShape(chance.choice(_NODES), workers, _REPLICAS, _MIN_ISR, chance.random() < _MIXED)
        self.cluster = cluster = Cluster(world, network, shape, errors.append)
        faults = ClusterFaults(cluster, self.history, processes)
        durability = durability_of(chance, cuts_power=faults.cuts_power)
        clocks = ClocksOfSeveral([member.clock for member in cluster.members])
        place = Place(CLIENTS, cluster.address)
        workloads: list[tuple[Place, Workload]] = [
            (place, workload)
            for workload in chosen_workloads(
                self.history, chance, durability, clocks, plan.workloads, replicas=_REPLICAS
            )
        ]
        parts = Parts(world, self.history, processes, errors, cluster.members, cluster.is_whole, faults, workloads)
        self._run = Run(plan.seconds, parts)

    def run(self) -> Report:
        return self._run.run()
