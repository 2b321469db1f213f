"""The network between processes: delays, refused connections, connections that break."""

import asyncio
import errno
import os
import random
import socket
from typing import cast

from quiver.testing.simulation.sockets import SimulatedSocket
from quiver.testing.simulation.world import World

_SHORTEST_SECONDS = 0.0001
_LONG_SECONDS = 0.05


class SimulatedNetwork:
    """One network for all processes; `of` is how one of them sees it. Slow while `slowness` is above 1."""

    def __init__(self, world: World) -> None:
        self.slowness = 1.0
        self.cut_off: set[str] = set()
        """Processes that are cut off: nobody reaches them, and they reach nobody."""
        self._world = world
        self._chance: random.Random = world.seeded("network")
        self._listeners: dict[str, SimulatedSocket] = {}
        self._connections: list[tuple[SimulatedSocket, SimulatedSocket]] = []

    def of(self, process: str) -> "ProcessNetwork":
        return ProcessNetwork(self, process)

    def delay_seconds(self, source: str, target: str) -> float:
        """Mostly short, now and then long."""
        seconds = _SHORTEST_SECONDS + self._chance.random() * 0.001
        if self._chance.random() < 0.02:
            seconds += self._chance.random() * _LONG_SECONDS
        return seconds * self.slowness

    def cut_one(self) -> bool:
        """Breaks a connection of the seed's choice, at both ends and not at the same time."""
        self._connections = [pair for pair in self._connections if not any(end.is_closed for end in pair)]
        if not self._connections:
            return False
        pair = self._connections.pop(self._chance.randrange(len(self._connections)))
        self._world.note("cut", *(end.owner for end in pair))
        for end in pair:
            self._world.later(self._chance.random() * _LONG_SECONDS, end.reset)
        return True

    def end_of(self, process: str) -> None:
        """A process is gone: its listener too, and its connections break at the other end sooner or later."""
        self._listeners.pop(process, None)
        for pair in self._connections:
            for end, other in (pair, pair[::-1]):
                if end.owner == process:
                    self._world.later(self._chance.random() * _LONG_SECONDS, other.reset)
        self._connections = [pair for pair in self._connections if process not in (pair[0].owner, pair[1].owner)]

    def listen(self, process: str) -> SimulatedSocket:
        listener = self._listeners[process] = SimulatedSocket(self._world, process, self)
        return listener

    def connect(self, process: str, host: str) -> socket.socket:
        """A connection, which the other side accepts when it gets to it; ConnectionRefusedError."""
        listener = self._listeners.get(host)
        if listener is None or listener.is_closed:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        here = SimulatedSocket(self._world, process, self)
        there = SimulatedSocket(self._world, host, self)
        here.peer, there.peer = there, here
        self._connections.append((here, there))
        self._world.later(self.delay_seconds(process, host), listener.offer, there)
        return cast(socket.socket, here)


class ProcessNetwork:
    """The network as one process sees it: a `quiver.system.network.Network`."""

    def __init__(self, network: SimulatedNetwork, process: str) -> None:
        self._network = network
        self._process = process

    async def listen(self, host: str, port: int) -> tuple[list[socket.socket], int]:
        return [cast(socket.socket, self._network.listen(self._process))], port

    async def dial(self, host: str, port: int, timeout: float) -> socket.socket:
        async with asyncio.timeout(timeout):
            await asyncio.sleep(self._network.delay_seconds(self._process, host))
            return self._network.connect(self._process, host)
