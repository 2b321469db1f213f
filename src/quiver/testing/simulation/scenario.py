"""One run of brokers that do not know each other."""

import random

from quiver.testing.simulation.faults import Faults
from quiver.testing.simulation.history import History
from quiver.testing.simulation.node import Node
from quiver.testing.simulation.plan import Plan
from quiver.testing.simulation.processes import Processes
from quiver.testing.simulation.run import Parts, Place, Report, Run
from quiver.testing.simulation.system.network import SimulatedNetwork
from quiver.testing.simulation.workloads.choice import chosen_workloads, durability_of
from quiver.testing.simulation.workloads.port import Workload
from quiver.testing.simulation.world import World

_WORKERS = [1, 1, 2, 3]


class Scenario:
    def __init__(self, seed: int, plan: Plan) -> None:
        world, errors = World(seed), list[str]()
        chance: random.Random = world.seeded("scenario")
        network = SimulatedNetwork(world)
        self.history = History(world)
        processes = Processes(world, network, self.history, errors.append)
        count = chance.choice([1, 1, 1, 2, 3])
        nodes = [
            Node(
                world,
                network,
                f"node-{number}",
                errors.append,
                workers=plan.workers or chance.choice(_WORKERS),
            )
            for number in range(count)
        ]
        faults = Faults(world, network, self.history, nodes, processes)
        durability = durability_of(chance, cuts_power=faults.cuts_power)
        workloads: list[tuple[Place, Workload]] = []
        for node in nodes:
            place = Place(node.name, node.name)
            chosen = chosen_workloads(self.history, chance, durability, node.clock, plan.workloads)
            workloads += [(place, workload) for workload in chosen]
        self._run = Run(
            plan.seconds,
            Parts(
                world,
                self.history,
                processes,
                errors,
                nodes,
                lambda: all(node.is_up for node in nodes),
                faults,
                workloads,
            ),
        )

    def run(self) -> Report:
        return self._run.run()
