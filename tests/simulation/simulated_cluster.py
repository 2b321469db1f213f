"""Three nodes in virtual time, without faults but those of a test."""

from quiver.testing.simulation.cluster.cluster import Cluster
from quiver.testing.simulation.cluster.member_process import ClusterShape
from quiver.testing.simulation.history import History
from quiver.testing.simulation.processes import Processes, Program
from quiver.testing.simulation.system.network import SimulatedNetwork
from quiver.testing.simulation.world import World

EVERYBODY = "node-1,node-2,node-3"


class SimulatedCluster:
    def __init__(self, seed: int = 1, *, workers: int = 3) -> None:
        self.world, self.errors = World(seed), list[str]()
        self.network = SimulatedNetwork(self.world)
        self.cluster = Cluster(self.world, self.network, ClusterShape(3, workers, 3, 2), self.errors.append)
        self.members = self.cluster.members
        self._processes = Processes(self.world, self.network, History(self.world), self.errors.append)

    def __enter__(self) -> "SimulatedCluster":
        for member in self.members:
            member.start()
        self.wait_until_up()
        return self

    def __exit__(self, *error: object) -> None:
        for member in self.members:
            member.kill()
        self.world.discard()

    def wait_until_up(self) -> None:
        assert self.world.run(self.cluster.is_whole, at_most_seconds=60), self.errors

    def do(self, program: Program, address: str = EVERYBODY, *, seconds: float = 300) -> None:
        """Returns when it has ended."""
        self._processes.start("clients/program", address, program)
        is_done = self.world.run(lambda: bool(self.errors) or not self._processes.running, at_most_seconds=seconds)
        assert not self.errors, self.errors
        assert is_done, "the program does not end"
