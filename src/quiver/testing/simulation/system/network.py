"""The network between processes: delays, refused connections, connections that break."""

import asyncio
import errno
import os
import random
import socket
from typing import cast

from quiver.testing.simulation.system.sockets import SimulatedSocket
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
        self._listeners: dict[str, list[SimulatedSocket]] = {}
        """By host: the workers of a node listen on one port."""
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
        for host, listeners in self._listeners.items():
            self._listeners[host] = [listener for listener in listeners if listener.owner != process]
        for pair in self._connections:
            for end, other in (pair, pair[::-1]):
                if end.owner == process:
                    self._world.later(self._chance.random() * _LONG_SECONDS, other.reset)
        self._connections = [pair for pair in self._connections if process not in (pair[0].owner, pair[1].owner)]

    def listen(self, process: str, host: str) -> SimulatedSocket:
        listener = SimulatedSocket(self._world, process, self)
        self._listeners.setdefault(host, []).append(listener)
        return listener

    def connect(self, process: str, host: str) -> socket.socket:
        """A connection, which the other side accepts when it gets to it; ConnectionRefusedError."""
        listeners = [listener for listener in self._listeners.get(host, ()) if not listener.is_closed]
        if not listeners:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        listener = listeners[0] if len(listeners) == 1 else self._chance.choice(listeners)
        here, there = self.pair(process, listener.owner)
        self._world.later(self.delay_seconds(process, host), listener.offer, there)
        return cast(socket.socket, here)

    def pair(self, process: str, other: str) -> tuple[SimulatedSocket, SimulatedSocket]:
        """Two connected sockets."""
        here, there = SimulatedSocket(self._world, process, self), SimulatedSocket(self._world, other, self)
        here.peer, there.peer = there, here
        self._connections.append((here, there))
        return here, there

    def move(self, sock: SimulatedSocket, process: str) -> SimulatedSocket:
        """Passes one end of a connection to another process."""
        moved = sock.move_to(process)
        self._connections = [
            (moved if one is sock else one, moved if other is sock else other) for one, other in self._connections
        ]
        return moved


class ProcessNetwork:
    """The network as one process sees it: a `quiver.system.network.Network`."""

    def __init__(self, network: SimulatedNetwork, process: str) -> None:
        self._network = network
        self._process = process

    async def listen(self, host: str, port: int) -> tuple[list[socket.socket], int]:
        return [cast(socket.socket, self._network.listen(self._process, host))], port

    async def dial(self, host: str, port: int, timeout: float) -> socket.socket:
        async with asyncio.timeout(timeout):
            await asyncio.sleep(self._network.delay_seconds(self._process, host))
            return self._network.connect(self._process, host)
