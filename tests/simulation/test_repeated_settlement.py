"""A settlement that is sent again after a power cut: what is reported as done is done."""

import pytest

from quiver.model.errors import LeaseLost, MessageTimeout
from quiver.testing.simulation.history import History
from quiver.testing.simulation.node import Node
from quiver.testing.simulation.processes import ClientProcess, Processes
from quiver.testing.simulation.system.network import SimulatedNetwork
from quiver.testing.simulation.world import World

SEEDS = range(1, 9)


class PowerCut:
    """A consumer settles a message whose lease the broker may have lost with its power."""

    def __init__(self, seed: int, action: str) -> None:
        self._action = action
        self._world = World(seed)
        network = SimulatedNetwork(self._world)
        self.errors: list[str] = []
        self._node = Node(self._world, network, "node", self.errors.append)
        self._processes = Processes(self._world, network, History(self._world), self.errors.append)
        self.was_settled: bool | None = None
        self.came_again: bool | None = None

    def run(self) -> None:
        try:
            self._node.start()
            assert self._world.run(lambda: self._node.is_up, at_most_seconds=60)
            self._processes.start("consumer", "node", self._consume)
            assert self._world.run(lambda: not self._processes.running, at_most_seconds=300)
        finally:
            self._node.kill()
            self._world.discard()

    async def _consume(self, process: ClientProcess) -> None:
        client = process.client
        await client.topics.create("jobs", visibility=60)
        await client.publish("jobs", "one")
        async with client.work("jobs", group="workers", prefetch=0) as jobs:
            job = await jobs.next_job()
            assert job is not None
            self._node.cut_power()
            self._world.later(1.0, self._node.start)
            try:
                await (job.ack() if self._action == "ack" else job.reject("no"))
                self.was_settled = True
            except LeaseLost:
                self.was_settled = False
        async with client.work("jobs", group="workers", timeout=100) as jobs:
            try:
                self.came_again = await jobs.next_job() is not None
            except MessageTimeout:
                self.came_again = False


@pytest.mark.parametrize("action", ["ack", "reject"])
def test_a_message_whose_lease_is_lost_is_not_reported_as_settled(action: str) -> None:
    outcomes = set()
    for seed in SEEDS:
        cut = PowerCut(seed, action)
        cut.run()
        assert not cut.errors
        assert cut.was_settled is not cut.came_again, f"seed {seed}: told {cut.was_settled}, again {cut.came_again}"
        outcomes.add(cut.was_settled)
    assert False in outcomes, "no run has lost the lease"
