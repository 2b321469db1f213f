"""Processes of clients: each has a loop of its own and a client of the SDK. They may be killed at any moment."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from quiver.client._async.client import AsyncClient
from quiver.client._async.connection.environment import AsyncEnvironment
from quiver.client.connection.address import parse_bootstrap
from quiver.model.errors import NotSupported, QuiverError
from quiver.system.randomness import SeededRandomness
from quiver.testing.simulation.history import History
from quiver.testing.simulation.system.clock import SimulatedClock
from quiver.testing.simulation.system.loop import SimulatedLoop
from quiver.testing.simulation.system.network import SimulatedNetwork
from quiver.testing.simulation.world import World

CLIENT_TIMEOUT = 10
TRACED = 0.1
"""The share of messages that begin a trace, in all workloads."""


class ClientProcess:
    """What a program has: a client, its own randomness, and pauses. `is_over` tells it to end."""

    def __init__(self, processes: "Processes", name: str, node: str) -> None:
        self.name, self.node = name, node
        self.chance: random.Random = processes.world.seeded(f"process/{name}")
        self.history = processes.history
        self.client: AsyncClient
        self._processes = processes
        self._network = processes.network.of(name)

    @property
    def is_over(self) -> bool:
        return self._processes.is_over

    @property
    def now(self) -> float:
        return self._processes.world.now

    async def pause(self, longest_seconds: float) -> None:
        await asyncio.sleep(self.chance.random() * longest_seconds)

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def connect(self) -> AsyncClient:
        environment = AsyncEnvironment(
            clock=self._processes.clock, randomness=SeededRandomness(self.chance), network=self._network
        )
        return AsyncClient(
            parse_bootstrap(self.node), timeout=CLIENT_TIMEOUT, tracing=TRACED, environment=environment
        )


Program = Callable[[ClientProcess], Awaitable[None]]


class Processes:
    """Those that run. `on_error` gets what no program may end with: anything but an error of the SDK's catalogue."""

    def __init__(
        self, world: World, network: SimulatedNetwork, history: History, on_error: Callable[[str], None]
    ) -> None:
        self.world, self.network, self.history = world, network, history
        self.clock = SimulatedClock(world)
        self.is_over = False
        self._on_error = on_error
        self._running: dict[str, tuple[SimulatedLoop, Callable[[], None]]] = {}
        self._incarnations: dict[str, int] = {}

    @property
    def running(self) -> list[str]:
        return list(self._running)

    def start(self, name: str, node: str, program: Program) -> None:
        """Runs a program until it returns. Killed, or ended by an error, it is started again unless all is over."""
        number = self._incarnations[name] = self._incarnations.get(name, 0) + 1
        process = ClientProcess(self, f"{name}#{number}", node)
        loop = SimulatedLoop(self.world, process.name, self._on_error)
        self._running[process.name] = loop, lambda: self.start(name, node, program)
        self.world.note("process", process.name)
        loop.call_soon(lambda: loop.create_task(self._run(process, program)))

    def kill(self, name: str) -> None:
        """Like kill -9; another one of its kind is started a little later."""
        loop, start_again = self._running.pop(name)
        self.world.note("kill", name)
        loop.kill()
        self.network.end_of(name)
        if not self.is_over:
            self.world.later(0.5, start_again)

    async def _run(self, process: ClientProcess, program: Program) -> None:
        process.client = process.connect()
        is_done = False
        try:
            async with process.client:
                await program(process)
            is_done = True
        except NotSupported as error:
            self._on_error(f"{process.name} asks for something that there is not: {error}")
        except QuiverError as error:
            self.world.note("ended", process.name, type(error).__name__)
            is_done = self.is_over
        except Exception as error:
            self._on_error(f"{process.name} ended with {type(error).__name__}: {error}")
        _, start_again = self._running.pop(process.name, (None, None))
        if start_again is not None and not is_done and not self.is_over:  # None: it was killed
            self.world.later(0.5, start_again)
