"""A broker whose disk is full stops in good order, and has everything after the next start."""

import pytest

from quiver.testing.simulation.history import History
from quiver.testing.simulation.node import Node
from quiver.testing.simulation.processes import ClientProcess, Processes, Program
from quiver.testing.simulation.system.network import SimulatedNetwork
from quiver.testing.simulation.world import World


class FullDisk:
    def __init__(self, free_bytes: int, room_bytes: int | None) -> None:
        self._world = World(1)
        network = SimulatedNetwork(self._world)
        self.errors: list[str] = []
        self.node = Node(self._world, network, "node", self.errors.append)
        self._processes = Processes(self._world, network, History(self._world), self.errors.append)
        self._free_bytes, self._room_bytes = free_bytes, room_bytes
        self.left: list[bytes] = []

    def run(self) -> None:
        try:
            self._start()
            self._do(self._use)
            self.node.disk.free_bytes, self.node.disk.room_bytes = self._free_bytes, self._room_bytes
            self.node.stop()
            assert self._world.run(lambda: bool(self.errors) or not self.node.is_running, at_most_seconds=60)
            assert not self.errors
            self.node.disk.make_room()
            self._start()
            self._do(self._read)
        finally:
            self.node.kill()
            self._world.discard()

    def _start(self) -> None:
        self.node.start()
        assert self._world.run(lambda: self.node.is_up, at_most_seconds=60)

    def _do(self, program: Program) -> None:
        self._processes.start("client", "node", program)
        assert self._world.run(lambda: not self._processes.running, at_most_seconds=300)

    async def _use(self, process: ClientProcess) -> None:
        """Leaves something on every journal."""
        client = process.client
        await client.topics.create("jobs", partitions=1)
        for value in ("one", "two", "three"):
            await client.publish("jobs", value)
        await client.publish("jobs", "late", delay=3600)
        async with client.transaction("id") as transaction:
            await transaction.publish("jobs", "four")
        async with client.work("jobs", group="workers", prefetch=0) as jobs:
            job = await jobs.next_job()
            assert job is not None
            await job.ack()
        async with client.stream("jobs", group="readers") as stream:
            message = await anext(aiter(stream))
            await message.commit()

    async def _read(self, process: ClientProcess) -> None:
        async with process.client.work("jobs", group="workers", prefetch=0, timeout=5) as jobs:
            for _ in range(3):
                job = await jobs.next_job()
                assert job is not None
                self.left.append(bytes(job.value or b""))
                await job.ack()


@pytest.mark.parametrize(("free_bytes", "room_bytes"), [(1 << 20, None), (1 << 40, 0), (1 << 40, 100)])
def test_a_broker_stops_on_a_full_disk_and_goes_on_afterwards(free_bytes: int, room_bytes: int | None) -> None:
    disk = FullDisk(free_bytes, room_bytes)
    disk.run()
    assert not disk.errors
    assert disk.left == [b"two", b"three", b"four"]
