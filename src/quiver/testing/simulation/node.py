"""A machine with a broker: it is started, killed, loses its power, and is started again on what its disk has left."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from quiver.broker.broker import Broker
from quiver.broker.settings import BrokerSettings
from quiver.gateways.native.gateway import NativeGateway
from quiver.storage.local.settings import LocalSettings, LocalSystem
from quiver.storage.local.storage import LocalStorage
from quiver.system.randomness import SeededRandomness
from quiver.testing.simulation.clock import SimulatedClock
from quiver.testing.simulation.disk import Disk
from quiver.testing.simulation.files import SimulatedFiles
from quiver.testing.simulation.loop import SimulatedLoop
from quiver.testing.simulation.network import SimulatedNetwork
from quiver.testing.simulation.threads import SimulatedThreads
from quiver.testing.simulation.world import World

_ROOT = Path("/data")
PORT = 7481


class Node:
    """`on_error` gets what must not happen: a start that fails, an exception that nobody caught."""

    def __init__(self, world: World, network: SimulatedNetwork, name: str, on_error: Callable[[str], None]) -> None:
        self.name = name
        self.clock = SimulatedClock(world)
        self.disk = Disk(world.seeded(f"disk/{name}"))
        self.starts = 0
        self.is_up = False
        """It is started and serves."""
        self.broker: Broker | None = None
        self._world, self._network, self._on_error = world, network, on_error
        self._randomness = SeededRandomness(world.seeded(f"randomness/{name}"))
        self._loop: SimulatedLoop | None = None
        self._files: SimulatedFiles | None = None
        self._gateway: NativeGateway | None = None
        self._storage: LocalStorage | None = None

    @property
    def is_running(self) -> bool:
        """There is a process, which may still be starting."""
        return self._loop is not None

    def start(self) -> None:
        assert self._loop is None, "it runs"
        self.starts += 1
        self._world.note("start", self.name)
        self._loop = SimulatedLoop(self._world, f"{self.name}/{self.starts}", self._on_error)
        self._files = SimulatedFiles(self.disk, self.clock, self.kill)
        self._loop.call_soon(self._begin, self._loop)

    def _begin(self, loop: SimulatedLoop) -> None:
        loop.create_task(self._serve())

    async def _serve(self) -> None:
        try:
            await self._start_broker()
            self.is_up = True
            self._world.note("up", self.name)
        except Exception as error:
            self._on_error(f"{self.name} does not start: {type(error).__name__}: {error}")

    async def _start_broker(self) -> None:
        assert self._files is not None
        storage = self._storage = LocalStorage(
            _ROOT,
            LocalSettings(max_open_files=1000),
            LocalSystem(
                files=self._files,
                clock=self.clock,
                randomness=self._randomness,
                new_threads=lambda count, name: SimulatedThreads(self.disk, count),
            ),
        )
        await storage.open()
        self.broker = Broker(storage, clock=self.clock, randomness=self._randomness, settings=BrokerSettings())
        await self.broker.start()
        self._gateway = NativeGateway(self.broker, host=self.name, port=PORT, network=self._network.of(self.name))
        await self._gateway.start()

    def kill(self) -> None:
        """Like kill -9: what was written stays."""
        if self._loop is not None:
            self._world.note("kill", self.name)
            assert self._files is not None
            self._files.kill()
            self._loop.kill()
            self._network.end_of(self.name)
            self._loop = self._files = self._gateway = self._storage = self.broker = None
            self.is_up = False

    def kill_within(self, operations: int) -> None:
        """Like `kill`, in the middle of one of the next changes to files."""
        if self._files is not None:
            self._files.kill_after(operations)

    def cut_power(self) -> None:
        """Like `kill`, and what was not synced may be lost."""
        self.kill()
        self.disk.cut_power()

    def stop(self) -> None:
        """Like SIGTERM: finishes what was accepted and ends. `is_running` says when."""
        assert self._loop is not None, "it does not run"
        self._world.note("stop", self.name)
        self._loop.call_soon(self._begin_stop, self._loop)

    def _begin_stop(self, loop: SimulatedLoop) -> None:
        loop.create_task(self._stop())

    async def _stop(self) -> None:
        assert self._gateway is not None
        assert self._storage is not None
        assert self.broker is not None
        self.is_up = False
        await self._gateway.stop(2.0)
        await self.broker.stop()
        await self._storage.close()
        self._world.note("stopped", self.name)
        asyncio.get_running_loop().call_soon(self.kill)
